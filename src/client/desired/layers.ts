import { PathIndex, PathTree, type Placed } from '../../lib/json/path-tree.js';
import { type DocPath, isAtOrBelow } from '../../wire/doc-path.js';
import {
  type Body,
  isImplied,
  isObject,
  leafOfBody,
  type MadeNode,
  membersOf,
  type Node,
  nodeAt,
  nodeText,
  sameNode,
  withImplied,
  withValue,
} from '../../wire/json-node.js';
import { type PatchOp, PatchRefused, patchedAt } from '../../wire/json-patch.js';

/**
 * Order of documents: compared part by part, the greater one is applied later and wins (design D6).
 * Static data of the bundle has the era {@link STATIC_ERA}; dynamic entries have the era of their
 * log, their seq and their place in it.
 */
export interface Rank {
  readonly era: number;
  readonly seq: number;
  readonly index: number;
}

/** The era of static data: below every dynamic entry. */
export const STATIC_ERA = 0;

/** Negative when `a` is applied before `b`. */
export function compareRank(a: Rank, b: Rank): number {
  return a.era - b.era || a.seq - b.seq || a.index - b.index;
}

/** What a layer does at its path. */
export type LayerContent =
  /** `implied`: objects of the body that are there only because of what is in them. */
  | { readonly kind: 'put'; readonly body: Body; readonly implied?: readonly DocPath[] }
  /** `onlyRemoves`: of what lies below it in the order, static data stay (design D48). */
  | { readonly kind: 'delete'; readonly onlyRemoves?: boolean }
  | { readonly kind: 'patch'; readonly ops: readonly PatchOp[] };

/** One document, deletion or patch that takes part in the desired state. */
export interface Layer extends Placed {
  readonly rank: Rank;
  readonly content: LayerContent;
}

/** True for a layer that replaces everything at and below its path. */
export function replaces(layer: Layer): boolean {
  return layer.content.kind !== 'patch';
}

/** True for a deletion that leaves static data as they are. */
export function onlyRemoves({ content }: Layer): boolean {
  return content.kind === 'delete' && content.onlyRemoves === true;
}

/** True for a layer that decides alone what is at and below its path. */
export function decides(layer: Layer): boolean {
  return replaces(layer) && !onlyRemoves(layer);
}

/**
 * A set of layers, composed at any path: what a fresh engine would hold that is given these layers
 * once, and so what every engine should hold. A layer that a later one replaces counts for nothing.
 * An object is there because a document says so (also `{}`), because a patch made it in what it
 * changes, or because of what lies below it; one that is there for the last reason alone goes with
 * that (design D7).
 */
export class LayerSet extends PathIndex<Layer> {
  readonly #patches = new PathTree<Layer>();

  override set(layer: Layer): void {
    super.set(layer);
    if (layer.content.kind === 'patch') this.#patches.add(layer.path, layer);
  }

  override delete(id: string): void {
    const layer = this.get(id);
    if (layer?.content.kind === 'patch') this.#patches.remove(layer.path, layer);
    super.delete(id);
  }

  /**
   * The composed value of all layers at `path`. A patch that cannot be applied is left out and
   * named in `refused`, if given.
   */
  compose(path: DocPath, refused?: Map<string, string>): Node | undefined {
    return this.#composed(path, this.overlapping(path), refused);
  }

  #composed(path: DocPath, of: readonly Layer[], refused?: Map<string, string>): Node | undefined {
    const layers = [...of].sort((a, b) => compareRank(a.rank, b.rank));
    // A patch reads what is outside `path` too (test, move, copy): compose from where the patch
    // starts.
    const top = layers.reduce<DocPath>(
      (shortest, layer) =>
        layer.content.kind === 'patch' && layer.path.length < shortest.length ? layer.path : shortest,
      path,
    );
    if (top.length < path.length) return nodeAt(this.compose(top, refused), path.slice(top.length));
    let from = 0;
    for (const [index, layer] of layers.entries()) {
      if (decides(layer) && isAtOrBelow(path, layer.path)) from = index;
    }
    let node: Node | undefined;
    const made: MadeNode = new Map();
    for (const layer of layers.slice(from)) {
      if (this.#isReplaced(layer)) continue;
      if (onlyRemoves(layer)) node = this.#withoutUpdates(node, path, layer, made);
      else node = applyLayer(node, path, layer, made, refused);
      if (!replaces(layer)) made.clear(); // it may have put one object in two places
    }
    return node;
  }

