import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

/** How a command ended. */
export interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program that goes on. */
export interface Running {
  /** Its process group. */
  readonly group: number;
  /** What it has written. */
  output(): string;
  isRunning(): boolean;
}

/** A shell that keeps its folder, variables and aliases from one command to the next, as the one of a reader does. */
export interface Terminal extends AsyncDisposable {
  run(command: string): Promise<Ended>;
  start(command: string): Promise<Running>;
}

/** Longest that one command may take. */
const LIMIT_MS = 90_000;

/** Opens a shell; `folder` keeps what the commands write. */
export function openTerminal(folder: string, cwd: string, env: NodeJS.ProcessEnv): Terminal {
  const shell = spawn('bash', ['--noprofile', '--norc'], { cwd, env, stdio: ['pipe', 'ignore', 'pipe', 'pipe'] });
  const ended = once(shell, 'close');
  let complaints = '';
  shell.stderr?.on('data', (chunk) => {
    complaints += chunk;
  });
  const answers = createInterface({ input: shell.stdio[3] as Readable })[Symbol.asyncIterator]();
  let count = 0;

  const send = async (script: string): Promise<string> => {
    shell.stdin?.write(`${script}\n`);
    const timer = setTimeout(() => shell.kill('SIGKILL'), LIMIT_MS);
    const { value, done } = await answers.next();
    clearTimeout(timer);
    if (done) throw new Error(`the shell ended, or took longer than ${LIMIT_MS} ms: ${complaints}`);
    return String(value);
  };
  shell.stdin?.write('shopt -s expand_aliases; set -m\n');

  return {
    run: async (command) => {
      const file = join(folder, `command-${++count}`);
      const code = await send(`{ ${command}\n} > '${file}.out' 2> '${file}.err' < /dev/null; echo $? >&3`);
      const read = (end: string): string => (existsSync(file + end) ? readFileSync(file + end, 'utf8') : complaints);
      return { code: Number(code), stdout: read('.out'), stderr: read('.err') };
    },
    start: async (command) => {
      const file = join(folder, `command-${++count}.log`);
      const group = Number(await send(`{ ${command}\n} > '${file}' 2>&1 < /dev/null 3>&- & echo $! >&3`));
      return {
        group,
        output: () => (existsSync(file) ? readFileSync(file, 'utf8') : ''),
        isRunning: () => signal(group, 0),
      };
    },
    [Symbol.asyncDispose]: async () => {
      shell.stdin?.end();
      shell.kill('SIGHUP');
      await ended;
      await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** Sends a signal to a process group; false where there is none. */
export function signal(group: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-group, name);
  } catch {
    return false; // it has ended
  }
}
