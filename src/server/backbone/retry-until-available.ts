import { backoffMs, sleep } from '../../lib/async.js';
import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { isBackboneAway } from '../log/log-store.js';
import { BACKBONE_TIMES } from './session-keeper.js';

const BACKOFF = { minMs: 100, maxMs: 2000 };

/**
 * Does a step of a start that asks the backbone: where that went away meanwhile the step is made again, for as long as a
 * start waits for a backbone. Only for steps that may be made twice. Rejects like the step; with `backbone_unavailable`
 * when the time is up; with its reason when the signal aborts the wait.
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
      log.warn({ ...failureFields(error), delay_ms: Math.round(delayMs) }, 'the backbone went away amid the start');
      await sleep(delayMs, signal);
    }
  }
}
