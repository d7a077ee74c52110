/** Incremented with every change of the tables. A newer version made a log with a higher one. */
export const POSTGRES_FORM = 1;

/** SQLSTATEs that our statements raise. */
export const STATE = { otherEpoch: 'PS001', conflict: 'PS002', probed: 'PS003' };

/** Quoted names of the tables, the function and the channel of one log. */
export interface PostgresNames {
  readonly meta: string;
  readonly row: string;
  readonly dedup: string;
  readonly presence: string;
  readonly presencePart: string;
  readonly append: string;
  readonly channel: string;
}

/** `name` has letters, digits, `-` and `_` only (`open-backbone.ts`). */
export function postgresNames(name: string): PostgresNames {
  const quoted = (part: string): string => `"${name}_${part}"`;
  return {
    meta: quoted('log_meta'),
    row: quoted('log'),
    dedup: quoted('log_dedup'),
    presence: quoted('presence'),
    presencePart: quoted('presence_part'),
    append: quoted('append_v2'),
    channel: `${name}_log`,
  };
}

/** A part of the log in the database. */
export interface SchemaPart {
  readonly kind: 'relation' | 'function';
  /** Quoted. */
  readonly name: string;
  /** Makes it. Harmless if it exists. */
  readonly sql: string;
  /** It has what no other part has: without it there is no log. */
  readonly isLog?: true;
}

/**
 * The parts, in the order in which they are made. The function that appends locks the meta row
 * before it assigns a seq, and Postgres holds the lock until the commit is visible: so rows commit
 * in the order of seq, and no reader sees a row before a lower one (dependencies.md 7). It is a
 * function so that the lock is never held across the network, or by an instance that is frozen.
 */
