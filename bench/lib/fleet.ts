import { join } from 'node:path';
import { type Failed, startChild } from '../../test/support/child.js';

/** What the process is told. */
export type FleetOrder =
  | { readonly do: 'start'; readonly serverUrl: string; readonly count: number }
  /** From now on connections and what they lead to are those of a new round. */
  | { readonly do: 'reset' }
  | { readonly do: 'caught-up'; readonly seq: number; readonly withinMs: number };

/** What it answers, in the same order. */
export type FleetReport = Failed | { readonly comings: readonly Coming[] };

/** How one client came back, on the clock of `nowMs`. */
export interface Coming {
  /** When it was connected again. */
  readonly connectedMs: number;
  /** Over how long the server asked to spread the catch-up. */
  readonly spreadMs: number;
  /** When its random part of that was over, and it asked for the updates. */
  readonly askedMs: number;
  /** When it had all of them, and had looked at its sources. */
  readonly caughtUpMs: number;
}

/**
 * Clients of ours without engines, all in one process of their own: what they ask, and when, is what real ones ask.
 * `await using` ends them.
 */
export interface Fleet extends AsyncDisposable {
  /** Returns when all have subscribed and have the position of the server. */
  start(serverUrl: string, count: number): Promise<void>;
  /** Call before the server goes. */
  reset(): Promise<void>;
  /** Waits until all have connected again, have applied all updates up to `seq`, and have nothing under way. */
  caughtUp(seq: number, withinMs: number): Promise<readonly Coming[]>;
}

/** Starts the process. */
export function startFleet(): Fleet {
  const child = startChild<FleetOrder, FleetReport>(join(import.meta.dirname, 'fleet-process.js'));
  return {
    start: async (serverUrl, count) => void (await child.order({ do: 'start', serverUrl, count })),
    reset: async () => void (await child.order({ do: 'reset' })),
    caughtUp: async (seq, withinMs) => (await child.order({ do: 'caught-up', seq, withinMs })).comings,
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}
