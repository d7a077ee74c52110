/** How far back comings are counted. */
const WINDOW_MS = 10_000;
/** So many at once are no rush. */
const FREE = 50;
/** Time that the catch-up of one client may take of the server and the data sources. */
const EACH_MS = 5;
const MAX_MS = 30_000;

/**
 * Counts clients that come and answers, for each, over how long it should spread its catch-up (milliseconds): 0 in quiet times,
 * some seconds where a thousand come back at once after a restart.
 */
export function createSpread(): (nowMs: number) => number {
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
    return spreadOf(recent);
  };
}

/** Over how long so many clients should spread what they all ask for. */
export function spreadOf(clients: number): number {
  return clients <= FREE ? 0 : Math.min(clients * EACH_MS, MAX_MS);
}
