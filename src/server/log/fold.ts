import type { PeerEntry } from '../../wire/data.js';
import { type DocPath, parseDocPath } from '../../wire/doc-path.js';
import { baseIdentity } from './base-entry.js';
import { documentOf, splitAt } from './compaction-targets.js';
import {
  closedOf,
  compactionOf,
  type FoldItem,
  foldedOf,
  isDue,
  joined,
  newItem,
  partsOf,
  placesOf,
  rowsOf,
} from './fold-item.js';
import { LiveItems, type When } from './live-items.js';
import { type AppendProblem, appendProblem } from './patch-appends.js';
import { type PatchPart, partsText } from './patch-rules.js';
import { documentUnder, supersededPatches } from './patch-targets.js';
import { type Buried, type Compaction, comparePlace, type Place, type PlacedBase, placeKey } from './place.js';
import { RowRefs } from './row-refs.js';
import type { FoldedEntry, NewRecord } from './update-log.js';

/** What {@link Fold.applyRecord} takes: the part of a log record that decides what is live. */
export interface FoldRecord {
  readonly seq: number;
  readonly entries: readonly FoldedEntry['entry'][];
  readonly update?: FoldedEntry['update'];
  /** When it leaves the fold, in milliseconds since 1970. Default: never. */
  readonly expiresMs?: number | undefined;
}

/**
 * The live entries of a log, kept up to date record by record (design D15, D16, D17). Rows that it needs are counted in
 * `refs`. An entry is visited once for each of its topics in all its life: an update costs time in proportion to its
 * topics and its depth, not to the number of live entries; only a PATCH looks at what overlaps it.
 */
export class Fold {
  readonly refs: RowRefs;
  readonly #live: LiveItems;
  /** The configured base entries, by identity; also those that are superseded: they may come back. */
  readonly #base = new Map<string, PlacedBase & { row: number | undefined }>();
  /** How many entries the rows of records have that are needed. */
  readonly #entryCounts = new Map<number, number>();
  #compactable = new Set<FoldItem>();
  #snapshot: readonly FoldedEntry[] | undefined = [];

  constructor(refs = new RowRefs()) {
    this.refs = refs;
    this.#live = new LiveItems(refs);
  }

  /** Live entries in order. The array never changes; a later call may answer another. */
  entries(): readonly FoldedEntry[] {
    this.#snapshot ??= [...this.#live].sort((a, b) => comparePlace(a.place, b.place)).map(foldedOf);
    return this.#snapshot;
  }

  get size(): number {
    return this.#live.size;
  }

  /**
   * Adds a record; records come in the order of their `seq`. A PUT or DELETE supersedes older entries at or below its
   * path (also of its own record), a PATCH stacks on top or is worked into the inline document under it. An older entry
   * is dropped once each of its topics was superseded: until then somebody still needs it. A DELETE stays as a tombstone,
   * since a client that was away has to learn of it. What leaves by itself supersedes nothing that stays.
   */
  applyRecord({ seq, entries, update, expiresMs }: FoldRecord): void {
    this.refs.add(seq); // until the end: what is superseded within the record counts as well
    this.#entryCounts.set(seq, entries.length);
    for (const [index, entry] of entries.entries()) {
      if (entry.origin === 'base') this.#moveBase(entry, [seq, index]);
      else this.#apply(newItem({ place: [seq, index], origin: 'update', entry, update, expiresMs, rows: [seq] }));
    }
    this.refs.drop(seq);
    this.#snapshot = undefined;
  }

