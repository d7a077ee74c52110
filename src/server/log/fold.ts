import { JsonText } from '../../lib/json-text.js';
import type { PeerEntry } from '../../wire/data.js';
import { type DocPath, parseDocPath, pathsOverlap } from '../../wire/doc-path.js';
import { leafOf, nodeAt } from '../../wire/json-node.js';
import { baseIdentity } from './base-entry.js';
import {
  byPlace,
  closedOf,
  compactionOf,
  type FoldItem,
  foldedOf,
  isDue,
  lastOf,
  link,
  newItem,
  unlink,
} from './fold-item.js';
import { LiveItems, RowRefs } from './live-items.js';
import { type AppendProblem, appendProblem } from './patch-appends.js';
import { type PatchPart, partsText } from './patch-rules.js';
import { documentUnder, supersededPatches } from './patch-targets.js';
import { type Compaction, comparePlace, type Place, type PlacedBase, placeKey, type Superseded } from './place.js';
import type { FoldedEntry, NewRecord } from './update-log.js';

/** The part of a log record that decides which entries are live. */
export interface FoldRecord {
  readonly seq: number;
  readonly entries: readonly FoldedEntry['entry'][];
  readonly update?: FoldedEntry['update'];
  /** When it leaves the fold, in milliseconds since 1970. Default: never. */
  readonly expiresMs?: number | undefined;
}

/** First parts of paths that are remembered of updates that newcomers do not get; beyond, every path counts as one. */
const PASSING_KEPT = 10_000;

/**
 * The live entries of a log, kept up to date record by record (design D15, D16, D17). Counts the rows that it needs in `refs`. Each entry
 * is visited once for each of its topics, so an update takes time in proportion to its topics and its depth, not to the number of live
 * entries; only a PATCH visits the entries that overlap it.
 */
export class Fold {
  readonly refs: RowRefs;
  readonly #live: LiveItems;
  /** The configured base entries, by identity; including superseded ones, which may come back. */
  readonly #base = new Map<string, PlacedBase & { row: number | undefined }>();
  /** Number of entries in each row of a record that is still needed. */
  readonly #entryCounts = new Map<number, number>();
  #compactable = new Set<FoldItem>();
  /** First segments of what {@link passed}; the root is the empty one. */
  readonly #passing = new Set<string>();
  #snapshot: readonly FoldedEntry[] | undefined = [];
  #version = 0;

