import { type BackoffOptions, backoffMs, isAbort, Wakeup } from '../../lib/async.js';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { SeenHead, SharedPolicyHead } from '../shared-policy-head.js';
import { STALE_HEAD_TIMES, StaleHeadGuard, type StaleHeadTimes } from '../stale-head-guard.js';
import { isDamage } from './git-objects.js';
import type { CommitReview, PolicyHeadChange, PolicySource, PolicySourceStatus, Reviewed } from './source.js';

/** Delays after a failed look. */
const DEFAULT_RETRY: BackoffOptions = { minMs: 1_000, maxMs: 30_000 };
/** Failures in a row that are logged as warnings; from then on as errors. */
const WARNINGS = 3;

/** When a tracker looks. */
export interface TrackerOptions {
  /** Time between looks; 0: only at the start, when asked, and after failures. */
  pollingIntervalMs: number;
  retry?: BackoffOptions;
  doubt?: StaleHeadTimes;
}

/** What a tracker works with. */
export interface TrackerDeps {
  source: PolicySource;
  review: CommitReview;
  /** What the instances agreed on. A commit is served when it stands there, not before. */
  heads: SharedPolicyHead;
  log: Logger;
}

/** What a tracker tells while it runs. */
export interface TrackerEvents {
  /** Called for each head, also for one that changes nothing, after it is being served. */
  onServed(change: PolicyHeadChange): void;
}

/**
 * Follows a policy source: which commit is served, and why it is not a newer one. A new commit that passed the review is proposed
 * to the update log; what stands in the log is served, whichever instance proposed it (design D24).
 */
export interface Tracker {
  /**
   * Looks until the signal aborts, then returns. A look that fails is repeated with backoff, whatever the polling
   * interval; a commit that was refused is looked at again when there is another one. Rejects with `config_invalid` for what only
   * other settings mend.
   */
  run(events: TrackerEvents, signal: AbortSignal): Promise<void>;
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
  /** The commit that should be served: the agreed one. Differs from {@link head} while this instance cannot get it. */
  wanted(): string | undefined;
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
  readonly #doubt: StaleHeadGuard;
  #onServed: TrackerEvents['onServed'] = () => undefined;
  #waiting: (() => void)[] = [];
  #ended = false;

  #head: string | undefined;
  /** What this instance is making the agreed head. */
  #proposed: string | undefined;
  /** What the source showed last; and what it showed when the agreed head changed, while it shows that still. */
  #shown: string | undefined;
  #shownBefore: string | undefined;
  #refused: { hash: string; error: SyncError } | undefined;
  #failures = 0;
  #error: unknown;
  #failingSinceMs: number | undefined;
  #warnings: readonly string[] = [];
  #lastAttemptMs: number | undefined;
  #lastSuccessMs: number | undefined;

  constructor(options: TrackerOptions, deps: TrackerDeps) {
    this.#pollingMs = options.pollingIntervalMs > 0 ? options.pollingIntervalMs : undefined;
    this.#retry = options.retry ?? DEFAULT_RETRY;
    this.#doubt = new StaleHeadGuard(options.doubt ?? STALE_HEAD_TIMES);
    this.#deps = deps;
  }

  head(): string | undefined {
    return this.#head;
  }

  wanted(): string | undefined {
    return this.#deps.heads.look().head?.hash ?? this.#head;
  }

