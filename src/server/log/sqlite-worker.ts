import { randomUUID } from 'node:crypto';
import { parentPort, workerData } from 'node:worker_threads';
import type { Database } from 'libsql';
import type { Row } from './row.js';
import type { OpenedStore, StoreChange, StoreOptions, StoreReply, StoreRequest } from './store.js';

/** The worker thread of `store.ts`: the only place with SQL. Requests are carried out one by one, in order. */

/** Raised with every change of the tables; a store with a higher one was written by a newer version. */
const SCHEMA_VERSION = 1;
/** How long a starting server waits for another one to let go: a stop and a start may overlap for a moment. */
const LOCK_WAIT_MS = 1000;
/** Dropping old rows must not hold up a start: the rest goes with the next one. About a second of work. */
const DROP_AT_MOST = 100_000;
/** Nor a write. It drops this many and one for each row that it retires, so a server that never restarts catches up. */
const DROP_PER_WRITE = 200;

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS record (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('base', 'update')),
    time_ms INTEGER NOT NULL,
    body TEXT NOT NULL,
    retired_ms INTEGER
  );
  CREATE INDEX IF NOT EXISTS record_live ON record (seq) WHERE retired_ms IS NULL;
  CREATE INDEX IF NOT EXISTS record_retired ON record (retired_ms) WHERE retired_ms IS NOT NULL;
`;
const COLUMNS = 'seq, kind, time_ms AS timeMs, body';

async function openDatabase(file: string): Promise<Database> {
  // Loaded here and not at the top: without the native package the answer is an error with a reason.
  const { default: Libsql } = await import('libsql');
  const database = new Libsql(file, { timeout: LOCK_WAIT_MS });
  // Exclusive before WAL: the lock lives as long as the process, and the log needs no shared memory file.
  database.pragma('locking_mode = EXCLUSIVE');
  database.pragma('journal_mode = WAL');
  database.pragma('synchronous = FULL');
  return database;
}

function inTransaction<T>(database: Database, work: () => T): T {
  database.exec('BEGIN IMMEDIATE');
  try {
    const result = work();
    database.exec('COMMIT');
    return result;
  } catch (error) {
    // A failed COMMIT (full disk) may have rolled back by itself; a second ROLLBACK would hide the reason.
    if (database.inTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

function load(database: Database, options: StoreOptions): OpenedStore {
  return inTransaction(database, () => {
    const version = Number(pragmaValue(database, 'user_version'));
    if (version > SCHEMA_VERSION) {
      throw Object.assign(new Error(`it was written by a newer version (form ${version}, known ${SCHEMA_VERSION})`), {
        code: 'SQLITE_SCHEMA',
      });
    }
    database.exec(SCHEMA);
    database.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
    database.prepare("INSERT OR IGNORE INTO meta VALUES ('epoch', ?)").run(randomUUID().replaceAll('-', ''));
    dropRetired(database, options.dropRetiredBeforeMs, DROP_AT_MOST);
    const { epoch } = database.prepare("SELECT value AS epoch FROM meta WHERE key = 'epoch'").get() as OpenedStore;
    const { head } = database.prepare('SELECT coalesce(max(seq), 0) AS head FROM record').get() as OpenedStore;
    const rows = database.prepare(`SELECT ${COLUMNS} FROM record WHERE retired_ms IS NULL ORDER BY seq`).all() as Row[];
    return { epoch, head, rows };
  });
}

/** Drops rows that were retired before a moment. The last row always stays: it holds the highest position, never given twice. */
function dropRetired(database: Database, beforeMs: number, atMost: number): void {
  database
    .prepare(
      `DELETE FROM record WHERE seq IN (SELECT seq FROM record WHERE retired_ms < ? LIMIT ?)
         AND seq < (SELECT max(seq) FROM record)`,
    )
    .run(beforeMs, atMost);
}

function pragmaValue(database: Database, name: string): unknown {
  return (database.prepare(`PRAGMA ${name}`).get() as Record<string, unknown>)[name];
}

function write(database: Database, change: StoreChange): void {
  inTransaction(database, () => {
    const insert = database.prepare('INSERT INTO record (seq, kind, time_ms, body) VALUES (?, ?, ?, ?)');
    for (const row of change.insert) insert.run(row.seq, row.kind, row.timeMs, row.body);
    const replace = database.prepare('UPDATE record SET body = ? WHERE seq = ?');
    for (const row of change.replace) replace.run(row.body, row.seq);
    const retire = database.prepare('UPDATE record SET retired_ms = ? WHERE seq = ?');
    for (const seq of change.retire) retire.run(change.timeMs, seq);
    dropRetired(database, change.dropRetiredBeforeMs, DROP_PER_WRITE + change.retire.length);
  });
}

function tail(database: Database, after: number, limit: number): Row[] {
  return database
    .prepare(`SELECT ${COLUMNS} FROM record WHERE seq > ? AND kind = 'update' ORDER BY seq LIMIT ?`)
    .all(after, limit) as Row[];
}

function answer(work: () => unknown): void {
  let reply: StoreReply;
  try {
    reply = { ok: true, value: work() };
  } catch (error) {
    reply = failure(error);
  }
  parentPort?.postMessage(reply);
}

function failure(error: unknown): StoreReply {
  const code = error instanceof Error && 'code' in error ? String(error.code) : undefined;
  return { ok: false, message: error instanceof Error ? error.message : String(error), code };
}

async function main(options: StoreOptions): Promise<void> {
  let database: Database;
  try {
    database = await openDatabase(options.file);
  } catch (error) {
    parentPort?.postMessage(failure(error));
    parentPort?.close();
    return;
  }
  parentPort?.on('message', (request: StoreRequest) => {
    switch (request.op) {
      case 'write':
        return answer(() => write(database, request));
      case 'tail':
        return answer(() => tail(database, request.after, request.limit));
      case 'close':
        database.close();
        parentPort?.close();
    }
  });
  answer(() => load(database, options));
}

await main(workerData as StoreOptions);
