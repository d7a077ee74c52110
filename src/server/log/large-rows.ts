import { SerialQueue } from '../../lib/run/async.js';
import { ByteCache } from '../../lib/run/byte-cache.js';
import { type LogStore, SHORT_ROW, type StoredRow } from './log-store.js';
import { readLargeUpdateRow } from './row.js';
import type { AuditRecord, LogRecord, UpdateTopics } from './update-log.js';

/** Characters of the outlines that are kept. */
const KEPT_CHARS = 8 * 1024 * 1024;

/** A row as it is kept: without inline data. Undefined: it is no update. */
interface Outline {
  readonly record: AuditRecord | undefined;
  readonly chars: number;
}

/**
 * The rows that a scan does not bring, because they are large: read one at a time, once for all who
 * ask meanwhile, and known from then on by what they have beside inline data. A row never changes.
 */
export class LargeRows {
  readonly #store: Pick<LogStore, 'read'>;
  readonly #outlines = new ByteCache<Outline>(KEPT_CHARS, ({ chars }) => chars);
  readonly #reading = new Map<number, Promise<LogRecord | undefined>>();
  readonly #turns = new SerialQueue();

  constructor(store: Pick<LogStore, 'read'>) {
    this.#store = store;
  }

  /** Whether its outline is known without a read. */
  knows(seq: number): boolean {
    return this.#outlines.get(String(seq)) !== undefined;
  }

  /** An update without its inline data; undefined: the row is none, or was dropped. */
  async outline(seq: number): Promise<AuditRecord | undefined> {
    const known = this.#outlines.get(String(seq));
    if (known !== undefined) return known.record;
    const record = await this.record(seq);
    return record === undefined ? undefined : outlineOf(record);
  }

  /** {@link HistoryReader.record}. */
  record(seq: number): Promise<LogRecord | undefined> {
    const underWay = this.#reading.get(seq);
    if (underWay !== undefined) return underWay;
    const reading = this.#turns.run(() => this.#read(seq)).finally(() => this.#reading.delete(seq));
    this.#reading.set(seq, reading);
    return reading;
  }

  async #read(seq: number): Promise<LogRecord | undefined> {
    const [row] = await this.#store.read(seq - 1, 1);
    if (row?.seq !== seq) return undefined;
    const read = row.kind === 'update' ? await readLargeUpdateRow(row) : undefined;
    const record = read?.kind === 'record' ? read.record : undefined;
    const outline = record === undefined ? undefined : outlineOf(record);
    this.#outlines.set(String(seq), { record: outline, chars: JSON.stringify(outline ?? null).length });
    return record;
  }
}

/** A record without its inline data. */
export function outlineOf(record: Omit<LogRecord, 'prev'>): AuditRecord {
  const entries = record.entries.map(({ data, ...entry }) =>
    data ? { ...entry, dataBytes: Buffer.byteLength(data.text) } : entry,
  );
  return { ...record, entries };
}

/** How far back {@link LargeLoaded} reaches, in rows. */
const REACH = 1000;
/**
 * Characters of rows that no scan brings, whatever they are in bytes: three for a character at
 * most.
 */
const LARGE_CHARS = SHORT_ROW / 4;

/**
 * The topics of the large updates among the last rows of a log that is loaded: reading one of them
 * again costs as much as loading it did.
 */
export class LargeLoaded {
  #updates = new Map<number, UpdateTopics>();

  /** Takes the next row of a log with this head. */
  loaded({ body }: StoredRow, record: LogRecord | undefined, head: number): void {
    if (record === undefined || body.length <= LARGE_CHARS || record.seq <= head - REACH) return;
    const topics = new Set(record.entries.flatMap((entry) => entry.topics));
    this.#updates.set(record.seq, { seq: record.seq, timeMs: record.timeMs, topics });
  }

  /** {@link LogTail.takeLargeLoaded}. */
  take(): ReadonlyMap<number, UpdateTopics> {
    const taken = this.#updates;
    this.#updates = new Map();
    return taken;
  }
}
