import { resolve } from 'node:path';
import { SyncError } from '../../../lib/errors.js';
import type { Logger, Secret } from '../../../lib/observe/log.js';
import { type GitCommand, GitExit } from './git-command.js';
import { type GitRemote, parseGitRemote } from './git-remote.js';
import { MirrorSource, type ObjectFormat } from './mirror-source.js';
import { branchesText, readBranches } from './remote-branches.js';
import { repositoryIdentity } from './repository-address.js';
import { sshCommandFor, sshKeySecrets } from './ssh-key.js';

/**
 * Timeouts of one fetch if SYNC_POLICY_REPO_CLONE_TIMEOUT is 0: the first fetch transfers
 * everything.
 */
const FIRST_FETCH_TIMEOUT_MS = 600_000;
const LATER_FETCH_TIMEOUT_MS = 120_000;
/** Default of SYNC_POLICY_REPO_SILENCE_TIMEOUT, for those that have no settings. */
const SILENCE_TIMEOUT_MS = 10_000;
/** Interval of progress logs of one fetch. */
const PROGRESS_EVERY_MS = 10_000;

export interface GitSourceOptions {
  /** SYNC_POLICY_REPO_URL. */
  url: string;
  /** SYNC_POLICY_REPO_MAIN_BRANCH; undefined: the branch that HEAD of the remote names. */
  branch: string | undefined;
  /** Folder of the bare mirror: SYNC_POLICY_REPO_CLONE_PATH. */
  clonePath: string;
  /**
   * Whether the folder is the default one: a mirror of another repository is replaced. Default:
   * false, the operator chose it.
   */
  isOwnFolder?: boolean;
  /** SYNC_POLICY_REPO_SSH_KEY: a path or the text of a key. */
  sshKey?: Secret | undefined;
  /** SYNC_POLICY_REPO_CLONE_TIMEOUT; 0 for the defaults. */
  fetchTimeoutMs: number;
  /** SYNC_POLICY_REPO_SILENCE_TIMEOUT; default 10 s. */
  silenceTimeoutMs?: number | undefined;
  /** Environment of git: PATH, HOME, proxies. */
  env: NodeJS.ProcessEnv;
}

/**
 * Follows one branch of a git repository in a bare mirror (design D40). Never prunes history, so a
 * commit that was served once stays readable as the base of a delta, even after a force-push.
 * Throws `config_invalid` for an invalid URL or branch name.
 */
export function createGitSource(options: GitSourceOptions, deps: { log: Logger }): MirrorSource {
  return new GitSource(options, parseGitRemote(options.url), deps.log);
}

class GitSource extends MirrorSource {
  readonly #options: GitSourceOptions;
  readonly #remote: GitRemote;
  /** What is fetched: a ref of the remote. */
  readonly #remoteRef: string;
  /** Where it is kept. */
  readonly #branchRef: string;
  readonly #silence: SilenceLimit;
  /** True: the mirror has the branch, and the next fetch is incremental. */
  #hasBranch = false;
  #progress: string | undefined;
  #defaultBranch: string | undefined;

  constructor(options: GitSourceOptions, remote: GitRemote, log: Logger) {
    const { branch } = options;
    const remoteRef = branch === undefined ? DEFAULT_BRANCH : `refs/heads/${checkedBranch(branch)}`;
    const branchRef = branch === undefined ? 'refs/policysync/default' : remoteRef;
    const { url, credentials } = remote;
    const secrets = [...remote.secrets, ...sshKeySecrets(options.sshKey)];
    super(
      {
        path: resolve(options.clonePath),
        url,
        isSame: (other) => repositoryIdentity(other) === repositoryIdentity(url),
        isOwn: options.isOwnFolder ?? false,
        servedRef: `refs/policysync/served/${branch ?? DEFAULT_BRANCH}`,
        fetchedRef: branchRef,
        git: { env: options.env, credentials, secrets },
      },
      log,
    );
    this.#options = options;
    this.#remote = remote;
    this.#remoteRef = remoteRef;
    this.#branchRef = branchRef;
    this.#silence = new SilenceLimit(options.silenceTimeoutMs ?? SILENCE_TIMEOUT_MS);
  }

