import type { Permitted } from '../../auth/caller.js';
import { printJson } from '../../lib/json/json-text.js';
import type { RowFilter } from './log-store.js';
import type { AuditRecord, HistoryReader, LogPosition } from './update-log.js';

/** What somebody asks of the past of a log, and what of it he may see. */
export interface LogQuestion extends Permitted {
  /** Only updates with an entry on this topic. */
  readonly topic?: string | undefined;
  readonly publisher?: string | undefined;
  /** The id of an update. */
  readonly id?: string | undefined;
}

/** Where the answer to a {@link LogQuestion} lies. */
export interface LogPart {
  /** The last update that can be a part of it. */
  readonly newest: number;
  readonly filter: RowFilter;
}

/** Most topics that a store looks for. */
const MOST_TOPICS = 64;
/** Most rows, and characters of rows, that one question looks through. */
const MOST_ROWS = 20_000;
const MOST_CHARS = 64 * 1024 * 1024;
const ROWS_AT_ONCE = 500;

/**
 * Where a log may have an answer, by what is in memory; undefined: it has none. Texts are those of
 * {@link updateBodyText}.
 */
export function partFor(
  log: LogPosition,
  { permittedTopics, permittedPaths, topic, publisher, id }: LogQuestion,
): LogPart | undefined {
  if (permittedPaths?.length === 0) return undefined;
  const filter: string[][] = [];
  if (id !== undefined) filter.push([`"id":${printJson(id)}`]);
  if (publisher !== undefined) filter.push([`"publisher":${printJson(publisher)}`]);
  if (topic === undefined && permittedTopics === undefined) return { newest: Number.MAX_SAFE_INTEGER, filter };
  const wanted = topic === undefined ? [...(permittedTopics ?? [])] : [topic];
  const heads = log.heads(wanted.filter((one) => permittedTopics?.has(one) ?? true));
  const found = Object.entries(heads).filter(([, seq]) => seq > 0);
  if (found.length === 0) return undefined;
  if (found.length <= MOST_TOPICS) filter.push(found.map(([one]) => printJson(one)));
  return { newest: found.reduce((newest, [, seq]) => Math.max(newest, seq), 0), filter };
}

/** Where a look has ended before the log did. */
export interface LookedTo {
  /** Where to go on. */
  readonly next: number;
  /** Time of the last row that was looked at, by the clock of the store. */
  readonly timeMs: number | undefined;
}

/**
 * Calls `take` with the updates before a position, newest first, until it returns false. Returns
 * where to go on if the log has more than one question looks through; undefined: `take` has ended
 * it, or there is no more.
 */
export async function lookThrough(
  log: HistoryReader,
  before: number,
  { newest, filter }: LogPart,
  take: (record: AuditRecord) => boolean,
): Promise<LookedTo | undefined> {
  const from = Math.min(before, newest + 1);
  let chars = 0;
  for (let at = from; at > 1; ) {
    const page = await log.audit(at, ROWS_AT_ONCE, filter);
    for (const record of page.records) if (!take(record)) return undefined;
    if (page.next === undefined || page.next <= 1) return undefined;
    at = page.next;
    chars += page.chars ?? 0;
    if (at <= from - MOST_ROWS || chars >= MOST_CHARS) return { next: at, timeMs: page.timeMs };
  }
  return undefined;
}
