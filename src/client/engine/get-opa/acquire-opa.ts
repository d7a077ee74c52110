import { stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import { errorText, SyncError } from '../../../lib/errors.js';
import type { AcquireProgress, AcquireWay } from './acquire-progress.js';
import { type DownloadTimeouts, download } from './download.js';
import { cacheFile, putIntoCache } from './opa-cache.js';
import {
  type Env,
  isAcceptableOpaVersion,
  OPA_DOWNLOAD_BASE_URL,
  OPA_MIN_VERSION,
  OPA_SHA256,
  OPA_VERSION,
  opaAsset,
  opaFileName,
  type Platform,
  readOpaVersion,
} from './opa-version.js';

/** Options of {@link acquireOpa}. */
export interface AcquireOptions {
  /** SYNC_INLINE_ENGINE_EXEC_PATH. If set, no other way is tried. */
  execPath?: string | undefined;
  /** The environment: PATH, cache folder, proxies. */
  env: Env;
  /** False: only an OPA that is on this machine already. */
  allowDownload: boolean;
  /** Default: {@link OPA_DOWNLOAD_BASE_URL}. */
  downloadBaseUrl?: string;
  /** Hex SHA-256 by asset name. Default: {@link OPA_SHA256}. */
  checksums?: Readonly<Record<string, string>>;
  /** Default: `policysync` in the user's cache folder. */
  cacheDir?: string;
  platform?: Platform;
  timeouts?: Partial<DownloadTimeouts>;
  signal?: AbortSignal;
  onProgress?: (progress: AcquireProgress) => void;
}

/** An OPA executable whose version is known. */
export interface AcquiredOpa {
  path: string;
  version: string;
  origin: AcquireWay;
}

/** The result of a way; failures are thrown. */
type Found = Pick<AcquiredOpa, 'path' | 'version'>;

interface Way {
  name: AcquireWay;
  /** For "next: ...". */
  title: string;
  /** How a user can make this way work. */
  remedy: string;
  run(): Promise<Found>;
}

/**
 * Finds or downloads an OPA executable. Tries in order: the configured path (and then nothing
 * else); `opa` on PATH with an acceptable version; the user's cache folder; with `allowDownload`
 * the pinned official release, verified with its pinned SHA-256. Reports each failed way and the
 * next one to `onProgress`. Several processes may run this at once: a file is renamed into the
 * cache only when it is complete and was run once.
 *
 * Rejects with `engine_not_found`, which lists each way with its failure and remedy, or with the
 * signal's reason.
 */
export async function acquireOpa(options: AcquireOptions): Promise<AcquiredOpa> {
  const { signal, onProgress } = options;
  const ways = waysOf(options);
  const problems: string[] = [];
  for (const [index, way] of ways.entries()) {
    signal?.throwIfAborted();
    try {
      const found = await way.run();
      onProgress?.({ phase: 'found', way: way.name, ...found });
      return { ...found, origin: way.name };
    } catch (error) {
      signal?.throwIfAborted();
      const message = errorText(error);
      problems.push(`${way.title}: ${message}. ${way.remedy}.`);
      onProgress?.({ phase: 'failed', way: way.name, message, next: ways[index + 1]?.title });
    }
  }
  // An unusable configured path is a mistake in the settings.
  if (options.execPath !== undefined) throw new SyncError('config_invalid', problems.join('\n  '));
  throw new SyncError(
    'engine_not_found',
    `no OPA executable could be found${options.allowDownload ? ' or downloaded' : ''}; one of these must work:\n  ${problems.join('\n  ')}`,
  );
}

function waysOf(options: AcquireOptions): Way[] {
  const platform = options.platform ?? { os: process.platform, arch: process.arch };
  const { execPath, env, allowDownload, signal } = options;
  if (execPath !== undefined) {
    return [
      {
        name: 'configured',
        title: 'SYNC_INLINE_ENGINE_EXEC_PATH',
        remedy: 'Set it to an OPA executable, or leave it unset so that one is looked for',
        run: () => usable(execPath, env, signal),
      },
    ];
  }
  const present: Way[] = [
    {
      name: 'path',
      title: 'opa on PATH',
      remedy: `Install OPA ${OPA_MIN_VERSION} or newer so that "opa version" works in a shell`,
      run: () => fromPath(env, platform, signal),
    },
    {
      name: 'cache',
      title: 'the cache folder',
      remedy: allowDownload
        ? 'The download fills it'
        : 'Fill it with "policysync opa get", or set SYNC_ENGINE=inline to do that at the start',
      run: async () => fromCache(cacheFile(env, platform, options.cacheDir), env, signal),
    },
  ];
  if (!allowDownload) return present;
  return [
    ...present,
    {
      name: 'download',
      title: `download of OPA ${OPA_VERSION}`,
      remedy: `Let this machine reach ${OPA_DOWNLOAD_BASE_URL} (HTTPS_PROXY is honoured), or get OPA by hand and set SYNC_INLINE_ENGINE_EXEC_PATH to it`,
      run: () => byDownload(options, platform),
    },
  ];
}

/** Runs the file once; throws if it is not OPA or too old. */
async function usable(file: string, env: Env, signal: AbortSignal | undefined): Promise<Found> {
  const version = await readOpaVersion(file, env, signal);
  if (!isAcceptableOpaVersion(version)) {
    throw new Error(`${file} is OPA ${version}, which is older than ${OPA_MIN_VERSION}`);
  }
  return { path: file, version };
}

/** Returns the first acceptable `opa` on PATH; throws with the reasons if there is none. */
async function fromPath(env: Env, platform: Platform, signal: AbortSignal | undefined): Promise<Found> {
  const refused: string[] = [];
  for (const file of await opasOnPath(env, platform)) {
    try {
      return await usable(file, env, signal);
    } catch (error) {
      signal?.throwIfAborted();
      refused.push(errorText(error));
    }
  }
  throw new Error(refused.length === 0 ? 'there is no "opa" on PATH' : refused.join('; '));
}

async function fromCache(file: string, env: Env, signal: AbortSignal | undefined): Promise<Found> {
  if (!(await isFile(file))) throw new Error(`${file} does not exist yet`);
  return pinned(file, env, signal);
}

/** Runs a file that must be exactly the pinned version. */
async function pinned(file: string, env: Env, signal: AbortSignal | undefined): Promise<Found> {
  const version = await readOpaVersion(file, env, signal);
  if (version !== OPA_VERSION) throw new Error(`${file} is OPA ${version}, expected is ${OPA_VERSION}`);
  return { path: file, version };
}

async function byDownload(options: AcquireOptions, platform: Platform): Promise<Found> {
  const { env, signal, onProgress, checksums = OPA_SHA256, downloadBaseUrl = OPA_DOWNLOAD_BASE_URL } = options;
  const asset = opaAsset(platform);
  if (asset === undefined) throw new Error(`there is no official OPA for ${platform.os}/${platform.arch}`);
  const url = `${downloadBaseUrl}/v${OPA_VERSION}/${asset}`;
  const sha256 = checksums[asset];
  if (sha256 === undefined || sha256 === '') {
    throw new Error(`no checksum of ${url} is pinned in this version of PolicySync, so it is not downloaded`);
  }
  const target = cacheFile(env, platform, options.cacheDir);
  const make = async (dir: string, fileName: string): Promise<string> => {
    const file = join(dir, fileName);
    const startedAt = performance.now();
    const report = (receivedBytes: number, totalBytes: number | undefined): void =>
      onProgress?.({ phase: 'download', url, receivedBytes, totalBytes, elapsedMs: performance.now() - startedAt });
    report(0, undefined);
    await download({
      url,
      sha256,
      file,
      env,
      onProgress: report,
      ...(options.timeouts === undefined ? {} : { timeouts: options.timeouts }),
      ...(signal === undefined ? {} : { signal }),
    });
    return file;
  };
  await putIntoCache(target, make, async (file) => {
    await pinned(file, env, signal);
  });
  return { path: target, version: OPA_VERSION };
}

/**
 * Lists `opa` in the folders of PATH, in order. Skips relative ones, which depend on the working
 * directory.
 */
async function opasOnPath(env: Env, { os }: Platform): Promise<string[]> {
  const fileName = opaFileName(os);
  const folders = (env.PATH ?? env.Path ?? '').split(delimiter).filter((folder) => isAbsolute(folder));
  const found: string[] = [];
  for (const folder of new Set(folders)) {
    const file = join(folder, fileName);
    if (await isFile(file)) found.push(file);
  }
  return found;
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch {
    return false; // missing or inaccessible
  }
}
