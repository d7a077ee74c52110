import { createHash, randomBytes } from 'node:crypto';
import { type FileHandle, open, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { SyncError } from '../../lib/errors.js';
import { makeFolder } from '../../lib/settings/private-files.js';
import type { Body } from '../../wire/json-node.js';
import {
  BACKUP_START,
  BACKUP_VERSION,
  type BackupContent,
  checksumLine,
  DOCUMENT_SEPARATOR,
  DOCUMENTS_END,
  DOCUMENTS_START,
  headerOf,
  layerText,
  POLICY_START,
  policyText,
} from './backup-format.js';

/**
 * Replaces the backup at `path` atomically: writes a temporary file next to it, flushes it to disk
 * and renames it. After a crash there is either the old file or the new one. Rejects with
 * `backup_unwritable` and keeps the old file.
 */
export async function writeBackup(path: string, content: BackupContent): Promise<void> {
  const temporary = `${path}.${randomBytes(8).toString('hex')}.tmp`;
  try {
    await makeFolder(dirname(path));
    const file = await open(temporary, 'wx', 0o600);
    try {
      await writeContent(file, content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
    await syncFolder(dirname(path));
  } catch (cause) {
    await rm(temporary, { force: true }).catch(() => undefined); // the first error matters
    throw unwritable(cause);
  }
}

/** Renames an unusable file to the same name with `.refused`. */
export async function setAside(path: string): Promise<void> {
  try {
    await rename(path, `${path}.refused`);
  } catch (cause) {
    if (codeOf(cause) !== 'ENOENT') throw unwritable(cause);
  }
}

/** Removes leftovers of a killed writer next to the backup. */
export async function removeLeftovers(path: string): Promise<void> {
  const folder = dirname(path);
  const isLeftover = (name: string): boolean =>
    name.startsWith(`${basename(path)}.`) && /^[0-9a-f]{16}\.tmp$/.test(name.slice(basename(path).length + 1));
  try {
    for (const name of await readdir(folder)) if (isLeftover(name)) await rm(join(folder, name), { force: true });
  } catch {
    // The folder does not exist yet, or cannot be written: the first backup reports it.
  }
}

async function writeContent(file: FileHandle, content: BackupContent): Promise<void> {
  const hash = createHash('sha256');
  const write = async (part: string | Uint8Array): Promise<void> => {
    const bytes = typeof part === 'string' ? Buffer.from(part) : part;
    hash.update(bytes);
    await file.writeFile(bytes); // appends
  };
  const policy = Buffer.from(policyText(content.policy));
  const header = JSON.stringify(headerOf(content, policy.length));
  await write(`${BACKUP_START}${BACKUP_VERSION},"header":${header},\n${POLICY_START}`);
  await write(policy);
  await write(DOCUMENTS_START);
  for (const [index, { layer }] of content.documents.entries()) {
    if (index > 0) await write(DOCUMENT_SEPARATOR);
    if (layer.content.kind === 'put') await writeBody(layer.content.body, write);
    else await write(layerText(layer) ?? 'null');
  }
  await write(DOCUMENTS_END);
  await file.writeFile(checksumLine(hash.digest('hex')));
}

/** Copies a body. A truncated one must not make a backup that looks complete. */
async function writeBody(body: Body, write: (part: string | Uint8Array) => Promise<void>): Promise<void> {
  let written = 0;
  const part = async (bytes: Uint8Array): Promise<void> => {
    written += bytes.length;
    await write(bytes);
  };
  const stream = body.stream();
  if (typeof stream === 'string') await part(Buffer.from(stream));
  else for await (const chunk of stream) await part(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
  if (written !== body.sizeBytes) throw new Error(`a document has ${written} bytes where ${body.sizeBytes} are due`);
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** The message has no path: the health response, which is open to everyone, shows it. */
function unwritable(cause: unknown): SyncError {
  const why = codeOf(cause) ?? (cause instanceof Error ? cause.message : String(cause));
  return new SyncError('backup_unwritable', `the backup cannot be written: ${why}`, { retryable: true });
}

/** The code of a system error, for example ENOSPC. */
function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
