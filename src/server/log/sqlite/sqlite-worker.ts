import { parentPort, workerData } from 'node:worker_threads';
import type { Database, Statement } from 'libsql';
import { hexId } from '../../../lib/run/hex-id.js';
import {
  type Appended,
  type DedupLimits,
  type NewRow,
  PAGE_CHARS,
  type RowFilter,
  SCAN_CHARS,
  type ScanFrom,
  type ScannedRow,
  SHORT_ROW,
  type StoredRow,
} from '../log-store.js';
import type { OpenedStore, StoreReply, StoreRequest } from './sqlite-store.js';

/** The worker thread of `sqlite-store.ts`. Executes requests one by one, in order. */

/**
 * How long a starting server waits for the lock: the stop of the previous one may overlap with it.
 */
const LOCK_WAIT_MS = 1000;
/** Rows per call of `dropRetired`, so that appends do not wait long. */
const DROP_PER_CALL = 5000;
/** `dedup` texts that an append forgets at most, beside twice as many as it has rows. */
const FORGET_AT_ONCE = 16;

const COLUMNS = 'seq, kind, time_ms AS timeMs, body';

async function openDatabase(file: string): Promise<Database> {
  // Imported here, so that a missing native package is reported as the reason of the failure.
  const { default: Libsql } = await import('libsql');
  const database = new Libsql(file, { timeout: LOCK_WAIT_MS });
  // Exclusive before WAL: the process keeps the lock, and the log needs no shared memory file.
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
    // After a failed COMMIT (full disk) SQLite may have rolled back: a second ROLLBACK would hide
    // the reason.
    if (database.inTransaction) database.exec('ROLLBACK');
    throw error;
  }
}

/** In a write transaction, which takes the lock and detects a file that is no log. */
function opened(database: Database): OpenedStore {
  return inTransaction(database, () => {
    createTables(database);
    const { epoch } = database.prepare("SELECT value AS epoch FROM meta WHERE key = 'epoch'").get() as {
      epoch: string;
    };
    return { epoch, weakness: weakness(database) };
  });
}

/** Why a power loss may lose commits, by the effective settings; undefined if it may not. */
function weakness(database: Database): string | undefined {
  const journal = String(pragmaValue(database, 'journal_mode'));
  const synchronous = Number(pragmaValue(database, 'synchronous'));
  if (journal === 'off' || journal === 'memory') return `SQLite keeps no journal on disk (journal_mode=${journal})`;
  return synchronous >= 2 ? undefined : `SQLite does not flush each commit (synchronous=${synchronous})`;
}

/** Changes with every change of the tables. */
const SCHEMA_VERSION = 3;

/** Another version of the program wrote the file, or another program. */
class SchemaUnknown extends Error {}

const SCHEMA = `
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE record (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('base', 'update', 'policy')),
    time_ms INTEGER NOT NULL,
    body TEXT NOT NULL,
    retired_ms INTEGER
  );
  CREATE INDEX record_live ON record (seq) WHERE retired_ms IS NULL;
  CREATE INDEX record_retired ON record (retired_ms) WHERE retired_ms IS NOT NULL;
  CREATE TABLE dedup (key TEXT PRIMARY KEY, seq INTEGER NOT NULL, time_ms INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX dedup_seq ON dedup (seq);
  CREATE TABLE kind_head (kind TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
  INSERT INTO kind_head VALUES ('base', 0), ('policy', 0);
`;

/**
 * Creates the tables of an empty file; where they exist nothing is written: the disk may be full.
 * Call it inside a transaction. Throws {@link SchemaUnknown}.
 */
function createTables(database: Database): void {
  const version = Number(pragmaValue(database, 'user_version'));
  if (version === SCHEMA_VERSION) return;
  if (version !== 0) {
    throw new SchemaUnknown(`another version wrote it (form ${version}, known ${SCHEMA_VERSION})`);
  }
  database.exec(SCHEMA);
  database.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
  database.prepare("INSERT INTO meta VALUES ('epoch', ?)").run(hexId());
}

function pragmaValue(database: Database, name: string): unknown {
  return (database.prepare(`PRAGMA ${name}`).get() as Record<string, unknown>)[name];
}

/** Prepared statements of appends. */
const STATEMENTS = new WeakMap<Database, Map<string, Statement>>();

function statement(database: Database, sql: string): Statement {
  const known = STATEMENTS.get(database) ?? new Map<string, Statement>();
  STATEMENTS.set(database, known);
  const made = known.get(sql) ?? database.prepare(sql);
  known.set(sql, made);
  return made;
}

