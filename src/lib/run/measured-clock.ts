interface Measure {
  readonly aheadMs: number;
  /** How far that may be wrong. */
  readonly errorMs: number;
}

/** Clocks are read in whole milliseconds. */
const RESOLUTION_MS = 1;

/**
 * How far the clock of a machine is ahead of ours, by its answers that say what time it is there:
 * known to half of a round trip.
 */
export class MeasuredClock {
  #known: Measure | undefined;

  /** An answer to a call that was sent at `sentMs` by our clock, and that took `tookMs`. */
  answered(theirMs: number, { sentMs, tookMs }: { readonly sentMs: number; readonly tookMs: number }): void {
    const now = { aheadMs: theirMs - (sentMs + tookMs / 2), errorMs: tookMs / 2 + RESOLUTION_MS };
    const known = this.#known;
    // One measure stays until another one proves it wrong, or is better: times that are moved by it
    // stay comparable.
    const isSame = known !== undefined && Math.abs(now.aheadMs - known.aheadMs) <= now.errorMs + known.errorMs;
    if (!isSame || now.errorMs < known.errorMs / 2) this.#known = now;
  }

  /**
   * More than 0: its clock is ahead of ours. 0 while nothing proves a difference; undefined before
   * the first answer.
   */
  get aheadMs(): number | undefined {
    const known = this.#known;
    if (known === undefined) return undefined;
    return Math.abs(known.aheadMs) <= known.errorMs ? 0 : Math.round(known.aheadMs);
  }
}
