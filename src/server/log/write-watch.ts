import { type BackoffOptions, backoffMs, isAbort, sleep } from '../../lib/async.js';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { WriteStatus } from './log-store.js';

/** Delays between probes. */
const RETRY: BackoffOptions = { minMs: 1_000, maxMs: 30_000 };
/** A probe writes as much as was refused, and at most this. */
const PROBE_BYTES = 1024 * 1024;

/** What a watch works with. */
export interface WriteWatchDeps {
  /** {@link LogStore.probe}. */
  probe(bytes: number): Promise<void>;
  readonly log: Logger;
  readonly now: () => number;
}

interface Refused {
  readonly reason: string;
  readonly sinceMs: number;
  /** Of the largest write that was refused. */
  readonly bytes: number;
}

/**
 * Knows whether a store takes writes: by the outcome of each, and after a refusal by probes, so that a store that has room again is known
 * to have it before anybody publishes. A write proves something only about writes that are no larger.
 */
export class WriteWatch {
  readonly #deps: WriteWatchDeps;
  readonly #retry: BackoffOptions;
  readonly #stop = new AbortController();
  #refused: Refused | undefined;
  #probing: Promise<void> | undefined;

  constructor(deps: WriteWatchDeps, retry: BackoffOptions = RETRY) {
    this.#deps = deps;
    this.#retry = retry;
  }

  get status(): WriteStatus {
    if (this.#refused === undefined) return { ok: true };
    const { reason, sinceMs } = this.#refused;
    return { ok: false, reason, sinceMs };
  }

  /** Runs a write of so many bytes. `wrote`: how many of them it did write. Rejects like the write. */
  async during<T>(bytes: number, write: () => Promise<T>, wrote: (result: T) => number = () => bytes): Promise<T> {
    try {
      const result = await write();
      this.#took(wrote(result));
      return result;
    } catch (error) {
      this.#failed(error, bytes);
      throw error;
    }
  }

  /** Ends the probes. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#probing;
  }

  #took(bytes: number): void {
    if (this.#refused === undefined || bytes < Math.min(this.#refused.bytes, PROBE_BYTES)) return;
    const { sinceMs } = this.#refused;
    this.#refused = undefined;
    this.#deps.log.info({ refused_ms: this.#deps.now() - sinceMs }, 'the update log takes writes again');
  }

  #failed(error: unknown, bytes: number): void {
    const refusal = refusalIn(error);
    if (refusal === undefined) return;
    const { sinceMs = this.#deps.now(), bytes: most = 1 } = this.#refused ?? {};
    // The cause alone, since the message has the path of the file and this is shown to everyone.
    const reason = refusal.cause === undefined ? 'see the server log' : errorText(refusal.cause);
    this.#refused = { reason, sinceMs, bytes: Math.max(most, bytes) };
    if (!this.#stop.signal.aborted) this.#probing ??= this.#probe();
  }

  /** Probes until the store takes writes. Never rejects. */
  async #probe(): Promise<void> {
    const { probe, log } = this.#deps;
    const { signal } = this.#stop;
    try {
      for (let attempt = 1; this.#refused !== undefined; attempt++) {
        await sleep(backoffMs(attempt, this.#retry), signal);
        const bytes = Math.min(this.#refused?.bytes ?? 0, PROBE_BYTES);
        if (bytes === 0) return; // a write was taken meanwhile
        await this.during(bytes, () => probe(bytes)).catch((error: unknown) => log.debug(failureFields(error), PROBED));
      }
    } catch (error) {
      if (!isAbort(error, signal)) log.error(failureFields(error, 'stack'), 'unexpected failure');
    } finally {
      this.#probing = undefined;
    }
  }
}

const PROBED = 'the update log still refuses writes';

/** The refusal, also where it is the reason that only a part was written; undefined: the error is of another kind. */
function refusalIn(error: unknown): SyncError | undefined {
  if (!(error instanceof SyncError)) return undefined;
  return error.code === 'log_unwritable' ? error : refusalIn(error.cause);
}
