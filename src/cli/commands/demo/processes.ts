import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { firstOf } from '../../../lib/run/async.js';
import { DemoFailure } from './failure.js';

/**
 * Process groups keep Ctrl-C from reaching the children beside us: they are ended by us, in order.
 */
const HAS_GROUPS = process.platform !== 'win32';
/**
 * Server and client end within a second or two; a second SIGTERM makes them end at once, engine
 * included.
 */
const ASK_AGAIN_MS = 8_000;
const KILL_MS = 3_000;
/** What only runs to its end (a command, git) has nothing to clean up that we do not remove. */
const RUN_KILL_MS = 1_000;

/** A started server or client. */
export interface DemoProcess {
  readonly name: string;
  readonly logFile: string;
  /** Resolves with how it ended; never rejects. */
  readonly ended: Promise<string>;
  log(): string;
  isOver(): boolean;
  /** Ends it: SIGTERM, again, and by force. Resolves when it is gone. */
  stop(): Promise<void>;
}

interface RunOptions {
  readonly cwd?: string;
  readonly env: NodeJS.ProcessEnv;
  readonly onOutput?: () => void;
  /** What to say where the program is not there. */
  readonly missing?: string;
}

interface End {
  readonly error?: Error;
  readonly code?: number | null;
  readonly by?: NodeJS.Signals | null;
}

/** Every program that the demo starts, so that none is left. */
export interface Processes {
  /** Runs a program to its end. Rejects when it cannot be started or the demo is stopped. */
  run(command: string, args: readonly string[], options: RunOptions): Promise<{ code: number; output: string }>;
  /** Starts a program of Node that stays; what it prints goes into a file. */
  start(name: string, args: readonly string[], env: NodeJS.ProcessEnv): DemoProcess;
  /**
   * The last resort, when this process ends without its cleanup: asks all that still run to end.
   */
  abandon(): void;
}

/** `signal` ends the programs that `run` waits for. */
export function createProcesses(logDir: string, signal: AbortSignal): Processes {
  const running = new Set<ChildProcess>();

  function launch(command: string, args: readonly string[], options: SpawnOptions) {
    const child = spawn(command, args, { detached: HAS_GROUPS, ...options });
    const closed = new Promise<End>((resolve) => {
      child.once('error', (error) => resolve({ error }));
      child.once('close', (code, by) => resolve({ code, by }));
    }).then((end) => {
      running.delete(child);
      return end;
    });
    running.add(child);
    return { child, closed };
  }

  return {
    async run(command, args, { onOutput, missing, ...options }) {
      signal.throwIfAborted();
      const { child, closed } = launch(command, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
      let output = '';
      for (const stream of [child.stdout, child.stderr]) {
        stream?.setEncoding('utf8').on('data', (text: string) => {
          output += text;
          onOutput?.();
        });
      }
      let kill: NodeJS.Timeout | undefined;
      const stop = (): void => {
        sendSignal(child, 'SIGTERM');
        kill = setTimeout(() => sendSignal(child, 'SIGKILL'), RUN_KILL_MS);
      };
      signal.addEventListener('abort', stop, { once: true });
      const end = await closed;
      clearTimeout(kill);
      signal.removeEventListener('abort', stop);
      signal.throwIfAborted();
      if (end.error !== undefined) {
        const isMissing = (end.error as NodeJS.ErrnoException).code === 'ENOENT' && missing !== undefined;
        throw new DemoFailure(isMissing ? missing : `${command} cannot be started: ${end.error.message}`);
      }
      return { code: end.code ?? 1, output: output.trimEnd() };
    },
    start(name, args, env) {
      const logFile = join(logDir, `${name}.log`);
      const fd = openSync(logFile, 'w');
      const { child, closed } = launch(process.execPath, args, { env, stdio: ['ignore', fd, fd] });
      closeSync(fd);
      let isOver = false;
      const ended = closed.then(({ error, code, by }) => {
        isOver = true;
        return error?.message ?? (by ? `it was ended by ${by}` : `it ended with code ${code}`);
      });
      return {
        name,
        logFile,
        ended,
        log: () => readFileSync(logFile, 'utf8'),
        isOver: () => isOver,
        async stop() {
          for (const [how, ms] of [
            ['SIGTERM', ASK_AGAIN_MS],
            ['SIGTERM', KILL_MS],
            ['SIGKILL', KILL_MS],
          ] as const) {
            if (isOver) return;
            if (how === 'SIGTERM') child.kill(how);
            else sendSignal(child, how);
            await firstOf([closed, delay(ms)]);
          }
        },
      };
    },
    abandon() {
      for (const child of running) child.kill('SIGTERM');
    },
  };
}

/** To the whole group, so that what a child started ends too. */
function sendSignal(child: ChildProcess, name: NodeJS.Signals): void {
  try {
    if (HAS_GROUPS && child.pid !== undefined) process.kill(-child.pid, name);
    else child.kill(name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // it has just ended by itself
  }
}

/** Not a reason for the process to stay. */
function delay(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
}
