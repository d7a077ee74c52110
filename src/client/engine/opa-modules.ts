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
 * Makes changes in order, and refused ones again after the others, as one module may need another. Returns what the engine refuses
 * in the end.
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

/** Removes foreign modules; returns the ids of those removed. One that the engine refuses to remove stays, and is logged. */
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
 * Module paths in an order in which each finds the functions of the packages that it names: an engine that takes modules
 * one by one refuses a call of a function that it does not know yet, after compiling everything. What a module names is
 * read from its text (`data.some.package`), so a name in a comment counts too: it costs an edge, not correctness.
 * Modules that need each other, and the rest, keep the order given.
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

/** Modules of the packages that a text names: `data.a.b.f` may be rule `f` of `a.b`, or rule `b` of `a`. */
function namedModules(rego: string, byPackage: ReadonlyMap<string, readonly string[]>): string[] {
  const named = new Set<string>();
  for (const [, reference = ''] of rego.matchAll(/\bdata\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)/g)) {
    for (let name = reference; name !== ''; name = name.slice(0, Math.max(0, name.lastIndexOf('.')))) {
      for (const path of byPackage.get(name) ?? []) named.add(path);
    }
  }
  return [...named];
}
