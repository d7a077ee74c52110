import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { childEnv } from '../../lib/child-env.js';
import { type Env, OPA_GO_PACKAGE, OPA_VERSION } from './opa-version.js';

/** A build of the pinned OPA with the machine's Go toolchain. */
export interface GoInstallOptions {
  /** The `go` program. */
  go: string;
  /** Existing folder that gets the executable. */
  dir: string;
  /** Name of the executable that Go makes there (`opa`, `opa.exe`). */
  fileName: string;
  env: Env;
  signal?: AbortSignal;
  /** Called at once and then every second; `detail` is the last line that Go printed, empty before. */
  onProgress?: (elapsedMs: number, detail: string) => void;
  /** Longest time. Default 20 minutes: an empty build cache on one slow core. */
  limitMs?: number;
}

/** Go's own time to end its compilers after an interrupt. */
const KILL_AFTER_MS = 5_000;
const OUTPUT_CHARS = 4_000;

/**
 * Runs `go install <package>@v<version>` into `dir` and returns the executable's path. Module and build caches are the
 * user's own, so a second build is quick; Go verifies the source against its checksum database. Throws an `Error` with
 * Go's last words. Go stays in our process group: Ctrl-C at a terminal ends it too.
 */
export async function goInstall(options: GoInstallOptions): Promise<string> {
  const { go, dir, env, signal, limitMs = 20 * 60_000 } = options;
  signal?.throwIfAborted();
  const startedAt = performance.now();
  // With GOOS or GOARCH set Go refuses GOBIN ("cannot install cross-compiled binaries"); we want this machine's anyway.
  const goEnv = {
    ...childEnv(env, 'go'),
    GOBIN: dir,
    GOTMPDIR: dir,
    GOOS: undefined,
    GOARCH: undefined,
    GOWORK: 'off',
  };
  const child = spawn(go, ['install', `${OPA_GO_PACKAGE}@v${OPA_VERSION}`], {
    cwd: dir,
    env: goEnv,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-OUTPUT_CHARS);
    });
  }
  let killTimer: NodeJS.Timeout | undefined;
  let late = false;
  const stop = (): void => {
    // Go handles SIGINT by ending its compilers; after SIGTERM they would run on.
    child.kill('SIGINT');
    killTimer ??= setTimeout(() => child.kill('SIGKILL'), KILL_AFTER_MS);
  };
  const report = (): void => options.onProgress?.(performance.now() - startedAt, lastLine(output));
  const ticker = setInterval(report, 1_000);
  const limit = setTimeout(() => {
    late = true;
    stop();
  }, limitMs);
  signal?.addEventListener('abort', stop, { once: true });
  report();
  try {
    const code = await new Promise<number | string>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (exitCode, exitSignal) => resolve(exitCode ?? exitSignal ?? 'unknown'));
    });
    signal?.throwIfAborted();
    if (late) throw new Error(`go install did not end within ${Math.round(limitMs / 1000)} s`);
    if (code !== 0) throw new Error(`go install ended with ${code}: ${lastLines(output, 5)}`);
    return join(dir, options.fileName);
  } finally {
    clearInterval(ticker);
    clearTimeout(limit);
    clearTimeout(killTimer);
    signal?.removeEventListener('abort', stop);
  }
}

function lastLine(output: string): string {
  return lastLines(output, 1);
}

function lastLines(output: string, count: number): string {
  return output.trim().split('\n').slice(-count).join(' / ').trim();
}
