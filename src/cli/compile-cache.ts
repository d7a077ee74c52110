import * as nodeModule from 'node:module';
import { join } from 'node:path';
import { cacheFolder } from '../lib/cache-folder.js';

/** What Node has from 22.1 on, and its types here do not know. */
type EnableCompileCache = (folder: string) => unknown;

/**
 * Keeps what V8 compiles of the modules that are loaded from now on in the user's cache folder, and takes it from there the next
 * time, where this Node can: it saves a tenth of a start. Not in the folder for temporary files, as Node does by itself: what is
 * there may be somebody else's. Where it does not work, the start only takes longer.
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
