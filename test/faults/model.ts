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
      return withValue(root, at, what.value);
    case 'DELETE':
      return withValue(root, at, undefined);
    case 'PATCH':
      return what.ops.reduce<Json>(
        (value, op) => withValue(value, [...at, ...segments(op.path)], op.op === 'remove' ? undefined : op.value),
        root,
      );
  }
}

function withValue(node: Json | undefined, path: readonly string[], value: Json | undefined): Json {
  const [key, ...rest] = path;
  if (key === undefined) return value ?? {};
  const before = isObject(node) ? node : {};
  if (value === undefined && !isObject(node)) return node ?? {};
  const { [key]: child, ...others } = before;
  if (rest.length > 0) {
    if (value === undefined && child === undefined) return before;
    return { ...others, [key]: withValue(child, rest, value) };
  }
  return value === undefined ? others : { ...others, [key]: value };
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Without objects that have nothing in them: whether an emptied parent stays is nobody's promise. */
export function pruned(value: Json): Json | undefined {
  if (!isObject(value)) return value;
  const kept = Object.entries(value).flatMap(([key, member]) => {
    const left = pruned(member);
    return left === undefined ? [] : [[key, left] as const];
  });
  return kept.length === 0 ? undefined : Object.fromEntries(kept.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Which entry each place comes from: the `n` of the objects that have one, by path. */
export function marks(value: Json | undefined, at = '', found = new Map<string, number>()): Map<string, number> {
  if (!isObject(value)) return found;
  if (typeof value.n === 'number') found.set(at, value.n);
  for (const [key, member] of Object.entries(value)) marks(member, `${at}/${key}`, found);
  return found;
}

/** Paths at which two values differ, and how; the first `limit`. */
export function differences(expected: Json | undefined, actual: Json | undefined, limit = 12): string[] {
  const found: string[] = [];
  const look = (a: Json | undefined, b: Json | undefined, at: string): void => {
    if (found.length >= limit) return;
    if (isObject(a) && isObject(b)) {
      for (const key of [...new Set([...Object.keys(a), ...Object.keys(b)])].sort())
        look(a[key], b[key], `${at}/${key}`);
    } else if (JSON.stringify(a) !== JSON.stringify(b)) {
      found.push(`${at === '' ? '/' : at}: should be ${shown(a)}, is ${shown(b)}`);
    }
  };
  look(expected, actual, '');
  return found;
}

function shown(value: Json | undefined): string {
  const text = value === undefined ? 'absent' : JSON.stringify(value);
  return text.length > 160 ? `${text.slice(0, 160)}... (${text.length} characters)` : text;
}

/** True where `path` is `above` or below it. */
export function isAtOrBelow(path: string, above: string): boolean {
  return above === '' || path === above || path.startsWith(`${above}/`);
}
