import type { Logger } from '../../../lib/observe/log.js';
import {
  type Appended,
  type DedupLimits,
  type Expectation,
  type LogStore,
  type NewRow,
  PAGE_CHARS,
  type Presence,
  type RowFilter,
  SCAN_CHARS,
  type ScanFrom,
  type ScannedRow,
  SHORT_ROW,
  type StoredRow,
} from '../log-store.js';
import { rowAfterHead, shortKey } from './backbone-errors.js';
import { BackboneStore } from './backbone-store.js';
import { forgetDedup, NOW_MS, postgresNames } from './postgres-schema.js';
import { type PostgresPlace, PostgresSession } from './postgres-session.js';
import { type BackboneTimes, SessionKeeper } from './session-keeper.js';

/** Rows per page of a load. */
const PAGE = 500;
/** Rows per call of {@link LogStore.dropRetired}, so that their locks are short. */
const DROP_AT_MOST = 5000;

/**
 * Opens or creates the log `name` in a Postgres database: tables `<name>_log...` in the first
 * schema of the search path. Rejects with `backbone_unavailable`, `config_invalid`, `log_damaged`.
 */
export async function openPostgresStore(
  options: { url: URL; what: string; name: string; times: BackboneTimes; dedup: DedupLimits },
  deps: { log: Logger; signal?: AbortSignal | undefined },
): Promise<LogStore> {
  const place: PostgresPlace = { ...options, names: postgresNames(options.name) };
  const keeper = await SessionKeeper.open<PostgresSession>({
    ...options,
    ...deps,
    connect: (hooks) => PostgresSession.connect(place, hooks),
  });
  return new PostgresStore(keeper, place.names, options.dedup);
}

/** Rows are committed with the head that names them: no row of ours comes after it. */
interface PlacedRow extends StoredRow {
  readonly isAfterHead: boolean;
}

class PostgresStore extends BackboneStore<PostgresSession> {
  readonly presence: Presence;
  readonly #names: PostgresPlace['names'];
  readonly #dedup: DedupLimits;

  constructor(keeper: SessionKeeper<PostgresSession>, names: PostgresPlace['names'], dedup: DedupLimits) {
    super(keeper);
    this.#names = names;
    this.#dedup = dedup;
    this.presence = postgresPresence(keeper, names);
  }

