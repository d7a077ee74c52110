import type { Logger } from '../../lib/log.js';
import { regoPackage } from '../../wire/rego-package.js';
import { EngineRefusal } from './engine.js';
import type { OpaRest } from './opa-rest.js';

/** A module as the engine lists it. */
export interface ListedModule {
  readonly id: string;
  readonly raw: string;
}

/** Whether a module belongs to the engine itself, like its authorization policy: a package below `system`. */
export function isEnginesOwn({ raw }: ListedModule): boolean {
  return regoPackage(raw)?.[0] === 'system';
}

/**
 * Whether OPA loads a module from a file of its command line, or from a folder of it. OPA uses the path as the id, without its
 * scheme and without a leading slash.
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
 * Makes changes in order, and repeats refused ones after the others, since one module may need another. Returns the changes that
 * the engine still refuses.
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

/** Removes foreign modules; returns the removed ids. Logs and keeps modules that the engine refuses to remove. */
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

/**
 * Sorts module paths so that each finds the functions of the packages that it references: an engine that accepts modules one by
 * one refuses a call of an unknown function, after compiling everything. References are read from the text
 * (`data.some.package`), so a name in a comment counts too: it adds an edge but does no harm. Modules that need each other, and
 * the rest, keep the given order.
 */
export function dependencyOrder(modules: ReadonlyMap<string, string>): string[] {
  const byPackage = new Map<string, string[]>();
  for (const [path, rego] of modules) {
    const name = regoPackage(rego)?.join('.');
    if (name === undefined) continue;
    const paths = byPackage.get(name);
    if (paths === undefined) byPackage.set(name, [path]);
    else paths.push(path);
  }
  const order: string[] = [];
  const seen = new Set<string>();
  const visit = (path: string, rego: string): void => {
    if (seen.has(path)) return;
    seen.add(path);
    for (const needed of namedModules(rego, byPackage)) {
      const text = modules.get(needed);
      if (text !== undefined) visit(needed, text);
    }
    order.push(path);
  };
  for (const [path, rego] of modules) visit(path, rego);
  return order;
}

/** Returns the modules of the packages that a text references: `data.a.b.f` may be rule `f` of `a.b`, or rule `b` of `a`. */
function namedModules(rego: string, byPackage: ReadonlyMap<string, readonly string[]>): string[] {
  const named = new Set<string>();
  for (const [, reference = ''] of rego.matchAll(/\bdata\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)/g)) {
    for (let name = reference; name !== ''; name = name.slice(0, Math.max(0, name.lastIndexOf('.')))) {
      for (const path of byPackage.get(name) ?? []) named.add(path);
    }
  }
  return [...named];
}
