import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { isStopped } from './frozen-process.js';
import { until } from './until.js';

/** A server program of one test, that can be killed, frozen and started again. */
export interface ServerProcess {
  /** Starts it and returns when `ready` gives no error. */
  start(): Promise<void>;
  /** SIGKILL, as a power cut would; its child processes go too. */
  kill(): Promise<void>;
  /** SIGSTOP: connections stay, nothing answers. Returns when it stands still. */
  freeze(): Promise<void>;
  /** SIGCONT. */
  thaw(): void;
}

/** A start after a kill repairs files first, which takes long where the disk has other work. */
const START_MS = 90_000;

/** What {@link serverProcess} runs. */
export interface ServerCommand {
  readonly path: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  readonly uid?: number;
  readonly gid?: number;
  /** Rejects while it does not answer. */
  ready(): Promise<unknown>;
}

export function serverProcess(command: ServerCommand): ServerProcess {
  const { path, args, cwd, env, uid, gid } = command;
  let child: ChildProcess | undefined;
  let printed = '';
  const family = (): number[] => (child?.pid === undefined ? [] : [child.pid, ...childrenOf(child.pid)]);
  const signal = (name: NodeJS.Signals): void => {
    for (const pid of family()) send(pid, name);
  };
  const killNow = (): void => signal('SIGKILL');

  async function startOnce(): Promise<boolean> {
    const started = spawn(path, args, {
      cwd,
      env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(uid === undefined ? {} : { uid }),
      ...(gid === undefined ? {} : { gid }),
    });
    for (const stream of [started.stdout, started.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        printed = (printed + text).slice(-20_000);
      });
    }
    started.on('error', (error) => {
      printed += String(error);
    });
    child = started;
    return await until(
      async () => {
        if (started.exitCode !== null || started.signalCode !== null || started.pid === undefined) return 'ended';
        await command.ready();
        return 'ready';
      },
      { withinMs: START_MS, what: `${path} answers` },
    ).then((state) => state === 'ready');
  }

  return {
    start: async () => {
      process.once('exit', killNow);
      // What was killed may hold memory or a port for a moment more.
      for (let attempt = 1; ; attempt++) {
        if (await startOnce()) return;
        if (attempt === 20) throw new Error(`${path} ended:\n${printed}`);
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    },
    kill: async () => {
      const ending = child;
      const pids = family();
      child = undefined;
      process.removeListener('exit', killNow);
      if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
      const closed = once(ending, 'close');
      for (const pid of pids) send(pid, 'SIGKILL');
      await closed;
    },
    freeze: async () => {
      const standsStill = (): boolean => {
        signal('SIGSTOP'); // also for a child that came meanwhile
        return family().every(isStopped);
      };
      await until(standsStill, { withinMs: 20_000, what: `${path} stands still` });
    },
    thaw: () => signal('SIGCONT'),
  };
}

/** Postgres has a process for each connection. */
function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number);
  } catch {
    return []; // no Linux, or it has ended: its own signal is all there is
  }
}

function send(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // it has ended by itself
  }
}
