import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { programFile } from '../support/program-file.js';

/** One of the two programs, as a supervisor runs it: same settings and ports at each start. */
export interface Program {
  readonly name: string;
  /** Counts starts. */
  readonly life: number;
  readonly isUp: boolean;
  start(): void;
  /** SIGKILL, and waits until it is gone. */
  kill(): Promise<void>;
  /** SIGTERM, and waits until it is gone; SIGKILL after `limitMs`. */
  stop(limitMs?: number): Promise<void>;
  freeze(): void;
  thaw(): void;
  /** Resident memory now; undefined where it does not run. */
  memoryBytes(): number | undefined;
  /** Process ids of its children. */
  children(): number[];
}

/** `onEnded`: it ended though nobody ended it. What it prints goes to `<dir>/<name>.log`. */
export function program(
  options: { name: string; kind: 'server' | 'client'; env: Record<string, string>; dir: string },
  onEnded: (how: string) => void,
): Program {
  const { name, kind, env, dir } = options;
  const file = programFile(kind);
  let child: ChildProcess | undefined;
  let life = 0;
  const killNow = (): void => void child?.kill('SIGKILL');

  async function end(signal: NodeJS.Signals, limitMs?: number): Promise<void> {
    const ending = child;
    child = undefined;
    if (ending === undefined || ending.exitCode !== null || ending.signalCode !== null) return;
    const gone = once(ending, 'exit');
    ending.kill('SIGCONT'); // one that is frozen would not hear of SIGTERM
    ending.kill(signal);
    const timer = limitMs === undefined ? undefined : setTimeout(() => ending.kill('SIGKILL'), limitMs);
    await gone;
    clearTimeout(timer);
  }

  process.on('exit', killNow);
  return {
    name,
    get life() {
      return life;
    },
    get isUp() {
      return child !== undefined;
    },
    start: () => {
      if (child !== undefined) return;
      life++;
      const log = openSync(join(dir, `${name}.log`), 'a');
      const { PATH = '', HOME = '' } = process.env;
      const started = spawn(process.execPath, [file, 'run'], {
        env: { PATH, HOME, ...env },
        stdio: ['ignore', log, log],
      });
      closeSync(log);
      child = started;
      started.on('error', (error) => onEnded(String(error)));
      started.on('exit', (code, signal) => {
        if (child !== started) return;
        child = undefined;
        onEnded(signal ?? `code ${code}`);
      });
    },
    kill: () => end('SIGKILL'),
    stop: (limitMs = 10_000) => end('SIGTERM', limitMs),
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
    memoryBytes: () => (child?.pid === undefined ? undefined : residentBytes(child.pid)),
    children: () => (child?.pid === undefined ? [] : childrenOf(child.pid)),
  };
}

function residentBytes(pid: number): number | undefined {
  try {
    const found = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
    return found === null ? undefined : Number(found[1]) * 1024;
  } catch {
    return undefined; // it has ended
  }
}

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(/\s+/).filter(Boolean).map(Number);
  } catch {
    return []; // it has ended
  }
}

/** Sends a signal to a process that may be gone; only to one whose command line has `text`: ids are given anew. */
export function signalProcess(pid: number, signal: NodeJS.Signals, text: string): boolean {
  try {
    if (!readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text)) return false;
    process.kill(pid, signal);
    return true;
  } catch {
    return false; // it is gone
  }
}
