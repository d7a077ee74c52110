import { PathTree } from '../../lib/path-tree.js';
import type { DocPath } from '../../wire/doc-path.js';

/** What an index holds: things with an id and a place. */
export interface Placed {
  readonly id: string;
  readonly path: DocPath;
}

/** Things by id, and by path: finds what lies at, above or below one. */
export class PathIndex<T extends Placed> {
  readonly #byId = new Map<string, T>();
  readonly #byPath = new PathTree<T>();

  get size(): number {
    return this.#byId.size;
  }

  all(): IterableIterator<T> {
    return this.#byId.values();
  }

  get(id: string): T | undefined {
    return this.#byId.get(id);
  }

  /** Adds an item; one of the same id is replaced. */
  set(item: T): void {
    this.delete(item.id);
    this.#byId.set(item.id, item);
    this.#byPath.add(item.path, item);
  }

  delete(id: string): void {
    const item = this.#byId.get(id);
    if (item === undefined) return;
    this.#byId.delete(id);
    this.#byPath.remove(item.path, item);
  }

  /** Items at `path` or above it. */
  atOrAbove(path: DocPath): T[] {
    return this.#byPath.above(path);
  }

  /** Items at `path` or below it. */
  atOrBelow(path: DocPath): T[] {
    return [...this.#byPath.below(path)];
  }

  /** Items at, above or below `path`. */
  overlapping(path: DocPath): T[] {
    const found = this.atOrAbove(path).filter((item) => item.path.length < path.length);
    for (const item of this.#byPath.below(path)) found.push(item); // there may be more than a call takes arguments
    return found;
  }
}

/** The paths of a list that lie below no other path of it, each once. */
export function outermost(paths: readonly DocPath[]): DocPath[] {
  const sorted = [...paths].sort((a, b) => a.length - b.length);
  const kept: DocPath[] = [];
  const seen = new Set<string>();
  for (const path of sorted) {
    let covered = false;
    for (let length = 0; length <= path.length && !covered; length++) {
      covered = seen.has(JSON.stringify(path.slice(0, length)));
    }
    if (covered) continue;
    seen.add(JSON.stringify(path));
    kept.push(path);
  }
  return kept;
}
