import { errorText, failureFields, SyncError } from '../errors.js';
import type { Logger } from '../observe/log.js';
import { type BackoffOptions, backoffMs, isAbort, Wakeup } from './async.js';

/**
 * One piece of work that is asked for again and again and must succeed once after the last time it
 * was asked for: requests coalesce, failures are tried again for ever with capped exponential
 * backoff and full jitter, `Retry-After` is a floor. A new request ends the wait, but not that of
 * the floor: the other side asked for it, and it alone takes that back.
 */
export class RetryLoop {
  readonly name: string;
  readonly #work: (signal: AbortSignal) => Promise<void>;
  readonly #backoff: BackoffOptions;
  readonly #log: Logger;
  readonly #wakeup = new Wakeup();
  #wanted = false;
  #busy = false;
  /** Failures in a row. */
  #attempt = 0;
  /** Until when the other side asked for no attempt, of `performance.now()`. */
  #notBefore = 0;
  #error: string | undefined;

  constructor(name: string, backoff: BackoffOptions, log: Logger, work: (signal: AbortSignal) => Promise<void>) {
    this.name = name;
    this.#backoff = backoff;
    this.#log = log;
    this.#work = work;
  }

  /** The last failure, until the work succeeds. */
  get error(): string | undefined {
    return this.#error;
  }

  /** True when nothing is under way or waits to be tried again. */
  get idle(): boolean {
    return !this.#wanted && !this.#busy;
  }

  /** Asks for the work to be done (again) now. */
  request(): void {
    this.#wanted = true;
    this.#wakeup.set();
  }

  /** What was in the way is gone: asks for the work now, and the waits begin small again. */
  restart(): void {
    this.#attempt = 0;
    this.request();
  }

  /** The other side takes back that it asked for time: {@link restart} at once. */
  isReady(): void {
    this.#notBefore = 0;
    this.restart();
  }

  /**
   * What was in the way may be gone: {@link restart} where a failure waits to be tried again, and
   * nothing else.
   */
  nudge(): void {
    if (this.#wanted && !this.#busy) this.restart();
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    let waitMs: number | undefined;
    for (;;) {
      try {
        await this.#wakeup.wait(signal, waitMs);
      } catch (error) {
        if (isAbort(error, signal)) return;
        throw error;
      }
      if (!this.#wanted) continue;
      const earlyMs = this.#notBefore - performance.now();
      if (earlyMs > 0) {
        waitMs = backoffMs(1, this.#backoff, earlyMs); // not all of a fleet at the same moment
        continue;
      }
      this.#wanted = false;
      this.#busy = true;
      try {
        await this.#work(signal);
        this.#attempt = 0;
        waitMs = undefined;
        this.#error = undefined;
      } catch (error) {
        if (isAbort(error, signal) || signal.aborted) return;
        const attempt = ++this.#attempt;
        this.#wanted = true;
        this.#error = errorText(error);
        const floorMs = error instanceof SyncError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
        this.#notBefore = performance.now() + floorMs;
        waitMs = backoffMs(attempt, this.#backoff, floorMs);
        const { remedy, ...failed } = failureFields(error);
        const line = { attempt, retry_in_ms: Math.round(waitMs), ...failed };
        // Louder as it lasts: a blip is not worth a page, an outage is.
        if (attempt <= 2) this.#log.info(line, `${this.name} failed, will try again`);
        else if (attempt <= 5) this.#log.warn({ ...line, remedy }, `${this.name} keeps failing`);
        else this.#log.error({ ...line, remedy }, `${this.name} keeps failing`);
      } finally {
        this.#busy = false;
      }
    }
  }
}
