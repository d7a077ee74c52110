import { type BackoffOptions, backoffMs, sleep } from '../lib/async.js';
import { errorText, failureFields, SyncError } from '../lib/errors.js';
import type { Logger } from '../lib/log.js';

/** Backoff of the requests, as of OPAL's clients (opal-protocol P8.2). */
const WAITS: BackoffOptions = { minMs: 1000, maxMs: 10_000 };

/** What waiting for the server works with. */
export interface ServerLoadDeps {
  /** Asks `GET /loadlimit`; throws unless the answer is 200. */
  readonly ask: (signal: AbortSignal) => Promise<void>;
  /** Called for each refusal. */
  readonly onRefused: (reason: string) => void;
  readonly log: Logger;
  readonly waits?: BackoffOptions;
}

/**
 * SYNC_WAIT_ON_SERVER_LOAD: resolves when the server has capacity for one more client. Retries for ever, not before the
 * server's `Retry-After`; rejects with the signal's reason when that aborts.
 */
export async function serverHasCapacity(deps: ServerLoadDeps, signal: AbortSignal): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await deps.ask(signal);
      if (attempt > 1) deps.log.info({ attempt }, 'the sync server takes one more client');
      return;
    } catch (error) {
      signal.throwIfAborted();
      const floorMs = error instanceof SyncError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
      const waitMs = backoffMs(attempt, deps.waits ?? WAITS, floorMs);
      const reason = errorText(error);
      deps.onRefused(reason);
      deps.log[attempt <= 5 ? 'info' : 'warn'](
        { attempt, retry_in_ms: Math.round(waitMs), ...failureFields(error) },
        'waiting for the sync server to take one more client',
      );
      await sleep(waitMs, signal);
    }
  }
}
