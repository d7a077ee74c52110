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