  async sizeBytes(): Promise<number | undefined> {
    const query = 'SELECT pg_total_relation_size($1::regclass)::float8 AS bytes';
    const [size] = await this.keeper.call((session) => session.read<{ bytes: number }>(query, [this.#names.row]));
    return size?.bytes;
  }

  protected async *live(): AsyncGenerator<readonly StoredRow[]> {
    for (let after = 0; ; ) {
      const rows = await this.#rows('retired_ms IS NULL AND seq > $1', 'seq', [after, PAGE]);
      const last = rows.at(-1);
      if (last === undefined) return;
      this.keeper.saw(rows.findLast(({ isAfterHead }) => !isAfterHead));
      yield rows;
      after = last.seq;
    }
  }

  protected write(rows: readonly NewRow[], expect?: Expectation): Promise<readonly Appended[]> {
    const values = [
      this.epoch,
      rows.map(({ kind }) => kind),
      rows.map(({ body }) => body),
      rows.map(({ dedup }) => (dedup === undefined ? null : shortKey(dedup))),
      this.#dedup.ms,
      this.#dedup.rows,
      expect?.kind ?? null,
      expect?.lastSeq ?? null,
    ];
    const bytes = rows.reduce((sum, { body }) => sum + body.length, 0);
    return this.keeper.call(
      (session) =>
        session.write<{ seq: number; duplicate: boolean }>(
          `SELECT place AS seq, is_duplicate AS duplicate FROM ${this.#names.append}($1, $2, $3, $4, $5, $6, $7, $8)`,
          values,
        ),
      { bytes },
    );
  }

  async probe(bytes: number): Promise<void> {
    await this.keeper.call((session) => session.probe(this.epoch, bytes), { bytes });
  }

  protected async rowsAfter(after: number, limit: number): Promise<readonly StoredRow[]> {
    const rows = await this.#rows('seq > $1', 'seq', [after, limit]);
    const [first] = rows;
    if (first?.isAfterHead === true) throw rowAfterHead(first.seq);
    return rows.filter(({ isAfterHead }) => !isAfterHead);
  }

  /** The sizes of rows are known without their texts. */
  protected async look(from: ScanFrom, limit: number, filter: RowFilter): Promise<readonly ScannedRow[]> {
    const [where, order, seq] =
      'after' in from ? ['seq > $1', 'seq', from.after] : ['seq < $1', 'seq DESC', from.before];
    const { row, meta } = this.#names;
    const page = `SELECT *, octet_length(body) AS size FROM ${row} WHERE ${where} AND seq <= (SELECT head FROM ${meta})
      ORDER BY ${order} LIMIT $2`;
    const sized = `SELECT *, sum(size) OVER (ORDER BY ${order}) - size AS before FROM (${page}) page`;
    const fits = filter.map(
      (_, index) => `EXISTS (SELECT FROM unnest($${index + 3}::text[]) t WHERE strpos(body, t) > 0)`,
    );
    const text = `SELECT seq::float8 AS seq, kind, time_ms::float8 AS "timeMs", size AS chars, fits,
        CASE WHEN fits AND size <= ${SHORT_ROW} THEN body END AS body
      FROM (${sized}) sized, LATERAL (SELECT ${['true', ...fits].join(' AND ')} AS fits) looked
      WHERE before < ${SCAN_CHARS} ORDER BY sized.${order}`;
    const rows = await this.keeper.call((session) =>
      session.read<Omit<ScannedRow, 'body'> & { body: string | null }>(text, [seq, limit, ...filter]),
    );
    return rows.map((row) => ({ ...row, body: row.body ?? undefined }));
  }

  async retire(seqs: readonly number[]): Promise<void> {
    if (seqs.length === 0) return;
    await this.keeper.call((session) =>
      session.write(
        `UPDATE ${this.#names.row} SET retired_ms = ${NOW_MS} WHERE seq = ANY ($1::bigint[]) AND retired_ms IS NULL`,
        [seqs],
      ),
    );
  }

  async dropRetired(beforeMs: number): Promise<number> {
    const { row, meta, dedup } = this.#names;
    return await this.keeper.call(async (session) => {
      const through = `(SELECT head FROM ${meta}) - ${this.#dedup.rows}`;
      const before = `${NOW_MS} - ${this.#dedup.ms}`;
      await session.write(forgetDedup(dedup, { most: String(DROP_AT_MOST), through, before }));
      // The last row stays: otherwise an empty log could not be distinguished from one that lost
      // its rows.
      const dropped = await session.write(
        `DELETE FROM ${row} WHERE seq IN (
           SELECT seq FROM ${row} WHERE retired_ms < $1 AND seq < (SELECT head FROM ${meta}) LIMIT ${DROP_AT_MOST}
         ) RETURNING 1`,
        [beforeMs],
      );
      return dropped.length;
    });
  }

  /**
   * Rows in an order. `values`: the seq to start from, and the limit. Returns fewer than the limit
   * if they are large.
   */
  #rows(where: string, order: string, values: readonly [number, number]): Promise<PlacedRow[]> {
    const page = `SELECT * FROM ${this.#names.row} WHERE ${where} ORDER BY ${order} LIMIT $2`;
    const sized = `SELECT *, sum(octet_length(body)) OVER (ORDER BY ${order}) - octet_length(body) AS before FROM (${page}) page`;
    const text = `SELECT seq::float8 AS seq, kind, time_ms::float8 AS "timeMs", body,
        seq > (SELECT head FROM ${this.#names.meta}) AS "isAfterHead"
      FROM (${sized}) sized WHERE before < ${PAGE_CHARS} ORDER BY sized.${order}`;
    return this.keeper.call((session) => session.read<PlacedRow>(text, values));
  }
}

function postgresPresence(
  keeper: SessionKeeper<PostgresSession>,
  { presence, presencePart }: PostgresPlace['names'],
): Presence {
  // Those that expired go as well: each by one instance, since none waits for another. Parts may be
  // written before their text.
  const expired = `SELECT instance FROM ${presence} WHERE until_ms < ${NOW_MS} AND instance <> $1 FOR UPDATE SKIP LOCKED`;
  const orphaned = `until_ms < ${NOW_MS} AND NOT EXISTS (SELECT FROM ${presence} p WHERE p.instance = one.instance)`;
  const put = `
    WITH expired AS (DELETE FROM ${presence} WHERE instance IN (${expired}) RETURNING instance),
      lost AS (
        DELETE FROM ${presencePart} one
        WHERE instance <> $1 AND (instance IN (SELECT instance FROM expired) OR (${orphaned}))
          OR instance = $1 AND part >= $4
      ),
      said AS (
        INSERT INTO ${presence} AS p VALUES ($1, $2, ${NOW_MS} + $3)
          ON CONFLICT (instance) DO UPDATE SET body = excluded.body, until_ms = excluded.until_ms
      )
    SELECT count(*)::float8 AS parts FROM ${presencePart} WHERE instance = $1 AND part < $4`;
  const putParts = `
    INSERT INTO ${presencePart} AS p (instance, part, body, until_ms)
      SELECT $1, part, body, ${NOW_MS} + $4 FROM unnest($2::int[], $3::text[]) AS said (part, body)
      ON CONFLICT (instance, part) DO UPDATE SET body = excluded.body, until_ms = excluded.until_ms`;
  const list = `SELECT instance, body, (until_ms - ${NOW_MS})::float8 AS left_ms FROM ${presence} WHERE until_ms > ${NOW_MS}`;
  const parts = `SELECT part, body FROM ${presencePart} WHERE instance = $1 AND part = ANY ($2::int[])`;
  return {
    put: async (instance, text, ttlMs, ends = 0) => {
      const values = [instance, text, Math.round(ttlMs), ends];
      const [kept] = await keeper.callAside((session) => session.aside<{ parts: number }>(put, values), {
        bytes: text.length,
      });
      return kept?.parts ?? 0;
    },
    list: async () => {
      const rows = await keeper.callAside((session) =>
        session.aside<{ instance: string; body: string; left_ms: number }>(list),
      );
      return new Map(rows.map(({ instance, body, left_ms: leftMs }) => [instance, { text: body, leftMs }]));
    },
    putParts: async (instance, said, ttlMs) => {
      const values = [instance, [...said.keys()], [...said.values()], Math.round(ttlMs)];
      const bytes = [...said.values()].reduce((sum, { length }) => sum + length, 0);
      await keeper.callAside((session) => session.aside(putParts, values), { bytes });
    },
    parts: async (instance, numbers) => {
      const rows = await keeper.callAside((session) =>
        session.aside<{ part: number; body: string }>(parts, [instance, numbers]),
      );
      return new Map(rows.map(({ part, body }) => [part, body]));
    },
  };
}
