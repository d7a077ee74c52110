import { EngineRefusal } from '../../embedded/vocabulary.js';
import { errorText, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { type BackoffOptions, Gate, SerialQueue, unlessAborted, withAnySignal } from '../../lib/run/async.js';
import { RetryLoop } from '../../lib/run/retry-loop.js';
import type { PolicyEngine } from '../engine/engine.js';
import type { EngineCopy } from './engine-copy.js';
import {
  type EngineEffect,
  type EngineEvent,
  EngineProbe,
  type EngineProbeOptions,
  type EngineState,
  engineTransition,
} from './engine-state.js';

const NOT_OURS = 'the engine does not hold our state yet';

/** Options of {@link EngineKeeper}. */
export interface EngineKeeperOptions extends EngineProbeOptions {
  /** The engine reports its start and end (our own child); otherwise it is assumed to be there. */
  readonly tellsStart: boolean;
  readonly probeEnabled: boolean;
  /**
   * Nothing is written before {@link EngineKeeper.resume} or {@link EngineKeeper.begin}. Default:
   * it may begin at once.
   */
  readonly mayResume?: boolean;
  readonly backoff: BackoffOptions;
}

/** Where the keeper shows how the engine is. */
export interface EngineStatus {
  readonly engine: { readonly online: boolean };
  engineSeen(online: boolean, error?: string): void;
}

/** What the keeper works with. */
export interface EngineKeeperDeps {
  readonly engine: PolicyEngine;
  readonly held: EngineCopy;
  readonly status: EngineStatus;
  readonly log: Logger;
}

/** What the keeper tells while it runs. */
export interface EngineEvents {
  /** An engine that had lost our state holds it again; not for the first fill. */
  readonly onRefilled?: () => void;
  /** An engine that was away, or in doubt, takes writes again. */
  readonly onBack?: () => void;
}

/**
 * Owns the way to the engine: one step at a time, and none before the engine holds our state.
 * `engine-state.ts` says what each event means; an engine that lost our state is filled from what
 * the client holds (design D23).
 */
export class EngineKeeper {
  readonly #options: EngineKeeperOptions;
  readonly #deps: EngineKeeperDeps;
  #events: EngineEvents = {};
  readonly #probe: EngineProbe;
  readonly #restoreLoop: RetryLoop;
  #state: EngineState;
  /** It has held our state before. */
  #hasHeld = false;
  readonly #queue = new SerialQueue();
  #signal: AbortSignal | undefined;
  readonly #present: Gate;
  /** Opens once it is known whether the client resumes with what the engine holds. */
  readonly #begun: Gate;
  /** A step is under way: what the client holds is about to change. */
  #stepping = false;
  /** What wants to look between two steps. */
  readonly #lookers: (() => void)[] = [];

  constructor(options: EngineKeeperOptions, deps: EngineKeeperDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#state = options.tellsStart ? 'gone' : 'starting';
    this.#present = new Gate(!options.tellsStart);
    this.#begun = new Gate(options.mayResume !== true);
    this.#probe = new EngineProbe(options, { marker: deps.engine.marker, log: deps.log });
    this.#restoreLoop = new RetryLoop('bringing the engine up to date', options.backoff, deps.log, async () => {
      await this.exclusive(() => Promise.resolve());
    });
  }

  /** The engine holds our state, as far as is known: also while one write to it is in doubt. */
  get isFilled(): boolean {
    return this.#state === 'holding' || this.#state === 'doubtful';
  }

  /** It held our state once, whatever happened to it since. */
  get wasFilled(): boolean {
    return this.#hasHeld;
  }

  /** The engine started, or started again: it holds nothing. */
  started(): void {
    this.#on('started');
  }

  /** The engine ended: nothing can be asked of it until it starts again. */
  ended(reason: string): void {
    this.#on('ended', reason);
  }

  #on(event: EngineEvent, reason?: string): void {
    const { next, effects } = engineTransition(this.#state, event);
    this.#state = next;
    if (next === 'gone') this.#present.close();
    else if (!this.#present.isOpen) this.#present.open();
    for (const effect of effects) this.#carryOut(effect, reason);
    this.#hasHeld ||= next === 'holding';
  }

  #carryOut(effect: EngineEffect, reason: string | undefined): void {
    const { status, log } = this.#deps;
    switch (effect) {
      case 'show_holding':
        status.engineSeen(true);
        break;
      case 'show_empty':
        status.engineSeen(false, NOT_OURS);
        break;
      case 'show_failure':
        status.engineSeen(false, reason);
        break;
      case 'warn_lost':
        log.warn({}, 'the engine lost our state: writing everything again');
        break;
      case 'restore':
        this.#restoreLoop.request();
        break;
      case 'nudge':
        this.#events.onBack?.();
        break;
      case 'tell_refilled':
        if (this.#hasHeld) this.#events.onRefilled?.();
    }
  }

  /**
   * Runs one engine step after all steps asked for before it; the engine has our state when it
   * starts. When `caller` aborts, a step that has not begun never begins; one that has begun comes
   * to its end.
   */
  readonly exclusive = <T>(step: (signal: AbortSignal) => Promise<T>, caller?: AbortSignal): Promise<T> => {
    let hasBegun = false;
    const result = this.#queue.run(async () => {
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
      if (this.#state !== 'holding') await this.#makeHold(signal);
      caller?.throwIfAborted();
      hasBegun = true;
      this.#stepping = true;
      try {
        return await step(signal);
      } catch (error) {
        if (!(error instanceof EngineRefusal)) this.#on('failed', errorText(error));
        throw error;
      } finally {
        this.#stepping = false;
        for (const look of this.#lookers.splice(0)) look();
      }
    });
    return caller === undefined ? result : unlessAborted(result, caller, () => hasBegun);
  };

  /**
   * Resumes with what the engine holds, without writing it again: `take` returns whether that is
   * what the client holds. Call it first, and {@link begin} afterwards whatever the result.
   */
  async resume(take: () => Promise<boolean>): Promise<boolean> {
    if (this.#begun.isOpen || !(await take())) return false;
    this.#hasHeld = true;
    this.#on('resumed');
    return true;
  }

  /**
   * From now on steps are taken; an engine that is not {@link resume}d is filled from what the
   * client holds.
   */
  begin(): void {
    this.#begun.open();
  }

  /**
   * Runs work between two steps, if the engine holds our state then; also when this does not run
   * any more.
   */
  ifHolding(work: () => Promise<void>): Promise<void> {
    return this.#queue.run(() => {
      return this.#state === 'holding' && this.#deps.held.isCertain ? work() : undefined;
    });
  }

  /**
   * Looks at what the client holds while no step changes it; never waits for an engine that is
   * away.
   */
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

  async #makeHold(signal: AbortSignal): Promise<void> {
    try {
      while (this.#state !== 'holding') {
        if (this.#state === 'doubtful') await this.#settle(signal);
        else if (this.#state !== 'gone') await this.#fill(signal);
        else throw new SyncError('engine_unreachable', 'the engine ended while it was filled', { retryable: true });
      }
    } catch (error) {
      if (!signal.aborted) this.#on('failed', errorText(error));
      if (!(error instanceof EngineRefusal)) throw error;
      // Nobody's step was refused, but what the engine held before: that is no verdict on what
      // waits for it.
      throw new SyncError('engine_unreachable', 'the engine refuses what it held before', {
        cause: error,
        retryable: true,
      });
    }
  }

  async #settle(signal: AbortSignal): Promise<void> {
    if (!(await this.#look(signal))) return;
    await this.#deps.held.settleDoubts(signal);
    this.#on('settled');
  }

  async #fill(signal: AbortSignal): Promise<void> {
    const { held, log } = this.#deps;
    const startedMs = Date.now();
    this.#on('fill');
    await held.restore(signal);
    this.#on('filled');
    if (this.#state !== 'holding') return;
    const content = { documents: held.layers.size, policy: held.policy?.hash ?? null };
    log.info({ duration_ms: Date.now() - startedMs, ...content }, 'engine holds our state');
  }

  /** Runs probe and restore until the signal aborts. */
  async run(events: EngineEvents, signal: AbortSignal): Promise<void> {
    this.#events = events;
    this.#signal = signal;
    this.#restoreLoop.request();
    await Promise.all([
      this.#restoreLoop.run(signal),
      this.#options.probeEnabled ? this.#probe.run(this.#watch(signal), signal) : undefined,
    ]);
    await this.#queue.settled();
  }

  /**
   * One look of the probe: an engine that answers is brought up to date without waiting for a
   * back-off.
   */
  #watch(signal: AbortSignal): () => Promise<void> {
    let wasSilent = false;
    return async () => {
      await this.#present.pass(signal);
      try {
        await this.#look(signal);
        if (this.#state !== 'holding' && wasSilent) this.#restoreLoop.restart();
        wasSilent = false;
      } catch {
        signal.throwIfAborted();
        wasSilent = true; // the look has told why
      }
      if (this.#state !== 'holding') this.#restoreLoop.request();
    };
  }

  /**
   * Asks the engine for the marker; what it says of a state that changed meanwhile counts for
   * nothing.
   */
  async #look(signal: AbortSignal): Promise<boolean> {
    const before = this.#state;
    try {
      const found = await this.#probe.look(this.#deps.status.engine.online, signal);
      if (this.#state === before) this.#on(found ? 'marked' : 'unmarked');
      return found && this.#state === before;
    } catch (error) {
      if (!signal.aborted) this.#on('silent', errorText(error));
      throw error;
    }
  }
}
