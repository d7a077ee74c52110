/** How far the clock of the server is ahead of the one here, from the times of its events. */
export interface ServerClock {
  /** Takes the time of an event that has just arrived. */
  hear(at: number): void;
  /** A new connection: clocks may have been set meanwhile. */
  reset(): void;
  /** The time of the server now, in milliseconds. */
  now(): number;
}

const SPAN_MS = 30_000;
const NONE = Number.NEGATIVE_INFINITY;

/**
 * Each event arrives late by its way: of this span and the one before, the one with the least delay
 * tells the offset best.
 */
export function createServerClock(here: () => number): ServerClock {
  let [before, latest, begunAt] = [NONE, NONE, 0];
  return {
    hear(at) {
      const now = here();
      // Clocks are set, this one too.
      if (Math.abs(now - begunAt) > SPAN_MS) [before, latest, begunAt] = [latest, NONE, now];
      latest = Math.max(latest, at - now);
    },
    reset() {
      before = latest = NONE;
    },
    now: () => here() + (latest === NONE ? 0 : Math.max(before, latest)),
  };
}
