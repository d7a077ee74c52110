import { EngineRefusal } from '../../../embedded/vocabulary.js';
import type { Logger } from '../../../lib/observe/log.js';
import { regoPackage } from '../../../wire/rego-package.js';
import type { OpaRest } from './opa-rest.js';

/** A module as the engine lists it. */
export interface ListedModule {
  readonly id: string;
  readonly raw: string;
}

/**
 * Whether a module belongs to the engine itself, like its authorization policy: a package below
 * `system`.
 */
export function isEnginesOwn({ raw }: ListedModule): boolean {
  return regoPackage(raw)?.[0] === 'system';
}

/**
 * Whether OPA loads a module from a file of its command line, or from a folder of it. OPA uses the
 * path as the id, without its scheme and without a leading slash.
 */
export function isLoadedFrom(files: readonly string[], id: string): boolean {
  const at = plain(id);
  return files.map(plain).some((file) => at === file || at.startsWith(`${file}/`));
}

function plain(path: string): string {
  const parts = path.replace(/^file:\/\//, '').split('/');
  return parts.filter((part) => part !== '' && part !== '.').join('/');
}

/**
 * Makes changes in order, and repeats refused ones after the others, since one module may need
 * another. Returns the changes that the engine still refuses.
 */
export async function changeModules<T>(
  changes: readonly T[],
  makeChange: (change: T) => Promise<void>,
): Promise<ReadonlyMap<T, EngineRefusal>> {
  for (let open = changes; ; ) {
    const refused = new Map<T, EngineRefusal>();
    for (const change of open) {
      try {
        await makeChange(change);
      } catch (error) {
        if (!(error instanceof EngineRefusal)) throw error;
        refused.set(change, error);
      }
    }
    if (refused.size === 0 || refused.size === open.length) return refused;
    open = [...refused.keys()];
  }
}

/**
 * Removes foreign modules; returns the removed ids. Logs and keeps modules that the engine refuses
 * to remove.
 */
export async function removeModules(
  ids: readonly string[],
  { rest, log }: { rest: Pick<OpaRest, 'deletePolicy'>; log: Logger },
  signal: AbortSignal,
): Promise<string[]> {
  const refused = await changeModules(ids, (id) => rest.deletePolicy(id, signal));
  for (const [id, { message: error }] of refused) {
    log.warn({ id, error }, 'a module that is not ours stays in the engine: it refuses to remove it');
  }
  return ids.filter((id) => !refused.has(id));
}
