import { elements, JsonText, jsonKind, members, printJson } from '../../lib/json/json-text.js';
import type { DataSourceEntry, PeerEntry } from '../../wire/data.js';
import { type DocPath, docPathPointer, docPathText, parseDocPath, pathsOverlap } from '../../wire/doc-path.js';
import type { FoldedEntry, LogRecord } from '../log/update-log.js';
import type { MayHave } from './may-have.js';

/**
 * Data updates and entries as JSON text, in two forms: the one for OPAL peers (opal-protocol P4.1,
 * field order of 4.2), and ours, which is negotiated, adds the position and has DELETE. Both keep
 * inline data exactly as written.
 */

type Entry = DataSourceEntry | PeerEntry;

/** The log position that a configuration reflects; without it this is no complete fold. */
export interface ConfigPosition {
  epoch?: string;
  head?: number;
  /** True when the operator set base entries, also to an empty list. */
  baseSet: boolean;
}

/** The fields of an entry that differ between the forms. */
interface Write {
  dst_path: string;
  save_method: string;
  data: JsonText | undefined;
}

/** A data update for OPAL peers. */
export function opalUpdateText(record: LogRecord, mayHave: MayHave): string {
  const asOpal = opalEntries(mayHave);
  return printJson({
    id: record.id,
    entries: record.entries.flatMap(asOpal),
    reason: record.reason,
    callback: { callbacks: record.callbacks },
  });
}

/** An update for our own clients; `traceparent`: the parent of their spans. */
export function extendedUpdateText(record: LogRecord, epoch: string): string {
  return printJson({
    id: record.id,
    entries: record.entries.map(extendedEntry),
    reason: record.reason,
    callback: { callbacks: record.callbacks },
    seq: record.seq,
    epoch,
    prev: record.prev,
    traceparent: record.traceparent,
  });
}

/** Response of `GET /data/config` for OPAL peers. */
export function opalConfigText(fold: readonly FoldedEntry[], mayHave: MayHave): string {
  const asOpal = opalEntries(mayHave);
  return printJson({
    entries: fold.flatMap((folded) =>
      asOpal(folded.entry).map((known) => ({ ...known, periodic_update_interval: intervalOf(folded) })),
    ),
  });
}

/** Response of `GET /data/config` for PolicySync clients (wire/data.ts peerDataConfig). */
export function extendedConfigText(fold: readonly FoldedEntry[], position: ConfigPosition): string {
  return printJson({
    entries: fold.map(({ entry, seq, origin }) => ({
      ...extendedEntry(entry),
      periodic_update_interval: intervalOf({ entry, origin }),
      seq,
      origin,
    })),
    epoch: position.epoch,
    head: position.head,
    base_set: position.baseSet,
  });
}

export interface UpdatesText {
  readonly epoch: string;
  readonly head: number;
  readonly from: 'tail' | 'fold';
  readonly more: boolean;
  readonly heads: Readonly<Record<string, number>>;
  /** Updates, each with the entries that the caller may see. */
  readonly updates: readonly Pick<
    LogRecord,
    'id' | 'seq' | 'timeMs' | 'reason' | 'entries' | 'callbacks' | 'retain' | 'traceparent'
  >[];
}

/** Response of `GET /data/updates` (wire/catch-up-page.ts). */
export function updatesPageText({ updates, ...page }: UpdatesText): string {
  return printJson({
    ...page,
    updates: updates.map(({ id, seq, timeMs, reason, entries, callbacks, traceparent }) => ({
      id,
      seq,
      time: new Date(timeMs).toISOString(),
      reason,
      entries: entries.map(extendedEntry),
      callback: { callbacks },
      traceparent,
    })),
  });
}

/** Only base entries are polled (opal-protocol P4.1): an update never shows an interval. */
function intervalOf({ entry, origin }: Pick<FoldedEntry, 'entry' | 'origin'>): number | null {
  return origin === 'base' ? (entry.periodic_update_interval ?? null) : null;
}

function extendedEntry(entry: Entry): object {
  return {
    url: entry.url,
    config: entry.config ?? null,
    topics: entry.topics,
    dst_path: entry.dst_path,
    save_method: entry.save_method,
    inline_data: isPresent(entry.data),
    data: entry.data ?? undefined,
    implied: 'implied' in entry ? entry.implied : undefined,
    only_removes: 'only_removes' in entry ? entry.only_removes : undefined,
    // A base entry that clients fetch again keeps its place among the base entries.
    ...('origin' in entry && entry.origin === 'base' && { origin: 'base' }),
  };
}

