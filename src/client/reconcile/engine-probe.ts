import { withAnySignal } from '../../lib/any-signal.js';
import { isAbort, sleep } from '../../lib/async.js';
import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { EngineMarker } from '../engine/engine.js';

/** How often the engine is asked, and how long an answer may take. */
export interface EngineProbeOptions {
  readonly probeIntervalMs: number;
  readonly probeTimeoutMs: number;
}

/** Asks the engine for the marker: whether it answers, and still holds our state. */
export class EngineProbe {
  readonly #options: EngineProbeOptions;
  readonly #marker: EngineMarker;
  readonly #log: Logger;

  constructor(options: EngineProbeOptions, deps: { marker: EngineMarker; log: Logger }) {
    this.#options = options;
    this.#marker = deps.marker;
    this.#log = deps.log;
  }

  /** Returns whether the marker is there; throws when the engine does not answer. `wasOnline`: what the status says so far. */
  async look(wasOnline: boolean, signal: AbortSignal): Promise<boolean> {
    try {
      const ask = (within: AbortSignal): Promise<boolean> => this.#marker.isThere(within);
      const found = await withAnySignal([signal], ask, this.#options.probeTimeoutMs);
      if (!wasOnline) this.#log.info({}, 'the engine answers');
      return found;
    } catch (error) {
      if (wasOnline && !signal.aborted) this.#log.error(failureFields(error), 'the engine does not answer');
      throw error;
    }
  }

  /** Looks again and again until the signal aborts; `look` must not throw but for that. */
  async run(look: () => Promise<void>, signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        await sleep(probeWaitMs(this.#options), signal);
        await look();
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    }
  }
}

/**
 * Time between two looks. An engine that freezes right after a look is noticed when the next one has timed out; that is
 * within one interval (specification health.one-interval) as long as the time-out leaves half of the interval to wait.
 */
export function probeWaitMs({ probeIntervalMs, probeTimeoutMs }: EngineProbeOptions): number {
  return Math.max(probeIntervalMs - probeTimeoutMs, probeIntervalMs / 2);
}
