import { execFile } from 'node:child_process';
import { childEnv } from '../../../lib/run/child-env.js';

/** Environment variables of a program. */
export type Env = Readonly<Record<string, string | undefined>>;

/**
 * Timeout of `opa version`: a cold disk and a virus scanner need seconds, a hung wrapper never
 * ends.
 */
const VERSION_TIMEOUT_MS = 10_000;

/**
 * Returns the version in the output of `opa version`, without a leading `v`; undefined if there is
 * none.
 */
export function parseOpaVersion(output: string): string | undefined {
  return /^Version:[ \t]*v?(\d+\.\d+\.\d+\S*)/m.exec(output)?.[1];
}

/** Whether a version is at least {@link OPA_MIN_VERSION}. Ignores suffixes (`-dev`). */
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
 * Runs `<file> version` and returns the version. Rejects with an `Error` that describes the
 * problem: the file cannot be started, does not end within 10 s, or is not OPA.
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
        // No cause: Node's error only adds the command line.
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

/**
 * Describes why a file could not be run. `error.code` is the name of a system error or the exit
 * code.
 */
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

/**
 * The OPA release that this version of PolicySync is tested with, and acquires if none is
 * installed.
 */
export const OPA_VERSION = '1.22.3';

/** The oldest accepted OPA: 1.0.0 made Rego v1 the default and introduced `--v0-compatible`. */
export const OPA_MIN_VERSION = '1.0.0';

/** Base URL of official releases; `/v<version>/<asset>` follows. */
export const OPA_DOWNLOAD_BASE_URL = 'https://openpolicyagent.org/downloads';

/**
 * Hex SHA-256 of each official asset of {@link OPA_VERSION}, as published with the assets and
 * recorded by at least two independent projects. An asset whose sum is empty is not downloaded: an
 * unverified executable is never run. `npm run engine:update` sets them; no release is made while
 * one is empty.
 */
export const OPA_SHA256: Readonly<Record<string, string>> = {
  opa_darwin_amd64: '',
  opa_darwin_arm64: '',
  opa_linux_amd64_static: '',
  opa_linux_arm64_static: '',
  'opa_windows_amd64.exe': '',
};

/** An operating system and processor (`process.platform`, `process.arch`). */
export interface Platform {
  os: string;
  arch: string;
}

const ASSETS: Readonly<Record<string, string>> = {
  'linux/x64': 'opa_linux_amd64_static',
  'linux/arm64': 'opa_linux_arm64_static',
  'darwin/x64': 'opa_darwin_amd64',
  'darwin/arm64': 'opa_darwin_arm64',
  'win32/x64': 'opa_windows_amd64.exe',
};

/** Name of the official release's file for a platform; undefined if there is none. */
export function opaAsset(platform: Platform): string | undefined {
  return ASSETS[`${platform.os}/${platform.arch}`];
}

/** Name of the executable in the cache folder. */
export function opaFileName(os: string): string {
  return os === 'win32' ? 'opa.exe' : 'opa';
}
