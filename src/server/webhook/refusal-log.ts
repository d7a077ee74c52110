import { failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';

/** Time between two lines: whoever likes may call, and must not be able to fill the log. */
const QUIET_MS = 1_000;

/** Does what judges a webhook; what it refuses is logged with the reason, and thrown on. */
export type RefusalLog = <T>(judge: () => T) => T;

/**
 * Makes a {@link RefusalLog}. At most one line a second; the next one says how many were left out. Of the request it says nothing
 * but what the error does: never the secret, nor what was sent in its place.
 */
export function createRefusalLog(log: Pick<Logger, 'warn'>, now: () => number = Date.now): RefusalLog {
  let loggedMs = Number.NEGATIVE_INFINITY;
  let leftOut = 0;
  return (judge) => {
    try {
      return judge();
    } catch (error) {
      if (!(error instanceof SyncError)) throw error; // logged as what it is, by who answers
      if (now() - loggedMs < QUIET_MS) leftOut++;
      else {
        log.warn({ ...failureFields(error), ...(leftOut > 0 && { left_out: leftOut }) }, 'webhook refused');
        [loggedMs, leftOut] = [now(), 0];
      }
      throw error;
    }
  };
}