  status(): PolicySourceStatus {
    const failing = this.#error !== undefined;
    return {
      state: this.#head === undefined ? 'starting' : failing ? 'failing' : 'following',
      fetching: this.#head === undefined ? this.#deps.source.progress : undefined,
      head: this.#head,
      wanted: this.wanted(),
      doubted: this.#doubt.hash,
      refused: failing && this.#error === this.#refused?.error ? this.#refused?.hash : undefined,
      lastAttemptMs: this.#lastAttemptMs,
      lastSuccessMs: this.#lastSuccessMs,
      error: failing ? errorText(this.#error) : undefined,
      code: this.#error instanceof SyncError ? this.#error.code : undefined,
      failingSinceMs: this.#failingSinceMs,
      warnings: this.#warnings,
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

  async run({ onServed }: TrackerEvents, signal: AbortSignal): Promise<void> {
    this.#onServed = onServed;
    const unwatch = this.#deps.heads.onChange((hash) => {
      this.#doubt.clear();
      this.#shownBefore = hash === this.#shown || hash === this.#proposed ? undefined : this.#shown;
      if (hash !== this.#head && hash !== this.#proposed) this.#wakeup.set();
    });
    try {
      await this.#look(signal, () => this.#open(signal));
      for (;;) {
        const asked = this.#waiting.splice(0);
        try {
          await this.#look(signal, () => this.#fetch(signal));
        } finally {
          for (const resolve of asked) resolve();
        }
        await this.#wakeup.wait(signal, this.#delayMs());
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    } finally {
      unwatch();
      this.#ended = true;
      for (const resolve of this.#waiting.splice(0)) resolve();
    }
  }

  /** Until the next look; undefined: only when asked. */
  #delayMs(): number | undefined {
    const doubtMs = this.#doubt.leftMs;
    const pollMs = doubtMs === undefined ? this.#pollingMs : Math.min(doubtMs, this.#pollingMs ?? doubtMs);
    if (this.#error === undefined) return pollMs;
    // The same commit would be refused again, so the next look is the next poll. With nothing to serve, look on anyway.
    if (this.#error === this.#refused?.error && this.#head !== undefined) return pollMs;
    return backoffMs(Math.max(1, this.#failures), this.#retry);
  }

  /** One look: gets a head, checks and adopts it. Failures end in the status; only an abort and `config_invalid` are thrown. */
  async #look(signal: AbortSignal, work: () => Promise<boolean>): Promise<void> {
    this.#lastAttemptMs = Date.now();
    try {
      if (!(await work())) return;
      this.#lastSuccessMs = Date.now();
      this.#failures = 0;
      this.#error = undefined;
      this.#failingSinceMs = undefined;
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      this.#failed(error);
      // Nobody but the operator mends that, and looking on would hide it.
      if (error instanceof SyncError && error.code === 'config_invalid') throw error;
    }
  }

  /** Serves what an earlier run left. Answers whether there was something. */
  async #open(signal: AbortSignal): Promise<boolean> {
    const { source, heads } = this.#deps;
    const left = await source.open(signal);
    if (left === undefined) return false;
    const seen = heads.look();
    if (seen.head === undefined) {
      await this.#adopt(left, signal);
      await this.#propose(left, seen);
    } else if (seen.head.hash === left || !(await this.#tryAgreed(signal))) await this.#adopt(left, signal);
    return true;
  }

  /** Looks at the source, proposes what is new there, and serves what was agreed on. */
  async #fetch(signal: AbortSignal): Promise<boolean> {
    const { source, heads } = this.#deps;
    await this.#tryAgreed(signal); // what is here already waits for no source
    const seen = heads.look(); // before the fetch: what was agreed on then had been at the source (design D24)
    const hash = await source.fetch(signal);
    this.#shown = hash;
    if (hash !== this.#shownBefore) this.#shownBefore = undefined;
    try {
      if (hash === seen.head?.hash) this.#doubt.clear();
      else if (await this.#isNews(hash, seen)) await this.#takeNew(hash, seen, signal);
    } finally {
      if (!signal.aborted) await this.#adoptAgreed(signal);
    }
    const { head } = heads.look();
    if (head !== undefined && head.hash !== this.#head) {
      const text = `commit ${head.hash}, which the server instances agreed on, is not at the policy source yet (it shows ${hash})`;
      throw new SyncError('policy_not_ready', text, { retryable: true });
    }
    return true;
  }

  async #isNews(hash: string, seen: SeenHead): Promise<boolean> {
    const { source, heads, log } = this.#deps;
    const agreed = seen.head;
    if (agreed === undefined || !heads.isShared) return true;
    const [isSuccessor, isHere] = await Promise.all([
      source.isSuccessor(hash, agreed.hash, agreed.earlier),
      source.has(agreed.hash),
    ]);
    const before = this.#doubt.hash;
    const isNews = this.#doubt.isNews({ hash, seen, isSuccessor, hasMoved: isHere && hash !== this.#shownBefore });
    if (!isNews && before !== hash) {
      const fields = { hash, agreed: agreed.hash, wait_ms: Math.round(this.#doubt.leftMs ?? 0) };
      log.warn(fields, 'the policy source shows a commit that may be older than the one that is served');
    }
    return isNews;
  }

  /** A commit that is to be served by all. */
  async #takeNew(hash: string, seen: SeenHead, signal: AbortSignal): Promise<void> {
    const reviewed = hash === this.#head ? undefined : await this.#review(hash, this.#head);
    signal.throwIfAborted();
    if (!(await this.#propose(hash, seen))) return;
    this.#doubt.clear();
    if (reviewed !== undefined) await this.#serve(hash, reviewed);
  }

  /** Makes a commit the agreed head. Answers false where another instance was faster. */
  async #propose(hash: string, seen: SeenHead): Promise<boolean> {
    this.#proposed = hash;
    try {
      await this.#deps.heads.propose(hash, seen);
      return true;
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== 'log_conflict') throw error;
      // With what is agreed on now, and another look, it shows whether this is still new.
      this.#deps.log.debug({ hash }, 'another server instance proposed a policy commit first');
      this.#wakeup.set();
      return false;
    } finally {
      this.#proposed = undefined;
    }
  }

  /** Serves the agreed head where the local copy has it. Answers whether it is served. */
  async #adoptAgreed(signal: AbortSignal): Promise<boolean> {
    const hash = this.#deps.heads.look().head?.hash;
    if (hash === undefined) return false;
    if (hash === this.#head) return true;
    if (!(await this.#deps.source.has(hash))) return false;
    await this.#adopt(hash, signal);
    return true;
  }

  /** {@link #adoptAgreed}, at the beginning of a look: what is wrong with it is said at its end, unless it brought something better. */
  async #tryAgreed(signal: AbortSignal): Promise<boolean> {
    try {
      return await this.#adoptAgreed(signal);
    } catch (error) {
      if (signal.aborted) throw error;
      return false;
    }
  }

  async #adopt(hash: string, signal: AbortSignal): Promise<void> {
    const reviewed = await this.#review(hash, this.#head);
    signal.throwIfAborted();
    await this.#serve(hash, reviewed);
  }

  async #serve(hash: string, { changedDirectories, warnings }: Reviewed): Promise<void> {
    const previous = this.#head;
    await this.#deps.source.markServed(hash);
    this.#head = hash;
    this.#warnings = warnings;
    this.#refused = undefined;
    this.#deps.log.info({ hash, old_hash: previous, directories: changedDirectories.length }, 'policy commit served');
    this.#onServed({ oldHash: previous ?? hash, hash, changedDirectories });
  }

  async #review(hash: string, previous: string | undefined): Promise<Reviewed> {
    if (this.#refused?.hash === hash) throw this.#refused.error;
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
    this.#failingSinceMs ??= Date.now();
    if (repeated) return;
    const { error: text, ...known } = failureFields(error);
    const fields = { ...known, failures: this.#failures, serving: this.#head };
    const level = this.#failures <= WARNINGS ? 'warn' : 'error';
    this.#deps.log[level](fields, `policy source: ${text}`);
  }
}
