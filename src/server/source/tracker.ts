import { errorText, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { type BackoffOptions, backoffMs, isAbort, Wakeup } from '../../lib/loop.js';
import { isDamage } from './git-objects.js';
import type { CommitReview, PolicyHeadChange, PolicySource, PolicySourceStatus } from './source.js';

/** Delays after a failed look. */
const DEFAULT_RETRY: BackoffOptions = { minMs: 1_000, maxMs: 30_000 };
/** Failures in a row that are logged as warnings; from then on as errors. */
const WARNINGS = 3;

/** When a tracker looks. */
export interface TrackerOptions {
  /** Time between looks; 0: only at the start, when asked, and after failures. */
  pollingIntervalMs: number;
  retry?: BackoffOptions;
}

/** What a tracker works with. */
export interface TrackerDeps {
  source: PolicySource;
  review: CommitReview;
  log: Logger;
  /** Called for the first head and for each one that changes something, after it is being served. */
  onChange(change: PolicyHeadChange): void | Promise<void>;
}

/** Follows a policy source: which commit is served, and why it is not a newer one. */
export interface Tracker {
  /**
   * Looks until the signal aborts, then returns. A look that fails is repeated with backoff, whatever the polling
   * interval; a commit that was refused is looked at again when there is another one.
   */
  run(signal: AbortSignal): Promise<void>;
  /**
   * Asks for a look. Resolves when one that began after the call has ended, well or not (see `status`), or when the
   * tracker stops. Looks never overlap; all that ask during one share the next.
   */
  refresh(): Promise<void>;
  /**
   * Asks for a look without waiting for it, in constant space: one that begins after the call, shared by all that ask
   * before it begins. Is remembered before `run` and while the first copy is made.
   */
  requestLook(): void;
  /** The commit that is served; undefined until there is one. */
  head(): string | undefined;
  status(): PolicySourceStatus;
  /** Says that the served commit could not be read: has the local copy made anew. */
  reportDamage(): void;
}

/** Makes a {@link Tracker}. It does nothing until `run`. */
export function createTracker(options: TrackerOptions, deps: TrackerDeps): Tracker {
  return new SourceTracker(options, deps);
}

class SourceTracker implements Tracker {
  readonly #pollingMs: number | undefined;
  readonly #retry: BackoffOptions;
  readonly #deps: TrackerDeps;
  readonly #wakeup = new Wakeup();
  #waiting: (() => void)[] = [];
  #ended = false;

  #head: string | undefined;
  #refused: { hash: string; error: SyncError } | undefined;
  #failures = 0;
  #error: unknown;
  #lastAttemptMs: number | undefined;
  #lastSuccessMs: number | undefined;

  constructor(options: TrackerOptions, deps: TrackerDeps) {
    this.#pollingMs = options.pollingIntervalMs > 0 ? options.pollingIntervalMs : undefined;
    this.#retry = options.retry ?? DEFAULT_RETRY;
    this.#deps = deps;
  }

  head(): string | undefined {
    return this.#head;
  }

  status(): PolicySourceStatus {
    const failing = this.#error !== undefined;
    return {
      state: this.#head === undefined ? 'starting' : failing ? 'failing' : 'following',
      head: this.#head,
      lastAttemptMs: this.#lastAttemptMs,
      lastSuccessMs: this.#lastSuccessMs,
      error: failing ? errorText(this.#error) : undefined,
    };
  }

  refresh(): Promise<void> {
    if (this.#ended) return Promise.resolve();
    const done = new Promise<void>((resolve) => this.#waiting.push(resolve));
    this.#wakeup.set();
    return done;
  }

  requestLook(): void {
    this.#wakeup.set();
  }

  reportDamage(): void {
    this.#deps.source.distrust();
    this.#wakeup.set();
  }

  async run(signal: AbortSignal): Promise<void> {
    try {
      await this.#look(signal, (source) => source.open(signal));
      for (;;) {
        const asked = this.#waiting.splice(0);
        try {
          await this.#look(signal, (source) => source.fetch(signal));
        } finally {
          for (const resolve of asked) resolve();
        }
        await this.#wakeup.wait(signal, this.#delayMs());
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    } finally {
      this.#ended = true;
      for (const resolve of this.#waiting.splice(0)) resolve();
    }
  }

  /** Until the next look; undefined: only when asked. */
  #delayMs(): number | undefined {
    if (this.#error === undefined) return this.#pollingMs;
    // The same commit would be refused again, so the next look is the next poll. With nothing to serve, look on anyway.
    if (this.#error === this.#refused?.error && this.#head !== undefined) return this.#pollingMs;
    return backoffMs(Math.max(1, this.#failures), this.#retry);
  }

  /** One look: gets a head, checks and adopts it. Failures end in the status; only an abort is thrown. */
  async #look(signal: AbortSignal, get: (source: PolicySource) => Promise<string | undefined>): Promise<void> {
    this.#lastAttemptMs = Date.now();
    try {
      const hash = await get(this.#deps.source);
      if (hash === undefined) return; // nothing there from an earlier run
      if (hash !== this.#head) await this.#adopt(hash, signal);
      this.#lastSuccessMs = Date.now();
      this.#failures = 0;
      this.#error = undefined;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      this.#failed(error);
    }
  }

  async #adopt(hash: string, signal: AbortSignal): Promise<void> {
    if (this.#refused?.hash === hash) throw this.#refused.error;
    const previous = this.#head;
    const { changedDirectories } = await this.#review(hash, previous);
    signal.throwIfAborted();
    await this.#deps.source.markServed(hash);
    this.#head = hash;
    this.#refused = undefined;
    this.#deps.log.info({ hash, old_hash: previous, directories: changedDirectories.length }, 'policy commit served');
    if (previous !== undefined && changedDirectories.length === 0) return;
    await this.#deps.onChange({ oldHash: previous ?? hash, hash, changedDirectories });
  }

  async #review(hash: string, previous: string | undefined): Promise<{ changedDirectories: readonly string[] }> {
    try {
      return await this.#deps.review.review(hash, previous);
    } catch (error) {
      if (error instanceof SyncError && error.code === 'policy_commit_refused') this.#refused = { hash, error };
      if (isDamage(error)) this.#deps.source.distrust();
      throw error;
    }
  }

  #failed(error: unknown): void {
    const repeated = error === this.#error; // the same refusal, logged once
    this.#error = error;
    this.#failures++;
    if (repeated) return;
    const fields = {
      code: error instanceof SyncError ? error.code : undefined,
      failures: this.#failures,
      serving: this.#head,
    };
    const level = this.#failures <= WARNINGS ? 'warn' : 'error';
    this.#deps.log[level](fields, `policy source: ${errorText(error)}`);
  }
}
