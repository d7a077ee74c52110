import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { timerMs } from '../../lib/run/async.js';
import { isBackboneAway, type LogStore } from './log-store.js';

/** How long superseded rows are kept for catch-up and audit. */
export interface RetentionLimits {
  readonly maxAgeMs: number;
  /** Approximate. */
  readonly maxRows: number;
}

/**
 * Retires immediately from this many rows on, in portions of this size, so that appends do not wait
 * long.
 */
const RETIRE_AT = 1000;
/** Fewer rows wait this long, to share a disk flush. */
const RETIRE_AFTER_MS = 1000;
/** Calls of `dropRetired` per run. */
const DROPS_AT_ONCE = 3;

/**
 * Retires rows that the fold does not need any more, in batches, and drops retired rows beyond the
 * limits. After a crash the next start finds the unused rows again.
 */
export class Retention {
  readonly #limits: RetentionLimits;
  readonly #store: Pick<LogStore, 'retire' | 'dropRetired'>;
  readonly #log: Pick<Logger, 'warn'>;
  readonly #now: () => number;
  #unused: number[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** Fires when the oldest retired rows exceed their age. */
  #ageTimer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #isFailing = false;
  /** The last run left rows to drop. */
  #hasMore = false;
  #isClosed = false;
  /** Portions of retired rows that may not be dropped yet, the oldest first. */
  readonly #retired: { atMs: number; count: number }[];
  #retiredCount = 0;

  constructor(
    limits: RetentionLimits,
    deps: { store: Pick<LogStore, 'retire' | 'dropRetired'>; log: Pick<Logger, 'warn'>; now: () => number },
  ) {
    this.#limits = limits;
    this.#store = deps.store;
    this.#log = deps.log;
    this.#now = deps.now;
    // The number of rows retired before the start is unknown: they are dropped with the first
    // portion.
    this.#retired = [{ atMs: deps.now(), count: 0 }];
  }

  /** Takes unused rows, to be retired later. */
  take(seqs: readonly number[]): void {
    for (const seq of seqs) this.#unused.push(seq);
    this.#plan();
  }

  #plan(): void {
    if (this.#isClosed || this.#working !== undefined) return; // `work` plans again when it ends
    if (this.#unused.length === 0 && !this.#hasMore) return;
    // After a failure retry at the interval only.
    if (this.#unused.length >= RETIRE_AT && !this.#isFailing) void this.work();
    else if (this.#timer === undefined) {
      this.#timer = setTimeout(() => void this.work(), RETIRE_AFTER_MS);
      this.#timer.unref();
    }
  }

  #planAge(): void {
    const [oldest] = this.#retired;
    if (oldest === undefined || this.#isClosed || this.#working !== undefined) return;
    const waitMs = Math.max(oldest.atMs + this.#limits.maxAgeMs + 1 - this.#now(), RETIRE_AFTER_MS);
    this.#ageTimer = setTimeout(() => void this.work(), timerMs(waitMs));
    this.#ageTimer.unref();
  }

  /** Retires and drops rows now. Never rejects: logs a failure, and retries later. */
  async work(): Promise<void> {
    while (this.#working !== undefined) await this.#working;
    clearTimeout(this.#timer);
    clearTimeout(this.#ageTimer);
    this.#timer = undefined;
    this.#working = this.#workOrLog();
    await this.#working;
    this.#working = undefined;
    this.#plan();
    this.#planAge();
  }

  /** Retires and drops rows a last time. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.work();
  }

  async #workOrLog(): Promise<void> {
    try {
      await this.#work();
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing && !isBackboneAway(error))
        this.#log.warn(failureFields(error), 'superseded records could not be retired or dropped');
      this.#isFailing = true;
    }
  }

  async #work(): Promise<void> {
    // All of them before any drop: a row that is not retired may become live again after a crash.
    for (let left = this.#unused.length; left > 0; ) {
      const seqs = this.#unused.slice(0, Math.min(left, RETIRE_AT));
      await this.#store.retire(seqs);
      this.#unused.splice(0, seqs.length);
      left -= seqs.length;
      this.#retired.push({ atMs: this.#now(), count: seqs.length });
      this.#retiredCount += seqs.length;
    }
    await this.#drop();
  }

  /**
   * Drops some of the rows beyond the limits; the next run continues, so that callers of
   * {@link work} do not wait long.
   */
  async #drop(): Promise<void> {
    const { portions, rows, beforeMs } = this.#toDrop();
    this.#hasMore = true;
    for (let calls = 0; calls < DROPS_AT_ONCE && this.#hasMore; calls++)
      this.#hasMore = (await this.#store.dropRetired(beforeMs)) > 0;
    if (this.#hasMore) return;
    this.#retired.splice(0, portions);
    this.#retiredCount -= rows;
  }

  /**
   * Portions that exceed the limits. Rows retired in the last of these milliseconds are dropped
   * with the next ones.
   */
  #toDrop(): { portions: number; rows: number; beforeMs: number } {
    let beforeMs = this.#now() - this.#limits.maxAgeMs;
    let portions = 0;
    let rows = 0;
    for (const { atMs, count } of this.#retired) {
      const isOld = atMs < beforeMs;
      const isTooMany = this.#retiredCount - rows - count >= this.#limits.maxRows;
      if (!isOld && !isTooMany) break;
      portions++;
      rows += count;
      beforeMs = Math.max(beforeMs, atMs);
    }
    return { portions, rows, beforeMs };
  }
}
