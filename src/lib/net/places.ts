import { PathTree } from '../json/path-tree.js';

/** A set of places. */
export class Places {
  readonly #tree = new PathTree<readonly string[]>();

  constructor(paths: readonly (readonly string[])[] = []) {
    for (const path of paths) {
      if (this.#tree.at(path)[Symbol.iterator]().next().done === true) this.#tree.add(path, path);
    }
  }

  /** Whether one of them is at, above or below a path; looks at no others. */
  overlap(path: readonly string[]): boolean {
    return this.#tree.above(path).length > 0 || this.#tree.some(path, () => true);
  }

  /** Those at a path and above it. */
  above(path: readonly string[]): readonly (readonly string[])[] {
    return this.#tree.above(path);
  }

  /** Those at a path and below it, in no order. */
  below(path: readonly string[]): Iterable<readonly string[]> {
    return this.#tree.below(path);
  }
}
