import type { DocPath } from '../../wire/doc-path.js';

/** Most branches are leaves with one item: what a branch does not have takes no room. */
interface Branch<T> {
  items: Set<T> | undefined;
  children: Map<string, Branch<T>> | undefined;
}

/** Items by path. What it takes is in proportion to what is in it: empty branches go. */
export class PathTree<T> {
  #root: Branch<T> = newBranch();

  add(path: DocPath, item: T): void {
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
    branch.items ??= new Set();
    branch.items.add(item);
  }

  remove(path: DocPath, item: T): void {
    const way: Branch<T>[] = [this.#root];
    for (const segment of path) {
      const child = way.at(-1)?.children?.get(segment);
      if (child === undefined) return;
      way.push(child);
    }
    way.at(-1)?.items?.delete(item);
    for (let depth = path.length; depth > 0; depth--) {
      const branch = way[depth];
      if (branch === undefined || !isEmpty(branch)) return;
      way[depth - 1]?.children?.delete(path[depth - 1] ?? '');
    }
  }

  /** Items exactly at the path. */
  at(path: DocPath): ReadonlySet<T> {
    return this.#branch(path)?.items ?? new Set();
  }

  /** Items at the path and above it, from the root on. */
  *above(path: DocPath): Generator<T> {
    let branch: Branch<T> | undefined = this.#root;
    for (let depth = 0; branch !== undefined; depth++) {
      if (branch.items !== undefined) yield* branch.items;
      if (depth >= path.length) return;
      branch = branch.children?.get(path[depth] ?? '');
    }
  }

  /** Items at the path and below it, in no order. The tree must not be changed before the last one. */
  *below(path: DocPath): Generator<T> {
    const top = this.#branch(path);
    const open = top === undefined ? [] : [top];
    for (let branch = open.pop(); branch !== undefined; branch = open.pop()) {
      if (branch.items !== undefined) yield* branch.items;
      if (branch.children !== undefined) for (const child of branch.children.values()) open.push(child);
    }
  }

  /** Takes out everything at the path and below it, and answers it. */
  cut(path: DocPath): T[] {
    const found = [...this.below(path)];
    if (found.length === 0) return found;
    if (path.length === 0) this.#root = newBranch();
    else {
      const branch = this.#branch(path);
      branch?.items?.clear();
      branch?.children?.clear();
      for (const item of found.slice(0, 1)) this.remove(path, item); // makes the empty branch go
    }
    return found;
  }

  get isEmpty(): boolean {
    return isEmpty(this.#root);
  }

  #branch(path: DocPath): Branch<T> | undefined {
    let branch: Branch<T> | undefined = this.#root;
    for (const segment of path) branch = branch?.children?.get(segment);
    return branch;
  }
}

function newBranch<T>(): Branch<T> {
  return { items: undefined, children: undefined };
}

function isEmpty<T>({ items, children }: Branch<T>): boolean {
  return (items === undefined || items.size === 0) && (children === undefined || children.size === 0);
}
