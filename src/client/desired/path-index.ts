import type { DocPath } from '../../wire/doc-path.js';

/** What an index holds: things with an id and a place. */
export interface Placed {
  readonly id: string;
  readonly path: DocPath;
}

interface TrieNode<T> {
  readonly children: Map<string, TrieNode<T>>;
  items: T[];
}

/** Finds what lies at, above or below a path without looking at everything else. */
export class PathIndex<T extends Placed> {
  readonly #byId = new Map<string, T>();
  readonly #root: TrieNode<T> = { children: new Map(), items: [] };

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
    let at = this.#root;
    for (const segment of item.path) {
      let child = at.children.get(segment);
      if (child === undefined) {
        child = { children: new Map(), items: [] };
        at.children.set(segment, child);
      }
      at = child;
    }
    at.items.push(item);
  }

  delete(id: string): void {
    const item = this.#byId.get(id);
    if (item === undefined) return;
    this.#byId.delete(id);
    const way: [TrieNode<T>, string][] = [];
    let at: TrieNode<T> | undefined = this.#root;
    for (const segment of item.path) {
      way.push([at, segment]);
      at = at.children.get(segment);
      if (at === undefined) return;
    }
    at.items = at.items.filter((other) => other.id !== id);
    for (const [parent, segment] of way.reverse()) {
      const child = parent.children.get(segment);
      if (child === undefined || child.items.length > 0 || child.children.size > 0) break;
      parent.children.delete(segment);
    }
  }

  /** Items at `path` or above it. */
  atOrAbove(path: DocPath): T[] {
    const found = [...this.#root.items];
    let at: TrieNode<T> | undefined = this.#root;
    for (const segment of path) {
      at = at.children.get(segment);
      if (at === undefined) break;
      found.push(...at.items);
    }
    return found;
  }

  /** Items at `path` or below it. */
  atOrBelow(path: DocPath): T[] {
    let at: TrieNode<T> | undefined = this.#root;
    for (const segment of path) at = at?.children.get(segment);
    const found: T[] = [];
    const pending = at === undefined ? [] : [at];
    for (let node = pending.pop(); node !== undefined; node = pending.pop()) {
      found.push(...node.items);
      for (const child of node.children.values()) pending.push(child); // there may be more than a call takes arguments
    }
    return found;
  }

  /** Items at, above or below `path`. */
  overlapping(path: DocPath): T[] {
    return [
      ...this.atOrAbove(path.slice(0, -1)).filter((item) => item.path.length < path.length),
      ...this.atOrBelow(path),
    ];
  }
}