  constructor(refs = new RowRefs()) {
    this.refs = refs;
    this.#live = new LiveItems(refs);
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

  /** Another one after each change. */
  get version(): number {
    return this.#version;
  }

  /** Whether a live base entry is the same as this one. */
  hasBase(entry: PeerEntry): boolean {
    if (this.#base.size === 0) return false;
    const identity = baseIdentity(entry);
    const known = this.#base.get(identity);
    const item = known && this.#live.get(known.place);
    return item?.origin === 'base' && baseIdentity(foldedOf(item).entry) === identity;
  }

  get size(): number {
    return this.#live.size;
  }

  /**
   * Adds a record; records come in the order of their `seq`. A PUT or DELETE supersedes older entries at or below its path, also of its
   * own record. A PATCH is linked to the inline document under it, or stacks on top if there is none. An older entry is dropped once it is
   * superseded on all its topics: until then some clients need it. A DELETE stays as a tombstone for clients that were away. An entry that
   * expires supersedes only entries that expire no later.
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

  /** Replaces the base entries by those of a generation, and closes what was {@link superseded} when it was created. */
  setBase(entries: readonly PlacedBase[], superseded: readonly Superseded[] = []): void {
    this.#relink([], () => {
      for (const { place, row } of this.#base.values()) this.#removeBase(place, row);
      this.#base.clear();
      for (const { place, topics } of superseded) {
        const item = this.#live.get(place);
        if (item?.origin === 'update') for (const topic of topics ?? item.topics) this.#live.close(item, topic);
      }
      // A patch stays superseded after the base entry that covered it is removed.
      for (const item of [...this.#live]) if (item.open.size === 0) this.#live.remove(item);
      for (const { place, entry } of entries) this.#setBase(entry, place, undefined);
    });
    this.#changed();
  }

  /** The configured base entries with their places. */
  base(): readonly PlacedBase[] {
    return [...this.#base.values()].map(({ place, entry }) => ({ place, entry }));
  }

  /**
   * Entries that are superseded, on all or on some topics, while their row is still needed. A reader that loads the remaining rows would
   * take them for live once the base entry that superseded them is removed: so the next generation of the base configuration lists them.
   */
  superseded(): Superseded[] {
    const found = new Map<string, Superseded>();
    for (const [seq, count] of this.#entryCounts) {
      if (!this.refs.has(seq)) this.#entryCounts.delete(seq);
      else for (let index = 0; index < count; index++) found.set(placeKey([seq, index]), { place: [seq, index] });
    }
    for (const item of this.#live) {
      const { place, origin } = item;
      const topics = closedOf(item);
      if (topics.length === 0 || origin === 'base') found.delete(placeKey(place));
      else found.set(placeKey(place), { place, topics });
    }
    return [...found.values()];
  }

  /**
   * Whether some client may have something at a path because of this log: also where a source decides it, and where it is of an update that
   * newcomers do not get.
   */
  mayHave(path: DocPath): boolean {
    if (this.#passing.has('') || this.#passing.has(path[0] ?? '')) return true;
    const gone = this.#live.above(path).filter(({ entry, expiresMs }) => isDelete(entry) && expiresMs === undefined);
    /** Later ones have removed what it has there, for all who have it. */
    const isHidden = (item: FoldItem): boolean =>
      [...item.open].every((topic) =>
        gone.some((other) => other.open.has(topic) && comparePlace(lastOf(item).place, other.place) < 0),
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

  /** An update was delivered that newcomers do not get, or will not get at some time. */
  passed(entries: readonly PeerEntry[]): void {
    for (const { dst_path } of entries) this.#passing.add(parseDocPath(dst_path)[0] ?? '');
    if (this.#passing.size <= PASSING_KEPT) return;
    this.#passing.clear();
    this.#passing.add(''); // that may be anywhere
  }

  /** Removes expired entries. Returns whether there were any. */
  expire(nowMs: number): boolean {
    const due = this.#live.due(nowMs);
    for (const item of due) this.#live.remove(item);
    if (due.length > 0) this.#changed();
    return due.length > 0;
  }

  /** Why a record that appends to lists cannot be linked to the documents below it; undefined if it can. */
  appendProblem(record: NewRecord): AppendProblem | undefined {
    return appendProblem(record, this.#live);
  }

  /** Number of patches that would stack at the path of this entry after its append, by topic; empty if it would not stack. */
  patchesWith(entry: PeerEntry): ReadonlyMap<string, number> {
    const item = newItem({ place: [Number.MAX_SAFE_INTEGER, 0], origin: 'update', entry, row: undefined });
    if (documentUnder(this.#live, item) !== undefined) return new Map();
    const gone = new Set(
      [...supersededPatches(this.#live, item)].filter(([, left]) => left.length === 0).map(([old]) => old),
    );
    const stacked = [...this.#live.at(item.path)].filter((other) => isStacked(other) && !gone.has(other));
    return new Map(
      entry.topics.map((topic) => [topic, stacked.filter(({ open }) => open.has(topic)).length + 1] as const),
    );
  }

  /** Seq of the record with a live patch at the path of this entry that was appended under a key with this digest. */
  patchOnce({ dst_path }: PeerEntry, once: string): number | undefined {
    return [...this.#live.at(parseDocPath(dst_path))].find(({ update }) => update?.once === once)?.place[0];
  }

  /** Number of stacked patches at a path on a topic. */
  patchesAt(path: DocPath, topic: string): number {
    let count = 0;
    for (const item of this.#live.at(path)) if (isStacked(item) && item.open.has(topic)) count++;
    return count;
  }

  /** Returns the documents that became due for compaction since the last call. */
  takeCompactions(): Compaction[] {
    const found = [...this.#compactable].filter((item) => this.#live.has(item) && item.patches.length > 0);
    this.#compactable = new Set();
    return found.map(compactionOf);
  }

  /** The compaction of a folded entry; undefined if it has no patches. */
  compactionAt(folded: FoldedEntry): Compaction | undefined {
    for (const item of this.#live.at(parseDocPath(folded.entry.dst_path))) {
      if (item.folded === folded && item.patches.length > 0) return compactionOf(item);
    }
    return undefined;
  }

  /** Applies a compaction from row `row`: a PUT at an earlier place, which supersedes the document and its patches. */
  applyCompaction({ place, entry, update, closed = [] }: Compaction, row: number): void {
    this.refs.add(row);
    const written = newItem({ place, origin: 'update', entry, update, row });
    for (const topic of closed) written.open.delete(topic);
    this.#relink(written.path, () => {
      const last = this.#live.get(place); // may be open on more topics, if a base entry that closed them is removed
      if (last !== undefined) this.#live.remove(last);
      this.#live.insert(written);
    });
    this.refs.drop(row);
    this.#changed();
  }

  #changed(): void {
    this.#snapshot = undefined;
    this.#version++;
  }

  #moveBase(entry: PeerEntry, place: Place): void {
    const known = this.#base.get(baseIdentity(entry));
    if (known === undefined) return;
    this.#removeBase(known.place, known.row);
    this.refs.add(place[0]);
    this.#setBase(known.entry, place, place[0]);
  }

  /** The item has no row: a superseded base entry may come back, so the row of its place is counted here. */
  #setBase(entry: PeerEntry, place: Place, row: number | undefined): void {
    this.#base.set(baseIdentity(entry), { place, entry, row });
    this.#live.insert(newItem({ place, origin: 'base', entry, row: undefined }));
  }

  #removeBase(place: Place, row: number | undefined): void {
    const item = this.#live.get(place);
    if (item?.origin === 'base') this.#live.remove(item);
    if (row !== undefined) this.refs.drop(row);
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
   * Changes items in the middle of the log, and then relinks the patches around `path` to their documents. A base entry in between
   * prevents a link, even a superseded one: it may come back.
   */
  #relink(path: DocPath, change: () => void): void {
    const around = [...this.#live.overlapping(path)].flatMap((item) => (isPatch(item) ? [item] : item.patches));
    const patches = [...new Set(around)].sort(byPlace);
    for (const patch of patches) unlink(patch);
    change();
    for (const patch of patches.filter((each) => this.#live.has(each))) {
      const document = documentUnder(this.#live, patch);
      if (document !== undefined && !this.#isBaseBetween(document, patch)) link(patch, document);
      else if (patch.open.size === 0) this.#live.remove(patch);
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
    else Object.assign(item, { parts: left, entry: { ...item.entry, data: partsText(left) }, folded: undefined });
  }
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
