import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import * as z from 'zod';
import { SyncError } from '../../../lib/errors.js';
import { parseJson } from '../../../lib/json/json.js';
import type { Logger } from '../../../lib/observe/log.js';
import { readIfPresent, replaceFile } from '../../../lib/settings/private-files.js';
import type { ArchiveLimits } from './archive.js';
import type { BundleLocation } from './bundle-api-config.js';
import { type BundleAnswer, BundleServer } from './bundle-api-http.js';
import type { BundleVerification } from './bundle-signature.js';
import { MirrorSource } from './mirror-source.js';

/**
 * Timeout of one read if SYNC_POLICY_REPO_CLONE_TIMEOUT is 0, as for the first fetch of a git
 * source.
 */
const DEFAULT_TIMEOUT_MS = 600_000;
/**
 * When a known entity tag is confirmed by one more read. Many file servers derive tags from times
 * with a resolution of a second, and may respond in the middle of a write (RFC 9110 section
 * 8.8.2.2; the minute is from RFC 7232): without the second read, a bundle could be missed forever.
 */
const CONFIRM_AFTER_MS = 60_000;
/**
 * The download. In the repository folder, on the same disk; its prefix marks it as a leftover after
 * a kill.
 */
const DOWNLOAD_FILE = 'tmp_bundle.tar.gz';
/** The commit of the last imported archive, and the last one that passed all checks. */
const FETCHED_REF = 'refs/policysync/fetched';
const SERVED_REF = 'refs/policysync/served/bundle';
/** In the repository folder: the last imported archive and its commit. */
const STATE_FILE = 'policysync-bundle.json';

const bundleState = z.strictObject({
  version: z.literal(1),
  /** The commit of the archive. */
  commit: z.string(),
  /** Entity tag of the archive. */
  etag: z.string().optional(),
  /** SHA-256 of the archive, hexadecimal. */
  sha256: z.string(),
  /** Identity of the verification that it passed; undefined: none. */
  verified: z.string().optional(),
});
type BundleState = Omit<z.infer<typeof bundleState>, 'version'>;

export interface BundleSourceOptions extends ArchiveLimits {
  location: BundleLocation;
  /** Folder of the repository into which archives are imported. */
  repoPath: string;
  /**
   * Whether the folder is the default one: content from another server is replaced. Default: false,
   * the operator chose it.
   */
  isOwnFolder?: boolean;
  /** SYNC_POLICY_BUNDLE_LIMIT_BYTES. */
  limitBytes: number;
  /** What an archive must be signed with. Default: signatures are ignored. */
  verification?: BundleVerification | undefined;
  /** SYNC_POLICY_REPO_CLONE_TIMEOUT; 0 for the default. */
  fetchTimeoutMs: number;
  /** The clock, in milliseconds; default: that of the machine. */
  now?: () => number;
  /** Environment of git and for proxies. */
  env: NodeJS.ProcessEnv;
}

/**
 * Follows a `bundle.tar.gz` on an HTTP or S3 server (specification "Bundle source tracking"). Each
 * archive becomes one commit of a local bare repository with exactly the archive's files. The
 * commit depends only on these, so equal content is the same commit on every server instance.
 * Checks the whole archive before importing any of it. While its entity tag stays the same, an
 * archive, accepted or refused, is read once more after a minute and then not again.
 */
export function createBundleSource(options: BundleSourceOptions, deps: { log: Logger }): MirrorSource {
  return new BundleSource(options, deps.log);
}

/**
 * A refused archive: the same archive fails with the same error. `sha256` is undefined if it was
 * too large to read.
 */
interface Refusal {
  etag: string | undefined;
  sha256: string | undefined;
  error: SyncError;
}

class BundleSource extends MirrorSource {
  readonly #options: BundleSourceOptions;
  readonly #server: BundleServer;
  /** The archive of {@link FETCHED_REF}. */
  #taken: BundleState | undefined;
  #refused: Refusal | undefined;
  /** When to read once more despite a known tag. */
  #confirmAtMs: number | undefined;

  constructor(options: BundleSourceOptions, log: Logger) {
    const url = options.location.display;
    const config = [
      // Names that differ in case are different files, regardless of the file system.
      ['core.ignorecase', 'false'],
      // The fastest level: latency of a new bundle matters more than disk space.
      ['core.compression', '1'],
    ] as const;
    super(
      {
        path: resolve(options.repoPath),
        url,
        isSame: (other) => other === url,
        isOwn: options.isOwnFolder ?? false,
        servedRef: SERVED_REF,
        fetchedRef: FETCHED_REF,
        git: { env: options.env, config },
      },
      log,
    );
    this.#options = options;
    this.#server = new BundleServer({ ...options, timeoutMs: options.fetchTimeoutMs || DEFAULT_TIMEOUT_MS });
  }

  override async open(signal: AbortSignal): Promise<string | undefined> {
    const head = await super.open(signal);
    const state = await readState(join(this.folder.path, STATE_FILE));
    // One that passed no such verification is read again.
    const isVerified = state?.verified === this.#options.verification?.identity;
    this.#taken = isVerified && state && (await this.resolve(state.commit, signal)) ? state : undefined;
    this.#confirmLater();
    return head;
  }

