import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { childrenOf, resetPeak, type Usage, usageOf } from './proc.js';

/** A running program that is measured. `await using` ends it, and all that it started. */
export interface Program extends AsyncDisposable {
  readonly pid: number;
  /** When it was started, on the clock of `performance.now()`. */
  readonly startedMs: number;
  usage(): Usage;
  resetPeak(): void;
  /** The end of what it has printed. */
  output(): string;
  /** Throws when it has ended. */
  mustRun(): void;
  /** In order, with SIGTERM; SIGKILL after a while. Twice is once. */
  stop(): Promise<void>;
}

/** What {@link startProgram} starts: with PATH and HOME of this process and nothing else of it. */
export interface ProgramOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** What it prints goes here, so that nobody has to read it while it is measured. */
  readonly logFile: string;
}

const STOP_MS = 5_000;

/** Starts a program in a process group of its own. */
export function startProgram({ command, args, env = {}, cwd, logFile }: ProgramOptions): Program {
  const { PATH = '', HOME = '' } = process.env;
  const log = openSync(logFile, 'a');
  const startedMs = performance.now();
  const child = spawn(command, [...args], {
    cwd,
    env: { PATH, HOME, ...env },
    stdio: ['ignore', log, log],
    detached: true,
  });
  closeSync(log);
  const { pid } = child;
  if (pid === undefined) throw new Error(`${command} cannot be started`);
  const ended = once(child, 'exit');
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const killAll = (): void => {
    // An engine may be in a group of its own.
    for (const id of [...descendants(pid), -pid]) kill(id);
  };
  const output = (): string => readFileSync(logFile, 'utf8').slice(-1500);
  process.once('exit', killAll);

  const stop = async (): Promise<void> => {
    if (!hasEnded()) {
      const below = descendants(pid);
      child.kill('SIGTERM');
      const timer = setTimeout(killAll, STOP_MS);
      await ended;
      clearTimeout(timer);
      for (const id of below) if (childrenOf(pid).includes(id)) kill(id);
    }
    process.removeListener('exit', killAll);
    kill(-pid);
  };
  return {
    pid,
    startedMs,
    usage: () => usageOf(pid),
    resetPeak: () => resetPeak(pid),
    output,
    mustRun: () => {
      if (hasEnded()) throw new Error(`${command} ${args.join(' ')} has ended:\n${output()}`);
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function descendants(pid: number): number[] {
  return childrenOf(pid).flatMap((child) => [child, ...descendants(child)]);
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // it has ended by itself
  }
}
