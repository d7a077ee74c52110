import type { Logger } from '../../lib/observe/log.js';
import { type BackoffOptions, sleep } from '../../lib/run/async.js';
import { RetryLoop } from '../../lib/run/retry-loop.js';
import type { DocPath } from '../../wire/doc-path.js';
import type { PolicyEngine } from '../engine/engine.js';
import type { Status } from '../status/status.js';
import { healthDocument } from './health-document.js';

/**
 * Least time between two writes: many small transactions a second must not become as many writes of
 * this document.
 */
const PAUSE_MS = 50;

/** State of the health document in the engine. */
export interface HealthWriterState {
  /** The engine has the newest one. */
  readonly written: boolean;
  /** Why the last write failed, until one succeeds. */
  readonly error: string | undefined;
}

/**
 * Keeps the health document in the engine current: writes it after every transaction and whenever
 * the engine is back, once for changes that come together. It is plain base data, so that nothing
 * is compiled for it (design D13). Nothing waits for it: a failed write is retried and changes no
 * transaction.
 */
export class HealthWriter {
  readonly #paths: readonly DocPath[];
  readonly #engine: PolicyEngine;
  readonly #status: Status;
  readonly #loop: RetryLoop;
  /** What the engine has, as far as this knows; undefined since it was away. */
  #written: string | undefined;
  /** Counts how often the engine was away. */
  #absences = 0;

  constructor(
    options: { paths: readonly DocPath[]; backoff: BackoffOptions },
    deps: { engine: PolicyEngine; status: Status; log: Logger },
  ) {
    this.#paths = options.paths;
    this.#engine = deps.engine;
    this.#status = deps.status;
    this.#loop = new RetryLoop('writing the health document', options.backoff, deps.log, (signal) =>
      this.#write(signal),
    );
    deps.status.watch(() => this.#statusChanged());
  }

  get state(): HealthWriterState {
    const isNewest = this.#written === JSON.stringify(healthDocument(this.#status));
    return { written: isNewest, error: this.#loop.error };
  }

  /** Runs until the signal aborts. */
  run(signal: AbortSignal): Promise<void> {
    this.#loop.request();
    return this.#loop.run(signal);
  }

  #statusChanged(): void {
    // An engine that was away may be another one when it is back.
    if (!this.#status.engine.online) {
      this.#written = undefined;
      this.#absences++;
    }
    this.#loop.request();
  }

  async #write(signal: AbortSignal): Promise<void> {
    // Its return is a change of the status, which asks for this again.
    if (!this.#status.engine.online) return;
    const text = JSON.stringify(healthDocument(this.#status));
    if (text === this.#written) return;
    this.#written = undefined;
    const absences = this.#absences;
    for (const path of this.#paths) await this.#engine.writeReserved(path, text, signal);
    if (absences === this.#absences) this.#written = text;
    await sleep(PAUSE_MS, signal);
  }
}
