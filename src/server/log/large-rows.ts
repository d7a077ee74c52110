import { SerialQueue } from '../../lib/async.js';
import { ByteCache } from '../../lib/byte-cache.js';
import type { LogStore } from './log-store.js';
import { readLargeUpdateRow } from './row.js';
import type { AuditRecord, LogRecord } from './update-log.js';

/** Characters of the outlines that are kept. */
const KEPT_CHARS = 8 * 1024 * 1024;

/** A row as it is kept: without inline data. Undefined: it is no update. */
interface Outline {
  readonly record: AuditRecord | undefined;
  readonly chars: number;
}

/**
 * The rows that a scan does not bring, because they are large: read one at a time, once for all who ask meanwhile, and known from then on
 * by what they have beside inline data. A row never changes.
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

  /** {@link UpdateLog.record}. */
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
