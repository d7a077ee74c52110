/** Samples of a minute at the shortest interval that is of use. */
const SAMPLES = 64;
const MINUTE_MS = 60_000;

/**
 * How late the event loop was, as samples of a timer that exists anyway: a monitor of its own would wake an idle server a hundred times a
 * second. Fixed room.
 */
export class LoopDelay {
  readonly #now: () => number;
  readonly #atMs = new Float64Array(SAMPLES);
  readonly #lateMs = new Float64Array(SAMPLES);
  #count = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** A timer fired this much too late. */
  sampled(lateMs: number): void {
    const at = this.#count++ % SAMPLES;
    this.#atMs[at] = this.#now();
    this.#lateMs[at] = Math.max(0, lateMs);
  }

  /** The worst sample of the last minute in milliseconds; null: there is none. */
  get worstMs(): number | null {
    const since = this.#now() - MINUTE_MS;
    let worst: number | null = null;
    for (let at = 0; at < Math.min(this.#count, SAMPLES); at++) {
      const lateMs = this.#lateMs[at] ?? 0;
      if ((this.#atMs[at] ?? 0) >= since && lateMs > (worst ?? -1)) worst = lateMs;
    }
    return worst === null ? null : Math.round(worst * 10) / 10;
  }
}