function head(database: Database): number {
  return (statement(database, 'SELECT coalesce(max(seq), 0) AS head FROM record').get() as { head: number }).head;
}

function kindHeadOf(database: Database, kind: string): number {
  return (database.prepare('SELECT last FROM kind_head WHERE kind = ?').get(kind) as { last: number }).last;
}

function append(
  database: Database,
  rows: readonly NewRow[],
  { expect, nowMs, dedup: limits }: Pick<StoreRequest & { op: 'append' }, 'expect' | 'nowMs' | 'dedup'>,
): Appended[] {
  return inTransaction(database, () => {
    if (expect !== undefined) {
      const last = expect.kind === 'any' ? head(database) : kindHeadOf(database, expect.kind);
      if (last !== expect.lastSeq) {
        throw Object.assign(new Error(`the last ${expect.kind} row is ${last}, not ${expect.lastSeq}`), {
          code: 'CONFLICT',
        });
      }
    }
    // In a separate table: the row may be dropped earlier.
    const known = statement(
      database,
      'SELECT seq, time_ms AS timeMs FROM dedup WHERE key = ? AND time_ms > ? AND seq > ?',
    );
    const remember = statement(database, 'INSERT OR REPLACE INTO dedup VALUES (?, ?, ?)');
    const insert = statement(database, 'INSERT INTO record (seq, kind, time_ms, body) VALUES (?, ?, ?, ?)');
    const kindHead = statement(database, 'UPDATE kind_head SET last = ? WHERE kind = ?');
    let seq = head(database);
    const firstOf = (dedup: string): StoredRow | undefined =>
      known.get(dedup, nowMs - limits.ms, seq - limits.rows) as StoredRow | undefined;
    const places = rows.map(({ kind, body, dedup }) => {
      const first = dedup === undefined ? undefined : firstOf(dedup);
      if (first !== undefined) return { seq: first.seq, duplicate: true, timeMs: first.timeMs };
      seq++;
      insert.run(seq, kind, nowMs, body);
      if (dedup !== undefined) remember.run(dedup, seq, nowMs);
      if (kind !== 'update') kindHead.run(seq, kind);
      return { seq, duplicate: false, timeMs: nowMs };
    });
    if (rows.some(({ dedup }) => dedup !== undefined))
      forget(database, 2 * rows.length + FORGET_AT_ONCE, limits, nowMs);
    return places;
  });
}

/** Removes some of the oldest `dedup` texts that are not valid any more. */
function forget(database: Database, most: number, limits: DedupLimits, nowMs: number): void {
  const text = `DELETE FROM dedup WHERE key IN (SELECT key FROM dedup ORDER BY seq LIMIT ?) AND (seq <= ? OR time_ms <= ?)`;
  statement(database, text).run(most, head(database) - limits.rows, nowMs - limits.ms);
}

/** In two transactions: pages that one transaction writes and frees need never be written. */
function probe(database: Database, bytes: number): void {
  const write = database.prepare("INSERT OR REPLACE INTO meta VALUES ('probe', hex(randomblob(?)))");
  inTransaction(database, () => write.run(Math.ceil(bytes / 2)));
  inTransaction(database, () => database.prepare("DELETE FROM meta WHERE key = 'probe'").run());
}

/** Rows where a condition holds, in order, up to `limit` and {@link PAGE_CHARS}. */
function rowsOf(database: Database, where: string, values: readonly number[], limit: number): StoredRow[] {
  const last = pageEnd(database, `${where} ORDER BY seq`, [...values, limit], PAGE_CHARS);
  if (last === undefined) return [];
  const text = `SELECT ${COLUMNS} FROM record WHERE ${where} AND seq <= ? ORDER BY seq`;
  const rows = database.prepare(text).all(...values, last) as StoredRow[];
  return rows.map(({ seq, kind, timeMs, body }) => ({ seq, kind, timeMs, body }));
}

/**
 * The last row of a page, by sizes that SQLite knows without reading the rows: whoever steps
 * through rows gets a hundred at a time. The last value is the limit of rows.
 */
function pageEnd(database: Database, where: string, values: readonly number[], most: number): number | undefined {
  const text = `SELECT seq, octet_length(body) AS chars FROM record WHERE ${where} LIMIT ?`;
  const sizes = database.prepare(text).all(...values) as { seq: number; chars: number }[];
  let looked = 0;
  for (const { seq, chars } of sizes) {
    looked += chars;
    if (looked >= most) return seq;
  }
  return sizes.at(-1)?.seq;
}

