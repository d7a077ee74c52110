import { SyncError } from '../../lib/errors.js';
import { type GitCommand, GitExit, type GitRun } from './git-command.js';
import type { MirrorFolder } from './mirror-folder.js';

/** Longest time of a call that stays on this machine. */
const LOCAL_TIMEOUT_MS = 60_000;

/** The bare repository that every policy source ends in. No work tree: nothing in it is ever a file of its own name. */
export interface LocalRepo {
  /**
   * Takes the folder, mends what a kill left in it, and answers the first of these refs that has a commit, and whether every
   * object of that is there. Where none has one there is nothing to lose: the repository is made anew. Throws
   * `config_invalid` when the folder is something else.
   */
  open(refs: readonly string[], signal: AbortSignal): Promise<{ head: string; isWhole: boolean } | undefined>;
  /** Makes it anew and empty. Files of the folder with one of the names in `keep` stay. */
  init(signal: AbortSignal, keep?: readonly string[]): Promise<void>;
  /** The commit that a ref or an id means; undefined where there is none. */
  resolve(revision: string, signal: AbortSignal): Promise<string | undefined>;
  setRef(ref: string, commit: string): Promise<void>;
}

/** The {@link LocalRepo} in a folder. All calls throw `git_failed` and `git_timeout`. */
export function localRepo(git: GitCommand, folder: MirrorFolder): LocalRepo {
  async function init(signal: AbortSignal, keep?: readonly string[]): Promise<void> {
    await folder.empty(keep);
    await git.run(['init', '--quiet', '--bare', '--template=', folder.path], local(signal));
  }

  async function resolve(revision: string, signal: AbortSignal): Promise<string | undefined> {
    const output = await answered(git.run(['rev-parse', '--verify', '--quiet', `${revision}^{commit}`], local(signal)));
    return output?.toString('utf8').trim();
  }

  /** Git says what is missing; it does not matter, since all of it goes then. */
  async function isWhole(commit: string, signal: AbortSignal): Promise<boolean> {
    const walk = git.run(['rev-list', '--objects', '--no-walk', '--quiet', commit], local(signal));
    return (await answered(walk)) !== undefined;
  }

  return {
    open: async (refs, signal) => {
      if ((await folder.claim()) === 'existing') {
        await folder.removeLeftovers();
        for (const ref of refs) {
          const head = await resolve(ref, signal);
          if (head !== undefined) return { head, isWhole: await isWhole(head, signal) };
        }
      }
      await init(signal);
      return undefined;
    },
    init,
    resolve,
    setRef: async (ref, commit) => {
      await git.run(['update-ref', ref, commit], { timeoutMs: LOCAL_TIMEOUT_MS });
    },
  };
}

function local(signal: AbortSignal): GitRun {
  return { timeoutMs: LOCAL_TIMEOUT_MS, signal };
}

/** The answer of a call; undefined when git itself said no. */
async function answered(call: Promise<Buffer>): Promise<Buffer | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof SyncError && error.cause instanceof GitExit) return undefined;
    throw error;
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
  /** Exactly `sizeBytes` bytes. Read once, before the next file is asked for. */
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
