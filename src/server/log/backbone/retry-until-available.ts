import { failureFields } from '../../../lib/errors.js';
import type { Logger } from '../../../lib/observe/log.js';
import { backoffMs, sleep } from '../../../lib/run/async.js';
import { isBackboneAway } from '../log-store.js';
import { BACKBONE_TIMES } from './session-keeper.js';

const BACKOFF = { minMs: 100, maxMs: 2000 };

/**
 * Runs a step of a start, and retries it while the backbone is unavailable, for at most
 * {@link BackboneTimes.openMs}. The step must be safe to repeat. Rejects like the step, after a
 * timeout with its last error, or with the signal's reason if that aborts the wait.
 */
export async function retryUntilAvailable<T>(
  step: () => Promise<T>,
  { log, signal }: { log: Logger; signal: AbortSignal },
): Promise<T> {
  const deadline = performance.now() + BACKBONE_TIMES.openMs;
  for (let attempt = 1; ; attempt++) {
    try {
      return await step();
    } catch (error) {
      const delayMs = backoffMs(attempt, BACKOFF);
      if (!isBackboneAway(error) || performance.now() + delayMs > deadline) throw error;
      log.warn(
        { ...failureFields(error), delay_ms: Math.round(delayMs) },
        'the backbone became unavailable during the start',
      );
      await sleep(delayMs, signal);
    }
  }
}
