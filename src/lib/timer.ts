/**
 * Delays that a setting may make long. A timer of Node holds 24.8 days; a longer one fires at once, and its loop never rests.
 */

/** The longest delay that a timer of Node takes, in milliseconds. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** A delay for timers that others start (HTTP libraries, intervals): at most the longest that they accept. */
export function timerMs(ms: number): number {
  return Math.min(ms, MAX_TIMER_MS);
}

/** Calls back after a delay of any length. Returns a function that cancels it. */
export function startTimer(ms: number, callback: () => void): () => void {
  let timer: NodeJS.Timeout;
  const arm = (leftMs: number): void => {
    const stepMs = timerMs(leftMs);
    timer = setTimeout(stepMs < leftMs ? () => arm(leftMs - stepMs) : callback, stepMs);
  };
  arm(ms);
  return () => clearTimeout(timer);
}
