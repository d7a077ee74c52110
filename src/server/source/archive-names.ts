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
