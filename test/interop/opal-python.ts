import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { promisify } from 'node:util';

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
  const installed = await readFile(marker, 'utf8').catch(() => ''); // none yet
  if (installed !== wanted) {
    await rm(venv, { recursive: true, force: true });
    await mkdir(venv, { recursive: true });
    await run('python3', ['-m', 'venv', venv]);
    await run(join(venv, 'bin', 'pip'), ['install', '--quiet', ...REQUIREMENTS], { timeout: INSTALL_TIMEOUT_MS });
    await writeFile(marker, wanted);
  }
  return join(venv, 'bin');
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
