import type { PolicyBundle } from '../../src/wire/bundle.js';

type Json = { [key: string]: unknown };

/** What an engine holds of policy. */
export interface AppliedPolicy {
  hash: string;
  /** Rego text by module path. */
  modules: Map<string, string>;
  /** The document at the root. */
  data: Json;
}

/**
 * Applies a bundle as the simplest client would (opal-protocol P5.9): data files are written one by one in the order of the
 * bundle, each replacing its folder's document; then deleted folders are removed; then modules are set, then removed. A
 * complete bundle starts from nothing. Throws when a delta does not start where the engine is, or deletes a module that is
 * not there.
 */
export function applyBundle(before: AppliedPolicy | undefined, bundle: PolicyBundle): AppliedPolicy {
  const isDelta = bundle.old_hash !== null && bundle.old_hash !== undefined;
  if (isDelta && bundle.old_hash !== before?.hash)
    throw new Error(`delta from ${bundle.old_hash}, not ${before?.hash}`);
  const after: AppliedPolicy = {
    hash: bundle.hash,
    modules: new Map(isDelta ? before?.modules : []),
    data: isDelta ? structuredClone(before?.data ?? {}) : {},
  };
  for (const { path, data } of bundle.data_modules) put(after, segments(path), JSON.parse(data));
  for (const path of bundle.deleted_files?.data_modules ?? []) remove(after.data, segments(path));
  for (const { path, rego } of bundle.policy_modules) after.modules.set(path, rego);
  for (const path of bundle.deleted_files?.policy_modules ?? []) {
    if (!after.modules.delete(path)) throw new Error(`delta deletes ${path}, which is not there`);
  }
  return after;
}

function segments(folder: string): string[] {
  return folder === '.' ? [] : folder.split('/');
}

/** Like PUT /v1/data: makes the objects above; what is no object there gives way. */
function put(engine: AppliedPolicy, path: readonly string[], value: unknown): void {
  const last = path.at(-1);
  if (last === undefined) {
    engine.data = value as Json;
    return;
  }
  let at = engine.data;
  for (const name of path.slice(0, -1)) {
    if (!isObject(at[name])) at[name] = {};
    at = at[name] as Json;
  }
  at[last] = value;
}

/** Removes the document at a path, and objects above that are empty then. */
function remove(root: Json, path: readonly string[]): void {
  const [name, ...rest] = path;
  if (name === undefined) {
    for (const key of Object.keys(root)) delete root[key];
    return;
  }
  const child = root[name];
  if (rest.length === 0) delete root[name];
  else if (isObject(child)) {
    remove(child, rest);
    if (Object.keys(child).length === 0) delete root[name];
  }
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
