import { constants } from 'node:buffer';
import { constants as fs } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import * as z from 'zod';
import { errorText, firstIssue, SyncError } from '../../lib/errors.js';
import { checkJson, MANY_JSON_VALUES, parseJson } from '../../lib/json/json.js';
import { JsonText, jsonKind, members } from '../../lib/json/json-text.js';
import { parsePointer } from '../../wire/doc-path.js';
import { parsePatch } from '../../wire/json-patch.js';
import { type Layer, STATIC_ERA } from '../desired/layers.js';
import type { PolicyContent } from '../desired/policy-content.js';
import type { Spool } from '../fetch/spool.js';
import {
  BACKUP_START,
  BACKUP_VERSION,
  type BackupContent,
  type BackupDocument,
  type BackupEntry,
  type BackupHeader,
  backupHeader,
  backupPolicy,
  checksumLine,
  DOCUMENT_SEPARATOR,
  DOCUMENTS_END,
  DOCUMENTS_START,
  POLICY_START,
} from './backup-format.js';
import { FileReader, utf8 } from './file-reader.js';

/** Maximum length of the header line: hundreds of thousands of documents. */
const HEADER_LIMIT_BYTES = 256 * 1024 * 1024;

/** For reading, and without a wait for whoever writes into a pipe. */
const OPEN_AT_ONCE = fs.O_RDONLY | (fs.O_NONBLOCK ?? 0);

/**
 * Reads the backup at `path`, ours or one that an OPAL client wrote, and checks it to its last
 * byte; returns undefined if there is no file. Documents are spooled; the caller disposes of them.
 * Throws `backup_invalid` with the reason: cut short, changed, another version, not JSON, nothing
 * in it. The message names no path.
 */
export async function readBackup(path: string, spool: Spool, signal: AbortSignal): Promise<BackupContent | undefined> {
  let file: FileHandle;
  try {
    file = await open(path, OPEN_AT_ONCE);
  } catch (cause) {
    if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') return undefined;
    throw invalid('it cannot be opened', cause);
  }
  const made: BackupDocument[] = [];
  try {
    if (!(await file.stat()).isFile()) throw new Error('it is no file');
    const content = (await isOurs(file))
      ? await readOurs(new FileReader(file), spool, made, signal)
      : await readOpalBackup(await wholeText(file), spool, made, signal);
    if (isEmpty(content)) throw new Error('it holds neither policies nor data');
    return content;
  } catch (cause) {
    await disposeDocuments(made);
    signal.throwIfAborted();
    throw invalid(errorText(cause), cause);
  } finally {
    await file.close();
  }
}

/** Disposes of the documents of unused content. */
export async function disposeDocuments(documents: readonly BackupDocument[]): Promise<void> {
  for (const { layer } of documents) if (layer.content.kind === 'put') await layer.content.body.dispose();
}

/** Whether the content would leave an engine empty. */
export function isEmpty({ policy, documents }: BackupContent): boolean {
  return documents.length === 0 && (policy === undefined || (policy.modules.size === 0 && policy.data.length === 0));
}

function invalid(reason: string, cause: unknown): SyncError {
  const code = cause instanceof Error && 'code' in cause && typeof cause.code === 'string' ? ` (${cause.code})` : '';
  return new SyncError('backup_invalid', `the backup cannot be used: ${reason}${code}`);
}

async function isOurs(file: FileHandle): Promise<boolean> {
  const start = Buffer.alloc(Buffer.byteLength(BACKUP_START));
  const { bytesRead } = await file.read(start, 0, start.length, 0);
  return start.subarray(0, bytesRead).toString() === BACKUP_START;
}

async function wholeText(file: FileHandle): Promise<string> {
  const { size } = await file.stat();
  if (size > constants.MAX_STRING_LENGTH) throw new Error(`a file of ${size} bytes in another form than ours`);
  return utf8(await file.readFile());
}

async function readOurs(
  reader: FileReader,
  spool: Spool,
  made: BackupDocument[],
  signal: AbortSignal,
): Promise<BackupContent> {
  const header = parseHeader(await reader.line(HEADER_LIMIT_BYTES));
  await reader.expect(POLICY_START);
  const policy = backupPolicy.parse(parseJson(await reader.text(header.policy_size), { values: MANY_JSON_VALUES }));
  await reader.expect(DOCUMENTS_START);
  for (const [index, item] of header.documents.entries()) {
    if (index > 0) await reader.expect(DOCUMENT_SEPARATOR);
    made.push(await readDocument(item, reader, spool, signal));
  }
  await reader.expect(DOCUMENTS_END);
  const line = checksumLine(reader.digest());
  if ((await reader.line(line.length)) !== line.slice(0, -1)) throw new Error('its checksum does not fit its content');
  await reader.expectEnd();
  return contentOf(header, policy, made);
}

function parseHeader(line: string): BackupHeader {
  const version = /^\d+/.exec(line.slice(BACKUP_START.length))?.[0];
  if (version !== String(BACKUP_VERSION)) {
    throw new Error(`it has version ${version ?? '?'}, and this program reads version ${BACKUP_VERSION}`);
  }
  const before = `${BACKUP_START}${version},"header":`;
  if (!line.startsWith(before) || !line.endsWith(',')) throw new Error('its first line is not a header');
  const parsed = backupHeader.safeParse(parseJson(line.slice(before.length, -1), { values: MANY_JSON_VALUES }));
  if (parsed.success) return parsed.data;
  throw new Error(`its header is not as documented at ${firstIssue(parsed.error)}`);
}