  /** The base entries from now on, those of the last generation, and what was {@link buried} when it was made. */
  setBase(entries: readonly PlacedBase[], buried: readonly Buried[] = []): void {
    const before = this.#baseItems();
    for (const { row } of this.#base.values()) if (row !== undefined) this.refs.drop(row);
    this.#base.clear();
    for (const { place, entry } of entries) this.#base.set(baseIdentity(entry), { place, entry, row: undefined });
    this.#refold(before, buried);
  }

  /** The configured base entries with their places. */
  base(): readonly PlacedBase[] {
    return [...this.#base.values()].map(({ place, entry }) => ({ place, entry }));
  }

  /**
   * Entries that are superseded, wholly or on some topics, while the row that they stand in is still needed. Who reads the
   * log from its rows could take them for live, once the base entry that superseded them is gone: so the next generation
   * of the base configuration names them.
   */
  buried(): Buried[] {
    if ([...this.#live].some(({ document }) => document !== undefined)) this.#refold(this.#baseItems());
    const found = new Map<string, Buried>();
    for (const [seq, count] of this.#entryCounts) {
      if (!this.refs.has(seq)) this.#entryCounts.delete(seq);
      else for (let index = 0; index < count; index++) found.set(placeKey([seq, index]), { place: [seq, index] });
    }
    for (const item of this.#live) {
      const topics = closedOf(item);
      for (const place of placesOf(item)) {
        if (topics.length === 0 || item.origin === 'base') found.delete(placeKey(place));
        else found.set(placeKey(place), { place, topics });
      }
    }
    return [...found.values()];
  }

  /** Takes out what is to leave by now. Answers whether there was something. */
  expire(nowMs: number): boolean {
    const due = this.#live.due(nowMs);
    for (const item of due) this.#live.remove(item);
    if (due.length > 0) this.#snapshot = undefined;
    return due.length > 0;
  }

  /** Why a record that appends to lists cannot be worked into the documents below it; undefined: it can. */
  appendProblem(record: NewRecord): AppendProblem | undefined {
    return appendProblem(record, this.#live);
  }

  /** How many patches would stack at the path of this entry once it is added, by each of its topics; none where it would not stack. */
  patchesWith(entry: PeerEntry): ReadonlyMap<string, number> {
    const item = newItem({ place: [Number.MAX_SAFE_INTEGER, 0], origin: 'update', entry, rows: [] });
    if (documentUnder(this.#live, item) !== undefined) return new Map();
    const gone = new Set(
      [...supersededPatches(this.#live, item)].filter(([, left]) => left.length === 0).map(([old]) => old),
    );
    const stacked = [...this.#live.at(item.path)].filter(
      (other) => other.entry.save_method === 'PATCH' && !gone.has(other),
    );
    return new Map(
      entry.topics.map((topic) => [topic, stacked.filter(({ open }) => open.has(topic)).length + 1] as const),
    );
  }

  /** The record of which a patch stands at the path of this entry, and which was appended under a key with this digest. */
  patchOnce({ dst_path }: PeerEntry, once: string): number | undefined {
    return [...this.#live.at(parseDocPath(dst_path))].find(({ update }) => update?.once === once)?.place[0];
  }

  /** Patches at a path that count on a topic, quickly. */
  patchesAt(path: DocPath, topic: string): number {
    let count = 0;
    for (const { entry, open } of this.#live.at(path)) if (entry.save_method === 'PATCH' && open.has(topic)) count++;
    return count;
  }

  /** Documents that so many patches wait for that they are to be written anew; each is answered once. */
  takeCompactions(): Compaction[] {
    const found = [...this.#compactable].filter((item) => this.#live.has(item));
    this.#compactable = new Set();
    return found.map(compactionOf);
  }

  /** The compaction of a document that patches wait for; undefined where none do. */
  compactionAt(folded: FoldedEntry): Compaction | undefined {
    for (const item of this.#live.at(parseDocPath(folded.entry.dst_path))) {
      if (item.folded === folded && item.waiting.length > 0) return compactionOf(item);
    }
    return undefined;
  }

  /**
   * Takes a compaction that was written to the log as row `row`: from now on the entry at its place is made of this row
   * alone. Where the rows that it was made of were gone already it takes its place now, unless something newer covers it.
   */
  applyCompaction({ place, entry, update, closed = [] }: Compaction, row: number): void {
    this.refs.add(row);
    const written = newItem({ place, origin: 'update', entry, update, rows: [row] });
    const known = documentOf(this.#live, written);
    if (known !== undefined) {
      const before = rowsOf(known);
      const waiting = known.waiting.filter((patch) => comparePlace(patch.place, place) > 0);
      const document = waiting.length === 0 ? undefined : written;
      Object.assign(known, { entry, rows: [row], document, waiting, folded: undefined });
      for (const needed of rowsOf(known)) this.refs.add(needed);
      for (const old of before) this.refs.drop(old);
    } else {
      splitAt(this.#live, this.refs, written);
      for (const topic of closed) written.open.delete(topic);
      this.#apply(written, 'late');
    }
    this.refs.drop(row);
    this.#snapshot = undefined;
  }

  #moveBase(entry: PeerEntry, place: Place): void {
    const identity = baseIdentity(entry);
    const known = this.#base.get(identity);
    if (known === undefined) return;
    const item = this.#live.get(known.place);
    if (item !== undefined) this.#live.remove(item);
    if (known.row !== undefined) this.refs.drop(known.row);
    this.refs.add(place[0]);
    this.#base.set(identity, { place, entry: known.entry, row: place[0] });
    this.#apply(this.#baseItem(known.entry, place));
  }

  /** A base item has no rows of its own: it may come back, so what its place is made of stays counted with the base. */
  #baseItem(entry: PeerEntry, place: Place): FoldItem {
    return newItem({ place, origin: 'base', entry, rows: [] });
  }

  #baseItems(): FoldItem[] {
    return [...this.#base.values()].map(({ entry, place }) => this.#baseItem(entry, place));
  }

  /**
   * Makes the trees anew around a change of the base entries. Whether a patch was worked into a document hangs on what stood
   * beside them at that moment, which is not the same for those who were there and for those who read what is left of the
   * rows: so first all that was published decides one by one what covers what, the base entries of before too, and then the
   * patches join their documents anew. What was superseded before stays so, topic by topic.
   */
  #refold(before: readonly FoldItem[], buried: readonly Buried[] = []): void {
    const closed = new Map(buried.map(({ place, topics }) => [placeKey(place), { topics }]));
    const items = [...this.#live].filter(({ origin }) => origin === 'update');
    const updates = items.flatMap(partsOf);
    for (const item of updates) for (const row of rowsOf(item)) this.refs.add(row);
    this.#live.clear();
    for (const item of updates) {
      const gone = closed.get(placeKey(item.place));
      if (gone !== undefined) for (const topic of gone.topics ?? [...item.topics]) item.open.delete(topic);
    }
    if (updates.length > items.length) {
      for (const item of inOrder([...updates, ...before, ...this.#baseItems()])) {
        if (item.open.size > 0) this.#live.insert(item);
      }
      for (const item of updates) if (!this.#live.has(item)) item.open.clear();
      this.#live.clear();
    }
    for (const item of inOrder([...updates, ...this.#baseItems()])) if (item.open.size > 0) this.#apply(item);
    for (const item of updates) for (const row of rowsOf(item)) this.refs.drop(row);
    this.#snapshot = undefined;
  }

  #apply(item: FoldItem, when: When = 'last'): void {
    if (item.entry.save_method !== 'PATCH' || item.origin === 'base' || when === 'late') {
      if (when === 'late') this.#live.closeCovered(item);
      if (item.open.size > 0) this.#live.insert(item, when);
      return;
    }
    const document = documentUnder(this.#live, item);
    if (document === undefined) {
      for (const [old, left] of supersededPatches(this.#live, item)) this.#shrink(old, left);
      this.#live.insert(item);
      return;
    }
    const both = joined(document, item);
    // What both are made of stays needed.
    for (const row of rowsOf(both)) this.refs.add(row);
    this.#live.remove(document);
    this.#live.insert(both);
    for (const row of rowsOf(both)) this.refs.drop(row);
    if (isDue(both)) this.#compactable.add(both);
  }

  #shrink(item: FoldItem, left: readonly PatchPart[]): void {
    if (left.length === 0) this.#live.remove(item);
    else Object.assign(item, { parts: left, entry: { ...item.entry, data: partsText(left) }, folded: undefined });
  }
}

function inOrder(items: readonly FoldItem[]): FoldItem[] {
  return items.toSorted((a, b) => comparePlace(a.place, b.place));
}

/** An empty fold. */
export function createFold(): Fold {
  return new Fold();
}
