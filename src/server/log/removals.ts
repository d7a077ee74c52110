import { PathTree } from '../../lib/json/path-tree.js';
import type { DocPath } from '../../wire/doc-path.js';
import { closeOn, type FoldItem, foldedOf, newItem } from './fold-item.js';
import { comparePlace, type Place } from './place.js';
import type { RowRefs } from './row-refs.js';
import type { FoldedEntry } from './update-log.js';

/** A deletion that nobody needs who has nothing of the log. */
interface Ended {
  readonly place: Place;
  readonly path: DocPath;
  readonly topics: readonly string[];
  readonly folded: FoldedEntry;
  /** What its row is kept for, once {@link Removals.forget} has forgotten it. */
  guards: Buried | undefined;
}

/** An entry that is not live, of a row that is needed for others. */
interface Buried {
  readonly place: Place;
  readonly path: DocPath;
  readonly row: number;
  /** The forgotten deletions without whose rows a reader would take it for live. */
  guards: Set<Ended> | undefined;
}

/** What is live. */
interface Live {
  overlapping(path: DocPath): Iterable<FoldItem>;
  remove(item: FoldItem): void;
}

/**
 * Deletions that only remove (design D48). The fold needs one while something older overlaps it
 * that somebody may be given; then it has ended, and is kept for a time for those who cannot say
 * what they hold. Each is looked at again when what it was needed for is gone.
 */
export class Removals {
  readonly #refs: RowRefs;
  /** What each is needed for. */
  readonly #needs = new Map<FoldItem, FoldItem>();
  /** Those that are needed for an item. */
  readonly #neededFor = new Map<FoldItem, Set<FoldItem>>();
  /** Those that are needed for a base entry, live or not. */
  readonly #forBase = new Set<FoldItem>();
  readonly #doubtful = new Set<FoldItem>();
  readonly #ended = new Set<Ended>();
  /** Those that have ended, the forgotten ones with a row that is kept, too. */
  readonly #endedTree = new PathTree<Ended>();
  readonly #buried = new Map<number, Buried[]>();
  readonly #buriedTree = new PathTree<Buried>();

