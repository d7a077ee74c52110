/**
 * What should be, in the plainest way: entries in the order of their places, each applied to one JSON value. Nothing here
 * is taken from the product.
 */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type JsonObject = { [key: string]: Json };

/** An operation of a patch, on members of objects only. */
export type Op = { op: 'add' | 'replace'; path: string; value: Json } | { op: 'remove'; path: string };

/** One entry of a published update. Each has a number of its own, that its documents carry as `n`. */
export interface Entry {
  readonly n: number;
  readonly path: string;
  readonly topics: readonly string[];
  readonly what: { method: 'PUT'; value: Json } | { method: 'PATCH'; ops: readonly Op[] } | { method: 'DELETE' };
}

/** An entry in its place. */
export interface PlacedEntry extends Entry {
  readonly seq: number;
  readonly index: number;
}

export function segments(path: string): string[] {
  return path.split('/').filter((part) => part !== '');
}

/** A topic `a/b` concerns those who have subscribed to `a`, too. */
export function concerns(topics: readonly string[], subscribed: readonly string[]): boolean {
  return topics.some((topic) => subscribed.some((own) => topic === own || topic.startsWith(`${own}/`)));
}

/** The value with an entry applied. */
export function applied(root: Json, { path, what }: Entry): Json {
  const at = segments(path);
  switch (what.method) {
    case 'PUT':
      return withValue(root, at, what.value, at.length) ?? {};
    case 'DELETE':
      return withValue(root, at, undefined, at.length) ?? {};
    case 'PATCH':
      return what.ops.reduce<Json>((value, op) => {
        const place = [...at, ...segments(op.path)];
        if (op.op === 'remove') return withValue(value, place, undefined, place.length) ?? {};
        return withValue(value, place, op.value, at.length) ?? {};
      }, root);
  }
}

/** Marks an object that is there because of what is in it: it goes with its last member. */
const IMPLIED = Symbol('implied');
type Marked = JsonObject & { [IMPLIED]?: true };

/** `from`: the depth from which objects on the way are a part of what is written: they stay whatever becomes of it. */
function withValue(
  node: Json | undefined,
  path: readonly string[],
  value: Json | undefined,
  from: number,
): Json | undefined {
  const [key, ...rest] = path;
  if (key === undefined) return value;
  if (value === undefined && (!isObject(node) || !(key in node))) return node;
  const after: Marked = isObject(node) ? { ...node } : { [IMPLIED]: true };
  if (from <= 0) delete after[IMPLIED];
  const child = withValue(after[key], rest, value, from - 1);
  if (child === undefined) delete after[key];
  else after[key] = child;
  return after[IMPLIED] === true && Object.keys(after).length === 0 ? undefined : after;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Which entry each place comes from: the `n` of the objects that have one, by path. */
export function marks(value: Json | undefined, at = '', found = new Map<string, number>()): Map<string, number> {
  if (!isObject(value)) return found;
  if (typeof value.n === 'number') found.set(at, value.n);
  for (const [key, member] of Object.entries(value)) marks(member, `${at}/${key}`, found);
  return found;
}

/** True where `path` is `above` or below it. */
export function isAtOrBelow(path: string, above: string): boolean {
  return above === '' || path === above || path.startsWith(`${above}/`);
}
