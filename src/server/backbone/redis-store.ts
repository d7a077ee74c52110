import { SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type {
  Appended,
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
} from '../log/log-store.js';
import { DEDUP_MS, shortKey } from './backbone-errors.js';
import { BackboneStore } from './backbone-store.js';
import { APPEND, DROP, LIST_PRESENCE, LIVE, PROBE, PUT_PRESENCE, READ, RETIRE, SCAN } from './redis-scripts.js';
import { type RedisKeys, type RedisPlace, RedisSession, redisKeys } from './redis-session.js';
import { type BackboneTimes, SessionKeeper } from './session-keeper.js';

/** Rows per page of a load. */
const PAGE = 500;
/** Rows per call of {@link LogStore.dropRetired}: Redis does nothing else meanwhile. */
const DROP_AT_MOST = 1000;

/** Opens or creates the log `name` in Redis. Rejects with `backbone_unavailable`, `config_invalid`, `log_damaged`. */
export async function openRedisStore(
  options: { url: URL; what: string; name: string; times: BackboneTimes },
  deps: { log: Logger; signal?: AbortSignal | undefined },
): Promise<LogStore> {
  const place: RedisPlace = { ...options, keys: redisKeys(options.name) };
  const keeper = await SessionKeeper.open<RedisSession>({
    ...options,
    ...deps,
    connect: (hooks) => RedisSession.connect(place, hooks),
  });
  return new RedisStore(keeper, place.keys);
}

class RedisStore extends BackboneStore<RedisSession> {
  readonly presence: Presence;
  readonly #keys: RedisKeys;

  constructor(keeper: SessionKeeper<RedisSession>, keys: RedisKeys) {
    super(keeper);
    this.#keys = keys;
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
    const { meta, log, dedup } = this.#keys;
    const dedups = rows.map((row) => (row.dedup === undefined ? meta : `${dedup}:${shortKey(row.dedup)}`));
    const bodies = rows.flatMap(({ kind, body }) => [kind, body]);
    const bytes = rows.reduce((sum, { body }) => sum + body.length, 0);
    const args = [this.epoch, DEDUP_MS, expect?.kind ?? '', expect?.lastSeq ?? 0, ...bodies];
    const flat = (await this.#run(APPEND, [meta, log, ...dedups], args, bytes)) as (string | number)[];
    return rows.map((_, index) => ({ seq: Number(flat[index * 2]), duplicate: flat[index * 2 + 1] === 1 }));
  }

  async probe(bytes: number): Promise<void> {
    await this.#run(PROBE, [this.#keys.meta], [this.epoch, bytes], bytes);
  }

  protected rowsAfter(after: number, limit: number): Promise<readonly StoredRow[]> {
    const { meta, log } = this.#keys;
    return this.#rows(READ, [meta, log], [this.epoch, after + 1, limit]);
  }

  protected async look(from: ScanFrom, limit: number, filter: RowFilter): Promise<readonly ScannedRow[]> {
    const { meta, log } = this.#keys;
    const [command, seq] = 'after' in from ? ['XRANGE', from.after + 1] : ['XREVRANGE', from.before - 1];
    const lists = filter.flatMap((texts) => [texts.length, ...texts]);
    const rows = (await this.#run(SCAN, [meta, log], [this.epoch, command, seq, limit, ...lists])) as RawScanned[];
    return rows.map(([id, kind, timeMs, chars, fits, body]) => ({
      ...{ seq: Number.parseInt(id, 10), kind, timeMs: Number(timeMs), chars },
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
    const { meta, log, retired } = this.#keys;
    return Number(await this.#run(DROP, [meta, log, retired], [this.epoch, Math.floor(beforeMs), DROP_AT_MOST]));
  }

  #run(script: string, keys: readonly string[], args: readonly (string | number)[], bytes = 0): Promise<unknown> {
    return this.keeper.call((session) => session.run(script, keys, args), bytes);
  }

  async #rows(script: string, keys: readonly string[], args: readonly (string | number)[]): Promise<StoredRow[]> {
    return ((await this.#run(script, keys, args)) as RawRow[]).map(storedRow);
  }
}

/** Id, and the fields `k` (kind), `t` (time), `b` (body) in this order. */
type RawRow = [string, [string, RowKind, string, string, string, string]];

/** Id, kind, time, bytes, 1 if it fits, and the body of a short one that does. */
type RawScanned = [string, RowKind, string, number, number, string | null];

/** Throws `log_damaged` for an entry beside a place: at each start it would be another row of that place. */
function storedRow([id, [, kind, , timeMs, , body]]: RawRow): StoredRow {
  if (!/^\d{1,16}-0$/.test(id))
    throw new SyncError('log_damaged', `record ${id} of the update log has no place of a row`);
  return { seq: Number.parseInt(id, 10), kind, timeMs: Number(timeMs), body };
}

function redisPresence(keeper: SessionKeeper<RedisSession>, { presence, presenceEnds }: RedisKeys): Presence {
  return {
    put: async (instance, text, ttlMs) => {
      await keeper.callAside((session) =>
        session.run(PUT_PRESENCE, [presence, presenceEnds], [instance, text, Math.round(ttlMs)]),
      );
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
