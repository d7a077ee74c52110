import { once } from 'node:events';
import { access, constants, open, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { SyncError } from '../../../lib/errors.js';
import { isPassing, whyUnwritable } from '../../../lib/settings/file-problem.js';
import { makeFolder, makePrivate } from '../../../lib/settings/private-files.js';
import {
  type Appended,
  DEDUP_LIMITS,
  type DedupLimits,
  type Durability,
  type Expectation,
  type LogStore,
  type Mail,
  type NewRow,
  type Presence,
  type RowFilter,
  type ScanFrom,
  type ScannedRow,
  type StoredRow,
} from '../log-store.js';

/** Result of the opening. */
export interface OpenedStore {
  readonly epoch: string;
  /** Why committed rows may be lost; undefined if they are durable. */
  readonly weakness: string | undefined;
}

/** Requests to the worker. */
export type StoreRequest =
  | { op: 'head' }
  | { op: 'load'; after: number; through: number; limit: number }
  | { op: 'append'; rows: readonly NewRow[]; expect: Expectation | undefined; nowMs: number; dedup: DedupLimits }
  | { op: 'probe'; bytes: number }
  | { op: 'read'; after: number; limit: number }
  | { op: 'scan'; from: ScanFrom; limit: number; filter: RowFilter }
  | { op: 'retire'; seqs: readonly number[]; nowMs: number }
  | { op: 'dropRetired'; beforeMs: number; nowMs: number; dedup: DedupLimits }
  | { op: 'close' };

/** A reply of the worker; the first one, without a request, is the result of the opening. */
export type StoreReply = { ok: true; value: unknown } | { ok: false; message: string; code: string | undefined };

/** File of the log in SYNC_STATE_DIR. */
export const LOG_FILE = 'update-log.db';
/** Rows per page of {@link LogStore.load}. */
const LOAD_ROWS = 1000;

export interface SqliteStoreOptions {
  /** SYNC_STATE_DIR; created if it does not exist. */
  readonly stateDir: string;
  readonly dedup?: DedupLimits | undefined;
}

/**
 * Opens or creates the embedded store: SQLite (write-ahead log, `synchronous=FULL`) in a worker
 * thread, for a single server. Rejects with `state_dir_in_use`, `state_dir_unusable`, `log_damaged`
 * or `log_unwritable`; each names the file.
 */
export async function openSqliteStore(
  { stateDir, dedup = DEDUP_LIMITS }: SqliteStoreOptions,
  deps: { now?: (() => number) | undefined } = {},
): Promise<LogStore> {
  const file = join(stateDir, LOG_FILE);
  try {
    await makeFolder(stateDir);
    await makeFile(file);
  } catch (cause) {
    throw folderError(stateDir, cause);
  }
  // Without opening it: closing a file releases the locks that another server in this process holds
  // on it.
  await makePrivate(['', '-wal', '-shm', '-journal'].map((ending) => `${file}${ending}`));
  return await SqliteStore.open(file, { now: deps.now ?? Date.now, dedup });
}

/**
 * Creates an empty, private log file if there is none: SQLite gives its other files the same
 * permissions. Rejects where the user may not write it, or beside it.
 */
async function makeFile(file: string): Promise<void> {
  try {
    await (await open(file, 'wx', 0o600)).close();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    for (const path of [dirname(file), file]) await access(path, constants.R_OK | constants.W_OK);
  }
}

/**
 * What a state folder that cannot be made or written is: `log_unwritable` while the disk has no
 * room, else a fault of its settings.
 */
export function folderError(stateDir: string, cause: unknown): SyncError {
  const passes = isPassing(cause);
  const text = `the state folder ${stateDir} cannot be ${passes ? 'written' : 'used'}: ${whyUnwritable(cause)}`;
  return new SyncError(passes ? 'log_unwritable' : 'state_dir_unusable', text);
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: SyncError): void;
}

interface StoreFacts {
  readonly now: () => number;
  readonly dedup: DedupLimits;
}

/**
 * The worker of `sqlite-worker.ts` does the work, so that a disk flush never stops the event loop.
 */
