import { PathTree } from '../../lib/json/path-tree.js';
import { type DocPath, isAtOrBelow } from '../../wire/doc-path.js';
import { closeOn, type FoldItem, unlink } from './fold-item.js';
import { isPlain, type PatchPart, partsText } from './patch-rules.js';
import { comparePlace, type Place } from './place.js';
import type { Removals } from './removals.js';
import type { RowRefs } from './row-refs.js';

/** What is on a topic with several items. */
class TopicItems {
  /** Those that are open on it. */
  readonly open = new PathTree<FoldItem>();
  readonly all = new Set<FoldItem>();
}

/**
 * The live items of a fold, by topic and path. Counts their rows in `refs`. One rule decides what
 * is live, independent of the order in which items are added: a PUT or DELETE supersedes, on its
 * topics, older items at or below its path.
 */
export class LiveItems implements Iterable<FoldItem> {
  readonly #refs: RowRefs;
  readonly #removals: Removals;
  /**
   * By each of their topics, also where they are superseded on it. Most topics of a log with many
   * have one item.
   */
  readonly #byTopic = new Map<string, FoldItem | TopicItems>();
  readonly #all = new PathTree<FoldItem>();
  readonly #live = new Set<FoldItem>();
  readonly #topics = new SharedTopics();
  readonly #limited = new Set<FoldItem>();
  /** No item expires before. */
  #nextExpiryMs = Number.POSITIVE_INFINITY;
  /** Patches that depend on the document, or whose operations are unknown. */
  readonly #readers = new Set<FoldItem>();
  #chars = 0;
  /** The highest place of an item so far. An item at a lower place is added late. */
  #newest: Place = [0, -1];

  constructor(refs: RowRefs, removals: Removals) {
    this.#refs = refs;
    this.#removals = removals;
  }

  [Symbol.iterator](): Iterator<FoldItem> {
    return this.#live.values();
  }

  get size(): number {
    return this.#live.size;
  }

  /** Characters of inline data. */
  get chars(): number {
    return this.#chars;
  }

  has(item: FoldItem): boolean {
    return this.#live.has(item);
  }

  /** Items exactly at a path. */
  at(path: DocPath): Iterable<FoldItem> {
    return this.#all.at(path);
  }

  /** Items at a path and above it. */
  above(path: DocPath): readonly FoldItem[] {
    return this.#all.above(path);
  }

  /** Whether an item at a path or below it fits. */
  someBelow(path: DocPath, fits: (item: FoldItem) => boolean): boolean {
    return this.#all.some(path, fits);
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
    for (const topic of topics) {
      const on = this.#byTopic.get(topic);
      if (on instanceof TopicItems) for (const item of on.all) found.add(item);
      else if (on !== undefined) found.add(on);
    }
    return [...found];
  }