  override async open(signal: AbortSignal): Promise<string | undefined> {
    this.#hasBranch = false; // checked again by the next fetch
    return await super.open(signal);
  }

  async fetch(signal: AbortSignal): Promise<string> {
    if (!this.isOpen) await this.open(signal);
    try {
      if (this.isDamaged) {
        await this.#branches(await this.#remoteGit(), signal); // the old copy is removed only if the remote responds
        await this.makeAnew(signal); // removes the key file too
        this.#hasBranch = false;
        await this.#fetchInFormat(signal);
        await this.mended(signal);
      } else await this.#fetchInFormat(signal);
      const head = await this.resolve(this.#branchRef, signal);
      if (head === undefined) throw new SyncError('git_failed', 'git fetch brought no commit', { retryable: true });
      return head;
    } catch (error) {
      this.isOpen = false;
      throw error;
    }
  }

  override get defaultBranch(): string | undefined {
    return this.#defaultBranch;
  }

  get progress(): string | undefined {
    return this.#progress;
  }

  async isSuccessor(hash: string, of: string): Promise<boolean> {
    return await this.objects.isAncestor(of, hash);
  }

  /** Fetches; if the remote has the other format of objects, into a new mirror of that format. */
  async #fetchInFormat(signal: AbortSignal): Promise<void> {
    try {
      await this.#fetchBranch(signal);
      await this.#learnDefaultBranch(signal);
    } catch (error) {
      const objects = otherFormat(error);
      if (objects === undefined) throw error;
      this.log.info(
        { repository: this.#remote.display, format: objects },
        'the mirror is made in the object format of the remote',
      );
      await this.makeAnew(signal, { objects });
      this.#hasBranch = false;
      await this.#fetchBranch(signal);
      await this.#learnDefaultBranch(signal);
    }
  }

  /**
   * Asks once in a run for the name of the default branch, for webhooks that name a branch and not
   * whether it is that.
   */
  async #learnDefaultBranch(signal: AbortSignal): Promise<void> {
    if (this.#options.branch !== undefined || this.#defaultBranch !== undefined) return;
    this.#defaultBranch = readBranches(
      await this.#ask(await this.#remoteGit(), ['--symref'], DEFAULT_BRANCH, signal),
    ).head;
  }

