import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { extract, type Header } from 'tar-stream';
import { isAbort } from '../../lib/async.js';
import { SyncError } from '../../lib/errors.js';
import { ArchiveFraming } from './archive-framing.js';
import type { GitCommand } from './git-command.js';

/** Larger pieces than zlib's default of 16 KiB: fewer turns. */
const CHUNK_BYTES = 65_536;
/** Part of a name that a message shows. */
const SHOWN_NAME_CHARS = 200;

/** Budgets of one archive. */
export interface ArchiveLimits {
  /** Of the tar archive inside, its headers and padding included. */
  unpackedBytes: number;
  /** Entries; and files and folders, those that only appear in names included. */
  entries: number;
}

/**
 * The files of a tar.gz archive, in its order; of several with one path the last counts. Every entry is checked before its
 * content is handed on, and the archive as a whole at the end: no absolute paths, no `..`, no `.git`, no links or devices,
 * no path that is both file and folder, nothing over the budgets, nothing missing at the end and nothing behind it. Throws
 * `bundle_archive_refused` with the entry's name. Each content is read before the next file is requested.
 */
export async function* archiveFiles(
  archivePathOnDisk: string,
  limits: ArchiveLimits,
  signal: AbortSignal,
): AsyncGenerator<ImportFile> {
  const names = new ArchiveNames(limits.entries);
  const { size } = await stat(archivePathOnDisk);
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
  const entries = extract();
  const flow = pipeline(
    createReadStream(archivePathOnDisk),
    gunzip,
    new ArchiveFraming(limits.unpackedBytes),
    entries,
    { signal },
  );
  flow.catch(() => undefined); // awaited below; it may fail before
  let last: string | undefined;
  let count = 0;
  const reasonOf = (error: unknown): unknown => (isAbort(error, signal) ? signal.reason : asRefusal(error, last));
  try {
    for await (const entry of entries) {
      const { header } = entry;
      last = header.name;
      const path = checked(header, ++count, names, limits);
      if (path !== undefined) yield { path, sizeBytes: header.size, content: contentOf(entry, reasonOf) };
      entry.resume(); // a folder has no content, a file's was read
    }
    await flow;
    // zlib stops at the end of the last member and leaves what is behind it unread.
    if (gunzip.bytesWritten !== size) throw new Error('there is data after the end of the compressed archive');
  } catch (error) {
    throw reasonOf(error);
  } finally {
    entries.destroy();
    await flow.catch(() => undefined); // how it ended was thrown above, or is of no interest to who stopped reading
  }
}

/** Reads the whole archive and returns the number of its files. Throws what {@link archiveFiles} throws, and if it has none. */
export async function checkArchive(file: string, limits: ArchiveLimits, signal: AbortSignal): Promise<number> {
  const paths = new Set<string>();
  for await (const { path, content } of archiveFiles(file, limits, signal)) {
    for await (const _ of content); // only what is wrong with it counts
    paths.add(path);
  }
  if (paths.size === 0) throw new SyncError('bundle_archive_refused', 'the bundle archive has no files');
  return paths.size;
}

/** The path of a file; undefined for a folder. */
function checked(header: Header, count: number, names: ArchiveNames, limits: ArchiveLimits): string | undefined {
  try {
    if (count > limits.entries) {
      throw new Error(`is beyond the ${limits.entries} entries of SYNC_POLICY_BUNDLE_LIMIT_ENTRIES`);
    }
    const { type, size } = header;
    const isFolder = type === 'directory';
    if (!isFolder && type !== 'file' && type !== 'contiguous-file') {
      // Types that tar-stream does not know have none, whatever its declaration says.
      throw new Error(`is a ${(type as string | null) ?? 'special entry'}; only files and folders are taken`);
    }
    const pax = Object.keys(header.pax ?? {});
    // A sparse file's content is a map of holes; a size of its own would frame the archive differently for other readers.
    if (pax.some((key) => key.startsWith('GNU.sparse.'))) throw new Error('is a sparse file');
    if (pax.includes('size') || (isFolder && size !== 0)) throw new Error('has a size that cannot be');
    const path = archivePath(header.name);
    names.add(path, isFolder ? 'folder' : 'file');
    return isFolder ? undefined : path;
  } catch (error) {
    throw refused(header.name, error as Error); // ours, thrown above
  }
}

/** The content of an entry; what breaks off its reading is thrown as `reasonOf` has it. */
async function* contentOf(
  entry: AsyncIterable<unknown>,
  reasonOf: (error: unknown) => unknown,
): AsyncGenerator<Uint8Array> {
  try {
    // tar-stream does not declare that its streams are of bytes.
    yield* entry as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw reasonOf(error);
  }
}

function refused(name: string, cause: Error): SyncError {
  return new SyncError('bundle_archive_refused', `the bundle archive is refused: ${shown(name)} ${cause.message}`);
}

/** Whatever the readers found wrong, with the place; a file that cannot be read is not the archive's fault. */
function asRefusal(error: unknown, last: string | undefined): unknown {
  if (error instanceof SyncError || !(error instanceof Error) || 'syscall' in error) return error;
  const place = last === undefined ? 'at its start' : `at or after ${shown(last)}`;
  return new SyncError('bundle_archive_refused', `the bundle archive is refused: ${error.message} (${place})`, {
    cause: error,
  });
}

