import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type StartedCommand, startCommand } from './command.js';
import { field } from './http.js';
import { NO_GATE } from './start-server.js';
import { type TempDir, tempDir } from './temp-dir.js';
import { until } from './until.js';

/** A stopped process. `await using` lets it run on. */
export interface FrozenProcess extends AsyncDisposable {
  /** SIGCONT. Twice is once. */
  thaw(): void;
}

/** SIGSTOP: its connections stay, the kernel takes what is sent, nothing answers. Returns when it stands still. */
export async function freeze(pid: number): Promise<FrozenProcess> {
  process.kill(pid, 'SIGSTOP');
  await until(() => isStopped(pid), { withinMs: 20_000, what: `process ${pid} stands still` });
  let frozen = true;
  const thaw = (): void => {
    if (frozen) process.kill(pid, 'SIGCONT');
    frozen = false;
  };
  return { thaw, [Symbol.asyncDispose]: async () => thaw() };
}

/** True when every thread of the process is stopped, or has ended, as far as this system tells (proc(5)). */
export function isStopped(pid: number): boolean {
  if (process.platform !== 'linux') return true;
  // A thread on another processor may go on for a moment after the first one stands.
  const threads = readdirSync(`/proc/${pid}/task`);
  return threads.every((thread) => /^State:\s+[TZ]/m.test(readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8')));
}

/** How long the event loop of a program stood still; see `frozen-loop.ts`. */
export interface LoopDelay {
  /** By the clock. */
  readonly maxMs: number;
  /** Of its own work. */
  readonly maxCpuMs: number;
  /** All work of its thread. */
  readonly usedCpuMs: number;
}

/** The sync server as a program of its own. `await using` kills it and removes its folder. */
export interface ServerProgram extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** Its log lines so far. */
  log(): unknown[];
  /** Memory that it holds now; 0 where this system does not tell. */
  residentBytes(): number;
  /** What its event loop did since this was asked last. */
  loopDelay(): Promise<LoopDelay>;
}

/** Starts the server program with `env` over the defaults, on a free port, and measures its event loop. */
export async function serverProgram(env: Record<string, string> = {}): Promise<ServerProgram> {
  const dir = await tempDir();
  const preload = pathToFileURL(join(import.meta.dirname, 'frozen-loop.js')).href;
  const command = startCommand('server', ['run'], {
    SYNC_SERVER_BIND_PORT: '0',
    SYNC_STATE_DIR: join(dir.path, 'state'),
    SYNC_LOG_FORMAT: 'json',
    NODE_OPTIONS: `--import ${preload}`,
    ...NO_GATE,
    ...env,
  });
  try {
    const [, url = ''] = await command.says(/"url":"([^"]+)"[^\n]*sync server is listening/);
    return program(command, dir, url);
  } catch (error) {
    await command[Symbol.asyncDispose]();
    await dir[Symbol.asyncDispose]();
    throw error;
  }
}

function program(command: StartedCommand, dir: TempDir, url: string): ServerProgram {
  const pid = command.process.pid ?? 0;
  const reports = (): string[] => command.stderr().match(/loop-delay \{[^}]*\}/g) ?? [];
  return {
    url,
    pid,
    log: () =>
      command
        .stderr()
        .split('\n')
        .filter((line) => line.startsWith('{') && line.endsWith('}'))
        .map((line) => JSON.parse(line) as unknown),
    residentBytes: () => {
      if (process.platform !== 'linux') return 0;
      const found = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
      return Number(found?.[1] ?? 0) * 1024;
    },
    loopDelay: async () => {
      const before = reports().length;
      command.process.kill('SIGUSR2');
      const line = await until(() => reports()[before], { withinMs: 30_000, what: 'the loop is reported' });
      return JSON.parse(line.replace('loop-delay ', '')) as LoopDelay;
    },
    [Symbol.asyncDispose]: async () => {
      await command[Symbol.asyncDispose]();
      await dir[Symbol.asyncDispose]();
    },
  };
}

/** Lines of a log with a message. */
export function linesThatSay(log: readonly unknown[], message: string): unknown[] {
  return log.filter((line) => field(line, 'msg') === message);
}
