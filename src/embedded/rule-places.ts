import { PathTree } from '../lib/path-tree.js';
import type { DocPath } from '../wire/doc-path.js';

/** Where the rules of a policy are. */
export class RulePlaces {
  readonly #tree = new PathTree<true>();

  constructor(paths: readonly DocPath[] = []) {
    for (const path of paths) {
      if (this.#tree.at(path)[Symbol.iterator]().next().done === true) this.#tree.add(path, true);
    }
  }

  /** Whether a rule is at, above or below a path. */
  overlap(path: DocPath): boolean {
    if (this.#tree.above(path).length > 0) return true;
    return this.#tree.below(path).next().done !== true;
  }
}
