import { isWithin, properAncestors } from './directories.js';

/** The content of a subtree that a deletion cut out of a document that is written above it. */
const HOLE = Symbol('hole');

/**
 * What a client that applies data files one by one ends up with, in terms of writes: which file's content is visible at
 * which folder. A write replaces everything at and below its folder; a deletion removes it. Two documents with equal
 * writes are equal, whatever the files contain. (Empty objects that a deletion leaves above it make no difference here.)
 */
export class DataWrites {
  readonly #visible = new Map<string, string | typeof HOLE>();

  /** Writes the content with this object id at a folder. */
  put(folder: string, blob: string): void {
    this.#clear(folder);
    this.#visible.set(folder, blob);
  }

  /** Removes a folder. Where a document above has content of its own there, that content is gone too. */
  remove(folder: string): void {
    this.#clear(folder);
    if (properAncestors(folder).some((above) => this.#visible.has(above))) this.#visible.set(folder, HOLE);
  }

  equals(other: DataWrites): boolean {
    if (this.#visible.size !== other.#visible.size) return false;
    for (const [folder, blob] of this.#visible) if (other.#visible.get(folder) !== blob) return false;
    return true;
  }

  #clear(folder: string): void {
    for (const known of this.#visible.keys()) if (isWithin(known, folder)) this.#visible.delete(known);
  }
}
