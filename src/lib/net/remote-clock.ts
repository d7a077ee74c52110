/** After this time the messages before it say nothing more: clocks run apart. */
const SPAN_MS = 300_000;
/** No message is this late: one of the clocks was set. */
const SET_MS = 60_000;

/**
 * The clock of another machine, as messages tell that say when they were sent. Each is late by its
 * way: the one with the least delay tells best.
 */
export class RemoteClock {
  /** Least delays in the span before and in this one. */
  #before = Number.POSITIVE_INFINITY;
  #latest = Number.POSITIVE_INFINITY;
  #begunMs = Number.NEGATIVE_INFINITY;

  /** A message arrived at `ourMs` that was sent at `theirMs`. */
  heard(theirMs: number, ourMs: number): void {
    const delay = ourMs - theirMs;
    if (Math.abs(delay - this.#least) > SET_MS) [this.#before, this.#begunMs] = [delay, ourMs];
    else if (Math.abs(ourMs - this.#begunMs) > SPAN_MS) [this.#before, this.#begunMs] = [this.#latest, ourMs];
    else {
      this.#latest = Math.min(this.#latest, delay);
      return;
    }
    this.#latest = delay;
  }

  /**
   * What one of its times plus this is by our clock, with the least way of a message; 0 before the
   * first.
   */
  get offsetMs(): number {
    return Number.isFinite(this.#least) ? this.#least : 0;
  }

  get #least(): number {
    return Math.min(this.#before, this.#latest);
  }
}
