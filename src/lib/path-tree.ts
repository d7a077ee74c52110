/** Most branches are leaves with one item: absent fields take no memory. */
interface Branch<T> {
  /** A list of few, a set of many: removing one of many from a list searches all of it. */
  items: T[] | Set<T> | undefined;
  children: Map<string, Branch<T>> | undefined;
}

/** Items at one path that a list has at most. */
const FEW = 8;
const NOTHING: readonly never[] = [];

/**
 * Items by path, each once. Finds the items at, above or below a path without a search of the others. Removes empty branches.
 */
export class PathTree<T> {
  #root: Branch<T> = newBranch();

  /** Adds an item that is not there yet. */
  add(path: readonly string[], item: T): void {
    let branch = this.#root;
    for (const segment of path) {
      let child = branch.children?.get(segment);
      if (child === undefined) {
        child = newBranch();
        branch.children ??= new Map();
        branch.children.set(segment, child);
      }
      branch = child;
    }
    branch.items = withItem(branch.items, item);
  }

  /** Removes an item, if it is there. */
  remove(path: readonly string[], item: T): void {
    const way: Branch<T>[] = [this.#root];
    for (const segment of path) {
      const child = way.at(-1)?.children?.get(segment);
      if (child === undefined) return;
      way.push(child);
    }
    dropItem(way.at(-1)?.items, item);
    for (let depth = path.length; depth > 0; depth--) {
      const branch = way[depth];
      if (branch === undefined || !isEmpty(branch)) return;
      way[depth - 1]?.children?.delete(path[depth - 1] ?? '');
    }
  }

  /** Items exactly at the path. The tree must not change during the iteration. */
  at(path: readonly string[]): Iterable<T> {
    return this.#branch(path)?.items ?? NOTHING;
  }

  /** Items at the path and above it, from the root on. */
  above(path: readonly string[]): T[] {
    const found: T[] = [];
    let branch: Branch<T> | undefined = this.#root;
    for (let depth = 0; branch !== undefined; depth++) {
      // One by one: there may be more than a call takes arguments.
      for (const item of branch.items ?? NOTHING) found.push(item);
      if (depth >= path.length) break;
      branch = branch.children?.get(path[depth] ?? '');
    }
    return found;
  }

  /** Items at the path and below it, in no order. The tree must not change during the iteration. */
  *below(path: readonly string[]): Generator<T> {
    const top = this.#branch(path);
    const open = top === undefined ? [] : [top];
    for (let branch = open.pop(); branch !== undefined; branch = open.pop()) {
      if (branch.items !== undefined) yield* branch.items;
      if (branch.children !== undefined) for (const child of branch.children.values()) open.push(child);
    }
  }

  /** Whether an item at the path or below it fits, the first that were added first. */
  some(path: readonly string[], fits: (item: T) => boolean): boolean {
    const top = this.#branch(path);
    return top !== undefined && someOf(top, fits);
  }

  /** Removes and returns everything at the path and below it. */
  cut(path: readonly string[]): T[] {
    const found = [...this.below(path)];
    if (found.length === 0) return found;
    if (path.length === 0) this.#root = newBranch();
    else {
      const branch = this.#branch(path);
      if (branch !== undefined) {
        branch.items = undefined;
        branch.children = undefined;
      }
      for (const item of found.slice(0, 1)) this.remove(path, item); // removes the empty branch
    }
    return found;
  }

  get isEmpty(): boolean {
    return isEmpty(this.#root);
  }

  #branch(path: readonly string[]): Branch<T> | undefined {
    let branch: Branch<T> | undefined = this.#root;
    for (const segment of path) branch = branch?.children?.get(segment);
    return branch;
  }
}

function someOf<T>({ items, children }: Branch<T>, fits: (item: T) => boolean): boolean {
  for (const item of items ?? NOTHING) if (fits(item)) return true;
  if (children !== undefined) for (const child of children.values()) if (someOf(child, fits)) return true;
  return false;
}

function newBranch<T>(): Branch<T> {
  return { items: undefined, children: undefined };
}

function withItem<T>(items: T[] | Set<T> | undefined, item: T): T[] | Set<T> {
  if (items === undefined) return [item];
  if (items instanceof Set) return items.add(item);
  if (items.length >= FEW) return new Set(items).add(item);
  items.push(item);
  return items;
}

function dropItem<T>(items: T[] | Set<T> | undefined, item: T): void {
  if (items instanceof Set) items.delete(item);
  else if (items?.includes(item)) items.splice(items.indexOf(item), 1);
}

function isEmpty<T>({ items, children }: Branch<T>): boolean {
  return (
    (items === undefined || (items instanceof Set ? items.size : items.length) === 0) &&
    (children === undefined || children.size === 0)
  );
}

/** Paths of a list, found by where they are: whoever asks for many places does not compare each with each. */
export class PathSet {
  readonly #tree = new PathTree<readonly string[]>();

  constructor(paths: Iterable<readonly string[]>) {
    for (const path of paths) this.#tree.add(path, path);
  }

  /** Whether one of them is at, above or below a path. */
  overlaps(path: readonly string[]): boolean {
    return this.#tree.above(path).length > 0 || this.#tree.some(path, () => true);
  }

  /** Those at, above or below a path, each once. */
  overlapping(path: readonly string[]): (readonly string[])[] {
    return [...new Set([...this.#tree.above(path), ...this.#tree.below(path)])];
  }
}

/** What an index holds: things with an id and a place. */
export interface Placed {
  readonly id: string;
  readonly path: readonly string[];
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
  atOrAbove(path: readonly string[]): T[] {
    return this.#byPath.above(path);
  }

  /** Items at `path` or below it. */
  atOrBelow(path: readonly string[]): T[] {
    return [...this.#byPath.below(path)];
  }

  /** Whether one of the items at `path` or below it fits; looks at no more than it has to. */
  hasBelow(path: readonly string[], fits: (item: T) => boolean): boolean {
    return this.#byPath.some(path, fits);
  }

  /** Items at, above or below `path`. */
  overlapping(path: readonly string[]): T[] {
    const found = this.atOrAbove(path).filter((item) => item.path.length < path.length);
    for (const item of this.#byPath.below(path)) found.push(item); // there may be more than a call takes arguments
    return found;
  }
}

/** The paths of a list that lie below no other path of it, each once. */
export function outermost(paths: readonly (readonly string[])[]): (readonly string[])[] {
  const sorted = [...paths].sort((a, b) => a.length - b.length);
  const kept: (readonly string[])[] = [];
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
