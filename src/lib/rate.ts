/** So many in each period. */
export interface Rate {
  readonly count: number;
  readonly periodMs: number;
  /** As people read it: `10 per 1 second`, the form of OPAL's answers (opal-protocol P2.1). */
  readonly text: string;
}

const UNIT_SECONDS: Readonly<Record<string, number>> = { second: 1, minute: 60, hour: 3600, day: 86_400 };
const NOTATION = /^(\d{1,9})\s*(?:per|\/)\s*(\d{1,6})?\s*(second|minute|hour|day)s?$/i;

/** Reads `10 per second`, `10/second`, `100 per 5 minutes` (OPAL's notation). Throws an `Error` that says what is due. */
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

/** Keys that are remembered: some 15 MB. Beyond, the oldest one goes, whose share then starts anew. */
const MAX_KEYS = 100_000;

/**
 * Counts per key in fixed periods that begin with the first of a key. A library for this costs 11 MB of memory at rest
 * (measured), for what is one map.
 */
export class RateLimit {
  readonly rate: Rate;
  /** Begun last stands last, so that those that are over stand first. */
  readonly #windows = new Map<string, { endsMs: number; left: number }>();

  constructor(rate: Rate) {
    this.rate = rate;
  }

  /** Keys that are remembered now. */
  get size(): number {
    return this.#windows.size;
  }

  /** Takes one for the key; answers 0, or how many milliseconds to wait where the period's share is used up. */
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

  /** Makes room. Stops at the first key that stays: with many addresses, a walk over all for each would be the attack. */
  #forget(nowMs: number): void {
    for (const [key, { endsMs }] of this.#windows) {
      if (endsMs > nowMs && this.#windows.size < MAX_KEYS) break;
      this.#windows.delete(key);
    }
  }
}
