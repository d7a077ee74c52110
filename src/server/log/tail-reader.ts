import type { LargeRows } from './large-rows.js';
import { type LogStore, SCAN_CHARS, type ScannedRow } from './log-store.js';
import { readUpdateRow } from './row.js';
import type { LogRecord, ShowsTopics, TailPage } from './update-log.js';

/** Limits of the cache: rows, and characters of their bodies. */
const MAX_ROWS = 2_000;
const MAX_CHARS = 4 * 1024 * 1024;

/** A short row; its record is undefined if it is not a published update. */
interface KeptRow {
  readonly record: LogRecord | undefined;
  readonly chars: number;
}

/**
 * Reads tails of the log. After a restart of the server all clients request the same rows at about
 * the same time: concurrent reads of the same rows are shared, and recent short rows are cached;
 * large ones are read for those who want them. A row never changes.
 */
export class TailReader {
  readonly #store: Pick<LogStore, 'scan'>;
  readonly #large: LargeRows;
  readonly #head: () => number;
  readonly #kept = new Map<number, KeptRow>();
  readonly #reading = new Map<string, Promise<readonly ScannedRow[]>>();
  #chars = 0;

  /** `head`: the last row that is part of the fold. */
  constructor(store: Pick<LogStore, 'scan'>, large: LargeRows, head: () => number) {
    this.#store = store;
    this.#large = large;
    this.#head = head;
  }

  /** {@link LogTail.tail}. */
  async read(after: number, limit: number, shows: ShowsTopics = () => true): Promise<TailPage | undefined> {
    if (after > this.#head()) return undefined;
    const most = after + Math.max(1, limit);
    const records: LogRecord[] = [];
    let through = after;
    let chars = 0;
    let large = 0;
    const take = (record: LogRecord | undefined, size: number): void => {
      through++;
      chars += size;
      if (record?.entries.some(({ topics }) => shows(topics))) records.push(record);
    };
    for (let row = this.#kept.get(after + 1); row !== undefined && through < most; row = this.#kept.get(through + 1)) {
      take(row.record, row.chars);
    }
    if (through < Math.min(most, this.#head())) {
      for (const row of await this.#rows(through, most - through)) {
        if (row.seq > this.#head()) break; // not part of the fold yet
        if (row.seq !== through + 1) return undefined;
        if (row.body !== undefined) {
          take((this.#kept.get(row.seq) ?? this.#keep({ ...row, body: row.body })).record, row.chars);
        } else {
          if (large >= SCAN_CHARS) break;
          const record = await this.#wanted(row, shows);
          if (record !== undefined) large += row.chars;
          take(record, row.chars);
        }
      }
    }
    if (through === after && after < this.#head()) return undefined;
    return { records, through, more: through < this.#head(), chars };
  }

  /** A large row, if it is an update that the caller may want. */
  async #wanted({ seq, kind }: ScannedRow, shows: ShowsTopics): Promise<LogRecord | undefined> {
    if (kind !== 'update') return undefined;
    if (!this.#large.knows(seq)) return await this.#large.record(seq);
    const outline = await this.#large.outline(seq);
    return outline?.entries.some(({ topics }) => shows(topics)) ? await this.#large.record(seq) : undefined;
  }

  #rows(after: number, limit: number): Promise<readonly ScannedRow[]> {
    const key = `${after} ${limit}`;
    const underWay = this.#reading.get(key);
    if (underWay !== undefined) return underWay;
    const reading = this.#store.scan({ after }, limit, []).finally(() => this.#reading.delete(key));
    this.#reading.set(key, reading);
    return reading;
  }

  #keep(row: ScannedRow & { readonly body: string }): KeptRow {
    const read = row.kind === 'update' ? readUpdateRow(row) : undefined;
    const kept = { record: read?.kind === 'record' ? read.record : undefined, chars: row.chars };
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
