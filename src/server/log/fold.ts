import { JsonText } from '../../lib/json/json-text.js';
import { PathTree } from '../../lib/json/path-tree.js';
import type { PeerEntry } from '../../wire/data.js';
import { type DocPath, parseDocPath, pathsOverlap } from '../../wire/doc-path.js';
import { leafOf, nodeAt } from '../../wire/json-node.js';
import { baseIdentity } from './base-entry.js';
import {
  byPlace,
  closedOf,
  closeOn,
  compactionOf,
  type FoldItem,
  foldedOf,
  isDue,
  lastOf,
  link,
  newItem,
  unlink,
} from './fold-item.js';
import { LiveItems } from './live-items.js';
import { type AppendProblem, appendProblem } from './patch-appends.js';
import type { PatchPart } from './patch-rules.js';
import { documentUnder, supersededPatches } from './patch-targets.js';
import { type Compaction, comparePlace, type Place, type PlacedBase, placeKey, type Superseded } from './place.js';
import { Removals } from './removals.js';
import { RowRefs } from './row-refs.js';
import type { FoldedEntry, NewRecord } from './update-log.js';

/** The part of a log record that decides which entries are live. */
export interface FoldRecord {
  readonly seq: number;
  readonly entries: readonly FoldedEntry['entry'][];
  readonly update?: FoldedEntry['update'];
  /** When it leaves the fold, in milliseconds since 1970. Default: never. */
  readonly expiresMs?: number | undefined;
}

/** A configured base entry, and the row that has moved it. */
type KnownBase = PlacedBase & { readonly row: number | undefined };

/** How long, and how many of, {@link Fold.ended} deletions are kept; all that come after a row. */
export interface EndedLimits {
  readonly keptMs: number;
  readonly atMost: number;
  readonly after: number;
}

const NO_LIMITS: EndedLimits = { keptMs: Number.POSITIVE_INFINITY, atMost: Number.POSITIVE_INFINITY, after: 0 };

/**
 * First parts of paths that are remembered of updates that newcomers do not get; beyond, every path
 * counts as one.
 */
const PASSING_KEPT = 10_000;

/**
 * The live entries of a log, kept up to date record by record (design D15, D16, D17). Counts the
 * rows that it needs in `refs`. Each entry is visited once for each of its topics, so an update
 * takes time in proportion to its topics and its depth, not to the number of live entries; only a
 * PATCH visits the entries that overlap it.
 */
export class Fold {
  readonly refs: RowRefs;
  readonly #live: LiveItems;
  readonly #removals: Removals;
  /** The configured base entries, by identity; including superseded ones, which may come back. */
  readonly #base = new Map<string, KnownBase>();
  #baseTree = new PathTree<KnownBase>();
  /** Number of entries in each row of a record that is still needed. */
  readonly #entryCounts = new Map<number, number>();
  #compactable = new Set<FoldItem>();
  /** First segments of what {@link passed}; the root is the empty one. */
  readonly #passing = new Set<string>();
  #snapshot: readonly FoldedEntry[] | undefined = [];
  #version = 0;

  constructor(refs = new RowRefs()) {
    this.refs = refs;
    this.#removals = new Removals(refs);
    this.#live = new LiveItems(refs, this.#removals);
  }

  /** Live entries in order. The array never changes; a later call may return another one. */
  entries(): readonly FoldedEntry[] {
    this.#snapshot ??= inOrder([...this.#live]);
    return this.#snapshot;
  }

