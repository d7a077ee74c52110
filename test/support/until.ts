/**
 * Waits until `condition` gives a value that is not false, null or undefined, and returns it; looks every 10 ms. Fails
 * after `withinMs` with what was waited for, and with the last error where the condition threw.
 */
export async function until<T>(
  condition: () => T | false | null | undefined | Promise<T | false | null | undefined>,
  { withinMs, what }: { withinMs: number; what: string },
): Promise<T> {
  const deadline = performance.now() + withinMs;
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
    if (performance.now() > deadline) {
      throw new Error(`not within ${withinMs} ms: ${what}`, lastError === undefined ? undefined : { cause: lastError });
    }
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