  async fetch(signal: AbortSignal): Promise<string> {
    if (!this.isOpen) await this.open(signal);
    const file = join(this.folder.path, DOWNLOAD_FILE);
    const taken = this.isDamaged ? undefined : this.#taken;
    const seen = this.#refused ?? taken;
    const confirms = this.#confirmAtMs !== undefined && this.#now() >= this.#confirmAtMs;
    try {
      const answer = await this.#server.get(confirms ? undefined : seen?.etag, file, signal);
      if (confirms) this.#confirmAtMs = undefined;
      if (!isKnown(answer, seen)) this.#confirmLater();
      if (answer.outcome === 'archive') return await this.#take(file, answer, taken, signal);
      if (answer.outcome === 'too-large') this.#refused = this.#tooLarge(answer.etag);
    } finally {
      await rm(file, { force: true });
    }
    // Just refused; or unchanged, and the request had the tag of the refused or of the imported
    // archive.
    if (this.#refused !== undefined) throw this.#refused.error;
    if (taken === undefined) throw new Error('unexpected 304: the request had no entity tag');
    return taken.commit;
  }

  /** Archives have no history: one that was never served is later than those that were. */
  async isSuccessor(hash: string, _of: string, earlier: readonly string[]): Promise<boolean> {
    return !earlier.includes(hash);
  }

  override distrust(): void {
    super.distrust();
    this.#refused = undefined;
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }

  #confirmLater(): void {
    this.#confirmAtMs = this.#now() + CONFIRM_AFTER_MS;
  }

  #tooLarge(etag: string | undefined): Refusal {
    const limit = `the ${this.#options.limitBytes} bytes of SYNC_POLICY_BUNDLE_LIMIT_BYTES`;
    const error = new SyncError('bundle_archive_refused', `the bundle archive is refused: it has more than ${limit}`);
    return { etag, sha256: undefined, error };
  }

  /** Imports the archive and returns its commit. */
  async #take(
    file: string,
    { etag, sha256 }: { etag: string | undefined; sha256: string },
    taken: BundleState | undefined,
    signal: AbortSignal,
  ): Promise<string> {
    if (this.#refused?.sha256 === sha256) {
      this.#refused = { ...this.#refused, etag };
      throw this.#refused.error;
    }
    if (taken?.sha256 === sha256) return this.#remember({ commit: taken.commit, etag, sha256 });
    const files = await this.#check(file, { etag, sha256 }, signal);
    const commit = await this.#import(file, signal);
    this.log.info({ hash: commit, etag, sha256, files }, 'policy bundle taken');
    return this.#remember({ commit, etag, sha256 });
  }

  async #check(file: string, seen: { etag: string | undefined; sha256: string }, signal: AbortSignal): Promise<number> {
    const { checkArchive } = await import('./archive.js'); // loads tar-stream, which a git source does not need
    try {
      return await checkArchive(file, this.#options, signal, this.#options.verification);
    } catch (error) {
      if (error instanceof SyncError && error.code === 'bundle_archive_refused') this.#refused = { ...seen, error };
      throw error;
    }
  }

  async #import(file: string, signal: AbortSignal): Promise<string> {
    const { archiveFiles, importCommit } = await import('./archive.js');
    try {
      if (this.isDamaged) await this.makeAnew(signal, { keep: [DOWNLOAD_FILE] }); // not before there is a replacement
      await importCommit(this.git, FETCHED_REF, archiveFiles(file, this.#options, signal), signal);
      const commit = await this.resolve(FETCHED_REF, signal);
      if (commit === undefined)
        throw new SyncError('git_failed', 'git fast-import made no commit', { retryable: true });
      if (this.isDamaged) await this.mended(signal);
      return commit;
    } catch (error) {
      // The failed import may have left locks behind: the next fetch opens the repository again.
      this.isOpen = false;
      throw error;
    }
  }

  async #remember(archive: Omit<BundleState, 'verified'>): Promise<string> {
    this.#refused = undefined;
    const state = { ...archive, verified: this.#options.verification?.identity };
    if (state.etag !== this.#taken?.etag || state.sha256 !== this.#taken?.sha256) {
      await replaceFile(join(this.folder.path, STATE_FILE), `${JSON.stringify({ version: 1, ...state })}\n`);
    }
    this.#taken = state;
    return state.commit;
  }
}

/** Whether the archive is the one seen last, with the same tag. */
function isKnown(answer: BundleAnswer, seen: Pick<Refusal, 'etag' | 'sha256'> | BundleState | undefined): boolean {
  if (answer.outcome === 'unchanged') return true;
  return answer.etag === seen?.etag && (answer.outcome === 'too-large' || answer.sha256 === seen?.sha256);
}

/** Reads the stored state; undefined if it is unreadable: then the archive is downloaded again. */
async function readState(path: string): Promise<BundleState | undefined> {
  try {
    const { version: _, ...state } = bundleState.parse(parseJson((await readIfPresent(path)) ?? ''));
    return state;
  } catch {
    return undefined; // missing, damaged, or of another version
  }
}
