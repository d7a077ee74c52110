/** What a path leads to: most lead to one item and nothing below it, which takes no branch. */
type Node<T> = Branch<T> | T;

class Branch<T> {
  /** A list of few, a set of many: removing one of many from a list searches all of it. */
  items: T[] | Set<T> | undefined = undefined;
  children: Map<string, Node<T>> | undefined = undefined;
}

/** Items at one path that a list has at most. */
const FEW = 8;
const NOTHING: readonly never[] = [];

/**
 * Items by path, each once. Finds the items at, above or below a path without a search of the
 * others. Removes empty branches.
 */
export class PathTree<T extends NonNullable<unknown>> {
  #root = new Branch<T>();

  /** Adds an item that is not there yet. */
  add(path: readonly string[], item: T): void {
    let branch = this.#root;
    for (const [depth, segment] of path.entries()) {
      branch.children ??= new Map();
      const child = branch.children.get(segment);
      if (child === undefined && depth === path.length - 1) {
        branch.children.set(segment, item);
        return;
      }
      branch = child instanceof Branch ? child : branchAt(branch.children, segment, child);
    }
    branch.items = withItem(branch.items, item);
  }

  /** Removes an item, if it is there. */
  remove(path: readonly string[], item: T): void {
    const way: Branch<T>[] = [this.#root];
    for (const [depth, segment] of path.entries()) {
      const { children } = way[depth] as Branch<T>;
      const child = children?.get(segment);
      if (child === undefined) return;
      if (child instanceof Branch) way.push(child);
      else if (child !== item || depth < path.length - 1) return;
      else children?.delete(segment);
    }
    dropItem(way[path.length]?.items, item);
    for (let depth = way.length - 1; depth > 0; depth--) {
      const branch = way[depth];
      if (branch === undefined || !isEmpty(branch)) return;
      way[depth - 1]?.children?.delete(path[depth - 1] ?? '');
    }
  }

  /** Items exactly at the path. The tree must not change during the iteration. */
  at(path: readonly string[]): Iterable<T> {
    return itemsAt(this.#node(path));
  }

  /** Items at the path and above it, from the root on. */
  above(path: readonly string[]): T[] {
    const found: T[] = [];
    let node: Node<T> | undefined = this.#root;
    for (let depth = 0; node !== undefined; depth++) {
      // One by one: there may be more than a call takes arguments.
      for (const item of itemsAt(node)) found.push(item);
      if (depth >= path.length) break;
      node = childOf(node, path[depth] ?? '');
    }
    return found;
  }

  /** Items at the path and below it, in no order. The tree must not change during the iteration. */
  *below(path: readonly string[]): Generator<T> {
    const top = this.#node(path);
    const open = top === undefined ? [] : [top];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      if (!(node instanceof Branch)) {
        yield node;
        continue;
      }
      if (node.items !== undefined) yield* node.items;
      if (node.children !== undefined) for (const child of node.children.values()) open.push(child);
    }
  }

  /** How many segments of a path lead to items. */
  reach(path: readonly string[]): number {
    let node: Node<T> | undefined = this.#root;
    for (const [depth, segment] of path.entries()) {
      node = childOf(node, segment);
      if (node === undefined) return depth;
    }
    return path.length;
  }

  /** Whether an item at the path or below it fits, the first that were added first. */
  some(path: readonly string[], fits: (item: T) => boolean): boolean {
    const top = this.#node(path);
    return top !== undefined && someOf(top, fits);
  }

  /** Removes and returns everything at the path and below it. */
  cut(path: readonly string[]): T[] {
    const found = [...this.below(path)];
    if (found.length === 0) return found;
    if (path.length === 0) this.#root = new Branch();
    else {
      const node = this.#node(path);
      if (node instanceof Branch) {
        node.items = undefined;
        node.children = undefined;
      }
      for (const item of found.slice(0, 1)) this.remove(path, item); // removes the empty branch
    }
    return found;
  }

  get isEmpty(): boolean {
    return isEmpty(this.#root);
  }

  #node(path: readonly string[]): Node<T> | undefined {
    let node: Node<T> | undefined = this.#root;
    for (const segment of path) {
      if (node === undefined) return undefined;
      node = childOf(node, segment);
    }
    return node;
  }
}

function childOf<T>(node: Node<T>, segment: string): Node<T> | undefined {
  return node instanceof Branch ? node.children?.get(segment) : undefined;
}

function itemsAt<T>(node: Node<T> | undefined): Iterable<T> {
  if (node instanceof Branch) return node.items ?? NOTHING;
  return node === undefined ? NOTHING : [node];
}

/** Makes a branch where there is none, or one item alone. */
function branchAt<T>(children: Map<string, Node<T>>, segment: string, item: T | undefined): Branch<T> {
  const made = new Branch<T>();
  if (item !== undefined) made.items = [item];
  children.set(segment, made);
  return made;
}

function someOf<T>(node: Node<T>, fits: (item: T) => boolean): boolean {
  if (!(node instanceof Branch)) return fits(node);
  for (const item of node.items ?? NOTHING) if (fits(item)) return true;
  if (node.children !== undefined) for (const child of node.children.values()) if (someOf(child, fits)) return true;
  return false;
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

/**
 * Paths of a list, found by where they are: whoever asks for many places does not compare each with
 * each.
 */
export class PathSet {
  readonly #tree = new PathTree<readonly string[]>();

  constructor(paths: Iterable<readonly string[]>) {
    for (const path of paths) this.#tree.add(path, path);
  }

  /** Whether one of them is at, above or below a path. */
  overlaps(path: readonly string[]): boolean {
    return this.#tree.above(path).length > 0 || this.#tree.some(path, () => true);
  }

  /** How many segments of a path lead to one of them. */
  reach(path: readonly string[]): number {
    return this.#tree.reach(path);
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
