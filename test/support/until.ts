/** Time between two looks, at first and once it takes long: most looks are requests, and all of them are work. */
const LOOK_MS = { soon: 10, later: 30, laterAfter: 500 };

/**
 * Waits until `condition` gives a value that is not false, null or undefined, and returns it; looks again and again. Fails
 * after `withinMs` with what was waited for, and with the last error where the condition threw.
 */
export async function until<T>(
  condition: () => T | false | null | undefined | Promise<T | false | null | undefined>,
  { withinMs, what }: { withinMs: number; what: string },
): Promise<T> {
  const startedMs = performance.now();
  const deadline = startedMs + withinMs;
  let lastError: unknown;
  for (;;) {
    try {
      const value = await condition();
      if (value !== false && value !== null && value !== undefined) return value;
      lastError = undefined;
    } catch (error) {
      // Not there yet; if it stays so, the failure below carries it.
      lastError = error;
    }
    const nowMs = performance.now();
    if (nowMs > deadline) {
      throw new Error(`not within ${withinMs} ms: ${what}`, lastError === undefined ? undefined : { cause: lastError });
    }
    const pauseMs = nowMs - startedMs < LOOK_MS.laterAfter ? LOOK_MS.soon : LOOK_MS.later;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
