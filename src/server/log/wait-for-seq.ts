/** Another instance's appends are seen within milliseconds, unless the backbone is away. */
const WITHIN_MS = 2000;
const LOOK_MS = 50;

/** Whether this instance has seen the log up to a position; waits a moment for it. */
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
