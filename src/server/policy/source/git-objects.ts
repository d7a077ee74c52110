import { SyncError } from '../../../lib/errors.js';
import { type GitCommand, GitExit } from './git-command.js';

/** Timeout of one local read. */
const READ_TIMEOUT_MS = 60_000;
/**
 * Maximum bytes of one read of blobs: a bundle is one JSON text, and a string cannot be much
 * longer.
 */
export const BLOBS_LIMIT_BYTES = 256 * 1024 * 1024;
/** Maximum bytes that {@link GitObjects.recall} caches. */
const RECALLED_BYTES = 1024 * 1024;
/** Maximum concurrent git processes. */
const CONCURRENT_READS = 4;

/** A regular file of a commit. Symbolic links and submodules are not listed. */
export interface TreeFile {
  /** Path from the root; bytes that are not UTF-8 show as U+FFFD. */
  path: string;
  /** Object id of the content. */
  blob: string;
}

/** Reads of a local repository. All reject with `git_failed`. */
export interface GitObjects {
  /** Whether this is the full id of a commit in the repository. */
  hasCommit(hash: string): Promise<boolean>;
  /** Whether the repository has both commits and the first is the second or an ancestor of it. */
  isAncestor(hash: string, of: string): Promise<boolean>;
  /** Returns the regular files of a commit, in byte order of their paths. */
  files(commit: string): Promise<TreeFile[]>;
  /** Returns contents by object id. */
  blobs(ids: readonly string[]): Promise<Map<string, Buffer>>;
  /**
   * Replaces the cached contents, up to a limit. Clients request the delta to a commit right after
   * its review, which read the same contents.
   */
  recall(contents: ReadonlyMap<string, Buffer>): void;
}

/** A full object id: SHA-1 or SHA-256, lower case. */
function isFullHash(text: string): boolean {
  return /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text);
}

/**
 * Whether a read failed because the repository is damaged, not for lack of memory, time or
 * processes.
 */
export function isDamage(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'git_failed' && error.cause instanceof GitExit;
}

/**
 * {@link GitObjects} of one repository. `atOnce`: the most git processes; `maxWaiting`: beyond so
 * many reads it rejects with `git_busy`.
 */
export function createGitObjects(git: GitCommand, atOnce = CONCURRENT_READS, maxWaiting?: number): GitObjects {
  const read = limited(
    atOnce,
    (args: readonly string[], input?: string, limitBytes?: number) =>
      git.run(args, { timeoutMs: READ_TIMEOUT_MS, input, limitBytes }),
    maxWaiting,
  );
  let recalled: ReadonlyMap<string, Buffer> = new Map();

  async function readBlobs(wanted: readonly string[]): Promise<Map<string, Buffer>> {
    if (wanted.length === 0) return new Map();
    const input = wanted.map((id) => `${id}\n`).join('');
    return parseBlobs(await read(['cat-file', '--batch', '--buffer'], input, BLOBS_LIMIT_BYTES), wanted);
  }

  async function hasCommit(hash: string): Promise<boolean> {
    if (!isFullHash(hash)) return false;
    const answer = await read(['cat-file', '--batch-check=%(objectname) %(objecttype)'], `${hash}\n`);
    return answer.toString('utf8').trim() === `${hash} commit`;
  }
  return {
    hasCommit,
    isAncestor: async (hash, of) => {
      if (!((await hasCommit(hash)) && (await hasCommit(of)))) return false;
      // Prints the common ancestors; git exits with 1 if two unrelated histories have none.
      const bases = read(['merge-base', '--all', hash, of]).catch((error: unknown) => {
        if (isDamage(error)) return Buffer.alloc(0);
        throw error;
      });
      return (await bases).toString('utf8').split('\n').includes(hash);
    },
    files: async (commit) => parseTree(await read(['ls-tree', '-r', '-z', '--full-tree', commit])),
    blobs: async (ids) => {
      const kept = recalled;
      const wanted = [...new Set(ids)];
      const found = await readBlobs(wanted.filter((id) => !kept.has(id)));
      for (const id of wanted) {
        const content = kept.get(id);
        if (content !== undefined) found.set(id, content);
      }
      return found;
    },
    recall: (contents) => {
      const bytes = [...contents.values()].reduce((sum, content) => sum + content.length, 0);
      recalled = bytes <= RECALLED_BYTES ? contents : new Map();
    },
  };
}

/** `<mode> <type> <id>\t<path>\0` for each file. */
function parseTree(output: Buffer): TreeFile[] {
  const files: TreeFile[] = [];
  for (let at = 0; at < output.length; ) {
    const end = output.indexOf(0, at);
    const record = output.toString('utf8', at, end);
    const tab = record.indexOf('\t');
    const [mode, , blob] = record.slice(0, tab).split(' ');
    // 100644 and 100755 are files; 120000 is a symbolic link, 160000 a submodule.
    if (mode?.startsWith('100') && blob !== undefined) files.push({ path: record.slice(tab + 1), blob });
    at = end + 1;
  }
  return files;
}

/** `<id> <type> <size>\n<content>\n` for each object, `<id> missing\n` for a missing one. */
function parseBlobs(output: Buffer, wanted: readonly string[]): Map<string, Buffer> {
  const blobs = new Map<string, Buffer>();
  let at = 0;
  for (const id of wanted) {
    const lineEnd = output.indexOf(0x0a, at);
    const [, type, sizeText] = output.toString('latin1', at, lineEnd).split(' ');
    if (type !== 'blob' || sizeText === undefined) {
      const cause = new GitExit(`object ${id} is ${type ?? 'missing'}`);
      throw new SyncError('git_failed', 'the local mirror is damaged', { cause, retryable: true });
    }
    const start = lineEnd + 1;
    at = start + Number(sizeText);
    blobs.set(id, output.subarray(start, at));
    at++;
  }
  return blobs;
}

/** For `Retry-After`: reads of people who look take less than this, most of the time. */
const BUSY_RETRY_SECONDS = 2;

/**
 * Wraps a function so that at most `limit` calls run at a time; the others wait. Beyond
 * `maxWaiting` it rejects with `git_busy`.
 */
export function limited<A extends unknown[], R>(
  limit: number,
  call: (...args: A) => Promise<R>,
  maxWaiting = Number.POSITIVE_INFINITY,
): (...args: A) => Promise<R> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (...args) => {
    if (running === limit && waiting.length >= maxWaiting) {
      const text = `${waiting.length} reads of the policy repository wait already`;
      throw new SyncError('git_busy', text, { retryable: true, retryAfterSeconds: BUSY_RETRY_SECONDS });
    }
    if (running === limit) await new Promise<void>((resolve) => waiting.push(resolve));
    else running++;
    try {
      return await call(...args);
    } finally {
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}
