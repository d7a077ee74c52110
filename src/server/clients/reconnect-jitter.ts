/** Window in which connections are counted. */
const WINDOW_MS = 10_000;
/** Number of connections that need no jitter. */
const FREE = 50;
/** Time budget of the catch-up of one client. */
const EACH_MS = 5;
/** Time budget of one connection with its subscription. */
const RETURN_MS = 2;
const MAX_MS = 30_000;

/** Gives each new connection the window in milliseconds for its catch-up: 0 in quiet times. */
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

/** The window, in milliseconds, over which this many clients should spread their reconnects. */
export function reconnectJitterMs(clients: number): number {
  return clients <= FREE ? 0 : Math.min(clients * RETURN_MS, MAX_MS);
}
