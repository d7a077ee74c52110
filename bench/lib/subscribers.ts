import { join } from 'node:path';
import { type Failed, startChild } from '../../test/support/child.js';

/** What the process is told. */
export type Order =
  | {
      readonly do: 'connect';
      readonly serverUrl: string;
      readonly count: number;
      readonly topic: string;
      readonly answer: boolean;
      readonly ours?: string | undefined;
    }
  | { readonly do: 'stall'; readonly count: number }
  | { readonly do: 'round'; readonly mark: number; readonly expected: number; readonly withinMs: number };

/** What it answers, in the same order. */
export type Report = Failed | { readonly timesMs: readonly number[] };

/**
 * Subscribers without engines, in one process of their own: the load generator for every system. They speak OPAL's protocol
 * with as little work as can be. `await using` ends them.
 */
export interface Subscribers extends AsyncDisposable {
  /** Adds so many, and returns when all are subscribed; answers how long each took, in ms. */
  connect(count: number): Promise<readonly number[]>;
  /** Those that were added last read nothing any more. */
  stall(count: number): Promise<void>;
  /**
   * Runs `publish`, which must publish one update with the reason `markOf(mark)`, and waits for `expected` subscribers to get it.
   * Answers, for each that did within the time, the ms since the call of `publish`.
   */
  round(
    mark: number,
    expected: number,
    publish: (reason: string) => Promise<void>,
    withinMs?: number,
  ): Promise<readonly number[]>;
}

/** The reason by which a publication is recognized. */
export function markOf(mark: number): string {
  return `mark:${mark};`;
}

/**
 * Starts the process. `answer`: they answer each notification, as OPAL's clients do. `ours`: they are clients of ours whose names begin so, and
 * report what they are told of.
 */
export function subscribers(
  serverUrl: string,
  { answer, topic = 'policy_data', ours }: { answer: boolean; topic?: string; ours?: string },
): Subscribers {
  const child = startChild<Order, Report>(join(import.meta.dirname, 'subscribers-process.js'));
  const order = async (what: Order): Promise<readonly number[]> => (await child.order(what)).timesMs;
  return {
    connect: (count) => order({ do: 'connect', serverUrl, count, topic, answer, ours }),
    stall: async (count) => void (await order({ do: 'stall', count })),
    round: async (mark, expected, publish, withinMs = 10_000) => {
      const times = order({ do: 'round', mark, expected, withinMs });
      const startMs = nowMs();
      const [arrived] = await Promise.all([times, publish(markOf(mark))]);
      return arrived.map((ms) => ms - startMs);
    },
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  };
}

/** A clock that is the same in every process of the machine. */
export function nowMs(): number {
  return Number(process.hrtime.bigint() / 1000n) / 1000;
}
