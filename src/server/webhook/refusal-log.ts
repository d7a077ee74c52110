import { failureFields, type SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';

/** Time between two lines: whoever likes may call, and must not be able to fill the log. */
const QUIET_MS = 1_000;

/**
 * Logs refused webhooks with their reason. At most one line a second; the next one says how many were left out. Of the request it
 * says nothing but what the error does: never the secret, nor what was sent in its place.
 */
export function createRefusalLog(log: Pick<Logger, 'warn'>, now: () => number = Date.now): (error: SyncError) => void {
  let loggedMs = Number.NEGATIVE_INFINITY;
  let leftOut = 0;
  return (error) => {
    if (now() - loggedMs < QUIET_MS) {
      leftOut++;
      return;
    }
    log.warn({ ...failureFields(error), ...(leftOut > 0 && { left_out: leftOut }) }, 'webhook refused');
    [loggedMs, leftOut] = [now(), 0];
  };
}
