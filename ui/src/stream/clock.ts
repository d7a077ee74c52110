/** How far the clock of the server is ahead of the one here, from the times of its events. */
export interface ServerClock {
  /** Takes the time of an event that has just arrived. */
  hear(at: number): void;
  /** A new connection: clocks may have been set meanwhile. */
  reset(): void;
  /** The time of the server now, in milliseconds. */
  now(): number;
}

/** Each event arrives late by its way: the one with the least delay tells the offset best. */
export function createServerClock(here: () => number): ServerClock {
  let offset: number | undefined;
  return {
    hear(at) {
      const seen = at - here();
      if (offset === undefined || seen > offset) offset = seen;
    },
    reset() {
      offset = undefined;
    },
    now: () => here() + (offset ?? 0),
  };
}
