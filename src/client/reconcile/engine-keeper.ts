import { errorText, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { type BackoffOptions, Gate, isAbort, sleep } from '../../lib/loop.js';
import { EngineRefusal, type PolicyEngine } from '../engine/engine.js';
import type { Status } from '../status.js';
import type { Applier } from './applier.js';
import { RetryLoop } from './retry-loop.js';

const NOT_OURS = 'the engine does not hold our state yet';

/** How the keeper looks after the engine. */
export interface EngineKeeperOptions {
  /** The engine tells when it starts and ends (our own child); otherwise it is taken to be there. */
  readonly tellsStart: boolean;
  readonly probeEnabled: boolean;
  readonly probeIntervalMs: number;
  readonly probeTimeoutMs: number;
  readonly backoff: BackoffOptions;
}

/**
 * Owns the way to the engine: one step at a time, and none before the engine has our state. An engine that started anew
 * is noticed by its process, by the marker document that is gone, or after any failed call; then everything is written
 * again from what the client holds (design 9.7).
 */
export class EngineKeeper {
  readonly #options: EngineKeeperOptions;
  readonly #engine: PolicyEngine;
  readonly #applier: Applier;
  readonly #status: Status;
  readonly #log: Logger;
  readonly #restoreLoop: RetryLoop;
  #tail: Promise<unknown> = Promise.resolve();
  #signal: AbortSignal | undefined;
  /** `lost`: write everything; `doubtful`: look at the marker first. */
  #state: 'lost' | 'doubtful' | 'ours' = 'lost';
  /** Counts what was lost: a restore that was overtaken by the next loss has to be made again. */
  #losses = 0;
  readonly #present: Gate;

  constructor(
    options: EngineKeeperOptions,
    deps: { engine: PolicyEngine; applier: Applier; status: Status; log: Logger },
  ) {
    this.#options = options;
    this.#present = new Gate(!options.tellsStart);
    this.#engine = deps.engine;
    this.#applier = deps.applier;
    this.#status = deps.status;
    this.#log = deps.log;
    this.#restoreLoop = new RetryLoop('bringing the engine up to date', options.backoff, deps.log, async () => {
      await this.exclusive(() => Promise.resolve());
    });
  }

  /** The engine started, or started again: it holds nothing. */
  lost(): void {
    this.#losses++;
    this.#state = 'lost';
    this.#status.engineSeen(false, NOT_OURS);
    this.#present.open();
    this.#restoreLoop.request();
  }

  /** The engine ended: nothing can be asked of it until it starts again. */
  gone(reason: string): void {
    this.#present.close();
    this.#state = 'lost';
    this.#status.engineSeen(false, reason);
  }

  /** Runs one engine step after all steps asked for before it; the engine has our state when it starts. */
  readonly exclusive = <T>(step: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    const result = this.#tail.then(async () => {
      const signal = this.#signal;
      if (signal === undefined) throw new Error('the engine keeper does not run');
      await this.#present.pass(signal);
      await this.#ensureOurs(signal);
      try {
        return await step(signal);
      } catch (error) {
        if (!(error instanceof EngineRefusal) && this.#state === 'ours') {
          this.#state = 'doubtful';
          this.#restoreLoop.request();
        }
        throw error;
      }
    });
    // The chain goes on whatever became of this step; its caller has the failure.
    this.#tail = result.catch(() => undefined);
    return result;
  };

  async #ensureOurs(signal: AbortSignal): Promise<void> {
    if (this.#state === 'ours') return;
    try {
      await this.#makeOurs(signal);
    } catch (error) {
      if (!signal.aborted) this.#status.engineSeen(false, errorText(error));
      if (!(error instanceof EngineRefusal)) throw error;
      // Nobody's step was refused, but what the engine held before: that is no verdict on what waits for it.
      throw new SyncError('engine_unreachable', 'the engine refuses what it held before', {
        cause: error,
        retryable: true,
      });
    }
  }

  async #makeOurs(signal: AbortSignal): Promise<void> {
    if (this.#state === 'doubtful') {
      if (await this.#look(signal)) {
        await this.#applier.settleDoubts(signal);
        this.#state = 'ours';
        this.#status.engineSeen(true);
        return;
      }
      this.#state = 'lost';
    }
    const startedMs = Date.now();
    while (this.#state !== 'ours') {
      const losses = this.#losses;
      await this.#applier.restore(signal);
      if (losses === this.#losses) this.#state = 'ours';
    }
    this.#status.engineSeen(true);
    this.#log.info(
      {
        duration_ms: Date.now() - startedMs,
        documents: this.#applier.layers.size,
        policy: this.#applier.policy?.hash ?? null,
      },
      'engine holds our state',
    );
  }

  /** Runs probe and restore until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    this.#signal = signal;
    this.#restoreLoop.request();
    await Promise.all([
      this.#restoreLoop.run(signal),
      this.#options.probeEnabled ? this.#probe(signal) : Promise.resolve(),
    ]);
    await this.#tail;
  }

  async #probe(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        await sleep(this.#options.probeIntervalMs, signal);
        await this.#present.pass(signal);
        const known = this.#state;
        try {
          const ours = await this.#look(signal);
          if (known === 'ours' && this.#state === 'ours' && !ours) {
            this.#log.warn({}, 'the engine lost our state: writing everything again');
            this.lost();
          }
        } catch (error) {
          if (isAbort(error, signal) || signal.aborted) return;
          if (this.#state === 'ours') this.#state = 'doubtful';
          this.#restoreLoop.request();
        }
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    }
  }

  /** Asks the engine for the marker, and records whether it answers. */
  async #look(signal: AbortSignal): Promise<boolean> {
    const before = this.#status.engine.online;
    try {
      const found = await this.#engine.hasMarker(
        AbortSignal.any([signal, AbortSignal.timeout(this.#options.probeTimeoutMs)]),
      );
      if (!before) this.#log.info({}, 'the engine answers');
      const isOurs = found && this.#state !== 'lost';
      this.#status.engineSeen(isOurs, isOurs ? undefined : NOT_OURS);
      return found;
    } catch (error) {
      if (!signal.aborted) {
        if (before) this.#log.error({ error: errorText(error) }, 'the engine does not answer');
        this.#status.engineSeen(false, errorText(error));
      }
      throw error;
    }
  }
}