export function postgresSchema(names: PostgresNames): readonly SchemaPart[] {
  const { meta, row, dedup, presence, presencePart } = names;
  const index = (table: string, suffix: string, on: string): SchemaPart => {
    const name = table.replace(/"$/, `_${suffix}"`);
    return { kind: 'relation', name, sql: `CREATE INDEX IF NOT EXISTS ${name} ON ${table} ${on};` };
  };
  const metaSql = `
CREATE TABLE IF NOT EXISTS ${meta} (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  form int NOT NULL,
  epoch text NOT NULL,
  head bigint NOT NULL DEFAULT 0,
  last_base bigint NOT NULL DEFAULT 0,
  last_policy bigint NOT NULL DEFAULT 0
);`;
  const rowSql = `
CREATE TABLE IF NOT EXISTS ${row} (
  seq bigint PRIMARY KEY,
  kind text NOT NULL,
  time_ms bigint NOT NULL,
  body text NOT NULL,
  retired_ms bigint
);`;
  const dedupSql = `
CREATE TABLE IF NOT EXISTS ${dedup} (key text PRIMARY KEY, seq bigint NOT NULL, time_ms bigint NOT NULL);`;
  const presenceSql = `
CREATE TABLE IF NOT EXISTS ${presence} (instance text PRIMARY KEY, body text NOT NULL, until_ms bigint NOT NULL);`;
  const presencePartSql = `
CREATE TABLE IF NOT EXISTS ${presencePart} (
  instance text,
  part int,
  body text NOT NULL,
  until_ms bigint NOT NULL,
  PRIMARY KEY (instance, part)
);`;
  return [
    { kind: 'relation', name: meta, sql: metaSql, isLog: true },
    { kind: 'relation', name: row, sql: rowSql, isLog: true },
    index(row, 'live', '(seq) WHERE retired_ms IS NULL'),
    index(row, 'retired', '(retired_ms) WHERE retired_ms IS NOT NULL'),
    { kind: 'relation', name: dedup, sql: dedupSql },
    index(dedup, 'seq', '(seq)'),
    { kind: 'relation', name: presence, sql: presenceSql },
    { kind: 'relation', name: presencePart, sql: presencePartSql },
    { kind: 'function', name: names.append, sql: appendFunction(names) },
  ];
}

/** Removes some of the oldest dedup texts that are not valid any more. */
export function forgetDedup(
  dedup: string,
  { most, through, before }: { readonly most: string; readonly through: string; readonly before: string },
): string {
  return `DELETE FROM ${dedup} d WHERE d.seq IN (SELECT o.seq FROM ${dedup} o ORDER BY o.seq LIMIT ${most})
    AND (d.seq <= ${through} OR d.time_ms <= ${before})`;
}

function appendFunction({ meta, row, dedup, append, channel }: PostgresNames): string {
  return `
CREATE OR REPLACE FUNCTION ${append}(
  p_epoch text, p_kinds text[], p_bodies text[], p_dedups text[], p_dedup_ms bigint, p_dedup_rows bigint,
  p_expect_kind text, p_expect_seq bigint
) RETURNS TABLE (place float8, is_duplicate boolean) LANGUAGE plpgsql AS $append$
DECLARE
  log record;
  now_ms bigint;
  known bigint;
BEGIN
  -- A 200 promises durability: the commit waits for the disk, whatever the default of the database.
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  SELECT * INTO log FROM ${meta} FOR UPDATE;
  IF NOT FOUND OR log.epoch <> p_epoch THEN
    RAISE EXCEPTION 'the update log has another epoch' USING ERRCODE = '${STATE.otherEpoch}';
  END IF;
  IF p_expect_seq <> (CASE p_expect_kind WHEN 'base' THEN log.last_base WHEN 'policy' THEN log.last_policy ELSE log.head END) THEN
    RAISE EXCEPTION 'another row is the last one' USING ERRCODE = '${STATE.conflict}';
  END IF;
  now_ms := floor(extract(epoch FROM clock_timestamp()) * 1000);
  FOR i IN 1 .. coalesce(array_length(p_kinds, 1), 0) LOOP
    IF p_dedups[i] IS NOT NULL THEN
      SELECT d.seq INTO known FROM ${dedup} d WHERE d.key = p_dedups[i] AND d.time_ms > now_ms - p_dedup_ms
        AND d.seq > log.head - p_dedup_rows;
      IF FOUND THEN
        place := known;
        is_duplicate := true;
        RETURN NEXT;
        CONTINUE;
      END IF;
    END IF;
    log.head := log.head + 1;
    INSERT INTO ${row} (seq, kind, time_ms, body) VALUES (log.head, p_kinds[i], now_ms, p_bodies[i]);
    IF p_kinds[i] = 'base' THEN log.last_base := log.head; END IF;
    IF p_kinds[i] = 'policy' THEN log.last_policy := log.head; END IF;
    IF p_dedups[i] IS NOT NULL THEN
      INSERT INTO ${dedup} AS d VALUES (p_dedups[i], log.head, now_ms)
        ON CONFLICT (key) DO UPDATE SET seq = excluded.seq, time_ms = excluded.time_ms;
    END IF;
    place := log.head;
    is_duplicate := false;
    RETURN NEXT;
  END LOOP;
  IF array_remove(p_dedups, NULL) <> '{}' THEN
    ${forgetDedup(dedup, { most: '2 * array_length(p_dedups, 1) + 16', through: 'log.head - p_dedup_rows', before: 'now_ms - p_dedup_ms' })};
  END IF;
  UPDATE ${meta} SET head = log.head, last_base = log.last_base, last_policy = log.last_policy;
  PERFORM pg_notify('${channel}', log.head::text);
END
$append$;
`;
}

/**
 * An append of a row of so many random bytes that undoes itself: it ends with {@link STATE}.probed.
 * One statement, since others share the connection. `epoch` has letters and digits only.
 */
export function postgresProbe({ append }: PostgresNames, epoch: string, bytes: number): string {
  const parts = Math.ceil(bytes / 32);
  return `
DO $probe$
BEGIN
  PERFORM ${append}('${epoch}', ARRAY['update'], ARRAY[(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, ${parts}))],
    ARRAY[NULL]::text[], 0, 0, NULL, NULL);
  RAISE EXCEPTION 'the probe is taken back' USING ERRCODE = '${STATE.probed}';
END
$probe$`;
}

/** Milliseconds since 1970, by the clock of the database. */
export const NOW_MS = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';