function shown(name: string): string {
  return JSON.stringify(name.length > SHOWN_NAME_CHARS ? `${name.slice(0, SHOWN_NAME_CHARS)}...` : name);
}

/** Longest path, as of Linux; and most folders in each other. Both bound what a name can cost. */
const MAX_PATH_BYTES = 4_096;
const MAX_DEPTH = 100;
/** `.git` however a file system may write it: in any case, with its short name, with dots or blanks that are dropped. */
const GIT_FOLDER = /^(?:\.git|git~1)[. ]*$/i;

/**
 * The normal form of an entry's name: segments that are neither empty nor `.`, joined by `/`. Empty for the root itself.
 * Throws an `Error` that says what is wrong with it.
 */
export function archivePath(name: string): string {
  if (name.startsWith('/')) throw new Error('is an absolute path');
  if (name.includes('\uFFFD')) throw new Error('has a name that is not UTF-8');
  if (name.includes('\\')) throw new Error('has a backslash in its name');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what the rule is about
  if (/[\x00-\x1f\x7f-\x9f]/.test(name)) throw new Error('has a control character in its name');
  const segments = name.split('/').filter((segment) => segment !== '' && segment !== '.');
  if (segments.includes('..')) throw new Error('leads out of the archive by ..');
  if (segments.some((segment) => GIT_FOLDER.test(segment))) throw new Error('is in a .git folder');
  if (segments.length > MAX_DEPTH) throw new Error(`is more than ${MAX_DEPTH} folders deep`);
  const path = segments.join('/');
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) throw new Error(`has a name of more than ${MAX_PATH_BYTES} bytes`);
  return path;
}

/** The files and folders of one archive: a path is one or the other. */
export class ArchiveNames {
  readonly #kinds = new Map<string, 'file' | 'folder'>();
  readonly #limit: number;

  /** `limit`: most files and folders, those that only appear in names included. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds an entry, with the folders above it. Throws an `Error` that says what it collides with. */
  add(path: string, kind: 'file' | 'folder'): void {
    if (path === '') {
      if (kind === 'file') throw new Error('is a file without a name');
      return;
    }
    for (let end = path.indexOf('/'); end !== -1; end = path.indexOf('/', end + 1))
      this.#put(path.slice(0, end), 'folder');
    this.#put(path, kind);
  }

  #put(path: string, kind: 'file' | 'folder'): void {
    const before = this.#kinds.get(path);
    if (before === kind) return;
    if (before !== undefined) throw new Error(`collides: ${JSON.stringify(path)} is both a file and a folder`);
    if (this.#kinds.size >= this.#limit) {
      throw new Error(`is beyond the ${this.#limit} files and folders of SYNC_POLICY_BUNDLE_LIMIT_ENTRIES`);
    }
    this.#kinds.set(path, kind);
  }
}

/** Longest time of one import; a quarter of a gigabyte takes seconds. */
const IMPORT_TIMEOUT_MS = 300_000;
/** Author and time of every commit are the same, so that the commit depends on nothing but its files. */
const COMMITTER = 'PolicySync <policysync@localhost> 0 +0000';
const MESSAGE = 'policy bundle\n';

/** One file on its way into a commit. */
export interface ImportFile {
  /** Normal form, no control characters. */
  path: string;
  sizeBytes: number;
  /** Exactly `sizeBytes` bytes. Read once, before the next file is requested. */
  content: AsyncIterable<Uint8Array>;
}

/**
 * Makes a commit of exactly these files (of several with one path the last) and points `ref` at it. The commit has no
 * parent and a fixed author and time: the same files give the same hash, in every repository. Nothing changes when
 * `files` throws; what it threw is thrown on. Throws `git_failed`, `git_timeout`.
 */
export async function importCommit(
  git: GitCommand,
  ref: string,
  files: AsyncIterable<ImportFile>,
  signal: AbortSignal,
): Promise<void> {
  // --done: a stream that ends early is no commit. --force: the commit does not descend from what the ref has. --depth=0:
  // looking for similar files doubles the time of an import, and saves a few bytes.
  const args = ['fast-import', '--quiet', '--done', '--force', '--date-format=raw', '--depth=0'];
  await git.run(args, { timeoutMs: IMPORT_TIMEOUT_MS, signal, input: importStream(ref, files) });
}

async function* importStream(ref: string, files: AsyncIterable<ImportFile>): AsyncGenerator<string | Uint8Array> {
  const marks = new Map<string, number>();
  let mark = 0;
  for await (const file of files) {
    mark++;
    yield `blob\nmark :${mark}\ndata ${file.sizeBytes}\n`;
    yield* file.content;
    yield '\n';
    marks.set(file.path, mark);
  }
  yield `commit ${ref}\ncommitter ${COMMITTER}\ndata ${Buffer.byteLength(MESSAGE)}\n${MESSAGE}`;
  for (const [path, blob] of marks) yield `M 100644 :${blob} ${quoted(path)}\n`;
  yield 'done\n';
}

/** A path as fast-import reads it back. */
function quoted(path: string): string {
  return `"${path.replace(/["\\]/g, '\\$&')}"`;
}
