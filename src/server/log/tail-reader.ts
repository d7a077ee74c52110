import type { LogStore, StoredRow } from './log-store.js';
import { readUpdateRow } from './row.js';
import type { AuditRecord, LogRecord, TailPage } from './update-log.js';

/** Limits of the cache: rows, and characters of their bodies. */
const MAX_ROWS = 2_000;
const MAX_CHARS = 4 * 1024 * 1024;

/** A cached row; its record is undefined if it is not a published update. */
interface KeptRow {
  readonly record: LogRecord | undefined;
  readonly chars: number;
}

/**
 * Reads tails of the log. After a restart of the server all clients request the same rows at about the same time: concurrent reads of the
 * same rows are shared, and recent rows are cached. A row never changes.
 */
export class TailReader {
  readonly #store: Pick<LogStore, 'read'>;
  readonly #head: () => number;
  readonly #kept = new Map<number, KeptRow>();
  readonly #reading = new Map<string, Promise<readonly StoredRow[]>>();
  #chars = 0;

  /** `head`: the last row that is part of the fold. */
  constructor(store: Pick<LogStore, 'read'>, head: () => number) {
    this.#store = store;
    this.#head = head;
  }

  /** {@link UpdateLog.tail}. */
  async read(after: number, limit: number): Promise<TailPage | undefined> {
    if (after > this.#head()) return undefined;
    const most = after + Math.max(1, limit);
    const records: LogRecord[] = [];
    let through = after;
    const take = ({ record }: KeptRow): void => {
      through++;
      if (record !== undefined) records.push(record);
    };
    for (let row = this.#kept.get(after + 1); row !== undefined && through < most; row = this.#kept.get(through + 1)) {
      take(row);
    }
    if (through < Math.min(most, this.#head())) {
      for (const row of await this.#rows(through, most - through)) {
        if (row.seq > this.#head()) break; // not part of the fold yet
        if (row.seq !== through + 1) return undefined;
        take(this.#kept.get(row.seq) ?? this.#keep(row));
      }
    }
    if (through === after && after < this.#head()) return undefined;
    return { records, through, more: through < this.#head() };
  }

  #rows(after: number, limit: number): Promise<readonly StoredRow[]> {
    const key = `${after} ${limit}`;
    const underWay = this.#reading.get(key);
    if (underWay !== undefined) return underWay;
    const reading = this.#store.read(after, limit).finally(() => this.#reading.delete(key));
    this.#reading.set(key, reading);
    return reading;
  }

  #keep(row: StoredRow): KeptRow {
    const read = row.kind === 'update' ? readUpdateRow(row) : undefined;
    const kept = { record: read?.kind === 'record' ? read.record : undefined, chars: row.body.length };
    if (kept.chars > MAX_CHARS) return kept;
    this.#kept.set(row.seq, kept);
    this.#chars += kept.chars;
    for (const [seq, { chars }] of this.#kept) {
      if (this.#kept.size <= MAX_ROWS && this.#chars <= MAX_CHARS) break;
      this.#kept.delete(seq);
      this.#chars -= chars;
    }
    return kept;
  }
}

/** {@link UpdateLog.audit}. */
export async function readAudit(
  store: Pick<LogStore, 'readBack'>,
  before: number,
  limit: number,
): Promise<{ records: readonly AuditRecord[]; next: number | undefined }> {
  const rows = await store.readBack(before, limit);
  const read = rows.map((row) => (row.kind === 'update' ? readUpdateRow(row) : undefined));
  const records = read.flatMap((item) => (item?.kind === 'record' ? [item.record] : []));
  return { records, next: rows.at(-1)?.seq };
}
