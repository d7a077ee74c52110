/** How far back comings are counted. */
const WINDOW_MS = 10_000;
/** So many at once are no rush. */
const FREE = 50;
/** Time that the catch-up of one client may take of the server and the data sources. */
const EACH_MS = 5;
/** Time that a connection with its subscription may take of the server. */
const RETURN_MS = 2;
const MAX_MS = 30_000;

/**
 * Counts clients that come and answers, for each, over how long it should spread its catch-up (milliseconds): 0 in quiet times,
 * some seconds where a thousand come back at once after a restart.
 */
export function createCatchUpJitter(): (nowMs: number) => number {
  let windowStartMs = Number.NEGATIVE_INFINITY;
  let before = 0;
  let count = 0;
  return (nowMs) => {
    const age = nowMs - windowStartMs;
    if (age < 0 || age >= WINDOW_MS) {
      before = age >= 0 && age < 2 * WINDOW_MS ? count : 0;
      count = 0;
      windowStartMs = nowMs;
    }
    count++;
    const recent = Math.max(before, count);
    return recent <= FREE ? 0 : Math.min(recent * EACH_MS, MAX_MS);
  };
}

/** Over how long so many clients should spread their connections when all of them come back (milliseconds). */
export function reconnectJitterMs(clients: number): number {
  return clients <= FREE ? 0 : Math.min(clients * RETURN_MS, MAX_MS);
}
