import { outermost, PathSet } from '../../lib/path-tree.js';
import type { DocPath } from '../../wire/doc-path.js';
import { isObject, leafOfBody, type Node, nodeAt, sameNode } from '../../wire/json-node.js';
import { type DataOp, diffNodes, type Layer, LayerSet, replaces, topOf } from '../desired/layers.js';

/** Operations of one engine transaction: bounded, so that no request grows with the size of the fleet's data. */
const MAX_OPS = 1000;
/** A body of at least this size is written alone, as one streamed put. */
const LARGE_BYTES = 1024 * 1024;
/** Sum of the known body sizes of one transaction. */
const MAX_BYTES = 4 * 1024 * 1024;

/** Layers to add (or replace, by id) and layer ids to drop, as one step. */
export interface LayerChange {
  readonly set: readonly Layer[];
  readonly drop: readonly string[];
}

/** One change of the layers under way: what was there before, and the way back. */
export class Step {
  readonly #layers: LayerSet;
  readonly #touched: readonly DocPath[];
  readonly #places: PathSet;
  readonly #before: ReadonlyMap<DocPath, Node | undefined>;
  readonly #regionsBefore: ReadonlyMap<DocPath, Node | undefined>;
  #back: (() => void)[] = [];

  constructor(layers: LayerSet, change: LayerChange, roots: () => readonly DocPath[]) {
    this.#layers = layers;
    const ids = new Set([...change.drop, ...change.set.map((layer) => layer.id)]);
    const old = [...ids].flatMap((id) => layers.get(id) ?? []);
    this.#touched = outermost([...old, ...change.set].map((layer) => withRoom(layers, layer.path)));
    this.#places = new PathSet(this.#touched);
    this.#before = new Map(this.#touched.map((path) => [path, layers.compose(path)]));
    const near = roots().filter((root) => this.#places.overlaps(root));
    this.#regionsBefore = new Map(near.map((path) => [path, layers.compose(path)]));
    for (const layer of old) {
      layers.delete(layer.id);
      this.#back.push(() => layers.set(layer));
    }
    for (const layer of change.set) {
      layers.set(layer);
      this.#back.push(() => layers.delete(layer.id));
    }
  }

  touches(path: DocPath): boolean {
    return this.#places.overlaps(path);
  }

  regionsDiffer(): boolean {
    return [...this.#regionsBefore].some(([path, node]) => !sameNode(node, this.#layers.compose(path)));
  }

  ops(closed: readonly DocPath[], refused: Map<string, string>): DataOp[] {
    const near = new PathSet(closed);
    return this.#touched.flatMap((path) =>
      diffNodes(this.#before.get(path), this.#layers.compose(path, refused), path, near.overlapping(path)),
    );
  }

  reverseOps(closed: readonly DocPath[]): DataOp[] {
    const near = new PathSet(closed);
    return this.#touched.flatMap((path) =>
      diffNodes(this.#layers.compose(path), this.#before.get(path), path, near.overlapping(path)),
    );
  }

  undo(): void {
    for (const step of this.#back.reverse()) step();
    this.#back = [];
  }
}

/** Splits operations into engine transactions: small ones together, large bodies alone, in order. */
export function* inChunks(ops: readonly DataOp[]): Generator<readonly DataOp[]> {
  let chunk: DataOp[] = [];
  let bytes = 0;
  for (const op of ops) {
    const size = op.op === 'put' ? (op.body?.sizeBytes ?? 0) : 0;
    if (chunk.length > 0 && (chunk.length >= MAX_OPS || bytes + size > MAX_BYTES || size >= LARGE_BYTES)) {
      yield chunk;
      chunk = [];
      bytes = 0;
    }
    chunk.push(op);
    bytes += size;
    if (size >= LARGE_BYTES) {
      yield chunk;
      chunk = [];
      bytes = 0;
    }
  }
  if (chunk.length > 0) yield chunk;
}

/**
 * The path to write at so that `path` can be written: itself, or the nearest place above it where a document has a value without members,
 * which has to become an object first, or is there again once nothing lies below it.
 */
function withRoom(layers: LayerSet, path: DocPath): DocPath {
  for (let length = 1; length < path.length; length++) {
    const above = path.slice(0, length);
    const value = ownValue(layers.atOrAbove(above), above);
    if (value !== undefined && !isObject(value)) return above;
  }
  return path;
}

/** What layers at and above a path have there, whatever lies below. Composed only where patches decide. */
function ownValue(layers: readonly Layer[], path: DocPath): Node | undefined {
  if (!layers.every(replaces)) {
    const alone = new LayerSet();
    for (const layer of layers) alone.set(layer);
    return alone.compose(path);
  }
  const top = topOf(layers);
  return top?.content.kind === 'put' ? nodeAt(leafOfBody(top.content.body), path.slice(top.path.length)) : undefined;
}
