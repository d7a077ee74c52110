import { JsonText } from '../../lib/json/json-text.js';
import type { PeerEntry } from '../../wire/data.js';
import { type DocPath, parseDocPath } from '../../wire/doc-path.js';
import { type PatchPart, patched, patchParts } from './patch-rules.js';
import { type Compaction, comparePlace, type Place } from './place.js';
import type { FoldedEntry } from './update-log.js';

/** A live entry of the fold, as it was published. */
export interface FoldItem {
  readonly place: Place;
  readonly origin: FoldedEntry['origin'];
  readonly path: DocPath;
  /** Each once. While it is live, one list for all items that have the same in the same order. */
  topics: readonly string[];
  /** Topics on which it is not superseded yet; the same list as {@link topics} until then. */
  open: readonly string[];
  readonly expiresMs: number | undefined;
  readonly update: FoldedEntry['update'];
  /**
   * Row of the store that holds it; undefined for a base entry, whose row the fold counts itself.
   */
  readonly row: number | undefined;
  /** Of a PATCH: the operations that later patches have not superseded. */
  entry: PeerEntry;
  /** Operations of a PATCH, if they are known. */
  parts: readonly PatchPart[] | undefined;
  /** The document that this PATCH is linked to. Readers of the fold get both as one entry. */
  document: FoldItem | undefined;
  /**
   * Patches that are linked to this document, in order. Most items have none: they share that list.
   */
  patches: readonly FoldItem[];
  folded: FoldedEntry | undefined;
}

/**
 * A document is due for compaction with this many patches, or when they have more characters than
 * this and than the document.
 */
const PATCHES_AT_MOST = 64;
const PATCHES_CHARS = 64 * 1024;

const NO_PATCHES: readonly FoldItem[] = [];

/**
 * Creates an item that is open on all its topics. There may be a hundred thousand, so it is one
 * object: a spread would make it two.
 */
export function newItem(
  fields: Pick<FoldItem, 'place' | 'origin' | 'entry' | 'row'> & Partial<Pick<FoldItem, 'update' | 'expiresMs'>>,
): FoldItem {
  const { entry, place, origin, row, update, expiresMs } = fields;
  const distinct = new Set(entry.topics);
  const topics = distinct.size === entry.topics.length ? entry.topics : [...distinct];
  const parts = entry.save_method === 'PATCH' ? patchParts(entry.data) : undefined;
  const path = parseDocPath(entry.dst_path);
  const [document, patches, folded] = [undefined, NO_PATCHES, undefined];
  return { place, origin, entry, row, update, expiresMs, path, topics, open: topics, parts, document, patches, folded };
}

/** Marks an item as superseded on one topic. */
export function closeOn(item: FoldItem, topic: string): void {
  item.open = item.open.filter((one) => one !== topic);
}

/** Links a patch to its document. */
export function link(patch: FoldItem, document: FoldItem): void {
  patch.document = document;
  const isLast = comparePlace(lastOf(document).place, patch.place) < 0;
  const patches = ownPatches(document);
  patches.push(patch);
  if (!isLast) patches.sort(byPlace);
  document.folded = undefined;
}

/** Unlinks a patch from its document, if it has one. */
export function unlink(patch: FoldItem): void {
  const { document } = patch;
  if (document === undefined) return;
  const patches = ownPatches(document);
  patches.splice(patches.lastIndexOf(patch), 1);
  if (patches.length === 0) document.patches = NO_PATCHES;
  document.folded = undefined;
  patch.document = undefined;
}

/** The list of an item that has or gets patches. */
function ownPatches(document: FoldItem): FoldItem[] {
  if (document.patches === NO_PATCHES) document.patches = [];
  return document.patches as FoldItem[];
}

export function byPlace(a: FoldItem, b: FoldItem): number {
  return comparePlace(a.place, b.place);
}

/** The last patch of an item, or the item itself: its place is that of the document in the fold. */
export function lastOf(item: FoldItem): FoldItem {
  return item.patches.at(-1) ?? item;
}

/** Topics on which it is superseded. */
export function closedOf({ topics, open }: FoldItem): string[] {
  return open.length === topics.length ? [] : topics.filter((topic) => !open.includes(topic));
}

/** The entry that readers of the fold get. Cached: the same object until it changes. */
export function foldedOf(item: FoldItem): FoldedEntry {
  if (item.folded !== undefined) return item.folded;
  const { place, update } = lastOf(item);
  const patches = item.patches.length;
  const folded: FoldedEntry = { seq: place[0], origin: item.origin, entry: worked(item), path: item.path, update };
  if (item.expiresMs !== undefined) folded.expiresMs = item.expiresMs;
  if (patches > 0) folded.patches = patches;
  item.folded = folded;
  return folded;
}

/** The compaction that replaces a document and its patches, as of a row of the log. */
export function compactionOf(item: FoldItem, made: number): Compaction {
  const closed = closedOf(item);
  const { entry, update } = foldedOf(item);
  return { place: lastOf(item).place, entry, update, made, ...(closed.length === 0 ? {} : { closed }) };
}

/** The document with its patches applied; a DELETE if they removed the whole document. */
function worked({ entry, path, patches }: FoldItem): PeerEntry {
  if (patches.length === 0) return entry;
  const { data, implied, ...rest } = entry;
  const waiting = patches.map((patch) => ({ below: patch.path.slice(path.length), parts: patch.parts ?? [] }));
  const document = data instanceof JsonText ? patched({ data, implied }, waiting, path.length) : undefined;
  return document === undefined ? { ...rest, save_method: 'DELETE' } : { ...rest, ...document };
}

/** Whether a document is due for compaction. */
export function isDue({ entry, patches }: FoldItem): boolean {
  if (patches.length >= PATCHES_AT_MOST) return true;
  const chars = patches.reduce((sum, patch) => sum + (patch.entry.data?.text.length ?? 0), 0);
  return chars > PATCHES_CHARS && chars > (entry.data?.text.length ?? 0);
}
