import { join } from 'node:path';
import { SyncError } from '../../../lib/errors.js';
import type { Secret } from '../../../lib/observe/log.js';
import { createGitCommand } from './git-command.js';
import { parseGitRemote } from './git-remote.js';
import { sshCommandFor, sshKeySecrets } from './ssh-key.js';

/** A repository that is asked for its branches. */
export interface RemoteQuestion {
  /** SYNC_POLICY_REPO_URL. */
  readonly url: string;
  /** SYNC_POLICY_REPO_SSH_KEY. */
  readonly sshKey: Secret | undefined;
  /** A private folder for the key file of ssh. */
  readonly keyFolder: string;
  /** Environment of git, as the server gives it. */
  readonly env: NodeJS.ProcessEnv;
  readonly timeoutMs: number;
}

/** The branches of a repository. */
export interface RemoteBranches {
  /** The repository without credentials. */
  readonly display: string;
  /** The branch that HEAD names; undefined in an empty repository, and where it names none. */
  readonly head: string | undefined;
  /** Commit by branch. */
  readonly commits: ReadonlyMap<string, string>;
}

/** More branches than a repository has. */
const LIMIT_BYTES = 16 * 1024 * 1024;

/**
 * Asks a repository for its branches, with the credentials and in the environment in which a server
 * fetches. Rejects with `config_invalid`, `git_failed` or `git_timeout`, or with the signal's
 * reason.
 */
export async function remoteBranches(question: RemoteQuestion, signal: AbortSignal): Promise<RemoteBranches> {
  const { url, flags, credentials, display, ...remote } = parseGitRemote(question.url);
  const { sshKey, keyFolder, env, timeoutMs } = question;
  const secrets = [...remote.secrets, ...sshKeySecrets(sshKey)];
  const git = createGitCommand({
    gitDir: join(keyFolder, 'no-repository'), // none is needed to ask another one
    ...{ env, credentials, secrets },
    sshCommand: sshKey && (await sshCommandFor(sshKey, join(keyFolder, 'ssh-key'))),
  });
  const args = ['ls-remote', '--symref', ...flags, '--', url, 'HEAD', 'refs/heads/*'];
  try {
    const output = (await git.run(args, { timeoutMs, signal, limitBytes: LIMIT_BYTES })).toString('utf8');
    return { display, ...readBranches(output) };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    throw new SyncError(error.code, `${display}: ${error.message}`, { cause: error.cause, retryable: true });
  }
}

/** Most branches in a message. */
const NAMED = 20;

/** What a message says of the branches of a repository: `it has dev, main`. Pure. */
export function branchesText(names: readonly string[]): string {
  const more = names.length > NAMED ? `, and ${names.length - NAMED} more` : '';
  return names.length === 0 ? 'it has no branches yet' : `it has ${names.slice(0, NAMED).join(', ')}${more}`;
}

/** Reads the output of `git ls-remote --symref`. */
export function readBranches(output: string): Pick<RemoteBranches, 'head' | 'commits'> {
  const head = /^ref: refs\/heads\/(.*)\tHEAD$/m.exec(output)?.[1];
  const commits = [...output.matchAll(/^([0-9a-f]+)\trefs\/heads\/(.*)$/gm)].map(
    ([, commit = '', branch = '']): [string, string] => [branch, commit],
  );
  return { head, commits: new Map(commits) };
}
