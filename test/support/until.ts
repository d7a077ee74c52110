import { availableParallelism, loadavg } from 'node:os';

/** Time between two looks: a tenth of what the wait has taken, since most looks are requests, and all of them are work. */
const LOOK_MS = { least: 10, most: 100 };

/**
 * Waits until `condition` gives a value that is not false, null or undefined, and returns it; looks again and again. Fails
 * after `withinMs` with what was waited for, and with the last error where the condition threw. The limit is for a machine without
 * other work: see {@link patience}. What can no longer come is not waited for: `unless` ends the wait when it settles, with its
 * reason where it rejects.
 */
export async function until<T>(
  condition: () => T | false | null | undefined | Promise<T | false | null | undefined>,
  { withinMs, what, unless }: { withinMs: number; what: string; unless?: Promise<unknown> },
): Promise<T> {
  const startedMs = performance.now();
  let lastError: unknown;
  let over: { readonly reason: unknown } | undefined;
  unless?.then(
    () => {
      over = { reason: new Error(`it ended before: ${what}`) };
    },
    (reason: unknown) => {
      over = { reason };
    },
  );
  for (;;) {
    try {
      const value = await condition();
      if (value !== false && value !== null && value !== undefined) return value;
      lastError = undefined;
    } catch (error) {
      // Not there yet; if it stays so, the failure below carries it.
      lastError = error;
    }
    if (over !== undefined) throw over.reason;
    const nowMs = performance.now();
    if (nowMs - startedMs > withinMs && nowMs - startedMs > withinMs * patience()) {
      throw new Error(
        `not within ${Math.round(nowMs - startedMs)} ms: ${what}`,
        lastError === undefined ? undefined : { cause: lastError },
      );
    }
    const pauseMs = Math.min(LOOK_MS.most, Math.max(LOOK_MS.least, (nowMs - startedMs) / 10));
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}

/**
 * How much longer things may take than on a machine without other work: as often as more is runnable than there are processors,
 * by the load of the last minute.
 */
export function patience(): number {
  const [runnable = 0] = loadavg();
  return Math.max(1, Math.ceil(runnable / availableParallelism()));
}
