import { SyncError } from '../../../lib/errors.js';
import type { Logger } from '../../../lib/observe/log.js';
import { createGitCommand, type GitCommand, type GitCommandOptions, GitExit, type GitRun } from './git-command.js';
import { createGitObjects, type GitObjects } from './git-objects.js';
import { createGitViews, type GitViews, VIEW_CONFIG } from './git-views.js';
import { MirrorFolder, type MirrorFolderOptions } from './mirror-folder.js';
import type { PolicySource } from './source.js';

/** Timeout of local git calls. */
const LOCAL_TIMEOUT_MS = 60_000;

export interface MirrorOptions extends MirrorFolderOptions {
  /** Ref of the last head that passed all checks. */
  readonly servedRef: string;
  /** Ref of the last fetched head, which may have been refused. */
  readonly fetchedRef: string;
  readonly git: Omit<GitCommandOptions, 'gitDir' | 'sshCommand'>;
}

/** How git names objects: a repository takes none from one of the other format. */
export type ObjectFormat = 'sha1' | 'sha256';

/**
 * A policy source with a bare local repository, the mirror. It has no work tree: repository content
 * never becomes a file. Only one call of `open` or `fetch` may run at a time; objects may be read
 * meanwhile.
 */
export abstract class MirrorSource implements PolicySource {
  readonly objects: GitObjects;
  /** For people who look at the repository. */
  readonly views: GitViews;
  protected readonly log: Logger;
  protected readonly folder: MirrorFolder;
  protected readonly git: GitCommand;
  /** False: a failure may have left locks behind, which the next `open` removes. */
  protected isOpen = false;
  /** True: the mirror cannot be read, and the next fetch rebuilds it. */
  protected isDamaged = false;
  readonly #options: MirrorOptions;
  #served: string | undefined;

  constructor(options: MirrorOptions, log: Logger) {
    this.#options = options;
    this.log = log;
    this.folder = new MirrorFolder(options, log);
    this.git = this.gitWith(undefined);
    this.objects = createGitObjects(this.git);
    const { config = [] } = options.git;
    const viewing = { ...options.git, gitDir: this.folder.path, config: [...config, ...VIEW_CONFIG] };
    this.views = createGitViews(createGitCommand(viewing), options.fetchedRef);
  }

  abstract fetch(signal: AbortSignal): Promise<string>;
  abstract isSuccessor(hash: string, of: string, earlier: readonly string[]): Promise<boolean>;

  /** The branch that the remote names as its default, if that is followed and known. */
  get defaultBranch(): string | undefined {
    return undefined;
  }

  async open(signal: AbortSignal): Promise<string | undefined> {
    const { served, latest } = (await this.folder.claim()) === 'existing' ? await this.#lastHeads(signal) : {};
    if (latest === undefined) await this.makeAnew(signal);
    const isWhole = latest === undefined || (await this.#isWhole(latest, signal));
    this.isOpen = true;
    if (isWhole) return served;
    this.log.warn({ folder: this.folder.path }, 'the local mirror is damaged and will be rebuilt');
    this.isDamaged = true;
    return undefined;
  }

  async has(hash: string): Promise<boolean> {
    return await this.objects.hasCommit(hash);
  }

  async markServed(hash: string): Promise<void> {
    await this.git.run(['update-ref', this.#options.servedRef, hash], { timeoutMs: LOCAL_TIMEOUT_MS });
    this.#served = hash;
  }

  distrust(): void {
    this.isDamaged = true;
  }

  /**
   * Replaces the repository with an empty one; keeps the files named in `keep`. The user's default
   * of the object format does not count.
   */
  protected async makeAnew(
    signal: AbortSignal,
    { keep, objects = 'sha1' }: { keep?: readonly string[]; objects?: ObjectFormat } = {},
  ): Promise<void> {
    await this.folder.empty(keep);
    const args = ['init', '--quiet', '--bare', '--template=', `--object-format=${objects}`, this.folder.path];
    await this.git.run(args, local(signal));
  }

  /** Ends a rebuild: marks the served commit again, unless the source has lost it. */
  protected async mended(signal: AbortSignal): Promise<void> {
    const served = this.#served && (await this.resolve(this.#served, signal));
    if (served !== undefined) await this.markServed(served);
    this.isDamaged = false;
  }

  /** Resolves a ref or an id to a commit; undefined if there is none. */
  protected async resolve(revision: string, signal: AbortSignal): Promise<string | undefined> {
    const args = ['rev-parse', '--verify', '--quiet', `${revision}^{commit}`];
    return (await answered(this.git.run(args, local(signal))))?.toString('utf8').trim();
  }

  /** Creates a git command for this repository with a GIT_SSH_COMMAND. */
  protected gitWith(sshCommand: string | undefined): GitCommand {
    return createGitCommand({ ...this.#options.git, gitDir: this.folder.path, sshCommand });
  }

  /**
   * The head to serve after a restart, and what there is at all: what was fetched and never served
   * may have been refused.
   */
  async #lastHeads(signal: AbortSignal): Promise<{ served?: string | undefined; latest?: string | undefined }> {
    await this.folder.removeLeftovers();
    const { servedRef, fetchedRef } = this.#options;
    const served = await this.resolve(servedRef, signal);
    return { served, latest: served ?? (await this.resolve(fetchedRef, signal)) };
  }

  /** Whether every object of a commit exists. */
  async #isWhole(commit: string, signal: AbortSignal): Promise<boolean> {
    const walk = this.git.run(['rev-list', '--objects', '--no-walk', '--quiet', commit], local(signal));
    return (await answered(walk)) !== undefined;
  }
}

function local(signal: AbortSignal): GitRun {
  return { timeoutMs: LOCAL_TIMEOUT_MS, signal };
}

/** Returns the output of a call; undefined if git itself failed. */
async function answered(call: Promise<Buffer>): Promise<Buffer | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof SyncError && error.cause instanceof GitExit) return undefined;
    throw error;
  }
}
