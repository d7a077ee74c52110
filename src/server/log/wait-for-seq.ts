/** Appends of other instances arrive within milliseconds, unless the backbone is unavailable. */
const WITHIN_MS = 2000;
const LOOK_MS = 50;

/**
 * Returns whether this instance has applied the log up to a position; waits for it, at most
 * `withinMs`.
 */
export async function waitForSeq(
  log: { readonly head: number },
  seq: number,
  withinMs: number = WITHIN_MS,
): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (seq > log.head) {
    if (performance.now() > deadline) return false;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return true;
}
