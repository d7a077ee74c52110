/**
 * Delays that a setting may make long. Node's timers hold 24.8 days; one beyond fires at once, and a loop around it never rests.
 */

/** The longest delay that a timer of Node takes, in milliseconds. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** A delay for timers that others start (HTTP libraries, intervals): where it is too long for them, the longest that they take. */
export function timerMs(ms: number): number {
  return Math.min(ms, MAX_TIMER_MS);
}

/** Calls back after a delay of any length. Answers how to take that back. */
export function startTimer(ms: number, callback: () => void): () => void {
  let timer: NodeJS.Timeout;
  const arm = (leftMs: number): void => {
    const stepMs = timerMs(leftMs);
    timer = setTimeout(stepMs < leftMs ? () => arm(leftMs - stepMs) : callback, stepMs);
  };
  arm(ms);
  return () => clearTimeout(timer);
}
