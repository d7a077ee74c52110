/** A store or a log whose rows have times by a clock of their own. */
export interface Clocked {
  /** {@link LogStore.clockAheadMs}. */
  readonly clockAheadMs?: number | undefined;
}

/**
 * A time by our clock as the same moment by the clock of a log: its rows expire, and are dropped,
 * by that.
 */
export function byClockOf({ clockAheadMs = 0 }: Clocked, atMs: number): number {
  return atMs + clockAheadMs;
}

/** A time of a row of a log by our clock: what is shown, and compared with what happens here. */
export function byOurClock({ clockAheadMs = 0 }: Clocked, timeMs: number): number {
  return timeMs - clockAheadMs;
}