  /**
   * Adds an item, and supersedes what it covers. Does not add an item that newer ones cover on all
   * its topics.
   */
  insert(item: FoldItem): void {
    const isNewest = comparePlace(item.place, this.#newest) > 0;
    if (isNewest) this.#newest = item.place;
    else this.#closeCovered(item);
    if (item.open.length === 0) return;
    this.#topics.take(item);
    if (item.row !== undefined) this.#refs.add(item.row);
    for (const topic of item.topics) this.#put(item, topic, isNewest);
    this.#all.add(item.path, item);
    this.#live.add(item);
    this.#chars += charsOf(item);
    if (item.expiresMs !== undefined) {
      this.#limited.add(item);
      this.#nextExpiryMs = Math.min(this.#nextExpiryMs, item.expiresMs);
    }
    if (item.entry.save_method === 'PATCH' && !isPlain(item.parts)) this.#readers.add(item);
    this.#removals.added(item);
    if (!isNewest) for (const removal of this.#removals.revived(item)) this.insert(removal);
  }

  remove(item: FoldItem): void {
    for (const topic of item.topics) this.#takeOut(item, topic);
    this.#all.remove(item.path, item);
    if (this.#live.delete(item)) {
      this.#topics.leave(item);
      this.#chars -= charsOf(item);
    }
    this.#limited.delete(item);
    this.#readers.delete(item);
    for (const patch of item.patches.toReversed()) {
      unlink(patch);
      if (patch.open.length === 0) this.remove(patch);
    }
    unlink(item);
    if (item.row !== undefined) this.#refs.drop(item.row);
    this.#removals.removed(item);
  }

  /** Gives a live patch fewer operations. */
  shorten(item: FoldItem, left: readonly PatchPart[]): void {
    this.#chars -= charsOf(item);
    Object.assign(item, { parts: left, entry: { ...item.entry, data: partsText(left) }, folded: undefined });
    this.#chars += charsOf(item);
  }

  /** Marks an item as superseded on one topic. */
  close(item: FoldItem, topic: string): void {
    if (!item.open.includes(topic)) return;
    const on = this.#byTopic.get(topic);
    if (on instanceof TopicItems) on.open.remove(item.path, item);
    this.#close(item, topic);
  }

  /** Adds an item to one of its topics, and supersedes what it covers there. */
  #put(item: FoldItem, topic: string, isNewest: boolean): void {
    const before = this.#byTopic.get(topic);
    if (before === undefined) {
      this.#byTopic.set(topic, item);
      return;
    }
    const on = before instanceof TopicItems ? before : new TopicItems();
    if (!(before instanceof TopicItems)) {
      on.all.add(before);
      if (before.open.includes(topic)) on.open.add(before.path, before);
      this.#byTopic.set(topic, on);
    }
    on.all.add(item);
    if (!item.open.includes(topic)) return;
    if (item.entry.save_method !== 'PATCH') this.#supersede(topic, on.open, item, isNewest);
    on.open.add(item.path, item);
  }

  /** A topic with one item left is that item again. */
  #takeOut(item: FoldItem, topic: string): void {
    const on = this.#byTopic.get(topic);
    if (on === item) this.#byTopic.delete(topic);
    if (!(on instanceof TopicItems) || !on.all.delete(item)) return;
    on.open.remove(item.path, item);
    if (on.all.size === 1) for (const only of on.all) this.#byTopic.set(topic, only);
  }

  /** Closes the topics on which a newer item covers this one. */
  #closeCovered(item: FoldItem): void {
    for (const { place, topics } of this.#removals.endedAbove(item.path)) {
      if (comparePlace(place, item.place) > 0) for (const topic of topics) closeOn(item, topic);
    }
    for (const topic of item.open) {
      for (const other of this.#openAbove(topic, item.path)) {
        const covers = other.entry.save_method !== 'PATCH' && other.expiresMs === undefined;
        if (covers && comparePlace(other.place, item.place) > 0) closeOn(item, topic);
      }
    }
  }

  #openAbove(topic: string, path: DocPath): readonly FoldItem[] {
    const on = this.#byTopic.get(topic);
    if (on instanceof TopicItems) return on.open.above(path);
    return on?.open.includes(topic) && isAtOrBelow(path, on.path) ? [on] : [];
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
    closeOn(item, topic);
    if (item.open.length === 0 && item.document === undefined) this.remove(item);
  }
}

function charsOf({ entry }: FoldItem): number {
  return entry.data?.text.length ?? 0;
}

/** Topics of live items, as their entries name them and each once. */
interface TopicList {
  readonly named: string[];
  readonly topics: readonly string[];
  /** Items that have them. */
  items: number;
}

/**
 * The lists of topics that live items have, each once: a hundred thousand entries have a handful of
 * them, and each brings its own.
 */
class SharedTopics {
  readonly #known = new Map<string, TopicList>();

  /** Gives an item the lists of the items that have the same topics in the same order. */
  take(item: FoldItem): void {
    const { topics: named } = item.entry;
    const key = JSON.stringify(named);
    const shared = this.#known.get(key);
    if (shared === undefined) {
      this.#known.set(key, { named, topics: item.topics, items: 1 });
      return;
    }
    shared.items++;
    item.entry = { ...item.entry, topics: shared.named };
    if (item.open === item.topics) item.open = shared.topics;
    item.topics = shared.topics;
  }

  /** An item that has taken is no longer live. */
  leave(item: FoldItem): void {
    const key = JSON.stringify(item.entry.topics);
    const shared = this.#known.get(key);
    if (shared === undefined) return;
    shared.items--;
    if (shared.items === 0) this.#known.delete(key);
  }
}
