import type { Rate } from './rate.js';

/** Most callers that are told apart; those beyond share what is left. */
const MAX_CALLERS = 10_000;

/**
 * A rate of all callers together, of which each may use its part: as many parts as callers that
 * came in this period or the last. One alone may use all of it; a second one has half of it from
 * the next period on.
 */
export class FairRate {
  readonly rate: Rate;
  #endsMs = Number.NEGATIVE_INFINITY;
  #left = 0;
  #used = new Map<string, number>();
  #before: ReadonlyMap<string, number> = new Map();
  /** Callers of this period and the last. */
  #callers = 0;

  constructor(rate: Rate) {
    this.rate = rate;
  }

  /** Callers that are kept now. */
  get size(): number {
    return this.#used.size + this.#before.size;
  }

  /** Takes one for a caller; returns 0, or the milliseconds to wait. */
  take(caller: string, nowMs: number): number {
    if (nowMs >= this.#endsMs) this.#begin(nowMs);
    const used = this.#used.get(caller);
    // Also who gets nothing has come, and has a part from now on.
    if (used === undefined && this.#used.size < MAX_CALLERS) {
      this.#used.set(caller, 0);
      if (!this.#before.has(caller)) this.#callers++;
    }
    const part = Math.ceil(this.rate.count / Math.max(1, this.#callers));
    if (this.#left === 0 || (used ?? 0) >= part) return this.#endsMs - nowMs;
    this.#left--;
    if (this.#used.has(caller)) this.#used.set(caller, (used ?? 0) + 1);
    return 0;
  }

  #begin(nowMs: number): void {
    const isNext = nowMs < this.#endsMs + this.rate.periodMs;
    this.#before = isNext ? this.#used : new Map();
    this.#used = new Map();
    this.#callers = this.#before.size;
    this.#left = this.rate.count;
    this.#endsMs = nowMs + this.rate.periodMs;
  }
}
