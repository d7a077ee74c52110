import { SyncError } from '../../../lib/errors.js';
import type { Logger } from '../../../lib/observe/log.js';
import type {
  Appended,
  DedupLimits,
  Expectation,
  LogStore,
  NewRow,
  Presence,
  PresenceText,
  RowFilter,
  RowKind,
  ScanFrom,
  ScannedRow,
  StoredRow,
} from '../log-store.js';
import { rowAfterHead, shortKey } from './backbone-errors.js';
import { BackboneStore } from './backbone-store.js';
import {
  APPEND,
  DROP,
  LIST_PRESENCE,
  LIVE,
  PROBE,
  PUT_PARTS,
  PUT_PRESENCE,
  READ,
  READ_PARTS,
  RETIRE,
  SCAN,
} from './redis-scripts.js';
import { type RedisKeys, type RedisPlace, RedisSession, redisKeys } from './redis-session.js';
import { type BackboneTimes, SessionKeeper } from './session-keeper.js';

/** Rows per page of a load. */
const PAGE = 500;
/** Rows per call of {@link LogStore.dropRetired}: Redis does nothing else meanwhile. */
const DROP_AT_MOST = 1000;

/**
 * Opens or creates the log `name` in Redis. Rejects with `backbone_unavailable`, `config_invalid`,
 * `log_damaged`.
 */
export async function openRedisStore(
  options: { url: URL; what: string; name: string; times: BackboneTimes; dedup: DedupLimits },
  deps: { log: Logger; signal?: AbortSignal | undefined },
): Promise<LogStore> {
  const place: RedisPlace = { ...options, keys: redisKeys(options.name) };
  const keeper = await SessionKeeper.open<RedisSession>({
    ...options,
    ...deps,
    connect: (hooks) => RedisSession.connect(place, hooks),
  });
  return new RedisStore(keeper, place.keys, options.dedup);
}

class RedisStore extends BackboneStore<RedisSession> {
  readonly presence: Presence;
  readonly #keys: RedisKeys;
  readonly #dedup: DedupLimits;

  constructor(keeper: SessionKeeper<RedisSession>, keys: RedisKeys, dedup: DedupLimits) {
    super(keeper);
    this.#keys = keys;
    this.#dedup = dedup;
    this.presence = redisPresence(keeper, keys);
  }

  protected async *live(): AsyncGenerator<readonly StoredRow[]> {
    const { meta, log, retired } = this.#keys;
    for (let from = 1; ; ) {
      const reply = await this.#run(LIVE, [meta, log, retired], [this.epoch, from, PAGE]);
      const [last, live] = reply as [string | null, RawRow[]];
      if (last === null) return;
      const rows = live.map(storedRow);
      this.keeper.saw(rows.at(-1));
      if (rows.length > 0) yield rows;
      from = Number.parseInt(last, 10) + 1;
    }
  }

