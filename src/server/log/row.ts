import { z } from 'zod';
import { SyncError } from '../../lib/errors.js';
import { JsonText, printJson } from '../../lib/json-text.js';
import { type PeerEntry, parseKeepingData, peerEntry, sourceIdentity } from '../../wire/data.js';
import { docPathText, parseDocPath } from '../../wire/doc-path.js';
import type { FoldedEntry, LogRecord, NewRecord } from './update-log.js';

/** One row of the store: a position and what stands there, as JSON text (numbers as written, design 9.9). */
export interface Row {
  seq: number;
  kind: FoldedEntry['origin'];
  timeMs: number;
  body: string;
}

const updateBody = z.object({
  id: z.string(),
  publisher: z.string().nullable(),
  reason: z.string().nullable(),
  entries: z.array(peerEntry),
  callbacks: z.array(z.unknown()),
});
const baseBody = z.object({ entries: z.tuple([peerEntry]) });

/** The body of an update's row. Throws what printing throws: `RangeError` for one that is nested too deep. */
export function updateText(record: NewRecord): string {
  const { id, publisher, reason, entries, callbacks } = record;
  return printJson({ id, publisher, reason, entries, callbacks });
}

/** The update of a row. Throws `log_damaged` when the row is not what {@link updateText} wrote. */
export function rowUpdate(row: Row): LogRecord {
  return { seq: row.seq, timeMs: row.timeMs, ...parseBody(row, updateBody) };
}

/** A base entry as a row. */
export function baseRow(seq: number, timeMs: number, entry: PeerEntry): Row {
  return { seq, kind: 'base', timeMs, body: printJson({ entries: [entry] }) };
}

/** The base entry of a row. Throws `log_damaged` when the row is not what {@link baseRow} wrote. */
export function rowBase(row: Row): PeerEntry {
  return parseBody(row, baseBody).entries[0];
}

function parseBody<S extends z.ZodType>(row: Row, schema: S): z.infer<S> {
  try {
    return schema.parse(parseKeepingData(row.body));
  } catch (cause) {
    throw new SyncError('log_damaged', `record ${row.seq} of the update log cannot be read`, { cause });
  }
}

/**
 * What makes two base entries the same one (design 9.6): url, method, body, dst_path, topics and save_method; headers
 * may change. Inline data counts as body, so that what stands at a position never changes for those who have read it.
 */
export function baseIdentity(entry: PeerEntry): string {
  return printJson([
    entry.url,
    ...sourceIdentity(entry.config),
    entry.data instanceof JsonText ? entry.data : null,
    docPathText(parseDocPath(entry.dst_path)),
    [...new Set(entry.topics)].sort(),
    entry.save_method,
  ]);
}