class SqliteStore implements LogStore {
  readonly status = { up: true } as const;
  readonly failed: Promise<never>;
  readonly presence: Presence = memoryPresence();
  /** There is no other instance. */
  readonly mail: Mail = { send: async () => undefined, watch: () => () => undefined };
  readonly #file: string;
  readonly #facts: StoreFacts;
  readonly #listeners = new Set<() => void>();
  readonly #worker: Worker;
  /** The worker replies in the order of the requests; the first reply is its opening. */
  readonly #waiting: Waiting[] = [];
  /** Set before {@link open} returns. */
  #opened: OpenedStore = { epoch: '', weakness: undefined };
  #ended: SyncError | undefined;
  #closing: Promise<void> | undefined;

  static async open(file: string, facts: StoreFacts): Promise<SqliteStore> {
    const store = new SqliteStore(file, facts);
    try {
      store.#opened = (await store.#reply()) as OpenedStore;
      return store;
    } catch (error) {
      await store.#worker.terminate();
      throw error;
    }
  }

  private constructor(file: string, facts: StoreFacts) {
    this.#file = file;
    this.#facts = facts;
    this.#worker = new Worker(new URL('./sqlite-worker.js', import.meta.url), { workerData: file });
    let fail: (error: SyncError) => void = () => undefined;
    this.failed = new Promise((_resolve, reject) => {
      fail = reject;
    });
    this.failed.catch(() => undefined); // only those who use it handle it
    const end = (error: SyncError): void => {
      this.#ended ??= error;
      for (const waiting of this.#waiting.splice(0)) waiting.reject(this.#ended);
      if (this.#closing === undefined) fail(this.#ended);
    };
    this.#worker.on('message', (reply: StoreReply) => this.#settle(reply));
    this.#worker.on('error', (cause) => end(this.#unwritable('failed', { cause })));
    this.#worker.on('exit', () => {
      const isClosed = this.#closing !== undefined;
      end(this.#unwritable(isClosed ? 'is closed' : 'failed: its thread ended; restart the server'));
    });
  }

  get epoch(): string {
    return this.#opened.epoch;
  }

  get durability(): Durability {
    const { weakness } = this.#opened;
    return weakness === undefined ? { level: 'durable' } : { level: 'weak', reason: weakness };
  }

  #unwritable(why: string, options?: ErrorOptions): SyncError {
    return new SyncError('log_unwritable', `the update log ${this.#file} ${why}`, options);
  }

