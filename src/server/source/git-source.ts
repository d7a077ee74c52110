import { resolve } from 'node:path';
import { SyncError } from '../../lib/errors.js';
import type { Logger, Secret } from '../../lib/log.js';
import { createGitCommand, type GitCommand, GitExit } from './git-command.js';
import { createGitObjects, type GitObjects } from './git-objects.js';
import { type GitRemote, parseGitRemote, provideSshKey, sshCommand } from './git-remote.js';
import { type LocalRepo, localRepo } from './local-repo.js';
import { type MirrorFolder, mirrorFolder } from './mirror-folder.js';
import { repositoryIdentity } from './repository-identity.js';
import type { PolicySource } from './source.js';

/** Times for one fetch where SYNC_POLICY_REPO_CLONE_TIMEOUT is 0: the first one brings everything. */
const FIRST_FETCH_TIMEOUT_MS = 600_000;
const LATER_FETCH_TIMEOUT_MS = 120_000;
/** Between two lines of the log about one fetch. */
const PROGRESS_EVERY_MS = 10_000;
/** Branch names that a message lists. */
const BRANCHES_NAMED = 20;

/** What a git source is made with. */
export interface GitSourceOptions {
  /** SYNC_POLICY_REPO_URL. */
  url: string;
  /** SYNC_POLICY_REPO_MAIN_BRANCH. */
  branch: string;
  /** Folder of the bare mirror: SYNC_POLICY_REPO_CLONE_PATH. */
  clonePath: string;
  /** The folder is the default one, so a mirror of another repository in it is replaced. Default: the operator named it. */
  isOwnFolder?: boolean;
  /** SYNC_POLICY_REPO_SSH_KEY: a path or the text of a key. */
  sshKey?: Secret | undefined;
  /** SYNC_POLICY_REPO_CLONE_TIMEOUT; 0 for the defaults. */
  fetchTimeoutMs: number;
  /** Environment of git: PATH, HOME, proxies. */
  env: NodeJS.ProcessEnv;
}

/** A followed branch, and the objects of its mirror. */
export interface GitSource extends PolicySource {
  readonly objects: GitObjects;
}

/**
 * Follows one branch of a git repository in a bare mirror (design 5). History is never pruned, so a commit that was served
 * once stays readable as the base of a delta, also after a force-push. Throws `config_invalid` for a URL or a branch name
 * that cannot be used. One call of `open` or `fetch` at a time; the objects may be read meanwhile.
 */
export function createGitSource(options: GitSourceOptions, deps: { log: Logger }): GitSource {
  return new Mirror(options, deps.log);
}

class Mirror implements GitSource {
  readonly objects: GitObjects;
  readonly #options: GitSourceOptions;
  readonly #log: Logger;
  readonly #remote: GitRemote;
  readonly #folder: MirrorFolder;
  readonly #repo: LocalRepo;
  readonly #branchRef: string;
  /** The head that passed all checks last. The branch itself may point at a commit that was refused. */
  readonly #servedRef: string;
  #served: string | undefined;
  /** The mirror has the branch: the next fetch brings what is new, not everything. */
  #hasBranch = false;
  #open = false;
  #distrusted = false;
  #progress: string | undefined;

