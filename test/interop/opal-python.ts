import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';
import { until } from '../support/until.js';

/**
 * OPAL's own programs, from the Python package index, in a virtual environment of the user's cache folder
 * (SYNC_INTEROP_VENV names another one). Made once, about a minute.
 */

const run = promisify(execFile);

const OPAL_VERSION = '0.9.9';
/** OPAL needs pydantic 1; newer versions of fastapi do not work with it, and pip would try each of them. */
const REQUIREMENTS = [
  `opal-server==${OPAL_VERSION}`,
  `opal-client==${OPAL_VERSION}`,
  'pydantic==1.10.27',
  'fastapi==0.115.14',
  'starlette==0.46.2',
  'websockets==17.4',
];
const INSTALL_TIMEOUT_MS = 15 * 60_000;
const COMMAND_TIMEOUT_MS = 60_000;

/** The folder with `opal-server` and `opal-client`; undefined where there is no Python 3 to run them. */
export async function opalPrograms(): Promise<string | undefined> {
  try {
    await run('python3', ['--version']);
  } catch {
    return undefined; // the caller reports its tests as skipped
  }
  const { SYNC_INTEROP_VENV, XDG_CACHE_HOME } = process.env;
  const cache = XDG_CACHE_HOME !== undefined && isAbsolute(XDG_CACHE_HOME) ? XDG_CACHE_HOME : join(homedir(), '.cache');
  const venv = SYNC_INTEROP_VENV ?? join(cache, 'policysync', `interop-${OPAL_VERSION}`);
  const marker = join(venv, 'installed.txt');
  const wanted = REQUIREMENTS.join('\n');
  const isInstalled = async (): Promise<boolean> => {
    const installed = await readFile(marker, 'utf8').catch(() => ''); // none yet
    return installed === wanted;
  };
  if (!(await isInstalled())) {
    await alone(`${venv}.lock`, async () => {
      if (await isInstalled()) return;
      await rm(venv, { recursive: true, force: true });
      await mkdir(venv, { recursive: true });
      await run('python3', ['-m', 'venv', venv]);
      await run(join(venv, 'bin', 'pip'), ['install', '--quiet', ...REQUIREMENTS], { timeout: INSTALL_TIMEOUT_MS });
      await writeFile(marker, wanted);
    });
  }
  return join(venv, 'bin');
}

/** Runs a step while no other process does: test files run side by side. A lock whose owner is gone is taken over. */
async function alone(lockFile: string, step: () => Promise<void>): Promise<void> {
  await mkdir(dirname(lockFile), { recursive: true });
  const lock = async (): Promise<boolean> => {
    try {
      await writeFile(lockFile, String(process.pid), { flag: 'wx' });
      return true;
    } catch {
      const owner = Number(await readFile(lockFile, 'utf8').catch(() => '')); // freed a moment ago
      if (owner > 0 && !isRunning(owner)) await rm(lockFile, { force: true });
      return false;
    }
  };
  await until(lock, { withinMs: INSTALL_TIMEOUT_MS, what: `${lockFile} is free` });
  try {
    await step();
  } finally {
    await rm(lockFile, { force: true });
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false; // there is no such process
  }
}

/** Runs a command of OPAL's, such as `obtain-token`, to its end and answers what it printed. It ends with 0 in any case. */
export async function runOpal(
  bin: string,
  program: 'opal-server' | 'opal-client',
  args: readonly string[],
  folder: string,
): Promise<string> {
  const { PATH = '', HOME = '' } = process.env;
  const { stdout } = await run(join(bin, program), [...args], {
    cwd: folder,
    env: { PATH, HOME, PYTHONWARNINGS: 'ignore' },
    timeout: COMMAND_TIMEOUT_MS,
  });
  return stdout;
}

/** A running OPAL program. `await using` ends it with all its children. */
export interface OpalProgram extends AsyncDisposable {
  /** Everything that it printed. */
  output(): string;
  stop(): Promise<void>;
}

/** Starts `opal-server run` or `opal-client run` in a folder, with PATH and HOME of this process and nothing else of it. */
export function startOpal(
  bin: string,
  program: 'opal-server' | 'opal-client',
  folder: string,
  env: Record<string, string>,
): OpalProgram {
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(join(bin, program), ['run'], {
    cwd: folder,
    // A process group of its own, so that its workers end with it.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH,
      HOME,
      PYTHONWARNINGS: 'ignore',
      OPAL_LOG_COLORIZE: 'false',
      OPAL_LOG_FORMAT_INCLUDE_PID: 'false',
      ...env,
    },
  });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
  }
  const closed = once(child, 'close');
  const end = (): void => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    process.kill(-child.pid, 'SIGKILL');
  };
  // A failing test ends this process without its cleanup.
  process.once('exit', end);
  const stop = async (): Promise<void> => {
    process.removeListener('exit', end);
    end();
    await closed;
  };
  return { output: () => printed, stop, [Symbol.asyncDispose]: stop };
}
