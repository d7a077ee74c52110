import { execFile } from 'node:child_process';
import { childEnv } from '../../lib/child-env.js';
import { OPA_MIN_VERSION } from './opa-release.js';

/** Environment variables as a program is given them. */
export type Env = Readonly<Record<string, string | undefined>>;

/** Longest time that `opa version` may take; a cold disk and a virus scanner need seconds, a hung wrapper never ends. */
const VERSION_TIMEOUT_MS = 10_000;

/** The version that the output of `opa version` names, without a leading `v`; undefined where it names none. */
export function parseOpaVersion(output: string): string | undefined {
  return /^Version:[ \t]*v?(\d+\.\d+\.\d+\S*)/m.exec(output)?.[1];
}

/** True for {@link OPA_MIN_VERSION} and newer. What follows the three numbers (`-dev`) is not looked at. */
export function isAcceptableOpaVersion(version: string): boolean {
  const have = numbers(version);
  const need = numbers(OPA_MIN_VERSION);
  for (const [index, least] of need.entries()) {
    const part = have[index] ?? 0;
    if (part !== least) return part > least;
  }
  return true;
}

function numbers(version: string): number[] {
  return version
    .split(/[.\-+]/)
    .slice(0, 3)
    .map(Number);
}

/**
 * Runs `<file> version` and returns the version. Throws an `Error` that says what is wrong with the file: it cannot be
 * started, does not end within 10 s, or is not OPA.
 */
export function readOpaVersion(file: string, env: Env, signal?: AbortSignal): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(
      file,
      ['version'],
      {
        env: childEnv(env, 'opa'),
        timeout: VERSION_TIMEOUT_MS,
        killSignal: 'SIGKILL',
        ...(signal === undefined ? {} : { signal }),
      },
      (error, stdout, stderr) => {
        if (signal?.aborted) return reject(signal.reason);
        // No cause: what Node's error says beyond this is the command line again.
        if (error !== null) return reject(new Error(startProblem(file, error, stderr)));
        const version = parseOpaVersion(stdout);
        if (version === undefined) {
          return reject(new Error(`${file} is not OPA: "${file} version" prints no line "Version: <number>"`));
        }
        resolve(version);
      },
    );
  });
}

/** Why a file could not be run, in words. `error.code` is a system error's name or the exit code. */
function startProblem(file: string, error: Error & { code?: unknown; killed?: boolean }, stderr: string): string {
  if (error.code === 'ENOENT') return `${file} does not exist`;
  if (error.code === 'EACCES') return `${file} is not executable`;
  if (error.killed) return `"${file} version" did not end within ${VERSION_TIMEOUT_MS / 1000} s`;
  const said = stderr.trim().split('\n', 1)[0] ?? '';
  if (typeof error.code === 'number') {
    return `"${file} version" ended with code ${error.code}${said === '' ? '' : ` (${said})`}`;
  }
  return `${file} cannot be started on this machine (${typeof error.code === 'string' ? error.code : error.message})`;
}