  constructor(options: GitSourceOptions, log: Logger) {
    this.#options = options;
    this.#log = log;
    this.#branchRef = `refs/heads/${checkedBranch(options.branch)}`;
    this.#servedRef = `refs/policysync/served/${options.branch}`;
    this.#remote = parseGitRemote(options.url);
    const { url } = this.#remote;
    this.#folder = mirrorFolder(
      {
        path: resolve(options.clonePath),
        url,
        isSame: (other) => repositoryIdentity(other) === repositoryIdentity(url),
        isOwn: options.isOwnFolder ?? false,
      },
      { log },
    );
    const git = this.#command(undefined);
    this.#repo = localRepo(git, this.#folder);
    this.objects = createGitObjects(git);
  }

  async open(signal: AbortSignal): Promise<string | undefined> {
    const found = await this.#repo.open([this.#servedRef, this.#branchRef], signal);
    this.#open = true;
    this.#hasBranch = false; // asked anew
    if (found === undefined || found.isWhole) return found?.head;
    this.#log.warn({ folder: this.#folder.path }, 'the local mirror is damaged and will be made anew');
    this.#distrusted = true;
    return undefined;
  }

  async fetch(signal: AbortSignal): Promise<string> {
    if (!this.#open) await this.open(signal);
    try {
      let git = await this.#remoteGit();
      if (this.#distrusted) {
        await this.#branches(git, signal); // the old copy goes only when the remote answers
        await this.#repo.init(signal);
        this.#hasBranch = false;
        git = await this.#remoteGit(); // the key file went with the old copy
        await this.#fetchBranch(git, signal);
        await this.#markServedAgain(signal);
        this.#distrusted = false;
      } else await this.#fetchBranch(git, signal);
      const head = await this.#repo.resolve(this.#branchRef, signal);
      if (head === undefined) throw new SyncError('git_failed', 'git fetch brought no commit', { retryable: true });
      return head;
    } catch (error) {
      // Whatever ended the fetch may have left locks behind: the next one starts with a look at the mirror.
      this.#open = false;
      throw error;
    }
  }

  get progress(): string | undefined {
    return this.#progress;
  }

  async has(hash: string): Promise<boolean> {
    return await this.objects.hasCommit(hash);
  }

  async isSuccessor(hash: string, of: string): Promise<boolean> {
    return await this.objects.isAncestor(of, hash);
  }

  async markServed(hash: string): Promise<void> {
    await this.#repo.setRef(this.#servedRef, hash);
    this.#served = hash;
  }

  distrust(): void {
    this.#distrusted = true;
  }

  /** In a mirror made anew; the commit may be gone from the branch. */
  async #markServedAgain(signal: AbortSignal): Promise<void> {
    const served = this.#served && (await this.#repo.resolve(this.#served, signal));
    if (served !== undefined) await this.markServed(served);
  }

  async #fetchBranch(git: GitCommand, signal: AbortSignal): Promise<void> {
    this.#hasBranch ||= (await this.#repo.resolve(this.#branchRef, signal)) !== undefined;
    const timeoutMs =
      this.#options.fetchTimeoutMs || (this.#hasBranch ? LATER_FETCH_TIMEOUT_MS : FIRST_FETCH_TIMEOUT_MS);
    const refspec = `+${this.#branchRef}:${this.#branchRef}`;
    // The first one may take minutes: it says how far it is.
    const talk = this.#hasBranch ? '--quiet' : '--progress';
    const flags = [talk, '--no-tags', '--no-prune', '--no-write-fetch-head', '--no-recurse-submodules'];
    const onProgress = this.#hasBranch ? undefined : this.#progressTeller();
    try {
      await git.run(['fetch', ...flags, '--', this.#remote.url, refspec], { timeoutMs, signal, onProgress });
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      if (error.cause instanceof GitExit && /couldn't find remote ref/.test(error.cause.message)) {
        throw branchMissing(this.#options.branch, this.#remote.display, await this.#branches(git, signal));
      }
      throw new SyncError(error.code, `${this.#remote.display}: ${error.message}`, {
        cause: error.cause,
        retryable: true,
      });
    } finally {
      this.#progress = undefined;
    }
  }

  /** Keeps how far the fetch is, and tells the log from time to time. */
  #progressTeller(): (text: string) => void {
    let toldMs = performance.now();
    return (text) => {
      this.#progress = text;
      if (performance.now() - toldMs < PROGRESS_EVERY_MS) return;
      toldMs = performance.now();
      this.#log.info({ repository: this.#remote.display }, `first fetch of the policy repository: ${text}`);
    };
  }

  /** The branches of the remote. */
  async #branches(git: GitCommand, signal: AbortSignal): Promise<string[]> {
    const run = { timeoutMs: this.#options.fetchTimeoutMs || LATER_FETCH_TIMEOUT_MS, signal };
    const output = await git.run(['ls-remote', '--heads', '--', this.#remote.url], run);
    return [...output.toString('utf8').matchAll(/\trefs\/heads\/(.*)$/gm)].map((match) => match[1] ?? '');
  }

  /** Git with the credentials for the remote. */
  async #remoteGit(): Promise<GitCommand> {
    const { sshKey } = this.#options;
    return this.#command(sshKey && sshCommand(await provideSshKey(sshKey, this.#folder.sshKeyPath)));
  }

  #command(ssh: string | undefined): GitCommand {
    return createGitCommand({
      gitDir: this.#folder.path,
      env: this.#options.env,
      config: this.#remote.config,
      secrets: this.#remote.secrets,
      sshCommand: ssh,
    });
  }
}

/** The rules of `git check-ref-format`, as far as a name could be taken for something else. */
function checkedBranch(branch: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what the rule is about
  if (branch === '' || /[\x00-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\/|^[-/.]|[/.]$|\.lock$/.test(branch)) {
    throw new SyncError('config_invalid', `SYNC_POLICY_REPO_MAIN_BRANCH ${JSON.stringify(branch)} is no branch name`);
  }
  return branch;
}

function branchMissing(branch: string, display: string, branches: readonly string[]): SyncError {
  const shown = branches.slice(0, BRANCHES_NAMED).join(', ');
  const more = branches.length > BRANCHES_NAMED ? `, and ${branches.length - BRANCHES_NAMED} more` : '';
  const known = branches.length === 0 ? 'it has no branches yet' : `it has ${shown}${more}`;
  return new SyncError('git_branch_missing', `branch ${branch} does not exist in ${display}; ${known}`, {
    retryable: true,
  });
}