  protected async write(rows: readonly NewRow[], expect?: Expectation): Promise<readonly Appended[]> {
    const { meta, log, dedup, dedupOrder } = this.#keys;
    const { ms, rows: most } = this.#dedup;
    const given = rows.flatMap(({ kind, body, dedup: text }) => [kind, body, text === undefined ? '' : shortKey(text)]);
    const bytes = rows.reduce((sum, { body }) => sum + body.length, 0);
    const args = [this.epoch, ms, most, expect?.kind ?? '', expect?.lastSeq ?? 0, ...given];
    const flat = (await this.#run(APPEND, [meta, log, dedup, dedupOrder], args, bytes)) as (string | number)[];
    return rows.map((_, index) => ({ seq: Number(flat[index * 2]), duplicate: flat[index * 2 + 1] === 1 }));
  }

  async probe(bytes: number): Promise<void> {
    await this.#run(PROBE, [this.#keys.meta], [this.epoch, bytes], bytes);
  }

  /** Rows before one that is damaged are returned without it: they are true. */
  protected async rowsAfter(after: number, limit: number): Promise<readonly StoredRow[]> {
    const { meta, log } = this.#keys;
    const reply = await this.#run(READ, [meta, log], [this.epoch, after + 1, limit]);
    const [raw, afterHead] = reply as [RawRow[], string?];
    const beside = raw.findIndex(([id]) => !isPlace(id));
    if (beside > 0) return raw.slice(0, beside).map(storedRow);
    if (raw.length === 0 && afterHead !== undefined) throw rowAfterHead(afterHead);
    return raw.map(storedRow);
  }

  protected async look(from: ScanFrom, limit: number, filter: RowFilter): Promise<readonly ScannedRow[]> {
    const { meta, log } = this.#keys;
    const [command, seq] = 'after' in from ? ['XRANGE', from.after + 1] : ['XREVRANGE', from.before - 1];
    const lists = filter.flatMap((texts) => [texts.length, ...texts]);
    const rows = (await this.#run(SCAN, [meta, log], [this.epoch, command, seq, limit, ...lists])) as RawScanned[];
    return rows.map(([id, kind, timeMs, chars, fits, body]) => ({
      ...{ seq: Number.parseInt(id, 10), kind, timeMs: timeMs === '' ? Number.NaN : Number(timeMs), chars },
      ...{ fits: fits === 1, body: body ?? undefined },
    }));
  }

  async retire(seqs: readonly number[]): Promise<void> {
    const { meta, retired } = this.#keys;
    for (let at = 0; at < seqs.length; at += PAGE) {
      await this.#run(RETIRE, [meta, retired], [this.epoch, ...seqs.slice(at, at + PAGE)]);
    }
  }

  async dropRetired(beforeMs: number): Promise<number> {
    const { meta, log, retired, dedup, dedupOrder } = this.#keys;
    const { ms, rows } = this.#dedup;
    const args = [this.epoch, Math.floor(beforeMs), DROP_AT_MOST, ms, rows];
    return Number(await this.#run(DROP, [meta, log, retired, dedup, dedupOrder], args));
  }

  #run(script: string, keys: readonly string[], args: readonly (string | number)[], bytes = 0): Promise<unknown> {
    return this.keeper.call((session) => session.run(script, keys, args), { bytes });
  }
}

/** Id, and the fields `k` (kind), `t` (time), `b` (body) in this order. */
type RawRow = [string, [string, RowKind, string, string, string, string]];

/** Id, kind, time, bytes, 1 if it fits, and the body of a short one that does. */
type RawScanned = [string, RowKind, string, number, number, string | null];

/**
 * Throws `log_damaged` for an entry beside a place: at each start it would be another row of that
 * place.
 */
function storedRow([id, [, kind, , timeMs, , body]]: RawRow): StoredRow {
  if (!isPlace(id)) throw new SyncError('log_damaged', `record ${id} of the update log has no place of a row`);
  return { seq: Number.parseInt(id, 10), kind, timeMs: Number(timeMs), body };
}

function isPlace(id: string): boolean {
  return /^\d{1,16}-0$/.test(id);
}

function redisPresence(
  keeper: SessionKeeper<RedisSession>,
  { presence, presenceEnds, presenceParts }: RedisKeys,
): Presence {
  const partsOf = (instance: string): string => `${presenceParts}${instance}`;
  return {
    put: async (instance, text, ttlMs, parts = 0) => {
      const keys = [presence, presenceEnds, partsOf(instance)];
      const put = (session: RedisSession): Promise<unknown> =>
        session.run(PUT_PRESENCE, keys, [instance, text, Math.round(ttlMs), parts]);
      return Number(await keeper.callAside(put, { bytes: text.length }));
    },
    putParts: async (instance, parts, ttlMs) => {
      const args = [Math.round(ttlMs), ...[...parts].flat()];
      const bytes = [...parts.values()].reduce((sum, { length }) => sum + length, 0);
      await keeper.callAside((session) => session.run(PUT_PARTS, [partsOf(instance)], args), { bytes });
    },
    parts: async (instance, numbers) => {
      const read = (session: RedisSession): Promise<unknown> => session.run(READ_PARTS, [partsOf(instance)], numbers);
      const flat = (await keeper.callAside(read)) as string[];
      const parts = new Map<number, string>();
      for (let at = 0; at + 1 < flat.length; at += 2) parts.set(Number(flat[at]), flat[at + 1] ?? '');
      return parts;
    },
    list: async () => {
      const flat = (await keeper.callAside((session) =>
        session.run(LIST_PRESENCE, [presence, presenceEnds], []),
      )) as string[];
      const texts = new Map<string, PresenceText>();
      for (let at = 0; at + 2 < flat.length; at += 3)
        texts.set(flat[at] ?? '', { text: flat[at + 1] ?? '', leftMs: Number(flat[at + 2]) });
      return texts;
    },
  };
}
