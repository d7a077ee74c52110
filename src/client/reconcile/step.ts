import { outermost, PathSet } from '../../lib/json/path-tree.js';
import type { DocPath } from '../../wire/doc-path.js';
import { isObject, leafOfBody, type Node, nodeAt } from '../../wire/json-node.js';
import { type DataOp, decides, diffNodes, type Layer, LayerSet, putOp, topOf } from '../desired/layers.js';

/**
 * Operations of one engine transaction: bounded, so that no request grows with the size of the
 * fleet's data.
 */
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

/** What was at a path, and how much of the way to it. */
interface Before {
  readonly node: Node | undefined;
  readonly reach: number;
}

/** One change of the layers under way: what was there before, and the way back. */
export class Step {
  readonly #layers: LayerSet;
  readonly #before: ReadonlyMap<DocPath, Before>;
  readonly #places: PathSet;
  #back: (() => void)[] = [];

  constructor(layers: LayerSet, change: LayerChange) {
    this.#layers = layers;
    const ids = new Set([...change.drop, ...change.set.map((layer) => layer.id)]);
    const old = [...ids].flatMap((id) => layers.get(id) ?? []);
    const touched = outermost([...old, ...change.set].map(({ path }) => withRoom(layers, layers.patchedFrom(path))));
    this.#places = new PathSet(touched);
    this.#before = new Map(
      touched.map((path) => {
        const node = layers.compose(path);
        return [path, { node, reach: node === undefined ? layers.reach(path) : path.length }];
      }),
    );
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

  /** Those of some paths that the step touches. */
  near(paths: PathSet): DocPath[] {
    return [...this.#before.keys()].flatMap((path) => paths.overlapping(path));
  }

  ops(closed: readonly DocPath[], refused: Map<string, string>): DataOp[] {
    const near = new PathSet(closed);
    return [...this.#before].flatMap(([path, { node }]) =>
      diffNodes(node, this.#layers.compose(path, refused), path, near.overlapping(path)),
    );
  }

  /**
   * What changes at and below the roots. Within a root an operation needs no parent that was not
   * there, and leaves no object behind that is not there any more; the packages are objects, with
   * or without documents.
   */
  opsIn(roots: readonly DocPath[], packages: PathSet): DataOp[] {
    const places = new PathSet(roots);
    const ops = [...this.#before].flatMap(([path, before]) => {
      const near = places.overlapping(path);
      const [root] = near;
      if (root === undefined) return [];
      const after = this.#layers.compose(path);
      if (root.length <= path.length) {
        return this.#opsBelow(path, Math.max(root.length - 1, packages.reach(path)), before, after);
      }
      return near.flatMap((own) => {
        const at = (node: Node | undefined): Node | undefined => nodeAt(node, own.slice(path.length));
        return diffNodes(at(before.node), at(after), own, []);
      });
    });
    return [...new Map(ops.map((op) => [JSON.stringify(op.path), op])).values()];
  }

  /** `there`: so much of the way to the path is there, whatever the layers say. */
  #opsBelow(path: DocPath, there: number, before: Before, after: Node | undefined): DataOp[] {
    const top = (reach: number): DocPath => path.slice(0, Math.max(there, reach) + 1);
    if (before.node !== undefined && after === undefined) {
      if (there < path.length) return [{ op: 'remove', path: top(this.#layers.reach(path)) }];
      return [{ op: 'put', path, text: () => '{}' }];
    }
    const place = top(before.reach);
    if (before.node !== undefined || place.length >= path.length) return diffNodes(before.node, after, path, []);
    const node = this.#layers.compose(place);
    return node === undefined ? [] : [putOp(place, node)];
  }

  reverseOps(closed: readonly DocPath[]): DataOp[] {
    const near = new PathSet(closed);
    return [...this.#before].flatMap(([path, { node }]) =>
      diffNodes(this.#layers.compose(path), node, path, near.overlapping(path)),
    );
  }

  undo(): void {
    for (const step of this.#back.reverse()) step();
    this.#back = [];
  }
}

/**
 * Splits operations into engine transactions: small ones together, large bodies alone, in order.
 */
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
 * The path to write at so that `path` can be written: itself, or the nearest place above it where a
 * document has a value without members, which has to become an object first, or is there again once
 * nothing lies below it.
 */
function withRoom(layers: LayerSet, path: DocPath): DocPath {
  for (let length = 1; length < path.length; length++) {
    const above = path.slice(0, length);
    const value = ownValue(layers.atOrAbove(above), above);
    if (value !== undefined && !isObject(value)) return above;
  }
  return path;
}

/**
 * What layers at and above a path have there, whatever lies below. Composed only where no layer
 * decides alone.
 */
function ownValue(layers: readonly Layer[], path: DocPath): Node | undefined {
  if (!layers.every(decides)) {
    const alone = new LayerSet();
    for (const layer of layers) alone.set(layer);
    return alone.compose(path);
  }
  const top = topOf(layers);
  return top?.content.kind === 'put' ? nodeAt(leafOfBody(top.content.body), path.slice(top.path.length)) : undefined;
}