  /** The {@link entries} on at least one of these topics, in time that is proportional to them. */
  entriesOn(topics: Iterable<string>): readonly FoldedEntry[] {
    return inOrder(this.#live.on(topics));
  }

  /**
   * Deletions that the fold does not need any more, of late, in order: for those who cannot say
   * what they hold.
   */
  ended(): readonly FoldedEntry[] {
    return this.#removals.ended();
  }

  /** Another one after each change. */
  get version(): number {
    return this.#version;
  }

  /** Whether a live base entry is the same as this one. */
  hasBase(entry: PeerEntry): boolean {
    if (this.#base.size === 0) return false;
    const identity = baseIdentity(entry);
    const known = this.#base.get(identity);
    return known !== undefined && this.#baseItem(known) !== undefined;
  }

  get size(): number {
    return this.#live.size;
  }

  /** Deletions that have ended, and are kept for those who cannot say what they hold. */
  get endedCount(): number {
    return this.#removals.endedCount;
  }

  /** Characters of inline data in it. */
  get chars(): number {
    return this.#live.chars;
  }

  /**
   * Adds a record; records come in the order of their `seq`. A PUT or DELETE supersedes older
   * entries at or below its path, also of its own record. A PATCH is linked to the inline document
   * under it, or stacks on top if there is none. An older entry is dropped once it is superseded on
   * all its topics: until then some clients need it. A DELETE stays where it hides data of a
   * commit; one that only removes stays while something older overlaps it. An entry that expires
   * supersedes only entries that expire no later.
   */
  applyRecord({ seq, entries, update, expiresMs }: FoldRecord): void {
    this.refs.add(seq); // keeps the row while its own entries supersede each other
    this.#entryCounts.set(seq, entries.length);
    for (const [index, entry] of entries.entries()) {
      if (entry.origin === 'base') this.#moveBase(entry, [seq, index]);
      else this.#add(newItem({ place: [seq, index], origin: 'update', entry, update, expiresMs, row: seq }));
    }
    this.refs.drop(seq);
    this.#changed();
  }

  /**
   * Replaces the base entries by those of a generation, and closes what was {@link superseded} when
   * it was created.
   */
  setBase(entries: readonly PlacedBase[], superseded: readonly Superseded[] = []): void {
    this.#relink([], () => {
      for (const known of this.#base.values()) this.#removeBase(known);
      this.#base.clear();
      this.#baseTree = new PathTree();
      this.#removals.baseChanged();
      const updates = superseded.length === 0 ? [] : [...this.#live].filter(({ origin }) => origin === 'update');
      const byPlaces = new Map(updates.map((item) => [placeKey(item.place), item]));
      for (const { place, topics } of superseded) {
        const item = byPlaces.get(placeKey(place));
        if (item === undefined || !this.#live.has(item)) continue;
        for (const topic of topics ?? item.topics) this.#live.close(item, topic);
      }
      // A patch stays superseded after the base entry that covered it is removed.
      for (const item of [...this.#live]) if (item.open.length === 0) this.#live.remove(item);
      for (const { place, entry } of entries) this.#setBase(entry, place, undefined);
    });
    this.#changed();
  }

  /** The configured base entries with their places. */
  base(): readonly PlacedBase[] {
    return [...this.#base.values()].map(({ place, entry }) => ({ place, entry }));
  }

  /**
   * Entries that are superseded, on all or on some topics, while their row is still needed. A
   * reader that loads the remaining rows would take them for live once the base entry that
   * superseded them is removed: so the next generation of the base configuration lists them.
   */
  superseded(): Superseded[] {
    const found = new Map<string, Superseded>();
    for (const [seq, count] of this.#entryCounts) {
      if (!this.refs.has(seq)) this.#entryCounts.delete(seq);
      else for (let index = 0; index < count; index++) found.set(placeKey([seq, index]), { place: [seq, index] });
    }
    for (const { place } of this.#removals.endedPlaces()) found.delete(placeKey(place));
    for (const item of this.#live) {
      const { place, origin } = item;
      const topics = closedOf(item);
      if (topics.length === 0 || origin === 'base') found.delete(placeKey(place));
      else found.set(placeKey(place), { place, topics });
    }
    return [...found.values()];
  }

  /**
   * Whether some client may have something at a path because of this log: also where a source
   * decides it, and where it is of an update that newcomers do not get.
   */
  mayHave(path: DocPath): boolean {
    if (this.#passing.has('') || this.#passing.has(path[0] ?? '')) return true;
    const gone = this.#live.above(path).filter(({ entry, expiresMs }) => isDelete(entry) && expiresMs === undefined);
    /** Later ones have removed what it has there, for all who have it. */
    const isHidden = (item: FoldItem): boolean =>
      item.open.every((topic) =>
        gone.some((other) => other.open.includes(topic) && comparePlace(lastOf(item).place, other.place) < 0),
      );
    for (const item of this.#live.overlapping(path)) {
      const { entry } = item;
      if (isDelete(entry) || isHidden(item)) continue;
      const isBelow = item.path.length > path.length;
      const { data } = foldedOf(item).entry;
      if (isBelow || entry.save_method === 'PATCH' || !(data instanceof JsonText)) return true;
      if (nodeAt(leafOf(data.text), path.slice(item.path.length)) !== undefined) return true;
    }
    return false;
  }

  /** Whether a deletion at or below a path hides data of commits. */
  hasDeletion(path: DocPath): boolean {
    return this.#live.someBelow(path, ({ entry }) => isDelete(entry) && entry.only_removes !== true);
  }

  /** An update was delivered that newcomers do not get, or will not get at some time. */
  passed(entries: readonly PeerEntry[]): void {
    for (const { dst_path } of entries) this.#passing.add(parseDocPath(dst_path)[0] ?? '');
    if (this.#passing.size <= PASSING_KEPT) return;
    this.#passing.clear();
    this.#passing.add(''); // that may be anywhere
  }

  /** Removes expired entries, and forgets {@link ended} ones. Returns whether there were any. */
  expire(nowMs: number, { keptMs, atMost, after }: EndedLimits = NO_LIMITS): boolean {
    const due = this.#live.due(nowMs);
    for (const item of due) this.#live.remove(item);
    if (due.length > 0) this.#changed();
    const isForgotten = this.#removals.forget({ sinceMs: nowMs - keptMs, atMost, after });
    if (isForgotten) this.#version++;
    return due.length > 0 || isForgotten;
  }

  /**
   * Why a record that appends to lists cannot be linked to the documents below it; undefined if it
   * can.
   */
  appendProblem(record: NewRecord): AppendProblem | undefined {
    return appendProblem(record, this.#live);
  }

  /**
   * Number of patches that would stack at the path of this entry after its append, by topic; empty
   * if it would not stack.
   */
  patchesWith(entry: PeerEntry): ReadonlyMap<string, number> {
    const item = newItem({ place: [Number.MAX_SAFE_INTEGER, 0], origin: 'update', entry, row: undefined });
    if (documentUnder(this.#live, item) !== undefined) return new Map();
    const gone = new Set(
      [...supersededPatches(this.#live, item)].filter(([, left]) => left.length === 0).map(([old]) => old),
    );
    const stacked = [...this.#live.at(item.path)].filter((other) => isStacked(other) && !gone.has(other));
    return new Map(
      entry.topics.map((topic) => [topic, stacked.filter(({ open }) => open.includes(topic)).length + 1] as const),
    );
  }

  /**
   * Seq of the record with a live patch at the path of this entry that was appended under a key
   * with this digest.
   */
  patchOnce({ dst_path }: PeerEntry, once: string): number | undefined {
    return [...this.#live.at(parseDocPath(dst_path))].find(({ update }) => update?.once === once)?.place[0];
  }

  /** Number of stacked patches at a path on a topic. */
  patchesAt(path: DocPath, topic: string): number {
    let count = 0;
    for (const item of this.#live.at(path)) if (isStacked(item) && item.open.includes(topic)) count++;
    return count;
  }

  /**
   * Returns the documents that became due for compaction since the last call. `head`: the last row
   * that was applied.
   */
  takeCompactions(head: number): Compaction[] {
    const found = [...this.#compactable].filter((item) => this.#live.has(item) && item.patches.length > 0);
    this.#compactable = new Set();
    return found.map((item) => compactionOf(item, head));
  }

  /** The compaction of a folded entry; undefined if it has no patches. */
  compactionAt(folded: FoldedEntry, head: number): Compaction | undefined {
    for (const item of this.#live.at(parseDocPath(folded.entry.dst_path))) {
      if (item.folded === folded && item.patches.length > 0) return compactionOf(item, head);
    }
    return undefined;
  }

  /**
   * Applies a compaction from row `row`: a PUT at an earlier place, which supersedes the document
   * and its patches.
   */
  applyCompaction({ place, entry, update, closed = [] }: Compaction, row: number): void {
    this.refs.add(row);
    const written = newItem({ place, origin: 'update', entry, update, row });
    for (const topic of closed) closeOn(written, topic);
    this.#relink(written.path, () => {
      // May be open on more topics, if a base entry that closed them is removed.
      const last = atPlace(this.#live.overlapping(written.path), place);
      if (last !== undefined) this.#live.remove(last);
      this.#live.insert(written);
    });
    this.refs.drop(row);
    this.#changed();
  }

  #changed(): void {
    this.#removals.settle(this.#live, (item) => this.#isOverBase(item));
    this.#snapshot = undefined;
    this.#version++;
  }

  /**
   * Whether an older base entry overlaps it: also one that is superseded, since that may come back
   * at its place.
   */
  #isOverBase({ path, place }: FoldItem): boolean {
    const isOlder = (base: KnownBase): boolean => comparePlace(base.place, place) < 0;
    return this.#baseTree.above(path).some(isOlder) || this.#baseTree.some(path, isOlder);
  }

  #moveBase(entry: PeerEntry, place: Place): void {
    const known = this.#base.get(baseIdentity(entry));
    if (known === undefined) return;
    this.#removeBase(known);
    this.#baseTree.remove(parseDocPath(known.entry.dst_path), known);
    this.#removals.baseChanged();
    this.refs.add(place[0]);
    this.#setBase(known.entry, place, place[0]);
  }

  /**
   * The item has no row: a superseded base entry may come back, so the row of its place is counted
   * here.
   */
  #setBase(entry: PeerEntry, place: Place, row: number | undefined): void {
    const known = { place, entry, row };
    this.#base.set(baseIdentity(entry), known);
    this.#baseTree.add(parseDocPath(entry.dst_path), known);
    const item = newItem({ place, origin: 'base', entry, row: undefined });
    this.#live.insert(item);
    // Also where it is covered: see `#isOverBase`.
    for (const removal of this.#removals.revived(item)) this.#live.insert(removal);
  }

  #removeBase(known: KnownBase): void {
    const item = this.#baseItem(known);
    if (item !== undefined) this.#live.remove(item);
    if (known.row !== undefined) this.refs.drop(known.row);
  }

  /** The live item of a base entry; undefined: it is superseded. */
  #baseItem({ place, entry }: KnownBase): FoldItem | undefined {
    const item = atPlace(this.#live.at(parseDocPath(entry.dst_path)), place);
    return item?.origin === 'base' && baseIdentity(item.entry) === baseIdentity(entry) ? item : undefined;
  }

  #add(item: FoldItem): void {
    const document = isStacked(item) ? documentUnder(this.#live, item) : undefined;
    if (document === undefined && isStacked(item)) {
      for (const [old, left] of supersededPatches(this.#live, item)) this.#shrink(old, left);
    }
    this.#live.insert(item);
    if (document === undefined) return;
    link(item, document);
    if (isDue(document)) this.#compactable.add(document);
  }

  /**
   * Changes items in the middle of the log, and then relinks the patches around `path` to their
   * documents. A base entry in between prevents a link, even a superseded one: it may come back.
   */
  #relink(path: DocPath, change: () => void): void {
    const around = [...this.#live.overlapping(path)].flatMap((item) => (isPatch(item) ? [item] : item.patches));
    const patches = [...new Set(around)].sort(byPlace);
    for (const patch of patches) unlink(patch);
    change();
    for (const patch of patches.filter((each) => this.#live.has(each))) {
      const document = documentUnder(this.#live, patch);
      if (document !== undefined && !this.#isBaseBetween(document, patch)) link(patch, document);
      else if (patch.open.length === 0) this.#live.remove(patch);
    }
  }

  #isBaseBetween(document: FoldItem, patch: FoldItem): boolean {
    return [...this.#base.values()].some(
      ({ place, entry }) =>
        comparePlace(document.place, place) < 0 &&
        comparePlace(place, patch.place) < 0 &&
        pathsOverlap(parseDocPath(entry.dst_path), document.path),
    );
  }

  #shrink(item: FoldItem, left: readonly PatchPart[]): void {
    if (left.length === 0) this.#live.remove(item);
    else this.#live.shorten(item, left);
  }
}

function atPlace(items: Iterable<FoldItem>, place: Place): FoldItem | undefined {
  for (const item of items) if (comparePlace(item.place, place) === 0) return item;
  return undefined;
}

function inOrder(items: readonly FoldItem[]): FoldedEntry[] {
  return items
    .filter(({ document }) => document === undefined)
    .sort((a, b) => byPlace(lastOf(a), lastOf(b)))
    .map(foldedOf);
}

function isPatch({ entry, origin }: FoldItem): boolean {
  return entry.save_method === 'PATCH' && origin === 'update';
}

function isDelete({ save_method: method }: PeerEntry): boolean {
  return method === 'DELETE';
}

/** A patch that is not linked to a document. */
function isStacked({ entry, document }: FoldItem): boolean {
  return entry.save_method === 'PATCH' && document === undefined;
}
