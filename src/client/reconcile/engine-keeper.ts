import { withAnySignal } from '../../lib/any-signal.js';
import { type BackoffOptions, Gate, isAbort, sleep } from '../../lib/async.js';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { RetryLoop } from '../../lib/retry-loop.js';
import { EngineRefusal, type PolicyEngine } from '../engine/engine.js';
import type { Status } from '../status/status.js';
import type { Applier } from './applier.js';

const NOT_OURS = 'the engine does not hold our state yet';

/** How the keeper looks after the engine. */
export interface EngineKeeperOptions {
  /** The engine tells when it starts and ends (our own child); otherwise it is taken to be there. */
  readonly tellsStart: boolean;
  readonly probeEnabled: boolean;
  readonly probeIntervalMs: number;
  readonly probeTimeoutMs: number;
  /** Nothing is written before {@link EngineKeeper.resume} or {@link EngineKeeper.begin}. Default: it may begin at once. */
  readonly mayResume?: boolean;
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
  /** Called when an engine that had started anew holds our state again; not for the first start. */
  readonly #onRefilled: () => void;
  /** Called when an engine that was away, or in doubt, takes writes again. */
  readonly #onBack: () => void;
  #wasOurs = false;
  /** The last look at the engine had no answer. */
  #isSilent = false;
  readonly #restoreLoop: RetryLoop;
  #tail: Promise<unknown> = Promise.resolve();
  #signal: AbortSignal | undefined;
  /** `lost`: write everything; `doubtful`: look at the marker first. */
  #state: 'lost' | 'doubtful' | 'ours' = 'lost';
  /** Counts what was lost: a restore that was overtaken by the next loss has to be made again. */
  #losses = 0;
  readonly #present: Gate;
  /** Opens once it is known whether the client goes on with what the engine holds. */
  readonly #begun: Gate;
  /** A step is under way: what the client holds is about to change. */
  #stepping = false;
  /** What wants to look between two steps. */
  readonly #lookers: (() => void)[] = [];

  constructor(
    options: EngineKeeperOptions,
    deps: {
      engine: PolicyEngine;
      applier: Applier;
      status: Status;
      log: Logger;
      onRefilled?: () => void;
      onBack?: () => void;
    },
  ) {
    this.#options = options;
    this.#present = new Gate(!options.tellsStart);
    this.#begun = new Gate(options.mayResume !== true);
    this.#engine = deps.engine;
    this.#applier = deps.applier;
    this.#status = deps.status;
    this.#log = deps.log;
    this.#onRefilled = deps.onRefilled ?? (() => undefined);
    this.#onBack = deps.onBack ?? (() => undefined);
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

  /**
   * Runs one engine step after all steps asked for before it; the engine has our state when it starts. When `caller`
   * aborts, a step that has not begun never begins; one that has begun comes to its end.
   */
  readonly exclusive = <T>(step: (signal: AbortSignal) => Promise<T>, caller?: AbortSignal): Promise<T> => {
    let hasBegun = false;
    const result = this.#tail.then(async () => {
      const signal = this.#signal;
      if (signal === undefined) throw new Error('the engine keeper does not run');
      signal.throwIfAborted();
      if (!this.#begun.isOpen || !this.#present.isOpen) {
        await withAnySignal(caller === undefined ? [signal] : [signal, caller], async (either) => {
          await this.#begun.pass(either);
          await this.#present.pass(either);
        });
      }
      caller?.throwIfAborted();
      await this.#ensureOurs(signal);
      caller?.throwIfAborted();
      hasBegun = true;
      this.#stepping = true;
      try {
        return await step(signal);
      } catch (error) {
        if (!(error instanceof EngineRefusal) && this.#state === 'ours') {
          this.#state = 'doubtful';
          this.#restoreLoop.request();
        }
        throw error;
      } finally {
        this.#stepping = false;
        for (const look of this.#lookers.splice(0)) look();
      }
    });
    // The chain goes on whatever became of this step; its caller has the failure.
    this.#tail = result.catch(() => undefined);
    return caller === undefined ? result : untilAborted(result, caller, () => hasBegun);
  };

  /**
   * Goes on with what the engine holds, without writing it again: `take` makes sure that it is what the client holds, and
   * answers whether. Call it before anything else is done, and {@link begin} whatever becomes of it.
   */
  async resume(take: () => Promise<boolean>): Promise<boolean> {
    if (this.#begun.isOpen || !(await take())) return false;
    // Looked at once more, as after a failure: whatever is not as it should be is written.
    this.#state = 'doubtful';
    this.#wasOurs = true;
    return true;
  }

  /** From now on steps are taken; an engine that is not {@link resume}d is filled from what the client holds. */
  begin(): void {
    this.#begun.open();
  }

  /** Runs work between two steps, if the engine has our state then; also when this does not run any more. */
  ifOurs(work: () => Promise<void>): Promise<void> {
    const result = this.#tail.then(() => (this.#state === 'ours' && this.#applier.isCertain ? work() : undefined));
    // The chain goes on whatever became of it; its caller has the failure.
    this.#tail = result.catch(() => undefined);
    return result;
  }

  /** Looks at what the client holds while no step changes it; never waits for an engine that is away. */
  between<T>(look: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      const go = (): void => {
        try {
          resolve(look());
        } catch (error) {
          reject(error);
        }
      };
      if (this.#stepping) this.#lookers.push(go);
      else go();
    });
  }

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
        this.#onBack();
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
    this.#onBack();
    if (this.#wasOurs) this.#onRefilled();
    this.#wasOurs = true;
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
        await sleep(probeWaitMs(this.#options), signal);
        await this.#present.pass(signal);
        const known = this.#state;
        const wasSilent = this.#isSilent;
        try {
          const ours = await this.#look(signal);
          // It answers: what waits to bring it up to date waits no longer.
          if (this.#state !== 'ours') {
            if (wasSilent) this.#restoreLoop.restart();
            else this.#restoreLoop.request();
          }
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
      const ask = (within: AbortSignal): Promise<boolean> => this.#engine.marker.isThere(within);
      const found = await withAnySignal([signal], ask, this.#options.probeTimeoutMs);
      this.#isSilent = false;
      if (!before) this.#log.info({}, 'the engine answers');
      const isOurs = found && this.#state !== 'lost';
      this.#status.engineSeen(isOurs, isOurs ? undefined : NOT_OURS);
      return found;
    } catch (error) {
      if (!signal.aborted) {
        this.#isSilent = true;
        if (before) this.#log.error(failureFields(error), 'the engine does not answer');
        this.#status.engineSeen(false, errorText(error));
      }
      throw error;
    }
  }
}

/**
 * Time between two looks. An engine that freezes right after a look is noticed when the next one has timed out; that is
 * within one interval (spec "Health states") as long as the time-out leaves half of the interval to wait.
 */
export function probeWaitMs(options: { probeIntervalMs: number; probeTimeoutMs: number }): number {
  const { probeIntervalMs, probeTimeoutMs } = options;
  return Math.max(probeIntervalMs - probeTimeoutMs, probeIntervalMs / 2);
}

/** Rejects as soon as the signal aborts, unless the work has begun by then. */
function untilAborted<T>(work: Promise<T>, signal: AbortSignal, hasBegun: () => boolean): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => {
      if (!hasBegun()) reject(signal.reason);
    };
    if (signal.aborted) onAbort();
    signal.addEventListener('abort', onAbort, { once: true });
    const done = (): void => signal.removeEventListener('abort', onAbort);
    work.then(
      (value) => {
        done();
        resolve(value);
      },
      (error: unknown) => {
        done();
        reject(error);
      },
    );
  });
}
