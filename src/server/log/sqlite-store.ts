import { mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { SyncError } from '../../lib/errors.js';
import { makePrivate } from '../../lib/private-files.js';
import type { Appended, Durability, Expectation, LogStore, NewRow, Presence, StoredRow } from './log-store.js';
import { openThread, type StoreThread } from './sqlite-thread.js';

/** The log's file inside SYNC_STATE_DIR. */
export const LOG_FILE = 'update-log.db';
/** Rows of one page of {@link LogStore.load}. */
const LOAD_ROWS = 1000;

/** What {@link openSqliteStore} is made with. */
export interface SqliteStoreOptions {
  /** SYNC_STATE_DIR; made when it is not there. */
  readonly stateDir: string;
}

/**
 * Opens the embedded store, or makes it: SQLite (write-ahead log, `synchronous=FULL`) in a worker thread, for one server
 * alone. Rejects with `state_dir_in_use`, `log_damaged` or `log_unwritable`; each names the file.
 */
export async function openSqliteStore(
  { stateDir }: SqliteStoreOptions,
  deps: { now?: (() => number) | undefined } = {},
): Promise<LogStore> {
  try {
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
  } catch (cause) {
    throw new SyncError('log_unwritable', `the state folder ${stateDir} cannot be made`, { cause });
  }
  const file = join(stateDir, LOG_FILE);
  await makeFile(file);
  // Never opened here: closing a file releases the locks that another server in this process has on it.
  await makePrivate(['', '-wal', '-shm', '-journal'].map((ending) => `${file}${ending}`));
  const now = deps.now ?? Date.now;
  return new SqliteStore(await openThread(file, now()), now);
}

/** Makes the empty log file where there is none: SQLite gives the files beside it the rights that it has. */
async function makeFile(file: string): Promise<void> {
  try {
    await (await open(file, 'wx', 0o600)).close();
  } catch {
    // It is there; or it cannot be made, which SQLite says better.
  }
}

class SqliteStore implements LogStore {
  readonly epoch: string;
  readonly durability: Durability;
  readonly status = { up: true } as const;
  readonly failed: Promise<never>;
  readonly presence: Presence;
  readonly #thread: StoreThread;
  readonly #now: () => number;
  readonly #listeners = new Set<() => void>();

  constructor(thread: StoreThread, now: () => number) {
    const { epoch, weakness } = thread.opened;
    this.epoch = epoch;
    this.durability = weakness === undefined ? { level: 'durable' } : { level: 'weak', reason: weakness };
    this.failed = thread.failed;
    this.presence = memoryPresence();
    this.#thread = thread;
    this.#now = now;
  }

  async load(): Promise<{ head: number; rows: AsyncIterable<readonly StoredRow[]> }> {
    const head = (await this.#thread.ask({ op: 'head' })) as number;
    return { head, rows: this.#live(head) };
  }

  async *#live(through: number): AsyncGenerator<readonly StoredRow[]> {
    for (let after = 0; ; ) {
      const page = (await this.#thread.ask({ op: 'load', after, through, limit: LOAD_ROWS })) as StoredRow[];
      const last = page.at(-1);
      if (last === undefined) return;
      yield page;
      after = last.seq;
    }
  }

  async append(rows: readonly NewRow[], expect?: Expectation): Promise<readonly Appended[]> {
    if (rows.length === 0) return [];
    const places = (await this.#thread.ask({ op: 'append', rows, expect, nowMs: this.#now() })) as Appended[];
    for (const listener of [...this.#listeners]) listener();
    return places;
  }

  async read(after: number, limit: number): Promise<readonly StoredRow[]> {
    return (await this.#thread.ask({ op: 'read', after, limit })) as StoredRow[];
  }

  async readBack(before: number, limit: number): Promise<readonly StoredRow[]> {
    return (await this.#thread.ask({ op: 'readBack', before, limit })) as StoredRow[];
  }

  async retire(seqs: readonly number[]): Promise<void> {
    if (seqs.length > 0) await this.#thread.ask({ op: 'retire', seqs, nowMs: this.#now() });
  }

  async dropRetired(beforeMs: number): Promise<number> {
    return (await this.#thread.ask({ op: 'dropRetired', beforeMs, nowMs: this.#now() })) as number;
  }

  watch(listener: () => void): () => void {
    // A function of its own for each call: the same listener may watch twice.
    const own = (): void => listener();
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  async close(): Promise<void> {
    this.#listeners.clear();
    await this.#thread.close();
  }
}

/** Presence where there is one instance: it says it to itself. */
function memoryPresence(): Presence {
  const said = new Map<string, { text: string; untilMs: number }>();
  return {
    put: async (instance, text, ttlMs) => {
      said.set(instance, { text, untilMs: performance.now() + ttlMs });
    },
    list: async () => {
      for (const [instance, { untilMs }] of said) if (untilMs <= performance.now()) said.delete(instance);
      return new Map([...said].map(([instance, { text }]) => [instance, text]));
    },
  };
}