  /**
   * The uppermost place at or above a path that a patch changes from; the path itself where none
   * does.
   */
  patchedFrom(path: DocPath): DocPath {
    return this.#patches.above(path)[0]?.path ?? path;
  }

  /** Whether there is a value that is no object at a path. Composes only where one may be there. */
  isValueAt(path: DocPath): boolean {
    const above = this.atOrAbove(path);
    if (above.every(decides)) {
      const top = topOf(above);
      const own =
        top?.content.kind === 'put' ? nodeAt(leafOfBody(top.content.body), path.slice(top.path.length)) : undefined;
      if (own === undefined || isObject(own)) return false; // what lies below makes an object
    }
    const node = this.compose(path);
    return node !== undefined && !isObject(node);
  }

  /**
   * What is left where a deletion only removes: the static data, unless a document above stands
   * over them.
   */
  #withoutUpdates(node: Node | undefined, path: DocPath, { path: at, rank }: Layer, made: MadeNode): Node | undefined {
    const below = at.slice(path.length);
    const place = [...path, ...below];
    const covers = (other: Layer): boolean => decides(other) && isDynamic(other) && compareRank(other.rank, rank) < 0;
    const isCovered = this.atOrAbove(place).some((other) => covers(other) && !this.#isReplaced(other));
    const statics = isCovered ? [] : this.overlapping(place).filter((layer) => !isDynamic(layer));
    return withValue(node, below, statics.length === 0 ? undefined : this.#composed(place, statics), made);
  }

  /** How many segments of a path lead to something: all of them where there is a value. */
  reach(path: DocPath): number {
    let length = path.length;
    while (length > 0 && !this.#has(path.slice(0, length))) length--;
    return length;
  }

  /**
   * The object without members that is the last thing on the way to a path with nothing: a patch
   * has made it.
   */
  emptyAbove(path: DocPath): DocPath | undefined {
    const above = path.slice(0, this.reach(path));
    if (above.length === 0 || above.length === path.length) return undefined;
    const node = this.compose(above);
    return isObject(node) && membersOf(node).size === 0 ? above : undefined;
  }

  /**
   * Whether there is an object at a path that is not the root. Composes only where a patch may
   * decide.
   */
  isObjectAt(path: DocPath): boolean {
    return this.#has(path) && !this.isValueAt(path);
  }

  /**
   * Whether there is a value at a path that is not the root. Composes only where a patch may
   * decide.
   */
  #has(path: DocPath): boolean {
    const isPatched = (at: DocPath): boolean => this.#patches.above(at).length > 0;
    const above = this.atOrAbove(path).filter(replaces);
    const mayBePatched = isPatched(path) || this.#patches.some(path, () => true) || above.some(onlyRemoves);
    const base = topOf(above);
    if (base?.content.kind === 'put' && !isPatched(path)) {
      const value = nodeAt(nodeOf(base.content), path.slice(base.path.length));
      if (value !== undefined && (keepsPlace(value) || !mayBePatched)) return true;
    }
    const stays = (layer: Layer): boolean =>
      layer.content.kind === 'put' &&
      !isPatched(layer.path) &&
      !this.#isReplaced(layer) &&
      (!this.#patches.some(layer.path, () => true) || keepsPlace(nodeOf(layer.content)));
    if (this.hasBelow(path, stays)) return true;
    return mayBePatched && this.compose(path) !== undefined;
  }

  #isReplaced(layer: Layer): boolean {
    const later = this.atOrAbove(layer.path).filter(
      (other) => replaces(other) && compareRank(other.rank, layer.rank) > 0,
    );
    if (isDynamic(layer)) return later.length > 0;
    // What has replaced them may be removed, and they are there again.
    return later.some((other) => !onlyRemoves(other) && !(isDynamic(other) && this.#isReplaced(other)));
  }
}

/**
 * Whether a value stays whatever a patch does below its place. One without members makes room for
 * what another layer puts there, and an implied object goes with its last member.
 */
function keepsPlace(value: Node): boolean {
  return isObject(value) && !isImplied(value);
}

function isDynamic({ rank }: Layer): boolean {
  return rank.era !== STATIC_ERA;
}

function applyLayer(
  node: Node | undefined,
  path: DocPath,
  layer: Layer,
  made: MadeNode,
  refused?: Map<string, string>,
): Node | undefined {
  const { content } = layer;
  if (layer.path.length < path.length) {
    return content.kind === 'put' ? nodeAt(nodeOf(content), path.slice(layer.path.length)) : undefined;
  }
  const below = layer.path.slice(path.length);
  switch (content.kind) {
    case 'put':
      return withValue(node, below, nodeOf(content), made);
    case 'delete':
      return withValue(node, below, undefined, made);
    case 'patch':
      try {
        return patchedAt(node, below, content.ops, path.length);
      } catch (error) {
        if (!(error instanceof PatchRefused)) throw error;
        refused?.set(layer.id, error.message);
        return node;
      }
  }
}

function nodeOf({ body, implied }: LayerContent & { readonly kind: 'put' }): Node {
  return implied === undefined ? leafOfBody(body) : withImplied(leafOfBody(body), implied);
}

/** The last one in order; undefined: there is none. */
export function topOf(layers: readonly Layer[]): Layer | undefined {
  return layers.reduce<Layer | undefined>(
    (top, layer) => (top === undefined || compareRank(layer.rank, top.rank) > 0 ? layer : top),
    undefined,
  );
}

/**
 * One change of the document tree. Paths of one list never overlap. `body` is there where the text
 * is a whole body.
 */
export type DataOp =
  | { readonly op: 'put'; readonly path: DocPath; readonly text: () => string; readonly body?: Body }
  | { readonly op: 'remove'; readonly path: DocPath };

/**
 * The operations that lead from one composed subtree to another. An operation never covers a
 * subtree that stays as it is where documents overlap (design D7), nor one of the `closed` paths,
 * which are written by other means; the root is never replaced as a whole.
 */
export function diffNodes(
  before: Node | undefined,
  after: Node | undefined,
  path: DocPath,
  closed: readonly DocPath[],
): DataOp[] {
  const ops: DataOp[] = [];
  if (closed.some((other) => isAtOrBelow(path, other))) return ops;
  const inside = closed.filter((other) => isAtOrBelow(other, path));
  walk(before, after, path, inside, ops);
  return ops;
}

/**
 * `inside`: the closed paths below the path. Each is looked at once at each level, however many
 * members there are.
 */
function walk(
  before: Node | undefined,
  after: Node | undefined,
  path: DocPath,
  inside: readonly DocPath[],
  ops: DataOp[],
): void {
  const split = path.length === 0 || inside.length > 0;
  if (!split) {
    if (sameNode(before, after)) return;
    if (after === undefined) {
      ops.push({ op: 'remove', path });
      return;
    }
    if (after.kind === 'leaf' || !isObject(before)) {
      ops.push(putOp(path, after));
      return;
    }
  }
  // A value that has no members makes room for what lies below it; nothing closed can be there.
  if (path.length > 0 && before !== undefined && !isObject(before)) ops.push({ op: 'remove', path });
  const old = membersOf(before);
  const next = membersOf(after);
  // OPA's REST API cannot name a member without a name: the object around it is written whole.
  if (!split && after !== undefined && (old.has('') || next.has(''))) {
    ops.push(putOp(path, after));
    return;
  }
  const below = new Map<string, DocPath[]>();
  for (const other of inside) {
    const key = other[path.length] ?? '';
    const own = below.get(key);
    if (own === undefined) below.set(key, [other]);
    else own.push(other);
  }
  for (const key of new Set([...old.keys(), ...next.keys()])) {
    const own = below.get(key) ?? [];
    if (own.some((other) => other.length === path.length + 1)) continue;
    walk(old.get(key), next.get(key), [...path, key], own, ops);
  }
}

/** The put operation that writes a node at a path. */
export function putOp(path: DocPath, node: Node): DataOp {
  return node.kind === 'leaf' && node.body !== undefined
    ? { op: 'put', path, text: node.text, body: node.body }
    : { op: 'put', path, text: () => nodeText(node) };
}
