import * as nodeModule from 'node:module';
import { join } from 'node:path';
import { cacheFolder } from '../lib/cache-folder.js';

/** What Node has from 22.1 on, and its types here do not know. */
type EnableCompileCache = (folder: string) => unknown;

/**
 * Keeps V8's code cache of the modules that load from now on in the user's cache folder, where this Node can: it saves a
 * tenth of a start. Node's default, the folder for temporary files, could have another user's files. Never throws.
 */
export function useCompileCache(env: Readonly<Record<string, string | undefined>>): void {
  const { enableCompileCache } = nodeModule as { readonly enableCompileCache?: EnableCompileCache };
  if (enableCompileCache === undefined) return;
  let folder: string;
  try {
    folder = join(cacheFolder({ env, os: process.platform }), 'compile-cache');
  } catch {
    return; // a user without a cache folder
  }
  enableCompileCache(folder);
}
