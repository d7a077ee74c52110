import { chmod, mkdtemp, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { cacheFolder } from '../../../lib/run/cache-folder.js';
import { makeFolder } from '../../../lib/settings/private-files.js';
import { type Env, OPA_VERSION, opaFileName, type Platform } from './opa-version.js';

/** Leftovers of a killed process are removed when they are older than this. */
const STALE_TEMP_MS = 24 * 3_600_000;

/**
 * Lets `make` create an executable in a temporary folder next to `target` (on the same file
 * system), checks it, and renames it. So `target` is always a complete, checked file, even if
 * several processes do this at once. Always removes the temporary folder.
 */
export async function putIntoCache(
  target: string,
  make: (dir: string, fileName: string) => Promise<string>,
  check: (file: string) => Promise<void>,
): Promise<void> {
  const folder = dirname(target);
  await makeFolder(folder);
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

/**
 * Windows cannot replace a running executable; then the one that another process put there first is
 * used.
 */
async function renameOrKeep(from: string, to: string, check: () => Promise<unknown>): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    try {
      await check();
    } catch {
      // No valid executable in its place: report the error of the rename.
      throw error;
    }
  }
}

async function sync(file: string): Promise<void> {
  await using handle = await open(file, 'r+');
  await handle.sync();
}

/** Removes leftovers of killed processes; folders in use are younger. */
async function removeStaleTemps(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.startsWith('tmp-')) continue;
    const path = join(folder, name);
    // Another process may have removed it already.
    const found = await stat(path).catch(() => undefined);
    if (found !== undefined && Date.now() - found.mtimeMs > STALE_TEMP_MS) {
      await rm(path, { recursive: true, force: true });
    }
  }
}

/**
 * `<cache>/opa/<version>/opa`; throws if neither `cacheDir` nor the environment defines a cache
 * folder.
 */
export function cacheFile(env: Env, { os }: Platform, cacheDir?: string): string {
  return join(cacheDir ?? cacheFolder({ env, os }), 'opa', OPA_VERSION, opaFileName(os));
}
