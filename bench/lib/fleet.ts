import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

/** What the process is told. */
export type FleetOrder =
  | { readonly do: 'start'; readonly serverUrl: string; readonly count: number }
  /** From now on connections and what they lead to are those of a new round. */
  | { readonly do: 'reset' }
  | { readonly do: 'caught-up'; readonly seq: number; readonly withinMs: number };

/** What it answers, in the same order. */
export type FleetReport = { readonly failed: string } | { readonly comings: readonly Coming[] };

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
  const child = fork(join(import.meta.dirname, 'fleet-process.js'), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const kill = (): boolean => child.kill('SIGKILL');
  process.once('exit', kill);
  const order = async (what: FleetOrder): Promise<readonly Coming[]> => {
    child.send(what);
    const stopWaiting = new AbortController();
    const { signal } = stopWaiting;
    const ended = once(child, 'exit', { signal }).then(() => {
      throw new Error('the process of the clients has ended');
    });
    const answer = once(child, 'message', { signal });
    try {
      return comingsOf(((await Promise.race([answer, ended])) as [FleetReport])[0]);
    } finally {
      stopWaiting.abort();
      await Promise.allSettled([answer, ended]); // the one that lost ends with the signal
    }
  };
  return {
    start: async (serverUrl, count) => void (await order({ do: 'start', serverUrl, count })),
    reset: async () => void (await order({ do: 'reset' })),
    caughtUp: (seq, withinMs) => order({ do: 'caught-up', seq, withinMs }),
    [Symbol.asyncDispose]: async () => {
      process.removeListener('exit', kill);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      kill();
      await ended;
    },
  };
}

function comingsOf(report: FleetReport): readonly Coming[] {
  if ('failed' in report) throw new Error(report.failed);
  return report.comings;
}
