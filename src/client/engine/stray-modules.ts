import type { Logger } from '../../lib/log.js';
import { regoPackage } from '../../wire/rego-package.js';
import { EngineRefusal } from './engine.js';
import type { OpaRest } from './opa-rest.js';

/** A module as the engine lists it. */
export interface ListedModule {
  readonly id: string;
  readonly raw: string;
}

/** True for a module that belongs to the engine itself, as its authorization policy: a package below `system`. */
export function isEnginesOwn({ raw }: ListedModule): boolean {
  return regoPackage(raw)?.[0] === 'system';
}

/**
 * True for a module that OPA loads from a file of its command line, or below a folder of it. OPA takes such a path as the id, without
 * its scheme, and of an absolute one without the first slash.
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
 * Removes modules that nobody who owns the engine put there; answers those that are gone. One that another needs goes after that one;
 * one that the engine does not let go stays, and is told.
 */
export async function removeModules(
  ids: readonly string[],
  { rest, log }: { rest: Pick<OpaRest, 'deletePolicy'>; log: Logger },
  signal: AbortSignal,
): Promise<string[]> {
  const gone: string[] = [];
  let open = ids;
  while (open.length > 0) {
    const refused: { id: string; error: string }[] = [];
    for (const id of open) {
      try {
        await rest.deletePolicy(id, signal);
        gone.push(id);
      } catch (error) {
        if (!(error instanceof EngineRefusal)) throw error;
        refused.push({ id, error: error.message });
      }
    }
    if (refused.length === open.length) {
      for (const line of refused)
        log.warn(line, 'a module that is not ours stays in the engine: it refuses to remove it');
      break;
    }
    open = refused.map(({ id }) => id);
  }
  return gone;
}
