import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { PeerEntry } from '../../wire/data.js';
import { createFold, type Fold, type FoldRecord } from './fold.js';
import { baseIdentity, baseRow, type Row, rowBase, rowUpdate, updateText } from './row.js';
import { openStore, type Store } from './store.js';
import type { FoldedEntry, LogRecord, NewRecord, UpdateLog } from './update-log.js';

/** The log's file inside SYNC_STATE_DIR. */
export const LOG_FILE = 'update-log.db';
/** How long superseded records stay for `tail` and the audit; a client that was away longer takes the fold. */
const RETIRED_KEPT_MS = 7 * 24 * 60 * 60 * 1000;
/** Records of one transaction: bounds what one failure refuses, and how long the next append waits. */
const BATCH_AT_MOST = 1000;
const TAIL_LIMIT = 1000;

/** What {@link openSqliteLog} is made with. */
export interface SqliteLogOptions {
  /** SYNC_STATE_DIR; made when it is not there. */
  stateDir: string;
}

/**
 * Opens the embedded update log, or makes it: SQLite (write-ahead log, `synchronous=FULL`) in a worker thread, the fold
 * in memory. Rejects with `state_dir_in_use`, `log_damaged` or `log_unwritable`; each names the file.
 */
export async function openSqliteLog(
  options: SqliteLogOptions,
  deps: { log: Logger; now?: () => number },
): Promise<UpdateLog> {
  const file = join(options.stateDir, LOG_FILE);
  try {
    await mkdir(options.stateDir, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new SyncError('log_unwritable', `the state folder ${options.stateDir} cannot be made`, { cause });
  }
  const now = deps.now ?? Date.now;
  const store = await openStore({ file, dropRetiredBeforeMs: now() - RETIRED_KEPT_MS });
  try {
    return new SqliteLog(store, { log: deps.log, now });
  } catch (error) {
    await store.close();
    throw error;
  }
}

interface PendingAppend {
  kind: 'append';
  record: NewRecord;
  /** The record as JSON text. */
  body: string;
  resolve(record: LogRecord): void;
  reject(error: unknown): void;
}

interface PendingAdopt {
  kind: 'adopt';
  entries: readonly PeerEntry[];
  resolve(): void;
  reject(error: unknown): void;
}

class SqliteLog implements UpdateLog {
  readonly epoch: string;
  readonly failed: Promise<never>;
  readonly #store: Store;
  readonly #log: Logger;
  readonly #now: () => number;
  #head: number;
  #fold: Fold = createFold();
  /** Everything that the fold is made of, by position: updates with a live entry, and all base entries. */
  readonly #kept = new Map<number, FoldRecord>();
  /** Base entries by identity. */
  readonly #base = new Map<string, { seq: number; entry: PeerEntry }>();
  /** Superseded records that the store does not know of yet; they go with the next transaction. */
  #toRetire: number[] = [];
  #pending: (PendingAppend | PendingAdopt)[] = [];
  #flushing: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(store: Store, deps: { log: Logger; now: () => number }) {
    this.#store = store;
    this.#log = deps.log;
    this.#now = deps.now;
    this.epoch = store.opened.epoch;
    this.failed = store.failed;
    this.#head = store.opened.head;
    for (const row of store.opened.rows) this.#take(row);
  }

  get head(): number {
    return this.#head;
  }

  fold(): readonly FoldedEntry[] {
    return this.#fold.entries();
  }

  async tail(after: number, limit = TAIL_LIMIT): Promise<readonly LogRecord[]> {
    const rows = await this.#store.tail(after, limit);
    return rows.map(rowUpdate);
  }

  async append(record: NewRecord): Promise<LogRecord> {
    const body = printed(record);
    return await new Promise((resolve, reject) => {
      this.#enqueue({ kind: 'append', record, body, resolve, reject });
    });
  }

  async adoptBase(entries: readonly PeerEntry[] | undefined): Promise<void> {
    if (entries === undefined) return;
    await new Promise<void>((resolve, reject) => {
      this.#enqueue({ kind: 'adopt', entries, resolve, reject });
    });
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#flushing;
    try {
      if (this.#toRetire.length > 0) await this.#write({});
    } catch (error) {
      // Nothing is lost: the next start finds out again which records are superseded.
      this.#log.warn({ err: error }, 'superseded records could not be marked');
    }
    await this.#store.close();
  }

  #enqueue(pending: PendingAppend | PendingAdopt): void {
    if (this.#closing !== undefined) {
      pending.reject(new SyncError('log_unwritable', 'the update log is closed'));
      return;
    }
    this.#pending.push(pending);
    this.#flushing ??= this.#flush();
  }

  /** Works off what is pending, one transaction at a time. Never rejects: each failure goes to those who asked. */
  async #flush(): Promise<void> {
    // What arrives in this turn of the event loop shares the first disk flush; later arrivals share the next one.
    await new Promise((resolve) => setImmediate(resolve));
    for (;;) {
      const batch = this.#nextBatch();
      const [first] = batch;
      if (first === undefined) break;
      try {
        if (first.kind === 'adopt') await this.#adopt(first);
        else await this.#appendAll(batch.filter((item) => item.kind === 'append'));
      } catch (error) {
        this.#log.error({ err: error, records: batch.length }, 'the update log could not be written');
        for (const item of batch) item.reject(error);
      }
    }
    this.#flushing = undefined;
  }

  /** All appends up to the next adoption, or one adoption alone: it needs to know what stands before it. */
  #nextBatch(): (PendingAppend | PendingAdopt)[] {
    const adopt = this.#pending.findIndex((item) => item.kind === 'adopt');
    const length = adopt === 0 ? 1 : adopt === -1 ? BATCH_AT_MOST : Math.min(adopt, BATCH_AT_MOST);
    return this.#pending.splice(0, length);
  }

  async #appendAll(batch: PendingAppend[]): Promise<void> {
    const timeMs = this.#now();
    const records = batch.map(({ record }, index) => ({ ...record, seq: this.#head + 1 + index, timeMs }));
    await this.#write({
      insert: batch.map(({ body }, index) => ({ seq: this.#head + 1 + index, kind: 'update', timeMs, body })),
    });
    this.#head += records.length;
    for (const record of records) this.#apply({ seq: record.seq, origin: 'update', entries: record.entries });
    for (const [index, record] of records.entries()) batch[index]?.resolve(record);
  }

  async #adopt({ entries, resolve }: PendingAdopt): Promise<void> {
    const timeMs = this.#now();
    const wanted = new Map<string, PeerEntry>();
    for (const entry of entries) if (!wanted.has(baseIdentity(entry))) wanted.set(baseIdentity(entry), entry);
    const insert: Row[] = [];
    const replace: Row[] = [];
    for (const [identity, entry] of wanted) {
      const known = this.#base.get(identity);
      if (known === undefined) insert.push(baseRow(this.#head + 1 + insert.length, timeMs, entry));
      else {
        const row = baseRow(known.seq, timeMs, entry);
        if (row.body !== baseRow(known.seq, timeMs, known.entry).body) replace.push(row);
      }
    }
    const removed = [...this.#base].filter(([identity]) => !wanted.has(identity));
    if (insert.length + replace.length + removed.length > 0) {
      await this.#write({ insert, replace, retire: removed.map(([, { seq }]) => seq) });
      this.#head += insert.length;
      for (const [identity, { seq }] of removed) {
        this.#base.delete(identity);
        this.#kept.delete(seq);
      }
      if (replace.length + removed.length > 0) this.#refold(replace);
      for (const row of insert) this.#take(row);
      this.#log.info(
        { added: insert.length, changed: replace.length, removed: removed.length, head: this.#head },
        'base data entries changed',
      );
    }
    resolve();
  }

  /** One transaction; takes along what was superseded since the last one. */
  async #write(change: { insert?: Row[]; replace?: Row[]; retire?: number[] }): Promise<void> {
    const superseded = this.#toRetire;
    this.#toRetire = [];
    const timeMs = this.#now();
    try {
      await this.#store.write({
        insert: change.insert ?? [],
        replace: change.replace ?? [],
        retire: [...superseded, ...(change.retire ?? [])],
        timeMs,
        dropRetiredBeforeMs: timeMs - RETIRED_KEPT_MS,
      });
    } catch (error) {
      this.#toRetire.unshift(...superseded);
      throw error;
    }
  }

  #take(row: Row): void {
    if (row.kind === 'base') {
      const entry = rowBase(row);
      this.#base.set(baseIdentity(entry), { seq: row.seq, entry });
      this.#apply({ seq: row.seq, origin: 'base', entries: [entry] });
    } else {
      this.#apply({ seq: row.seq, origin: 'update', entries: rowUpdate(row).entries });
    }
  }

  /**
   * A superseded update is done with for good. A base entry stays as long as it is configured: it keeps its place, and
   * comes back when the base entry that superseded it is removed.
   */
  #apply(record: FoldRecord): void {
    this.#kept.set(record.seq, record);
    for (const seq of this.#fold.applyRecord(record)) {
      if (this.#kept.get(seq)?.origin === 'base') continue;
      this.#kept.delete(seq);
      this.#toRetire.push(seq);
    }
  }

  /** Makes the fold anew after base entries were removed, or changed without losing their place. */
  #refold(changed: readonly Row[]): void {
    for (const row of changed) {
      const entry = rowBase(row);
      this.#base.set(baseIdentity(entry), { seq: row.seq, entry });
      this.#kept.set(row.seq, { seq: row.seq, origin: 'base', entries: [entry] });
    }
    const records = [...this.#kept.values()];
    this.#fold = createFold();
    for (const record of records) this.#apply(record);
  }
}

/** The text of a record. Done for each publisher alone, before its record joins those of others in a transaction. */
function printed(record: NewRecord): string {
  try {
    return updateText(record);
  } catch (cause) {
    throw new SyncError('request_invalid', 'the update cannot be written as JSON: it is nested too deep', { cause });
  }
}
