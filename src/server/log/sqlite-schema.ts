import type { Database } from 'libsql';
import { hexId } from '../../lib/hex-id.js';

/** Incremented with every change of the tables. A newer version wrote a store with a higher one. */
const SCHEMA_VERSION = 2;

/** A newer version of the program wrote the file. */
export class SchemaTooNew extends Error {}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS record (
    seq INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('base', 'update', 'policy')),
    time_ms INTEGER NOT NULL,
    body TEXT NOT NULL,
    retired_ms INTEGER
  );
  CREATE INDEX IF NOT EXISTS record_live ON record (seq) WHERE retired_ms IS NULL;
  CREATE INDEX IF NOT EXISTS record_retired ON record (retired_ms) WHERE retired_ms IS NOT NULL;
  CREATE TABLE IF NOT EXISTS dedup (key TEXT PRIMARY KEY, seq INTEGER NOT NULL, time_ms INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS dedup_time ON dedup (time_ms);
  CREATE TABLE IF NOT EXISTS kind_head (kind TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
  INSERT OR IGNORE INTO kind_head VALUES ('base', 0), ('policy', 0);
`;

/**
 * Creates the tables, or migrates those of an older version; where they are there, nothing is written: the disk may be full. Call it inside
 * a transaction. Throws {@link SchemaTooNew}.
 */
export function migrate(database: Database, nowMs: number): void {
  const version = Number(pragmaValue(database, 'user_version'));
  if (version > SCHEMA_VERSION) {
    throw new SchemaTooNew(`it was written by a newer version (form ${version}, known ${SCHEMA_VERSION})`);
  }
  if (version === SCHEMA_VERSION) return;
  if (version === 1) fromFirst(database, nowMs);
  database.exec(SCHEMA);
  database.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
  database.prepare("INSERT OR IGNORE INTO meta VALUES ('epoch', ?)").run(hexId());
}

/**
 * Version 1 had a row for each base entry, `{"entries":[entry]}`. Version 2 has one row per generation: the migration merges them into one,
 * in which each entry keeps its place.
 */
function fromFirst(database: Database, nowMs: number): void {
  database.exec('DROP INDEX record_live; DROP INDEX record_retired; ALTER TABLE record RENAME TO record_1');
  database.exec(SCHEMA);
  database.exec(
    `INSERT INTO record (seq, kind, time_ms, body, retired_ms)
       SELECT seq, kind, time_ms,
              CASE kind WHEN 'base' THEN '{"generation":"","known":[],"entries":[{"place":[' || seq || ',0],"entry":'
                || substr(body, 13, length(body) - 14) || '}]}' ELSE body END,
              CASE kind WHEN 'base' THEN coalesce(retired_ms, ${Math.trunc(nowMs)}) ELSE retired_ms END
         FROM record_1`,
  );
  const base = database
    .prepare("SELECT seq, body FROM record_1 WHERE kind = 'base' AND retired_ms IS NULL ORDER BY seq")
    .all() as { seq: number; body: string }[];
  if (base.length > 0) {
    const { head } = database.prepare('SELECT max(seq) AS head FROM record').get() as { head: number };
    const entries = base.map(({ seq, body }) => `{"place":[${seq},0],"entry":${body.slice(12, -2)}}`);
    const body = `{"generation":"","known":[],"entries":[${entries.join(',')}]}`;
    database
      .prepare("INSERT INTO record (seq, kind, time_ms, body) VALUES (?, 'base', ?, ?)")
      .run(head + 1, nowMs, body);
    database.prepare("UPDATE kind_head SET last = ? WHERE kind = 'base'").run(head + 1);
  }
  database.exec('DROP TABLE record_1');
}

export function pragmaValue(database: Database, name: string): unknown {
  return (database.prepare(`PRAGMA ${name}`).get() as Record<string, unknown>)[name];
}
