import * as z from 'zod';
import { SyncError } from '../../lib/errors.js';
import { checkJson, parseJson } from '../../lib/json/json.js';
import { MAX_READ_DEPTH } from '../../lib/json/json-check.js';
import { elements, members, objectText, printJson } from '../../lib/json/json-text.js';
import { inSteps } from '../../lib/run/async.js';
import { type PeerEntry, peerEntry } from '../../wire/data.js';
import { keepingData, parseKeepingData } from '../../wire/inline-data.js';
import { instant, MAX_INSTANT_MS } from '../../wire/instant.js';
import type { RowKind, StoredRow } from './log-store.js';
import type { Compaction, PlacedBase, Superseded } from './place.js';
import type { Idempotency, LogRecord, NewRecord } from './update-log.js';

/** Parsing and printing of row bodies: JSON text, with numbers as written (design D33). */

const place = z.tuple([z.number().int().positive(), z.number().int().nonnegative()]);
const updateBody = z.object({
  id: z.string(),
  publisher: z.string().nullable(),
  reason: z.string().nullable(),
  entries: z.array(peerEntry),
  callbacks: z.array(z.unknown()),
  retain: z.union([z.boolean(), z.number()]).optional(),
  traceparent: z.string().optional(),
  once: z.string().optional(),
  concerned: z.number().optional(),
  /** {@link Idempotency.digest}. */
  digest: z.string().optional(),
});
const compactionBody = z.object({
  compacts: place,
  made: z.number().int().nonnegative().optional(),
  id: z.string(),
  reason: z.string().nullable(),
  /** Missing from older versions. */
  publisher: z.string().nullish(),
  time_ms: instant,
  entries: z.tuple([peerEntry]),
  closed: z.array(z.string()).optional(),
});
const generationBody = z.object({
  generation: z.string(),
  known: z.array(z.string()),
  entries: z.array(z.object({ place: place.optional(), entry: peerEntry })),
  buried: z.array(z.object({ place, topics: z.array(z.string()).optional() })).default([]),
});

const KINDS: readonly RowKind[] = ['update', 'base', 'policy'];

/**
 * Throws `log_damaged` for a row that no instance writes: without a seq, a kind, a body, or a time
 * that a date can show.
 */
export function checkRow(row: StoredRow): void {
  reading(row, () => {
    const { seq, kind, timeMs, body } = row;
    if (!Number.isSafeInteger(seq) || seq < 1) throw new RangeError('it has no place');
    if (!KINDS.includes(kind)) throw new RangeError(`it is of no kind that is known: ${String(kind).slice(0, 100)}`);
    if (!(Math.abs(timeMs) <= MAX_INSTANT_MS)) throw new RangeError(`its time is none: ${timeMs}`);
    if (typeof body !== 'string') throw new RangeError('it has no body');
  });
}

/** A row of kind `update`: a record, or a compaction. */
export type UpdateRow =
  | { readonly kind: 'record'; readonly record: LogRecord; readonly digest: string | undefined }
  | { readonly kind: 'compaction'; readonly compaction: Compaction };

/** A generation of the base configuration (design D18): all its entries, each with its place. */
export interface Generation {
  /** Digest of the configuration. */
  readonly generation: string;
  /** Digests of earlier generations, the newest last. */
  readonly known: readonly string[];
  readonly entries: readonly PlacedBase[];
  /** Entries that were superseded when it was created, for readers of the remaining rows. */
  readonly superseded: readonly Superseded[];
}

/** The body of an update's row. Throws `RangeError` if it is nested too deep. */
export function updateBodyText(record: NewRecord, once?: Idempotency): string {
  const { id, publisher, reason, entries, callbacks, retain, traceparent, concerned } = record;
  const told = { once: record.once, concerned, digest: once?.digest };
  return printJson({ id, publisher, reason, entries, callbacks, retain, traceparent, ...told });
}

/** Parses a row of kind `update`. Throws `log_damaged` if it is invalid. */
export function readUpdateRow(row: StoredRow): UpdateRow {
  return reading(row, () => updateRow(row, parseKeepingData(row.body)));
}

/** {@link readUpdateRow} for a large row: everything else goes on meanwhile. */
export async function readLargeUpdateRow(row: StoredRow): Promise<UpdateRow> {
  const value = await inSteps(keepingData(Buffer.from(row.body))).catch((cause: unknown) => damaged(row, cause));
  return reading(row, () => updateRow(row, value));
}

function updateRow(row: StoredRow, value: unknown): UpdateRow {
  if (typeof value === 'object' && value !== null && 'compacts' in value) {
    const {
      compacts,
      made = row.seq,
      id,
      reason,
      publisher,
      time_ms: timeMs,
      entries,
      closed,
    } = compactionBody.parse(value);
    if (compacts[0] >= row.seq) throw new RangeError(`it replaces what comes after it: ${compacts[0]}`);
    return {
      kind: 'compaction',
      compaction: { place: compacts, made, entry: entries[0], update: { id, reason, timeMs, publisher }, closed },
    };
  }
  const { digest, ...record } = updateBody.parse(value);
  return { kind: 'record', record: { seq: row.seq, timeMs: row.timeMs, ...record }, digest };
}

/** The body of a compaction's row, of kind `update`. */
export function compactionText({ place: compacts, made, entry, update, closed }: Compaction): string {
  const { id = '', reason = null, publisher, timeMs = 0 } = update ?? {};
  return printJson({ compacts, made, id, reason, publisher, time_ms: timeMs, entries: [entry], closed });
}

/**
 * The body of a generation's row. An entry without a place gets the seq of this row and its index.
 */
export function generationText(
  generation: string,
  known: readonly string[],
  entries: readonly NewBase[],
  superseded: readonly Superseded[] = [],
): string {
  return printJson({ generation, known, entries, buried: superseded });
}

/** An entry of a new generation. */
export interface NewBase {
  readonly place?: PlacedBase['place'] | undefined;
  readonly entry: PeerEntry;
}

/** Parses a row of kind `base`. Throws `log_damaged` if it is invalid. */
export function readGeneration(row: StoredRow): Generation {
  return reading(row, () => {
    checkJson(row.body, MAX_READ_DEPTH);
    const { entries: text = '[]', ...rest } = Object.fromEntries(members(row.body));
    const entries = elements(text).map((item) => {
      const fields = members(item);
      // Inside `entries`, so that its data stays text.
      const kept = parseKeepingData(`{"entries":[${fields.get('entry') ?? 'null'}]}`) as { entries: unknown[] };
      return { place: parseJson(fields.get('place') ?? 'null') ?? undefined, entry: kept.entries[0] };
    });
    const parsed = generationBody.parse({ ...(parseJson(objectText(Object.entries(rest))) as object), entries });
    const later = [...parsed.entries, ...parsed.buried].find((one) => (one.place?.[0] ?? 0) > row.seq);
    if (later !== undefined) throw new RangeError(`it names what comes after it: ${later.place?.[0]}`);
    return {
      generation: parsed.generation,
      known: parsed.known,
      superseded: parsed.buried,
      entries: parsed.entries.map(({ place: given, entry }, index) => ({ place: given ?? [row.seq, index], entry })),
    };
  });
}

function reading<T>(row: StoredRow, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    return damaged(row, cause);
  }
}

function damaged({ seq }: StoredRow, cause: unknown): never {
  throw new SyncError('log_damaged', `record ${seq} of the update log cannot be read`, { cause });
}
