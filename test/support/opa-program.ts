import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { type AcquiredOpa, acquireOpa } from '../../src/client/engine/get-opa/acquire-opa.js';
import { describeProgress, progressPrinter } from '../../src/client/engine/get-opa/acquire-progress.js';
import { cacheFile, putIntoCache } from '../../src/client/engine/get-opa/opa-cache.js';
import { OPA_VERSION, readOpaVersion } from '../../src/client/engine/get-opa/opa-version.js';
import { SyncError } from '../../src/lib/errors.js';
import { onPath } from './server-programs.js';

/** An empty build cache on one slow core. */
const BUILD_LIMIT_MS = 20 * 60_000;
const LINE_EVERY_MS = 10_000;
const OUTPUT_CHARS = 4_000;

/** What {@link opaProgram} takes. */
export interface OpaProgramOptions {
  /** If set, no other OPA is used. */
  readonly execPath?: string | undefined;
  /** Gets the progress. */
  readonly stream?: { write(text: string): unknown; isTTY?: boolean | undefined };
}

/**
 * The OPA that tests, faults and the bench run: the one that the product finds or downloads, else one that Go builds into the
 * product's cache folder, where the product finds it from then on. Rejects with `engine_not_found`, which lists every way that
 * failed, and with `config_invalid` if `execPath` cannot be used.
 */
export async function opaProgram({
  execPath,
  stream = { write: () => undefined },
}: OpaProgramOptions = {}): Promise<Pick<AcquiredOpa, 'path' | 'version'>> {
  const { env } = process;
  try {
    return await acquireOpa({ execPath, env, allowDownload: true, onProgress: progressPrinter(stream) });
  } catch (error) {
    if (!(error instanceof SyncError) || error.code !== 'engine_not_found') throw error;
    const go = onPath('go');
    if (go === undefined) throw notBuilt(error, 'there is no "go" on PATH');
    const platform = { os: process.platform, arch: process.arch };
    const path = cacheFile(env, platform);
    try {
      await putIntoCache(
        path,
        async (dir, fileName) => {
          await goInstall(go, dir, (line) => stream.write(`${line}\n`));
          return join(dir, fileName);
        },
        async (file) => {
          await readOpaVersion(file, env);
        },
      );
    } catch (cause) {
      throw notBuilt(error, cause instanceof Error ? cause.message : String(cause));
    }
    stream.write(`${describeProgress({ phase: 'found', way: 'cache', path, version: OPA_VERSION })}\n`);
    return { path, version: OPA_VERSION };
  }
}

function notBuilt(error: SyncError, why: string): SyncError {
  return new SyncError(
    'engine_not_found',
    `${error.message}\n  build of OPA ${OPA_VERSION} with Go, for tests: ${why}`,
  );
}

/** Builds the pinned OPA with the machine's Go into `dir`, from source that Go's checksum database verifies. */
async function goInstall(go: string, dir: string, print: (line: string) => void): Promise<void> {
  // With GOOS or GOARCH set Go refuses GOBIN ("cannot install cross-compiled binaries").
  const env = { ...process.env, GOBIN: dir, GOTMPDIR: dir, GOOS: undefined, GOARCH: undefined, GOWORK: 'off' };
  const child = spawn(go, ['install', `github.com/open-policy-agent/opa@v${OPA_VERSION}`], {
    cwd: dir,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: BUILD_LIMIT_MS,
    killSignal: 'SIGINT', // Go ends its compilers then; after SIGTERM they would run on
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-OUTPUT_CHARS);
    });
  }
  const lastLines = (count: number): string => output.trim().split('\n').slice(-count).join(' / ').trim();
  const startedAt = performance.now();
  const report = (): void => {
    const detail = lastLines(1);
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    print(`opa: building with Go, ${seconds} s${detail === '' ? '' : ` (${detail})`}`);
  };
  report();
  const ticker = setInterval(report, LINE_EVERY_MS);
  try {
    const code = await new Promise<number | string>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (exitCode, signal) => resolve(exitCode ?? signal ?? 'unknown'));
    });
    if (code !== 0) throw new Error(`go install ended with ${code}: ${lastLines(5)}`);
  } finally {
    clearInterval(ticker);
  }
}
