import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { extract, type Header } from 'tar-stream';
import { SyncError } from '../../../lib/errors.js';
import { isAbort } from '../../../lib/run/async.js';
import { ArchiveFraming } from './archive-framing.js';
import { type BundleVerification, checkSigned, SIGNATURES_FILE, SIGNATURES_LIMIT_BYTES } from './bundle-signature.js';
import type { GitCommand } from './git-command.js';

/** Larger than zlib's default of 16 KiB: fewer turns of the event loop. */
const CHUNK_BYTES = 65_536;
/** Maximum characters of a name in a message. */
const SHOWN_NAME_CHARS = 200;

/** Limits of one archive. */
export interface ArchiveLimits {
  /** Size of the tar archive, including headers and padding. */
  unpackedBytes: number;
  /** Number of entries, and of files and folders, including folders that only appear in names. */
  entries: number;
}

/**
 * Yields the files of a tar.gz archive, in its order; if several have the same path, the last
 * counts. Checks every entry before its content is read, and the whole archive at the end: no `..`,
 * no `.git`, no links or devices, no path that is both file and folder, nothing over the limits, no
 * truncation, no trailing data. A leading slash is the root of the archive if every entry has one,
 * as `opa build` writes it; otherwise an absolute path is refused. Leaves out what macOS adds
 * beside files. Throws `bundle_archive_refused` with the entry's name. Each content must be read
 * before the next file is requested.
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
  flow.catch(() => undefined); // awaited below; it may fail earlier
  let last: string | undefined;
  let count = 0;
  let root: string | undefined;
  const reasonOf = (error: unknown): unknown => (isAbort(error, signal) ? signal.reason : asRefusal(error, last));
  try {
    for await (const entry of entries) {
      const { header } = entry;
      last = header.name;
      root ??= header.name.startsWith('/') ? '/' : '';
      const path = checked(header, ++count, root, names, limits);
      if (path !== undefined && !isAppleDouble(path))
        yield { path, sizeBytes: header.size, content: contentOf(entry, reasonOf) };
      entry.resume();
    }
    await flow;
    // zlib stops at the end of the last member and does not read trailing data.
    if (gunzip.bytesWritten !== size) throw new Error('there is data after the end of the compressed archive');
  } catch (error) {
    throw reasonOf(error);
  } finally {
    entries.destroy();
    await flow.catch(() => undefined); // thrown above, or irrelevant to a caller that stopped reading
  }
}

/** What `opa build` writes for changes of data alone. */
const DELTA_FILE = 'patch.json';

/**
 * Reads the whole archive and returns the number of its files. Throws if it has none, if it is a
 * delta bundle of OPA, if it is not what the verification says was signed, and like
 * {@link archiveFiles}.
 */
export async function checkArchive(
  file: string,
  limits: ArchiveLimits,
  signal: AbortSignal,
  verification?: BundleVerification,
): Promise<number> {
  const paths = new Set<string>();
  let signatures: Uint8Array | undefined;
  for await (const { path, sizeBytes, content } of archiveFiles(file, limits, signal)) {
    if (path === DELTA_FILE) throw refused(path, new Error('makes it a delta bundle of OPA: put a complete one there'));
    if (path === SIGNATURES_FILE && verification !== undefined) {
      if (sizeBytes > SIGNATURES_LIMIT_BYTES) throw refused(path, new Error('is too large'));
      const chunks: Uint8Array[] = [];
      for await (const chunk of content) chunks.push(chunk);
      signatures = Buffer.concat(chunks);
    } else for await (const _ of content); // reading checks it
    paths.add(path);
  }
  if (paths.size === 0) throw new SyncError('bundle_archive_refused', 'the bundle archive has no files');
  if (verification !== undefined) await verify(archiveFiles(file, limits, signal), signatures, verification);
  return paths.size;
}

/** Throws unless the files are exactly those that were signed. */
async function verify(
  files: AsyncIterable<ImportFile>,
  signatures: Uint8Array | undefined,
  verification: BundleVerification,
): Promise<void> {
  if (signatures === undefined) {
    throw new SyncError(
      'bundle_archive_refused',
      `the bundle archive is refused: it has no ${SIGNATURES_FILE}, and SYNC_POLICY_BUNDLE_VERIFICATION_KEY is set`,
    );
  }
  const signed = await verification.open(signatures).catch((cause: unknown) => {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new SyncError('bundle_archive_refused', `the bundle archive is refused: its signature ${why}`, { cause });
  });
  const missing = new Set(signed.keys());
  for await (const { path, content } of files) {
    missing.delete(path);
    if (path === SIGNATURES_FILE) for await (const _ of content);
    else {
      await checkSigned(path, signed.get(path), content).catch((cause: unknown) => {
        throw cause instanceof SyncError || !(cause instanceof Error) ? cause : refused(path, cause);
      });
    }
  }
  for (const path of missing) throw refused(path, new Error('was signed and is missing'));
}