  #settle(reply: StoreReply): void {
    const waiting = this.#waiting.shift();
    if (this.#waiting.length === 0) this.#worker.unref();
    if (reply.ok) waiting?.resolve(reply.value);
    else waiting?.reject(storeError(this.#file, reply));
  }

  #reply(): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#worker.ref();
      this.#waiting.push({ resolve, reject });
    });
  }

  /** Resolves with the result of the request. Rejects with `log_unwritable` or `log_conflict`. */
  async #ask(request: Exclude<StoreRequest, { op: 'close' }>): Promise<unknown> {
    if (this.#ended !== undefined) throw this.#ended;
    if (this.#closing !== undefined) throw this.#unwritable('is closed');
    this.#worker.postMessage(request);
    return await this.#reply();
  }

  async load(): Promise<{ head: number; rows: AsyncIterable<readonly StoredRow[]> }> {
    const head = (await this.#ask({ op: 'head' })) as number;
    return { head, rows: this.#live(head) };
  }

  async *#live(through: number): AsyncGenerator<readonly StoredRow[]> {
    for (let after = 0; ; ) {
      const page = (await this.#ask({ op: 'load', after, through, limit: LOAD_ROWS })) as StoredRow[];
      const last = page.at(-1);
      if (last === undefined) return;
      yield page;
      after = last.seq;
    }
  }

  async append(rows: readonly NewRow[], expect?: Expectation): Promise<readonly Appended[]> {
    if (rows.length === 0) return [];
    const places = (await this.#ask({ op: 'append', rows, expect, ...this.#times() })) as Appended[];
    for (const listener of [...this.#listeners]) listener();
    return places;
  }

  async probe(bytes: number): Promise<void> {
    await this.#ask({ op: 'probe', bytes });
  }

  /** Of the disk, without what the file has free inside. A quota does not show in it. */
  async room(): Promise<number> {
    const { bavail, bsize } = await statfs(this.#file);
    return bavail * bsize;
  }

  async read(after: number, limit: number): Promise<readonly StoredRow[]> {
    return (await this.#ask({ op: 'read', after, limit })) as StoredRow[];
  }

  async scan(from: ScanFrom, limit: number, filter: RowFilter): Promise<readonly ScannedRow[]> {
    return (await this.#ask({ op: 'scan', from, limit, filter })) as ScannedRow[];
  }

  async retire(seqs: readonly number[]): Promise<void> {
    if (seqs.length > 0) await this.#ask({ op: 'retire', seqs, nowMs: this.#facts.now() });
  }

  async dropRetired(beforeMs: number): Promise<number> {
    return (await this.#ask({ op: 'dropRetired', beforeMs, ...this.#times() })) as number;
  }

  #times(): { nowMs: number; dedup: DedupLimits } {
    const { now, dedup } = this.#facts;
    return { nowMs: now(), dedup };
  }

  /** Of the file and its write-ahead log. */
  async sizeBytes(): Promise<number> {
    const sizes = await Promise.all(['', '-wal'].map(async (ending) => (await stat(`${this.#file}${ending}`)).size));
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  watch(listener: () => void): () => void {
    const own = (): void => listener(); // the same listener may watch twice
    this.#listeners.add(own);
    return () => this.#listeners.delete(own);
  }

  async close(): Promise<void> {
    this.#listeners.clear();
    if (this.#ended !== undefined) return;
    this.#closing ??= this.#close();
    await this.#closing;
  }

  /** Ends the worker, which releases the lock of the file. */
  async #close(): Promise<void> {
    const exit = once(this.#worker, 'exit');
    this.#worker.ref();
    this.#worker.postMessage({ op: 'close' } satisfies StoreRequest);
    await exit;
  }
}

function storeError(file: string, reply: Extract<StoreReply, { ok: false }>): SyncError {
  const cause = new Error(reply.code === undefined ? reply.message : `${reply.message} (${reply.code})`);
  const code = reply.code ?? '';
  if (code === 'CONFLICT') return new SyncError('log_conflict', reply.message);
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) {
    return new SyncError('state_dir_in_use', `another server has the update log ${file} open`, { cause });
  }
  if (/^SQLITE_(CORRUPT|NOTADB|SCHEMA)/.test(code)) {
    return new SyncError('log_damaged', `the update log ${file} cannot be read`, { cause });
  }
  return new SyncError('log_unwritable', `the update log ${file} cannot be used`, { cause, retryable: true });
}

/** Presence of the only instance. */
function memoryPresence(): Presence {
  const texts = new Map<string, { text: string; untilMs: number }>();
  const partsOf = new Map<string, Map<number, string>>();
  return {
    put: async (instance, text, ttlMs, parts = 0) => {
      texts.set(instance, { text, untilMs: performance.now() + ttlMs });
      const kept = new Map([...(partsOf.get(instance) ?? [])].filter(([number]) => number < parts));
      partsOf.set(instance, kept);
      return kept.size;
    },
    list: async () => {
      const nowMs = performance.now();
      for (const [instance, { untilMs }] of texts) {
        if (untilMs > nowMs) continue;
        texts.delete(instance);
        partsOf.delete(instance);
      }
      return new Map([...texts].map(([instance, { text, untilMs }]) => [instance, { text, leftMs: untilMs - nowMs }]));
    },
    putParts: async (instance, parts) => {
      partsOf.set(instance, new Map([...(partsOf.get(instance) ?? []), ...parts]));
    },
    parts: async (instance, numbers) => partsIn(partsOf.get(instance), numbers),
  };
}

/** Those of these parts that there are. */
function partsIn(
  parts: ReadonlyMap<number, string> | undefined,
  numbers: readonly number[],
): ReadonlyMap<number, string> {
  return new Map(
    numbers.flatMap((number) => {
      const part = parts?.get(number);
      return part === undefined ? [] : [[number, part]];
    }),
  );
}
