import { PathTree } from '../../lib/path-tree.js';
import type { DocPath } from '../../wire/doc-path.js';
import { type FoldItem, rowsOf } from './fold-item.js';
import { isPlain } from './patch-rules.js';
import { comparePlace, type Place, placeKey } from './place.js';
import type { RowRefs } from './row-refs.js';

/** `late`: an item whose place is before that of others which are there already. */
export type When = 'last' | 'late';

/**
 * The live items of a fold, found by place, topic and path; the rows that they need are counted in `refs`. What an item covers is
 * superseded when it is added: the one rule of a PUT and a DELETE.
 */
export class LiveItems implements Iterable<FoldItem> {
  readonly #refs: RowRefs;
  readonly #byTopic = new Map<string, PathTree<FoldItem>>();
  readonly #all = new PathTree<FoldItem>();
  readonly #live = new Set<FoldItem>();
  readonly #byPlace = new Map<string, FoldItem>();
  readonly #limited = new Set<FoldItem>();
  /** Patches that read the document, or whose operations are not known. */
  readonly #readers = new Set<FoldItem>();

  constructor(refs: RowRefs) {
    this.#refs = refs;
  }

  [Symbol.iterator](): Iterator<FoldItem> {
    return this.#live.values();
  }

  get size(): number {
    return this.#live.size;
  }

  has(item: FoldItem): boolean {
    return this.#live.has(item);
  }

  get(place: Place): FoldItem | undefined {
    return this.#byPlace.get(placeKey(place));
  }

  /** Items exactly at a path. */
  at(path: DocPath): Iterable<FoldItem> {
    return this.#all.at(path);
  }

  /** Items at a path and above it that a topic is still open of. */
  above(topic: string, path: DocPath): readonly FoldItem[] {
    return this.#byTopic.get(topic)?.above(path) ?? [];
  }

  /** Items at a path, above and below it. */
  *overlapping(path: DocPath): Generator<FoldItem> {
    for (const item of this.#all.above(path)) if (item.path.length < path.length) yield item;
    yield* this.#all.below(path);
  }

  /** Those of them that read the document, or that may. */
  *readersOf(path: DocPath): Generator<FoldItem> {
    if (this.#readers.size === 0) return;
    for (const item of this.overlapping(path)) if (this.#readers.has(item)) yield item;
  }

  /** Items that are to leave by a moment. */
  due(nowMs: number): FoldItem[] {
    return [...this.#limited].filter(({ expiresMs = nowMs }) => expiresMs <= nowMs);
  }

  /** Adds an item; what it covers is superseded on its topics. */
  insert(item: FoldItem, when: When = 'last'): void {
    for (const row of rowsOf(item)) this.#refs.add(row);
    for (const topic of item.open) {
      const tree = this.#tree(topic);
      if (item.entry.save_method !== 'PATCH') this.#supersede(topic, tree, item, when);
      tree.add(item.path, item);
    }
    this.#all.add(item.path, item);
    this.#live.add(item);
    this.#byPlace.set(placeKey(item.place), item);
    if (item.expiresMs !== undefined) this.#limited.add(item);
    if (item.entry.save_method === 'PATCH' && !isPlain(item.parts)) this.#readers.add(item);
  }

  /** Closes the topics of an entry that comes late and that something newer covers already. */
  closeCovered(item: FoldItem): void {
    for (const topic of [...item.open]) {
      for (const other of this.above(topic, item.path)) {
        const covers = other.entry.save_method !== 'PATCH' && other.expiresMs === undefined;
        if (covers && comparePlace(other.place, item.place) > 0) item.open.delete(topic);
      }
    }
  }

  remove(item: FoldItem): void {
    for (const topic of item.open) {
      const tree = this.#byTopic.get(topic);
      tree?.remove(item.path, item);
      if (tree?.isEmpty) this.#byTopic.delete(topic);
    }
    this.#all.remove(item.path, item);
    this.#live.delete(item);
    this.#limited.delete(item);
    this.#readers.delete(item);
    if (this.#byPlace.get(placeKey(item.place)) === item) this.#byPlace.delete(placeKey(item.place));
    for (const row of rowsOf(item)) this.#refs.drop(row);
  }

  clear(): void {
    for (const item of [...this.#live]) this.remove(item);
  }

  /** Closes a topic of the entries at or below the path of a PUT or DELETE. */
  #supersede(topic: string, tree: PathTree<FoldItem>, by: FoldItem, when: When): void {
    if (by.expiresMs === undefined && when === 'last') {
      for (const item of tree.cut(by.path)) this.#close(item, topic);
      return;
    }
    if (by.expiresMs !== undefined && this.#limited.size === 0) return;
    for (const item of [...tree.below(by.path)]) {
      const outlived = by.expiresMs === undefined || (item.expiresMs !== undefined && item.expiresMs <= by.expiresMs);
      if (!outlived || comparePlace(item.place, by.place) > 0) continue;
      tree.remove(item.path, item);
      this.#close(item, topic);
    }
  }

  #close(item: FoldItem, topic: string): void {
    item.open.delete(topic);
    if (item.open.size === 0) this.remove(item);
  }

  #tree(topic: string): PathTree<FoldItem> {
    let tree = this.#byTopic.get(topic);
    if (tree === undefined) {
      tree = new PathTree();
      this.#byTopic.set(topic, tree);
    }
    return tree;
  }
}
