import { access, constants, mkdir, open, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { SyncError } from '../../lib/errors.js';
import { whyUnwritable } from '../../lib/file-problem.js';
import { makePrivate } from '../../lib/private-files.js';
import type {
  Appended,
  Durability,
  Expectation,
  LogStore,
  Mail,
  NewRow,
  Presence,
  RowFilter,
  ScanFrom,
  ScannedRow,
  StoredRow,
} from './log-store.js';
import { openThread, type StoreThread } from './sqlite-thread.js';

/** File of the log in SYNC_STATE_DIR. */
export const LOG_FILE = 'update-log.db';
/** Rows per page of {@link LogStore.load}. */
const LOAD_ROWS = 1000;

export interface SqliteStoreOptions {
  /** SYNC_STATE_DIR; created if it does not exist. */
  readonly stateDir: string;
}

/**
 * Opens or creates the embedded store: SQLite (write-ahead log, `synchronous=FULL`) in a worker thread, for a single server. Rejects with
 * `state_dir_in_use`, `state_dir_unusable`, `log_damaged` or `log_unwritable`; each names the file.
 */
export async function openSqliteStore(
  { stateDir }: SqliteStoreOptions,
  deps: { now?: (() => number) | undefined } = {},
): Promise<LogStore> {
  const file = join(stateDir, LOG_FILE);
  try {
    await mkdir(stateDir, { recursive: true, mode: 0o700 });
    await makeFile(file);
  } catch (cause) {
    throw folderError(stateDir, cause);
  }
  // Without opening it: closing a file releases the locks that another server in this process holds on it.
  await makePrivate(['', '-wal', '-shm', '-journal'].map((ending) => `${file}${ending}`));
  const now = deps.now ?? Date.now;
  return new SqliteStore(await openThread(file, now()), { file, now });
}

/**
 * Creates an empty, private log file if there is none: SQLite gives its other files the same permissions. Rejects where the user may not
 * write it, or beside it.
 */
async function makeFile(file: string): Promise<void> {
  try {
    await (await open(file, 'wx', 0o600)).close();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    for (const path of [dirname(file), file]) await access(path, constants.R_OK | constants.W_OK);
  }
}

/** Failures of a disk that takes more when there is room, or when it works again. */
const PASSING: ReadonlySet<unknown> = new Set([
  'ENOSPC',
  'EDQUOT',
  'EIO',
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'EINTR',
  'EBUSY',
]);

/** What a state folder that cannot be made or written is: `log_unwritable` while the disk has no room, else a fault of its settings. */
export function folderError(stateDir: string, cause: unknown): SyncError {
  const isPassing = PASSING.has((cause as NodeJS.ErrnoException).code);
  const text = `the state folder ${stateDir} cannot be ${isPassing ? 'written' : 'used'}: ${whyUnwritable(cause)}`;
  return new SyncError(isPassing ? 'log_unwritable' : 'state_dir_unusable', text);
}

class SqliteStore implements LogStore {
  readonly epoch: string;
  readonly durability: Durability;
  readonly status = { up: true } as const;
  readonly failed: Promise<never>;
  readonly presence: Presence;
  /** There is no other instance. */
  readonly mail: Mail = { send: async () => undefined, watch: () => () => undefined };
  readonly #thread: StoreThread;
  readonly #file: string;
  readonly #now: () => number;
  readonly #listeners = new Set<() => void>();

  constructor(thread: StoreThread, { file, now }: { readonly file: string; readonly now: () => number }) {
    const { epoch, weakness } = thread.opened;
    this.epoch = epoch;
    this.durability = weakness === undefined ? { level: 'durable' } : { level: 'weak', reason: weakness };
    this.failed = thread.failed;
    this.presence = memoryPresence();
    this.#thread = thread;
    this.#file = file;
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

  async probe(bytes: number): Promise<void> {
    await this.#thread.ask({ op: 'probe', bytes });
  }

  /** Of the disk, without what the file has free inside. A quota does not show in it. */
  async room(): Promise<number> {
    const { bavail, bsize } = await statfs(this.#file);
    return bavail * bsize;
  }

  async read(after: number, limit: number): Promise<readonly StoredRow[]> {
    return (await this.#thread.ask({ op: 'read', after, limit })) as StoredRow[];
  }

  async scan(from: ScanFrom, limit: number, filter: RowFilter): Promise<readonly ScannedRow[]> {
    return (await this.#thread.ask({ op: 'scan', from, limit, filter })) as ScannedRow[];
  }

  async retire(seqs: readonly number[]): Promise<void> {
    if (seqs.length > 0) await this.#thread.ask({ op: 'retire', seqs, nowMs: this.#now() });
  }

  async dropRetired(beforeMs: number): Promise<number> {
    return (await this.#thread.ask({ op: 'dropRetired', beforeMs, nowMs: this.#now() })) as number;
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
    await this.#thread.close();
  }
}

/** Presence of the only instance. */
function memoryPresence(): Presence {
  const texts = new Map<string, { text: string; untilMs: number }>();
  return {
    put: async (instance, text, ttlMs) => {
      texts.set(instance, { text, untilMs: performance.now() + ttlMs });
    },
    list: async () => {
      const nowMs = performance.now();
      for (const [instance, { untilMs }] of texts) if (untilMs <= nowMs) texts.delete(instance);
      return new Map([...texts].map(([instance, { text, untilMs }]) => [instance, { text, leftMs: untilMs - nowMs }]));
    },
  };
}
