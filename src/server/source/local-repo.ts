import { SyncError } from '../../lib/errors.js';
import { type GitCommand, GitExit, type GitRun } from './git-command.js';
import type { MirrorFolder } from './mirror-folder.js';

/** Longest time of a call that stays on this machine. */
const LOCAL_TIMEOUT_MS = 60_000;

/** The bare repository that every policy source ends in. No work tree: nothing in it is ever a file of its own name. */
export interface LocalRepo {
  /** Makes it anew and empty. Files of the folder with one of the names in `keep` stay. */
  init(signal: AbortSignal, keep?: readonly string[]): Promise<void>;
  /** The commit that a ref or an id means; undefined where there is none. */
  resolve(revision: string, signal: AbortSignal): Promise<string | undefined>;
  /** True when every object of the commit is there. */
  isWhole(commit: string, signal: AbortSignal): Promise<boolean>;
  setRef(ref: string, commit: string): Promise<void>;
}

/** The {@link LocalRepo} in a folder. All calls throw `git_failed` and `git_timeout`. */
export function localRepo(git: GitCommand, folder: MirrorFolder): LocalRepo {
  return {
    init: async (signal, keep) => {
      await folder.empty(keep);
      await git.run(['init', '--quiet', '--bare', '--template=', folder.path], local(signal));
    },
    resolve: async (revision, signal) => {
      const output = await answered(
        git.run(['rev-parse', '--verify', '--quiet', `${revision}^{commit}`], local(signal)),
      );
      return output?.toString('utf8').trim();
    },
    // Git says what is missing; it does not matter, since all of it goes then.
    isWhole: async (commit, signal) => {
      const walk = git.run(['rev-list', '--objects', '--no-walk', '--quiet', commit], local(signal));
      return (await answered(walk)) !== undefined;
    },
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
