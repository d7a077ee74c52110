import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { isAbort, sleep, withAnySignal } from '../../lib/run/async.js';
import type { EngineMarker } from '../engine/engine.js';

/**
 * What the client knows of its engine, as a table without I/O (docs/internals/states.md). Steps are
 * taken in `holding` only. `starting`: it is there and holds nothing of ours, or not all of it.
 * `filling`: everything is being written to it. `doubtful`: a call failed, so it may have
 * restarted; its marker tells. `gone`: it is not there; everything waits.
 */
export type EngineState = 'starting' | 'filling' | 'holding' | 'doubtful' | 'gone';

/** What happens to it. */
export type EngineEvent =
  /**
   * Its process runs and holds nothing; also in the middle of a fill, which then counts for
   * nothing.
   */
  | 'started'
  /** Its process ended. */
  | 'ended'
  /** It holds the content of a backup. */
  | 'resumed'
  /** Writing everything begins, and is complete. */
  | 'fill'
  | 'filled'
  /** Whatever was in doubt is written again. */
  | 'settled'
  /** A step or a fill failed, and it is not known what of it took effect. */
  | 'failed'
  /** It has our marker, has it not, or does not answer. */
  | 'marked'
  | 'unmarked'
  | 'silent';

/** What has to be done, in order. */
export type EngineEffect =
  /** Show in the status that it holds our state, that it does not yet, or why the call failed. */
  | 'show_holding'
  | 'show_empty'
  | 'show_failure'
  | 'warn_lost'
  /** Bring it up to date, also where no step waits. */
  | 'restore'
  /** Try now what waits for it. */
  | 'nudge'
  /** Tell that an engine that had lost our state has it again; nothing where it never had. */
  | 'tell_refilled';

interface EngineOutcome {
  readonly next: EngineState;
  readonly effects: readonly EngineEffect[];
}

const to = (next: EngineState, ...effects: EngineEffect[]): EngineOutcome => ({ next, effects });

const EMPTY = to('starting', 'show_empty', 'restore');
const AWAY = to('gone', 'show_failure');

/** What is left out changes nothing. */
const TABLE: Record<EngineEvent, Partial<Record<EngineState, EngineOutcome>>> = {
  started: { gone: EMPTY, starting: EMPTY, filling: EMPTY, holding: EMPTY, doubtful: EMPTY },
  ended: { gone: AWAY, starting: AWAY, filling: AWAY, holding: AWAY, doubtful: AWAY },
  resumed: { starting: to('doubtful') },
  fill: { starting: to('filling') },
  filled: { filling: to('holding', 'show_holding', 'nudge', 'tell_refilled') },
  settled: { doubtful: to('holding', 'show_holding', 'nudge') },
  failed: {
    filling: to('starting', 'show_failure'),
    holding: to('doubtful', 'restore'),
    doubtful: to('doubtful', 'show_failure'),
  },
  marked: {
    starting: to('starting', 'show_empty'),
    filling: to('filling', 'show_empty'),
    holding: to('holding', 'show_holding'),
    doubtful: to('doubtful', 'show_holding'),
  },
  unmarked: {
    starting: to('starting', 'show_empty'),
    filling: to('filling', 'show_empty'),
    holding: to('starting', 'warn_lost', 'show_empty', 'restore'),
    doubtful: to('starting', 'show_empty'),
  },
  silent: {
    starting: to('starting', 'show_failure'),
    filling: to('filling', 'show_failure'),
    holding: to('doubtful', 'show_failure', 'restore'),
    doubtful: to('doubtful', 'show_failure'),
  },
};

/** The cell for a state and an event. */
export function engineTransition(state: EngineState, event: EngineEvent): EngineOutcome {
  return TABLE[event][state] ?? to(state);
}

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

  /**
   * Returns whether the marker is there; throws when the engine does not answer. `wasOnline`: what
   * the status says so far.
   */
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
 * Time between two looks. An engine that freezes right after a look is noticed when the next one
 * has timed out; that is within one interval (specification health.one-interval) as long as the
 * time-out leaves half of the interval to wait.
 */
export function probeWaitMs({ probeIntervalMs, probeTimeoutMs }: EngineProbeOptions): number {
  return Math.max(probeIntervalMs - probeTimeoutMs, probeIntervalMs / 2);
}
