import { timerMs } from '../../lib/async.js';
import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { isBackboneAway, type LogStore } from './log-store.js';

/** How long superseded rows are kept for those who catch up, and for the audit. */
export interface RetentionLimits {
  /** At most so long. */
  readonly maxAgeMs: number;
  /** And at most about so many. */
  readonly maxRows: number;
}

/** So many at once are worth a disk flush of their own. More are marked in portions of this, so that no append waits long. */
const RETIRE_AT = 1000;
/** Fewer wait so long for company. */
const RETIRE_AFTER_MS = 1000;
/** Calls of `dropRetired` in a row, each of which drops some. */
const DROPS_AT_ONCE = 3;

/**
 * Marks rows that the fold does not need any more, many at once, and has the store drop those that were marked long ago or
 * are too many. What it has not done when the program dies is found out again by the next start.
 */
export class Retention {
  readonly #limits: RetentionLimits;
  readonly #store: Pick<LogStore, 'retire' | 'dropRetired'>;
  readonly #log: Pick<Logger, 'warn'>;
  readonly #now: () => number;
  #unused: number[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** Until the oldest ones are too old, also where nothing new comes. */
  #ageTimer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #isFailing = false;
  /** There is more to drop than was dropped the last time. */
  #hasMore = false;
  #isClosed = false;
  /** Rows that were retired and may still be there, the oldest first. */
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
    // How many there are from before is not known; they go once enough others are there.
    this.#retired = [{ atMs: deps.now(), count: 0 }];
  }

  /** Takes rows that are needed no more. Never waits. */
  take(seqs: readonly number[]): void {
    for (const seq of seqs) this.#unused.push(seq);
    this.#plan();
  }

  #plan(): void {
    if (this.#isClosed || this.#working !== undefined) return; // what is at work plans again when it ends
    if (this.#unused.length === 0 && !this.#hasMore) return;
    // While a backbone is away, each second is often enough.
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

  /** Does now what is to be done, also where nothing new was taken. Never rejects: a failure is logged, and mended later. */
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

  /** Does what is to be done once more, and no more after that. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.work();
  }

  async #workOrLog(): Promise<void> {
    try {
      await this.#work();
      this.#isFailing = false;
    } catch (error) {
      const isNews = !this.#isFailing && !isBackboneAway(error);
      if (isNews) this.#log.warn(failureFields(error), 'superseded records could not be marked or dropped');
      this.#isFailing = true;
    }
  }

  async #work(): Promise<void> {
    // All of them, whatever becomes of the rest: what is not marked may count again after a crash.
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

  /** Drops some of what may go; the rest is for the next turn, so that nobody who waits for this one waits long. */
  async #drop(): Promise<void> {
    const { portions, rows, beforeMs } = this.#toDrop();
    this.#hasMore = true;
    for (let calls = 0; calls < DROPS_AT_ONCE && this.#hasMore; calls++)
      this.#hasMore = (await this.#store.dropRetired(beforeMs)) > 0;
    if (this.#hasMore) return;
    this.#retired.splice(0, portions);
    this.#retiredCount -= rows;
  }

  /** What was retired too long ago, or is too much. Rows of its last millisecond go with what is dropped after it. */
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
