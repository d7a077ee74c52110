import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { opaProgram } from './opa-program.js';
import { until } from './until.js';

/** A running OPA for one test. */
export interface TestOpa extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Everything that it printed. */
  output(): string;
  /** Ends it in order (SIGTERM) and waits until it is gone. Twice is once. */
  stop(): Promise<void>;
  /** Ends it with SIGKILL and waits until it is gone. */
  kill(): Promise<void>;
}

/** What {@link startOpa} can vary. */
export interface StartOpaOptions {
  /** Default: a free one. */
  port?: number;
  /** More arguments, for example `--v0-compatible` or `--config-file=...`. */
  args?: readonly string[];
  /** How to ask whether it answers, for one with TLS or authorization. Its URL is then https where `scheme` says so. */
  scheme?: 'http' | 'https';
  ask?: (url: string) => Promise<{ status: number }>;
}

/** The OPA executable of this test run: SYNC_TEST_OPA (`npm test` sets it), else that of {@link opaProgram}. */
export async function testOpa(): Promise<string> {
  const given = process.env.SYNC_TEST_OPA;
  if (given !== undefined && given !== '') return given;
  return (await opaProgram()).path;
}

/**
 * Below what systems give to outgoing connections (Linux from 32768, others from 49152), above all that `fetch` refuses to
 * ask ("bad port" of the Fetch standard; the highest is 10080).
 */
const PORTS = { least: 10_081, most: 32_000 };

/**
 * A TCP port of 127.0.0.1 that was free a moment ago. Not one that the system gives to outgoing connections: a program
 * that is started again later at this port would find it taken by any of them.
 */
export async function freePort(): Promise<number> {
  for (let attempt = 1; attempt <= 50; attempt++) {
    const port = randomInt(PORTS.least, PORTS.most);
    const server = createServer().listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
    } catch {
      continue; // somebody listens there
    }
    server.close();
    await once(server, 'close');
    return port;
  }
  throw new Error('no TCP port is free');
}

/** Starts a real OPA and returns when it answers. Fails with what it printed when it ends before that. */
export async function startOpa(options: StartOpaOptions = {}): Promise<TestOpa> {
  const executable = await testOpa();
  // Between finding a free port and listening another program may take it; a given port is the caller's own matter.
  const attempts = options.port === undefined ? 3 : 1;
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await startOnce(executable, options.port ?? (await freePort()), options);
    } catch (error) {
      if (attempt >= attempts || !(error instanceof Error && error.message.includes('address already in use')))
        throw error;
    }
  }
}

async function startOnce(executable: string, port: number, options: StartOpaOptions): Promise<TestOpa> {
  const { args = [], scheme = 'http', ask = fetch } = options;
  const url = `${scheme}://127.0.0.1:${port}`;
  const child = spawn(
    executable,
    ['run', '--server', `--addr=127.0.0.1:${port}`, '--log-level=error', '--skip-version-check', ...args],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      printed += text;
    });
  }
  // A failing test ends the test file's process without its cleanup; the engine must not outlive it.
  const killNow = (): boolean => child.kill('SIGKILL');
  process.once('exit', killNow);
  const gone = new Promise<void>((resolve) => {
    child.once('close', () => {
      process.removeListener('exit', killNow);
      resolve();
    });
  });
  const failed = once(child, 'error').then(([error]) => Promise.reject(error));
  const early = gone.then(() =>
    Promise.reject(new Error(`OPA ended before it answered (code ${child.exitCode}): ${printed}`)),
  );
  const pid = child.pid ?? 0;
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const answers = until(async () => hasEnded() || (await ask(`${url}/health`)).status === 200, {
    withinMs: 20_000,
    what: `OPA answers at ${url}`,
  });
  try {
    await Promise.race([answers, failed, early]);
    if (hasEnded()) await early;
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  } finally {
    // The loser of the race is over or ends with the process; it has nothing more to say.
    for (const loser of [answers, failed, early]) loser.catch(() => undefined);
  }
  const end = (signal: NodeJS.Signals): Promise<void> => endChild(child, signal, gone);
  return {
    url,
    port,
    pid,
    output: () => printed,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
    [Symbol.asyncDispose]: () => end('SIGKILL'),
  };
}

async function endChild(child: ChildProcess, signal: NodeJS.Signals, gone: Promise<void>): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) child.kill(signal);
  await gone;
}
