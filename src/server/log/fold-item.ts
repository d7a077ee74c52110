import { JsonText } from '../../lib/json-text.js';
import type { PeerEntry } from '../../wire/data.js';
import { type DocPath, parseDocPath } from '../../wire/doc-path.js';
import { type PatchPart, patched, patchParts } from './patch-rules.js';
import type { Compaction, Place } from './place.js';
import type { FoldedEntry } from './update-log.js';

/** One live entry of the fold. */
export interface FoldItem {
  readonly place: Place;
  readonly origin: FoldedEntry['origin'];
  readonly path: DocPath;
  readonly topics: ReadonlySet<string>;
  /** Topics on which nothing superseded it yet. */
  readonly open: Set<string>;
  readonly expiresMs: number | undefined;
  readonly update: FoldedEntry['update'];
  /** As published; of a PATCH what is left of it, of a document that patches wait for the one before them. */
  entry: PeerEntry;
  /** Rows of the store that `entry` is made of. */
  rows: readonly number[];
  /** Operations of a PATCH, where they are known. */
  parts: readonly PatchPart[] | undefined;
  /** The document that patches wait for, as it was before them; undefined where none do. */
  document: FoldItem | undefined;
  /** Patches that are not worked into the document yet, as they were published. */
  waiting: readonly FoldItem[];
  folded: FoldedEntry | undefined;
}

/** Patches that may wait for one document, and their size in characters relative to its own. */
const WAITING_AT_MOST = 64;
const WAITING_CHARS = 64 * 1024;

/** An item of which nothing is superseded yet. */
export function newItem(
  fields: Pick<FoldItem, 'place' | 'origin' | 'entry' | 'rows'> & Partial<Pick<FoldItem, 'update' | 'expiresMs'>>,
): FoldItem {
  const { entry, place, origin, rows, update, expiresMs } = fields;
  const topics = new Set(entry.topics);
  const parts = entry.save_method === 'PATCH' ? patchParts(entry.data) : undefined;
  const path = parseDocPath(entry.dst_path);
  const open = new Set(topics);
  const alone = { document: undefined, waiting: [], folded: undefined };
  return { place, origin, entry, rows, update, expiresMs, path, topics, open, parts, ...alone };
}

/** A document with a patch that waits to be worked into it: it stands at the patch's place. */
export function joined(document: FoldItem, patch: FoldItem): FoldItem {
  const { place, update } = patch;
  return {
    ...document,
    place,
    update,
    document: document.document ?? document,
    waiting: [...document.waiting, patch],
    open: new Set(document.open),
    folded: undefined,
  };
}

/** What was published, one by one: a document and the patches that wait for it. What of it is superseded, all of it is. */
export function partsOf(item: FoldItem): FoldItem[] {
  const { document, waiting, open } = item;
  return document === undefined ? [item] : [document, ...waiting].map((part) => ({ ...part, open: new Set(open) }));
}

/** Where these stand. */
export function placesOf({ document, place, waiting }: FoldItem): Place[] {
  return document === undefined ? [place] : [document, ...waiting].map((part) => part.place);
}

/** Topics on which it is superseded. */
export function closedOf({ topics, open }: FoldItem): string[] {
  return [...topics].filter((topic) => !open.has(topic));
}

/** What newcomers get of it: the same object while it stays the same. */
export function foldedOf(item: FoldItem): FoldedEntry {
  item.folded ??= {
    seq: item.place[0],
    origin: item.origin,
    entry: item.waiting.length === 0 ? item.entry : worked(item),
    update: item.update,
    ...(item.expiresMs === undefined ? {} : { expiresMs: item.expiresMs }),
  };
  return item.folded;
}

/** The row that may stand in its stead. */
export function compactionOf(item: FoldItem): Compaction {
  const closed = closedOf(item);
  const { entry, update } = foldedOf(item);
  return { place: item.place, entry, update, ...(closed.length === 0 ? {} : { closed }) };
}

/** The document of an item with the waiting patches in it; where they removed all of it, its deletion. */
function worked({ entry, path, waiting }: FoldItem): PeerEntry {
  const { data, ...rest } = entry;
  const patches = waiting.map((patch) => ({ below: patch.path.slice(path.length), parts: patch.parts ?? [] }));
  const document = data instanceof JsonText ? patched(data, patches) : undefined;
  return document === undefined ? { ...rest, save_method: 'DELETE' } : { ...rest, data: document };
}

/** Whether so much waits for the document that it is to be written anew. */
export function isDue({ entry, waiting }: FoldItem): boolean {
  if (waiting.length >= WAITING_AT_MOST) return true;
  const chars = waiting.reduce((sum, patch) => sum + (patch.entry.data?.text.length ?? 0), 0);
  return chars > WAITING_CHARS && chars > (entry.data?.text.length ?? 0);
}

/** Rows of the store that an item needs. */
export function rowsOf({ rows, waiting }: FoldItem): number[] {
  return [...rows, ...waiting.flatMap((patch) => patch.rows)];
}
