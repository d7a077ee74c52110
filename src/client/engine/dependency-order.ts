import { regoPackage } from '../../wire/rego-package.js';

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