/**
 * Makes the entries of one text for OPAL peers; none of an entry that contains nothing that they
 * could apply. A DELETE also removes what is above and has nothing left in it, once: OPA refuses a
 * second time.
 */
function opalEntries(mayHave: MayHave): (entry: Entry) => object[] {
  const known = new Map<string, boolean>();
  const isHeld = (path: DocPath): boolean => {
    const key = JSON.stringify(path);
    const held = known.get(key) ?? mayHave(path);
    known.set(key, held);
    return held;
  };
  const removed = new Map<string, DocPath>();
  return (entry) => {
    const path = parseDocPath(entry.dst_path);
    if (entry.save_method !== 'DELETE') {
      for (const [key, top] of removed) if (pathsOverlap(top, path)) removed.delete(key);
      return opalEntry(entry, path);
    }
    let length = path.length;
    while (length > 1 && !isHeld(path.slice(0, length - 1))) length--;
    const top = path.slice(0, length);
    const key = JSON.stringify([top, entry.topics.toSorted()]);
    if (removed.has(key)) return [];
    removed.set(key, top);
    return opalEntry(entry, top);
  };
}

/** `path`: its own, or for a DELETE one above. */
function opalEntry(entry: Entry, path: DocPath): object[] {
  const write = opalWrite(entry, path);
  if (write === undefined) return [];
  const known = {
    url: entry.url,
    config: entry.config ?? null,
    topics: entry.topics,
    dst_path: write.dst_path,
    save_method: write.save_method,
    // An explicit null is not a valid JSON patch for an OPAL peer, and it would lose the whole
    // update (opal-protocol P4.1).
    data: write.data ?? (write.save_method === 'PATCH' ? undefined : null),
  };
  return [known];
}

/**
 * Returns the write that has the same effect on an OPAL peer. It supports neither DELETE nor inline
 * scalars, and drops an update that has one; both become patches of the parent (design D32).
 */
function opalWrite(entry: Entry, path: DocPath): Write | undefined {
  const same: Write = { dst_path: entry.dst_path, save_method: entry.save_method, data: entry.data ?? undefined };
  const isDelete = entry.save_method === 'DELETE';
  const isScalar = entry.save_method === 'PUT' && isPresent(entry.data) && jsonKind(entry.data.text) === 'scalar';
  if (entry.save_method === 'PATCH' && isPresent(entry.data)) {
    const data = withoutNulls(entry.data);
    return data === undefined ? undefined : { ...same, data };
  }
  if (!isDelete && !isScalar) return same;
  if (path.length === 0) return isDelete ? { ...same, save_method: 'PUT', data: JsonText.of({}) } : same;
  const pointer = docPathPointer(path.slice(-1));
  const operation = isDelete ? { op: 'remove', path: pointer } : { op: 'add', path: pointer, value: entry.data };
  return {
    // `/` and not the empty path: OPAL clients wrap a list that is saved at the empty one
    // (opal-protocol P6.1).
    dst_path: docPathText(path.slice(0, -1)),
    save_method: 'PATCH',
    data: JsonText.trusted(printJson([operation])),
  };
}

/**
 * Removes null values from a patch: an OPAL client cannot read them and would lose the update or
 * the whole configuration (opal-protocol P4.1). It drops null members anyway, so `replace` becomes
 * `remove`, and `add` is left out.
 */
function withoutNulls(patch: JsonText): JsonText | undefined {
  if (jsonKind(patch.text) !== 'array') return patch;
  const kept = elements(patch.text).flatMap((text) => {
    const operation = jsonKind(text) === 'object' ? members(text) : new Map<string, string>();
    const op = operation.get('op');
    if (operation.get('value') !== 'null' || (op !== '"add"' && op !== '"replace"')) return [text];
    return op === '"add"' ? [] : [`{"op":"remove","path":${operation.get('path') ?? '""'}}`];
  });
  return kept.length === 0 ? undefined : JsonText.trusted(`[${kept.join(',')}]`);
}

function isPresent(data: JsonText | null | undefined): data is JsonText {
  return data !== null && data !== undefined;
}