/** macOS adds to an archive, beside each file with attributes, one that begins with `._`. */
function isAppleDouble(path: string): boolean {
  return path.slice(path.lastIndexOf('/') + 1).startsWith('._');
}

/**
 * Checks an entry. Returns the path of a file; undefined for a folder. `root`: what every name must
 * begin with.
 */
function checked(
  header: Header,
  count: number,
  root: string,
  names: ArchiveNames,
  limits: ArchiveLimits,
): string | undefined {
  try {
    if (count > limits.entries) {
      throw new Error(`is beyond the ${limits.entries} entries of SYNC_POLICY_BUNDLE_LIMIT_ENTRIES`);
    }
    const { type, size } = header;
    const isFolder = type === 'directory';
    if (!isFolder && type !== 'file' && type !== 'contiguous-file') {
      // Unknown types are null, contrary to the declaration of tar-stream.
      throw new Error(`is a ${(type as string | null) ?? 'special entry'}; only files and folders are taken`);
    }
    const pax = Object.keys(header.pax ?? {});
    // The content of a sparse file is a map of holes; with a pax size, other readers would frame
    // the archive differently.
    if (pax.some((key) => key.startsWith('GNU.sparse.'))) throw new Error('is a sparse file');
    if (pax.includes('size') || (isFolder && size !== 0)) throw new Error('has a size that cannot be');
    if (!header.name.startsWith(root)) throw new Error('is a relative path among absolute ones');
    const path = archivePath(header.name.slice(root.length));
    names.add(path, isFolder ? 'folder' : 'file');
    return isFolder ? undefined : path;
  } catch (error) {
    throw refused(header.name, error as Error); // ours, thrown above
  }
}

/** Yields the content of an entry; maps errors with `reasonOf`. */
async function* contentOf(
  entry: AsyncIterable<unknown>,
  reasonOf: (error: unknown) => unknown,
): AsyncGenerator<Uint8Array> {
  try {
    // tar-stream does not declare that its streams yield bytes.
    yield* entry as AsyncIterable<Uint8Array>;
  } catch (error) {
    throw reasonOf(error);
  }
}

function refused(name: string, cause: Error): SyncError {
  return new SyncError('bundle_archive_refused', `the bundle archive is refused: ${shown(name)} ${cause.message}`);
}

/**
 * Converts an error of the readers into a refusal with the position, except for an unreadable file.
 */
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

/** Maximum path length (as on Linux) and nesting: both bound the cost of a name. */
const MAX_PATH_BYTES = 4_096;
const MAX_DEPTH = 100;
/**
 * `.git` in every form that a file system may accept: any case, the short name, trailing dots or
 * spaces.
 */
const GIT_FOLDER = /^(?:\.git|git~1)[. ]*$/i;

/**
 * Returns the normal form of an entry's name: segments that are neither empty nor `.`, joined by
 * `/`; empty for the root. Throws an `Error` that describes the problem.
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

  /** `limit`: maximum number of files and folders, including folders that only appear in names. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds an entry and the folders above it. Throws an `Error` that names the collision. */
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

/** Timeout of one import; 256 MiB take seconds. */
const IMPORT_TIMEOUT_MS = 300_000;
/** Fixed author and time, so that a commit depends only on its files. */
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
 * Creates a commit of exactly these files but for the signature (if several have the same path, the
 * last) and points `ref` at it. The commit has no parent and a fixed author and time: the same
 * files give the same hash in every repository. If `files` throws, nothing changes and the error is
 * rethrown. Throws `git_failed`, `git_timeout`.
 */
export async function importCommit(
  git: GitCommand,
  ref: string,
  files: AsyncIterable<ImportFile>,
  signal: AbortSignal,
): Promise<void> {
  // --done: a stream that ends early makes no commit. --force: the commit does not descend from the
  // ref's. --depth=0: delta compression doubles the time of an import and saves little.
  const args = ['fast-import', '--quiet', '--done', '--force', '--date-format=raw', '--depth=0'];
  await git.run(args, { timeoutMs: IMPORT_TIMEOUT_MS, signal, input: importStream(ref, files) });
}

async function* importStream(ref: string, files: AsyncIterable<ImportFile>): AsyncGenerator<string | Uint8Array> {
  const marks = new Map<string, number>();
  let mark = 0;
  for await (const file of files) {
    if (file.path === SIGNATURES_FILE) continue; // with it, equal content that was signed again would be another commit
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

/** Quotes a path for fast-import. */
function quoted(path: string): string {
  return `"${path.replace(/["\\]/g, '\\$&')}"`;
}