  constructor(refs: RowRefs) {
    this.#refs = refs;
    refs.watch((row) => this.#unused(row));
  }

  /** An item was added to those that are live. */
  added(item: FoldItem): void {
    if (onlyRemoves(item)) this.#doubtful.add(item);
    if (item.entry.save_method === 'PATCH' || item.expiresMs !== undefined) return;
    for (const one of [...this.#endedTree.below(item.path)]) {
      const isCovered =
        comparePlace(one.place, item.place) < 0 && one.topics.every((topic) => item.open.includes(topic));
      if (isCovered) this.#drop(one);
    }
  }

  /** An item is live no longer. */
  removed(item: FoldItem): void {
    this.#bury(item);
    this.#doubtful.delete(item);
    this.#forBase.delete(item);
    const needed = this.#needs.get(item);
    if (needed !== undefined) {
      this.#needs.delete(item);
      const others = this.#neededFor.get(needed);
      if (others?.delete(item) && others.size === 0) this.#neededFor.delete(needed);
    }
    for (const other of this.#neededFor.get(item) ?? []) {
      this.#needs.delete(other);
      this.#doubtful.add(other);
    }
    this.#neededFor.delete(item);
  }

  /** Other base entries are known. */
  baseChanged(): void {
    for (const item of this.#forBase) this.#doubtful.add(item);
    this.#forBase.clear();
  }

  /**
   * Ends those that nothing needs any more. `overBase`: whether an older base entry overlaps it.
   */
  settle(live: Live, overBase: (item: FoldItem) => boolean): void {
    for (const item of this.#doubtful) {
      const needed = neededFor(live, item);
      if (needed !== undefined) this.#need(item, needed);
      else if (overBase(item)) this.#forBase.add(item);
      else this.#end(live, item);
    }
    this.#doubtful.clear();
  }

  /**
   * Those that have ended, and are needed again for an item that is added late; they have ended no
   * longer.
   */
  revived({ path, place }: FoldItem): FoldItem[] {
    const near = [
      ...this.#endedTree.above(path).filter((one) => one.path.length < path.length),
      ...this.#endedTree.below(path),
    ];
    return near
      .filter((one) => comparePlace(one.place, place) > 0)
      .map((one) => {
        this.#drop(one);
        const { entry, update } = one.folded;
        const item = newItem({ place: one.place, origin: 'update', entry, update, row: one.place[0] });
        for (const topic of item.topics) if (!one.topics.includes(topic)) closeOn(item, topic);
        return item;
      });
  }

  /** How many have ended. */
  get endedCount(): number {
    return this.#ended.size;
  }

  /** Those that have ended, in order. */
  ended(): readonly FoldedEntry[] {
    return [...this.#ended].sort((a, b) => comparePlace(a.place, b.place)).map(({ folded }) => folded);
  }

  /** Those that have ended, at a path and above it. */
  endedAbove(path: DocPath): readonly Pick<Ended, 'place' | 'topics'>[] {
    return this.#endedTree.above(path);
  }

  /** The places of those that have ended. */
  endedPlaces(): Iterable<Pick<Ended, 'place'>> {
    return this.#endedTree.below([]);
  }

  /** Forgets the oldest that have ended. Returns whether there were any. */
  forget({ sinceMs, atMost, after }: { sinceMs: number; atMost: number; after: number }): boolean {
    const before = this.#ended.size;
    for (const one of this.#ended) {
      const isOld = this.#ended.size > atMost || (one.folded.update?.timeMs ?? 0) < sinceMs;
      if (!isOld || one.place[0] > after) break;
      this.#ended.delete(one);
      this.#release(one);
    }
    return this.#ended.size < before;
  }

  #need(item: FoldItem, needed: FoldItem): void {
    this.#needs.set(item, needed);
    const others = this.#neededFor.get(needed);
    if (others === undefined) this.#neededFor.set(needed, new Set([item]));
    else others.add(item);
  }

  #end(live: Live, item: FoldItem): void {
    const { place, path } = item;
    const one = { place, path, topics: item.open, folded: foldedOf(item), guards: undefined };
    this.#refs.add(place[0]);
    live.remove(item);
    this.#ended.add(one);
    this.#endedTree.add(path, one);
  }

  /** Nobody is told of it any more; its row goes, unless a reader of the rows needs it. */
  #release(one: Ended): void {
    for (const buried of this.#buriedTree.below(one.path)) {
      if (comparePlace(buried.place, one.place) >= 0) continue;
      buried.guards ??= new Set();
      buried.guards.add(one);
      one.guards = buried;
      return;
    }
    this.#drop(one);
  }

  #drop(one: Ended): void {
    this.#ended.delete(one);
    this.#endedTree.remove(one.path, one);
    one.guards?.guards?.delete(one);
    this.#refs.drop(one.place[0]);
  }

  /**
   * An item is gone. Who reads its row, where that is needed, has it until something newer
   * supersedes it.
   */
  #bury({ place, path, row, entry }: FoldItem): void {
    if (row === undefined || entry.only_removes === true || !this.#refs.has(row)) return;
    const buried = { place, path, row, guards: undefined };
    const others = this.#buried.get(row);
    if (others === undefined) this.#buried.set(row, [buried]);
    else others.push(buried);
    this.#buriedTree.add(path, buried);
  }

  #unused(row: number): void {
    const buried = this.#buried.get(row);
    if (buried === undefined) return;
    this.#buried.delete(row);
    for (const one of buried) this.#buriedTree.remove(one.path, one);
    for (const { guards = [] } of buried) for (const one of guards) this.#release(one);
  }
}

/** A deletion for ever that hides nothing of any commit. */
function onlyRemoves({ entry, expiresMs }: FoldItem): boolean {
  return entry.save_method === 'DELETE' && entry.only_removes === true && expiresMs === undefined;
}

/** An older item that overlaps a deletion: somebody may be given both. */
function neededFor(live: Live, item: FoldItem): FoldItem | undefined {
  for (const other of live.overlapping(item.path)) {
    if (comparePlace(other.place, item.place) < 0 && other.entry.only_removes !== true) return other;
  }
  return undefined;
}
