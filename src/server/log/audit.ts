import { setImmediate as nextTurn } from 'node:timers/promises';
import { SerialQueue } from '../../lib/run/async.js';
import { type LargeRows, outlineOf } from './large-rows.js';
import { type LogStore, type RowFilter, SCAN_CHARS, type ScannedRow } from './log-store.js';
import { readUpdateRow } from './row.js';
import type { AuditPage, AuditRecord, RowOutline } from './update-log.js';

/** Characters of short rows that are parsed before everything else goes on. */
const PARSED_AT_ONCE = 256 * 1024;

/**
 * Reads the log backwards, for whoever asks about the past. One page of it is in memory at a time,
 * whoever asks.
 */
export class Audit {
  readonly #store: Pick<LogStore, 'scan'>;
  readonly #large: LargeRows;
  readonly #turns = new SerialQueue();

  constructor(store: Pick<LogStore, 'scan'>, large: LargeRows) {
    this.#store = store;
    this.#large = large;
  }

  /** {@link HistoryReader.audit}. */
  read(before: number, limit: number, filter: RowFilter = []): Promise<AuditPage> {
    const page = (): Promise<AuditPage> => this.#page(before, limit, filter);
    return limit === 1 ? page() : this.#turns.run(page);
  }

  /** {@link HistoryReader.row}. */
  async row(seq: number): Promise<RowOutline | undefined> {
    const [row] = await this.#store.scan({ before: seq + 1 }, 1, []);
    return row?.seq === seq ? row : undefined;
  }

  async #page(before: number, limit: number, filter: RowFilter): Promise<AuditPage> {
    const rows = await this.#store.scan({ before }, limit, filter);
    const records: AuditRecord[] = [];
    let chars = 0;
    let parsed = 0;
    let read = 0;
    let timeMs: number | undefined;
    for (const row of rows) {
      // One large row after the other is read, and the caller comes again for more.
      if (read >= SCAN_CHARS) return { records, next: row.seq + 1, chars, timeMs };
      timeMs = row.timeMs;
      chars += row.chars;
      if (!row.fits || row.kind !== 'update') continue;
      if (row.body === undefined && !this.#large.knows(row.seq)) read += row.chars;
      const record = await this.#record(row);
      if (record !== undefined) records.push(record);
      parsed += row.body?.length ?? 0;
      if (parsed < PARSED_AT_ONCE) continue;
      parsed = 0;
      await nextTurn();
    }
    return { records, next: rows.at(-1)?.seq, chars, timeMs };
  }

  async #record({ body, ...row }: ScannedRow): Promise<AuditRecord | undefined> {
    if (body === undefined) return await this.#large.outline(row.seq);
    const read = readUpdateRow({ ...row, body });
    return read.kind === 'record' ? outlineOf(read.record) : undefined;
  }
}
