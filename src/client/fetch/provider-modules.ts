import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { errorText, SyncError } from '../../lib/errors.js';
import type { FetchProvider } from './provider.js';

/**
 * Loads fetch providers from ES modules (SYNC_FETCH_PROVIDER_MODULES): file paths, relative ones from the working folder,
 * or `file:` URLs. Throws `config_invalid` that names the module which cannot be loaded or has no provider as default
 * export.
 */
export async function loadProviderModules(paths: readonly string[]): Promise<FetchProvider[]> {
  const providers: FetchProvider[] = [];
  for (const path of paths) {
    const url = path.startsWith('file:') ? path : pathToFileURL(resolve(path)).href;
    let loaded: unknown;
    try {
      loaded = await import(url);
    } catch (cause) {
      throw invalid(path, `cannot be loaded: ${errorText(cause)}`, cause);
    }
    const exported = isObject(loaded) ? loaded.default : undefined;
    if (!isProvider(exported)) {
      throw invalid(path, 'has no fetch provider as default export: an object with `names` and `fetch`');
    }
    providers.push(exported);
  }
  return providers;
}

/** True for what has the members of a provider that must be there. */
function isProvider(value: unknown): value is FetchProvider {
  if (!isObject(value)) return false;
  const { names, fetch } = value;
  const areNames = Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === 'string' && name);
  return areNames && typeof fetch === 'function';
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function invalid(path: string, why: string, cause?: unknown): SyncError {
  return new SyncError('config_invalid', `SYNC_FETCH_PROVIDER_MODULES: the module ${path} ${why}`, { cause });
}
