import { PathTree } from '../../lib/path-tree.js';
import type { DocPath } from '../../wire/doc-path.js';
import { type FoldItem, unlink } from './fold-item.js';
import { isPlain } from './patch-rules.js';
import { comparePlace, type Place, placeKey } from './place.js';

/** Counts the references to each row of the store: by entries of the fold, and as the last row of a topic. */
export class RowRefs {
  readonly #counts = new Map<number, number>();
  #unused: number[] = [];

  add(seq: number): void {
    this.#counts.set(seq, (this.#counts.get(seq) ?? 0) + 1);
  }

  /** Removes one reference. */
  drop(seq: number): void {
    const left = (this.#counts.get(seq) ?? 0) - 1;
    if (left > 0) this.#counts.set(seq, left);
    else if (this.#counts.delete(seq)) this.#unused.push(seq);
  }

  /** Returns the rows that became unused since the last call. */
  takeUnused(): number[] {
    const unused = this.#unused;
    this.#unused = [];
    return unused;
  }

  has(seq: number): boolean {
    return this.#counts.has(seq);
  }
}

/**
 * The live items of a fold, by place, topic and path. Counts their rows in `refs`. One rule decides what is live, independent of the order
 * in which items are added: a PUT or DELETE supersedes, on its topics, older items at or below its path.
 */
export class LiveItems implements Iterable<FoldItem> {
  readonly #refs: RowRefs;
  readonly #byTopic = new Map<string, PathTree<FoldItem>>();
  /** By each of their topics, also where they are superseded on it. */
  readonly #onTopic = new Map<string, Set<FoldItem>>();
  readonly #all = new PathTree<FoldItem>();
  readonly #live = new Set<FoldItem>();
  readonly #byPlace = new Map<string, FoldItem>();
  readonly #limited = new Set<FoldItem>();
  /** No item expires before. */
  #nextExpiryMs = Number.POSITIVE_INFINITY;
  /** Patches that depend on the document, or whose operations are unknown. */
  readonly #readers = new Set<FoldItem>();
  /** The highest place of an item so far. An item at a lower place is added late. */
  #newest: Place = [0, -1];

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

  /** Items at a path and above it. */
  above(path: DocPath): readonly FoldItem[] {
    return this.#all.above(path);
  }

  /** Items at a path, above and below it. */
  *overlapping(path: DocPath): Generator<FoldItem> {
    for (const item of this.#all.above(path)) if (item.path.length < path.length) yield item;
    yield* this.#all.below(path);
  }

  /** {@link overlapping} items that depend, or may depend, on the document. */
  *readersOf(path: DocPath): Generator<FoldItem> {
    if (this.#readers.size === 0) return;
    for (const item of this.overlapping(path)) if (this.#readers.has(item)) yield item;
  }

  /** Items that have expired at `nowMs`. */
  due(nowMs: number): FoldItem[] {
    if (nowMs < this.#nextExpiryMs) return [];
    const due: FoldItem[] = [];
    this.#nextExpiryMs = Number.POSITIVE_INFINITY;
    for (const item of this.#limited) {
      const { expiresMs = nowMs } = item;
      if (expiresMs <= nowMs) due.push(item);
      else this.#nextExpiryMs = Math.min(this.#nextExpiryMs, expiresMs);
    }
    return due;
  }

  /** Items with at least one of these topics, each once. */
  on(topics: Iterable<string>): FoldItem[] {
    const found = new Set<FoldItem>();
    for (const topic of topics) for (const item of this.#onTopic.get(topic) ?? []) found.add(item);
    return [...found];
  }

  /** Adds an item, and supersedes what it covers. Does not add an item that newer ones cover on all its topics. */
  insert(item: FoldItem): void {
    const isNewest = comparePlace(item.place, this.#newest) > 0;
    if (isNewest) this.#newest = item.place;
    else this.#closeCovered(item);
    if (item.open.size === 0) return;
    if (item.row !== undefined) this.#refs.add(item.row);
    for (const topic of item.open) {
      const tree = this.#tree(topic);
      if (item.entry.save_method !== 'PATCH') this.#supersede(topic, tree, item, isNewest);
      tree.add(item.path, item);
    }
    this.#all.add(item.path, item);
    this.#live.add(item);
    for (const topic of item.topics) {
      const on = this.#onTopic.get(topic);
      if (on === undefined) this.#onTopic.set(topic, new Set([item]));
      else on.add(item);
    }
    this.#byPlace.set(placeKey(item.place), item);
    if (item.expiresMs !== undefined) {
      this.#limited.add(item);
      this.#nextExpiryMs = Math.min(this.#nextExpiryMs, item.expiresMs);
    }
    if (item.entry.save_method === 'PATCH' && !isPlain(item.parts)) this.#readers.add(item);
  }

  remove(item: FoldItem): void {
    for (const topic of item.open) this.#takeOut(item, topic);
    this.#all.remove(item.path, item);
    this.#live.delete(item);
    for (const topic of item.topics) {
      const on = this.#onTopic.get(topic);
      if (on?.delete(item) && on.size === 0) this.#onTopic.delete(topic);
    }
    this.#limited.delete(item);
    this.#readers.delete(item);
    if (this.#byPlace.get(placeKey(item.place)) === item) this.#byPlace.delete(placeKey(item.place));
    for (const patch of item.patches.toReversed()) {
      unlink(patch);
      if (patch.open.size === 0) this.remove(patch);
    }
    unlink(item);
    if (item.row !== undefined) this.#refs.drop(item.row);
  }

  /** Marks an item as superseded on one topic. */
  close(item: FoldItem, topic: string): void {
    if (!item.open.has(topic)) return;
    this.#takeOut(item, topic);
    this.#close(item, topic);
  }

  #takeOut(item: FoldItem, topic: string): void {
    const tree = this.#byTopic.get(topic);
    tree?.remove(item.path, item);
    if (tree?.isEmpty) this.#byTopic.delete(topic);
  }

  /** Closes the topics on which a newer item covers this one. */
  #closeCovered(item: FoldItem): void {
    for (const topic of [...item.open]) {
      for (const other of this.#byTopic.get(topic)?.above(item.path) ?? []) {
        const covers = other.entry.save_method !== 'PATCH' && other.expiresMs === undefined;
        if (covers && comparePlace(other.place, item.place) > 0) item.open.delete(topic);
      }
    }
  }

  /** Closes `topic` of the older items at or below the path of a PUT or DELETE. */
  #supersede(topic: string, tree: PathTree<FoldItem>, by: FoldItem, isNewest: boolean): void {
    if (by.expiresMs === undefined && isNewest) {
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

  /** A patch that is linked to a document stays: later patches of the document may depend on it. */
  #close(item: FoldItem, topic: string): void {
    item.open.delete(topic);
    if (item.open.size === 0 && item.document === undefined) this.remove(item);
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