  async #fetchBranch(signal: AbortSignal): Promise<void> {
    const git = await this.#remoteGit();
    this.#hasBranch ||= (await this.resolve(this.#branchRef, signal)) !== undefined;
    const timeoutMs =
      this.#options.fetchTimeoutMs || (this.#hasBranch ? LATER_FETCH_TIMEOUT_MS : FIRST_FETCH_TIMEOUT_MS);
    const refspec = `+${this.#remoteRef}:${this.#branchRef}`;
    // The progress tells that the remote is not silent; people see that of the first fetch, which
    // may take minutes.
    const flags = ['--progress', '--no-tags', '--no-prune', '--no-write-fetch-head', '--no-recurse-submodules'];
    // A remote may be a shallow clone itself.
    flags.push('--update-shallow');
    const onProgress = this.#hasBranch ? undefined : this.#progressTeller();
    try {
      await git.run(['fetch', ...flags, ...this.#remote.flags, '--', this.#remote.url, refspec], {
        timeoutMs,
        signal,
        onProgress,
        silence: { limitMs: this.#silence.ms, longest: (ms) => this.#silence.sufficed(ms) },
      });
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      if (error.code === 'git_silent') this.#silence.ended();
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

  /** Records the progress of the fetch and logs it periodically. */
  #progressTeller(): (text: string) => void {
    let toldMs = performance.now();
    return (text) => {
      this.#progress = text;
      if (performance.now() - toldMs < PROGRESS_EVERY_MS) return;
      toldMs = performance.now();
      this.log.info({ repository: this.#remote.display }, `first fetch of the policy repository: ${text}`);
    };
  }

  /** Lists the branches of the remote. */
  async #branches(git: GitCommand, signal: AbortSignal): Promise<string[]> {
    return [...readBranches(await this.#ask(git, [], 'refs/heads/*', signal)).commits.keys()];
  }

  /** Asks the remote for refs. */
  async #ask(git: GitCommand, flags: readonly string[], refs: string, signal: AbortSignal): Promise<string> {
    const timeoutMs = this.#options.fetchTimeoutMs || LATER_FETCH_TIMEOUT_MS;
    const run = { timeoutMs, signal, silence: { limitMs: this.#silence.ms } };
    const args = ['ls-remote', ...flags, ...this.#remote.flags, '--', this.#remote.url, refs];
    return (await git.run(args, run)).toString('utf8');
  }

  /** Git with the credentials for the remote. */
  async #remoteGit(): Promise<GitCommand> {
    const { sshKey } = this.#options;
    return this.gitWith(sshKey && (await sshCommandFor(sshKey, this.folder.sshKeyPath)));
  }
}

/** What git calls the branch that a remote follows by default. */
const DEFAULT_BRANCH = 'HEAD';

/** The format of the remote's objects, if that is why a fetch failed. */
function otherFormat(error: unknown): ObjectFormat | undefined {
  const said = error instanceof SyncError && error.cause instanceof GitExit ? error.cause.message : '';
  const [, format] = /mismatched algorithms: client \w+; server (sha1|sha256)\b/.exec(said) ?? [];
  return format as ObjectFormat | undefined;
}

/** Applies the rules of `git check-ref-format` that prevent ambiguous names. */
function checkedBranch(branch: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what the rule is about
  if (branch === '' || /[\x00-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\/|^[-/.]|[/.]$|\.lock$/.test(branch)) {
    throw new SyncError('config_invalid', `SYNC_POLICY_REPO_MAIN_BRANCH ${JSON.stringify(branch)} is no branch name`);
  }
  return branch;
}

function branchMissing(branch: string | undefined, display: string, branches: readonly string[]): SyncError {
  const meant = branches.length === 1 ? branches[0] : branches.find((name) => name === 'main');
  const advice =
    meant === undefined || !/^[\w./-]+$/.test(meant)
      ? ''
      : `: set SYNC_POLICY_REPO_MAIN_BRANCH=${meant} (--policy-repo-main-branch ${meant})`;
  return new SyncError(
    'git_branch_missing',
    `${branch === undefined ? `HEAD of ${display} names no branch that exists` : `branch ${branch} does not exist in ${display}`}; ${branchesText(branches)}${advice}`,
    {
      retryable: true,
    },
  );
}

/** {@link SilenceLimit} grows to this multiple of the setting. */
const GROWTH = 4;

/**
 * How long a remote may be silent: as long as the setting says; twice as long after a fetch that
 * ended for its silence; and after one that succeeded, twice its longest silence. So a dead
 * connection is noticed soon, and a slow remote gets the time that it needs.
 */
export class SilenceLimit {
  readonly #settingMs: number;
  #ms: number;

  constructor(settingMs: number) {
    this.#settingMs = settingMs;
    this.#ms = settingMs;
  }

  /** In milliseconds; never less than the setting, nor more than four times that. */
  get ms(): number {
    return this.#ms;
  }

  /** A fetch was ended for its silence. */
  ended(): void {
    this.#set(this.#ms * 2);
  }

  /** A fetch succeeded; its longest silence. */
  sufficed(longestMs: number): void {
    this.#set(longestMs * 2);
  }

  #set(ms: number): void {
    this.#ms = Math.min(Math.max(ms, this.#settingMs), this.#settingMs * GROWTH);
  }
}