async function readDocument(
  item: BackupHeader['documents'][number],
  reader: FileReader,
  spool: Spool,
  signal: AbortSignal,
): Promise<BackupDocument> {
  const content = await readContent(item, reader, spool, signal);
  const layer: Layer = { id: item.id, path: item.path, rank: rankOf(item.rank), content };
  return { layer, blocked: item.blocked ?? undefined, entry: entryOf(item) };
}

async function readContent(
  { kind, size, hash, path, implied, only_removes: removes }: BackupHeader['documents'][number],
  reader: FileReader,
  spool: Spool,
  signal: AbortSignal,
): Promise<Layer['content']> {
  switch (kind) {
    case 'delete':
      await reader.expect('null');
      return { kind, ...(removes && { onlyRemoves: true }) };
    case 'patch':
      // The checksum comes last: until then this may be anything.
      return { kind, ops: parsePatch(JsonText.parse(await reader.text(size)).text) };
    case 'put': {
      const body = await spool.spool(reader.take(size), signal);
      if (body.hash === hash) return { kind, body, ...(implied && { implied: implied.map(parsePointer) }) };
      await body.dispose();
      throw new Error(`the document at /${path.join('/')} is not the one that was saved`);
    }
  }
}

function rankOf([era, seq, index]: [number, number, number]): Layer['rank'] {
  return { era, seq, index };
}

function entryOf({ entry }: BackupHeader['documents'][number]): BackupEntry | undefined {
  if (entry === null) return undefined;
  const { hash, etag, last_modified: lastModified } = entry.fetched ?? {};
  return {
    origin: entry.origin,
    epoch: entry.epoch ?? undefined,
    saveMethod: entry.save_method,
    topics: entry.topics,
    fetched: hash === undefined ? undefined : { hash, etag, lastModified },
  };
}

function contentOf(
  header: BackupHeader,
  policy: ReturnType<typeof backupPolicy.parse>,
  documents: readonly BackupDocument[],
): BackupContent {
  const { position } = header;
  const held: PolicyContent | undefined =
    policy === null ? undefined : { hash: policy.hash, modules: new Map(policy.modules), data: policy.data };
  return {
    ...(header.id === undefined ? {} : { id: header.id }),
    createdMs: Date.parse(header.created),
    directories: header.directories,
    scope: header.scope,
    policy: held,
    position: {
      epoch: position.epoch ?? undefined,
      ...(position.name === undefined ? {} : { name: position.name }),
      era: position.era,
      next: position.next,
      lastSeq: position.last_seq,
      ...(position.log === undefined ? {} : { log: position.log }),
      seen: new Map(position.seen.map(([id, hash, rank]) => [id, { hash, rank: rankOf(rank) }])),
    },
    documents,
  };
}

/** The modules in OPAL's backup file (opal-protocol P6.6), which has `data` beside them. */
const policies = z.record(z.string(), z.string());

/**
 * Below static data: an OPAL backup mirrors everything in the engine, and all other sources take
 * precedence.
 */
const OPAL_ERA = STATIC_ERA - 1;

/** The part of the tree that the engine reserves. */
const RESERVED = 'system';

/**
 * Reads a backup of an OPAL client. It has neither a commit nor log positions: its policy is served
 * until the server's complete bundle arrives, and its data stay, member by member, until something
 * is written there (design D11: nothing is removed because it is not listed). Adds spooled
 * documents to `made`. Throws for any other file.
 */
async function readOpalBackup(
  text: string,
  spool: Spool,
  made: BackupDocument[],
  signal: AbortSignal,
): Promise<BackupContent> {
  try {
    checkJson(text);
  } catch (cause) {
    throw new Error('it is not JSON', { cause });
  }
  const whole = jsonKind(text.trim()) === 'object' ? members(text.trim()) : new Map<string, string>();
  const dataText = whole.get('data') ?? '';
  const parsed = policies.safeParse(parseJson(whole.get('policies') ?? 'null'));
  if (!parsed.success || jsonKind(dataText) !== 'object')
    throw new Error('it is neither a backup of this program nor one of an OPAL client');
  const data = members(dataText);
  let index = 0;
  for (const [key, member] of data) {
    if (key === RESERVED) continue;
    const body = await spool.spool([Buffer.from(member)], signal);
    const rank = { era: OPAL_ERA, seq: 0, index: index++ };
    made.push({
      layer: { id: `opal-backup/${key}`, path: [key], rank, content: { kind: 'put', body } },
      blocked: undefined,
      entry: undefined,
    });
  }
  const modules = new Map(Object.entries(parsed.data));
  return {
    createdMs: 0,
    directories: [],
    scope: '',
    policy: modules.size === 0 ? undefined : { hash: '', modules, data: [] },
    position: { epoch: undefined, era: 1, next: 1, lastSeq: 0, seen: new Map() },
    documents: made,
  };
}
