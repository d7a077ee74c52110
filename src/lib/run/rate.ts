/** A number of requests in each period. */
export interface Rate {
  readonly count: number;
  readonly periodMs: number;
  /** As people read it: `10 per 1 second`, the form of OPAL's responses (opal-protocol P2.1). */
  readonly text: string;
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { second: 1, minute: 60, hour: 3600, day: 86_400 };
const NOTATION = /^(\d{1,9})\s*(?:per|\/)\s*(?:(\d{1,6})\s*)?(second|minute|hour|day)s?$/i;

/**
 * Reads `10 per second`, `10/second`, `100 per 5 minutes` (OPAL's notation). Throws an `Error` that
 * says what is expected.
 */
export function parseRate(text: string): Rate {
  const [, countText, periods = '1', unitText = ''] = NOTATION.exec(text.trim()) ?? [];
  const unit = unitText.toLowerCase();
  const seconds = UNIT_SECONDS[unit];
  const count = Number(countText);
  const multiple = Number(periods);
  if (seconds === undefined || !(count > 0) || !(multiple > 0)) {
    throw new Error('must be a rate such as "10 per second" or "100 per 5 minutes"');
  }
  return { count, periodMs: multiple * seconds * 1000, text: `${count} per ${multiple} ${unit}` };
}

/**
 * Most keys that are kept: some 15 MB. Beyond, the oldest is dropped, and its share starts anew.
 */
const MAX_KEYS = 100_000;

/**
 * Counts per key in fixed periods that begin with the first of a key. A library for this takes 11
 * MB of memory at rest.
 */
export class RateLimit {
  readonly rate: Rate;
  /** In the order of their begin, so that expired ones come first. */
  readonly #windows = new Map<string, { endsMs: number; left: number }>();

  constructor(rate: Rate) {
    this.rate = rate;
  }

  /** Keys that are kept now. */
  get size(): number {
    return this.#windows.size;
  }

  /**
   * Takes one for the key; returns 0, or the milliseconds to wait if the share of the period is
   * used up.
   */
  take(key: string, nowMs: number): number {
    let window = this.#windows.get(key);
    if (window === undefined || window.endsMs <= nowMs) {
      this.#windows.delete(key);
      this.#forget(nowMs);
      window = { endsMs: nowMs + this.rate.periodMs, left: this.rate.count };
      this.#windows.set(key, window);
    }
    if (window.left === 0) return window.endsMs - nowMs;
    window.left--;
    return 0;
  }

  /**
   * Drops expired keys. Stops at the first that is not: a walk over all keys for each request would
   * be an attack.
   */
  #forget(nowMs: number): void {
    for (const [key, { endsMs }] of this.#windows) {
      if (endsMs > nowMs && this.#windows.size < MAX_KEYS) break;
      this.#windows.delete(key);
    }
  }
}
