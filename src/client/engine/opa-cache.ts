import { chmod, mkdir, mkdtemp, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { cacheFolder } from '../../lib/cache-folder.js';
import { type Env, OPA_VERSION, opaFileName, type Platform } from './opa-version.js';

/** Leftovers of a killed process are removed when they are older than this. */
const STALE_TEMP_MS = 24 * 3_600_000;

/**
 * Lets `make` put an executable into a temporary folder beside `target` (the same file system), checks it, and gives it
 * its name by a rename. So `target` is always a whole, checked file, also where several processes do this at once. The
 * temporary folder is gone afterwards, whatever happened.
 */
export async function putIntoCache(
  target: string,
  make: (dir: string, fileName: string) => Promise<string>,
  check: (file: string) => Promise<void>,
): Promise<void> {
  const folder = dirname(target);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await removeStaleTemps(folder);
  const temp = await mkdtemp(join(folder, 'tmp-'));
  try {
    const file = await make(temp, basename(target));
    await chmod(file, 0o755);
    await sync(file);
    await check(file);
    await renameOrKeep(file, target, () => check(target));
  } finally {
    await rm(temp, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Windows refuses to replace an executable that runs; then the one that another process put there first serves. */
async function renameOrKeep(from: string, to: string, check: () => Promise<unknown>): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    try {
      await check();
    } catch {
      // There is no good one in its place: the rename's own error is what to report.
      throw error;
    }
  }
}

async function sync(file: string): Promise<void> {
  await using handle = await open(file, 'r+');
  await handle.sync();
}

/** Removes what processes that were killed left; a folder that is in use is younger. */
async function removeStaleTemps(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.startsWith('tmp-')) continue;
    const path = join(folder, name);
    // Another process may be removing the same one: then it is gone, which is what is wanted.
    const found = await stat(path).catch(() => undefined);
    if (found !== undefined && Date.now() - found.mtimeMs > STALE_TEMP_MS) {
      await rm(path, { recursive: true, force: true });
    }
  }
}

/** `<cache>/opa/<version>/opa`; throws where neither `cacheDir` nor the environment names a cache folder. */
export function cacheFile(env: Env, { os }: Platform, cacheDir?: string): string {
  return join(cacheDir ?? cacheFolder({ env, os }), 'opa', OPA_VERSION, opaFileName(os));
}