/** {@link LogStore.scan}. SQLite looks into the rows: a large one never becomes a text here. */
function scan(database: Database, from: ScanFrom, limit: number, filter: RowFilter): ScannedRow[] {
  const [begins, ends, order, seq] = 'after' in from ? ['>', '<=', '', from.after] : ['<', '>=', 'DESC', from.before];
  const last = pageEnd(database, `seq ${begins} ? ORDER BY seq ${order}`, [seq, limit], SCAN_CHARS);
  if (last === undefined) return [];
  const lists = filter.map((texts) => (texts.length === 0 ? '0' : texts.map(contains).join(' OR ')));
  const fits = ['1', ...lists].map((one) => `(${one})`).join(' AND ');
  // The size is compared first: SQLite looks into each large row once.
  const text = `SELECT seq, kind, timeMs, chars, fits, CASE WHEN chars <= ${SHORT_ROW} AND fits THEN body END AS body FROM (
      SELECT ${COLUMNS}, octet_length(body) AS chars, ${fits} AS fits FROM record WHERE seq ${begins} ? AND seq ${ends} ?
    ) ORDER BY seq ${order}`;
  const rows = database.prepare(text).all(...filter.flat().map(operand), seq, last) as RawScanned[];
  return rows.map(({ seq: at, kind, timeMs, chars, fits: does, body }) => ({
    ...{ seq: at, kind, timeMs, chars, fits: does !== 0, body: body ?? undefined },
  }));
}

/**
 * Longest text that a pattern is made of: SQLite has a limit for patterns, which it finds eight
 * times as fast.
 */
const LONGEST_PATTERN = 10_000;

function contains(text: string): string {
  return text.length <= LONGEST_PATTERN ? 'body GLOB ?' : 'instr(body, ?) > 0';
}

function operand(text: string): string {
  return text.length <= LONGEST_PATTERN ? `*${text.replaceAll(/[[*?]/g, '[$&]')}*` : text;
}

type RawScanned = Omit<ScannedRow, 'fits' | 'body'> & { readonly fits: number; readonly body: string | null };

function retire(database: Database, seqs: readonly number[], nowMs: number): void {
  inTransaction(database, () => {
    const statement = database.prepare('UPDATE record SET retired_ms = ? WHERE seq = ? AND retired_ms IS NULL');
    for (const seq of seqs) statement.run(nowMs, seq);
  });
}

/** The last row stays: it holds the highest assigned seq. */
function dropRetired(database: Database, beforeMs: number, nowMs: number, dedup: DedupLimits): number {
  return inTransaction(database, () => {
    forget(database, DROP_PER_CALL, dedup, nowMs);
    return database
      .prepare(
        `DELETE FROM record WHERE seq IN (SELECT seq FROM record WHERE retired_ms < ? ORDER BY retired_ms LIMIT ?)
           AND seq < (SELECT max(seq) FROM record)`,
      )
      .run(beforeMs, DROP_PER_CALL).changes;
  });
}

function carryOut(database: Database, request: Exclude<StoreRequest, { op: 'close' }>): unknown {
  switch (request.op) {
    case 'head':
      return head(database);
    case 'load':
      return rowsOf(
        database,
        'seq > ? AND seq <= ? AND retired_ms IS NULL',
        [request.after, request.through],
        request.limit,
      );
    case 'append':
      return append(database, request.rows, request);
    case 'probe':
      return probe(database, request.bytes);
    case 'read':
      return rowsOf(database, 'seq > ?', [request.after], request.limit);
    case 'scan':
      return scan(database, request.from, request.limit, request.filter);
    case 'retire':
      return retire(database, request.seqs, request.nowMs);
    case 'dropRetired':
      return dropRetired(database, request.beforeMs, request.nowMs, request.dedup);
  }
}

function reply(work: () => unknown): void {
  let result: StoreReply;
  try {
    result = { ok: true, value: work() };
  } catch (error) {
    result = failure(error);
  }
  parentPort?.postMessage(result);
}

function failure(error: unknown): StoreReply {
  const code = error instanceof SchemaUnknown ? 'SQLITE_SCHEMA' : codeOf(error);
  return { ok: false, message: error instanceof Error ? error.message : String(error), code };
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

async function main(file: string): Promise<void> {
  let database: Database;
  try {
    database = await openDatabase(file);
  } catch (error) {
    parentPort?.postMessage(failure(error));
    parentPort?.close();
    return;
  }
  parentPort?.on('message', (request: StoreRequest) => {
    if (request.op === 'close') {
      database.close();
      parentPort?.close();
      return;
    }
    reply(() => carryOut(database, request));
  });
  reply(() => opened(database));
}

await main(workerData as string);
