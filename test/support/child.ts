import { fork } from 'node:child_process';
import { once } from 'node:events';
import { basename } from 'node:path';

/** A process that does as it is told, one order after the other. `await using` ends it. */
export interface Child<Order, Report extends object> extends AsyncDisposable {
  readonly pid: number;
  /** Sends an order and answers the report on it. Throws what the process says has failed, and when it has ended. */
  order(what: Order): Promise<Exclude<Report, Failed>>;
}

/** A report that an order could not be carried out. */
export interface Failed {
  readonly failed: string;
}

/** Starts a module, by its path, in a process of its own. */
export function startChild<Order extends object, Report extends object>(path: string): Child<Order, Report> {
  const module = basename(path);
  const child = fork(path, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const kill = (): boolean => child.kill('SIGKILL');
  process.once('exit', kill);
  if (child.pid === undefined) throw new Error(`${module} cannot be started`);

  async function order(what: Order): Promise<Exclude<Report, Failed>> {
    const stopWaiting = new AbortController();
    const { signal } = stopWaiting;
    const ended = once(child, 'exit', { signal }).then(([code, by]) => {
      throw new Error(`${module} has ended: ${code ?? by}`);
    });
    const answer = once(child, 'message', { signal });
    child.send(what);
    try {
      const [report] = (await Promise.race([answer, ended])) as [Report];
      if ('failed' in report) throw new Error(String(report.failed));
      return report as Exclude<Report, Failed>;
    } finally {
      stopWaiting.abort();
      await Promise.allSettled([answer, ended]); // the one that lost ends with the signal
    }
  }

  return {
    pid: child.pid,
    order,
    [Symbol.asyncDispose]: async () => {
      process.removeListener('exit', kill);
      if (child.exitCode !== null || child.signalCode !== null) return;
      const ended = once(child, 'exit');
      kill();
      await ended;
    },
  };
}
