import { createHash } from 'node:crypto';
import type { Redis, RedisOptions } from 'ioredis';
import { errorText, SyncError } from '../../../lib/errors.js';
import { hexId } from '../../../lib/run/hex-id.js';
import type { Durability } from '../log-store.js';
import { conflict, headOf, replaced, rowAfterHead, unavailable, unwritable } from './backbone-errors.js';
import { connectHiding } from './hidden-password.js';
import { ERROR_PREFIX, LOOK, OPEN, REDIS_FORM, RENEW, SEND_MAIL } from './redis-scripts.js';
import type { BackboneState, BackboneTimes, Session, SessionHooks } from './session-keeper.js';

/** Location of a log in Redis. */
export interface RedisPlace {
  readonly url: URL;
  /** Without secrets, for messages. */
  readonly what: string;
  readonly keys: RedisKeys;
  readonly times: BackboneTimes;
}

/** Keys of one log. The braces (a hash tag) keep them on one node of a cluster. */
export interface RedisKeys {
  readonly meta: string;
  readonly log: string;
  readonly retired: string;
  readonly dedup: string;
  readonly dedupOrder: string;
  readonly presence: string;
  readonly presenceEnds: string;
  /** Followed by the instance: its parts. */
  readonly presenceParts: string;
  readonly mail: string;
}

export function redisKeys(name: string): RedisKeys {
  const key = (part: string): string => `{${name}}:${part}`;
  return {
    meta: key('meta'),
    log: key('log'),
    retired: key('retired'),
    dedup: key('dedup'),
    dedupOrder: key('dedup-order'),
    presence: key('presence'),
    presenceEnds: key('presence-ends'),
    presenceParts: key('presence-parts:'),
    mail: key('mail'),
  };
}

/** Two connections: one for commands, one for the blocking wait for rows. */
export class RedisSession implements Session {
  readonly #place: RedisPlace;
  readonly #client: Redis;
  readonly #waiter: Redis;
  #ended = false;

  private constructor(place: RedisPlace, client: Redis, waiter: Redis) {
    this.#place = place;
    this.#client = client;
    this.#waiter = waiter;
  }

  static connect(place: RedisPlace, hooks: SessionHooks): Promise<RedisSession> {
    return connectHiding([place.url], hooks, (own) => RedisSession.#connect(place, own));
  }

  static async #connect(place: RedisPlace, hooks: SessionHooks): Promise<RedisSession> {
    const client = await connectClient(place, hooks);
    try {
      await refuseReplica(client);
      const session = new RedisSession(place, client, await connectClient(place, hooks));
      session.#wake(hooks).catch((error: unknown) => hooks.lost(error));
      return session;
    } catch (error) {
      client.disconnect();
      throw error;
    }
  }

  /** Runs a script of `redis-scripts.ts`. */
  async run(script: string, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    const rest = [String(keys.length), ...keys, ...args.map(String)];
    try {
      return await this.#client.call('EVALSHA', shaOf(script), ...rest);
    } catch (error) {
      if (!errorText(error).startsWith('NOSCRIPT')) throw this.#failure(error);
    }
    try {
      return await this.#client.call('EVAL', script, ...rest);
    } catch (error) {
      throw this.#failure(error);
    }
  }

  async look(seq: number): Promise<BackboneState> {
    const { meta, log } = this.#place.keys;
    const [epoch, head, nowMs, rowMs] = (await this.run(LOOK, [meta, log], [Math.max(seq, 1)])) as (
      | string
      | null
      | undefined
    )[];
    return {
      epoch: epoch ?? undefined,
      head: headOf(this.#place.what, head),
      rowMs: rowMs === undefined || rowMs === null ? undefined : Number(rowMs),
      nowMs: Number(nowMs),
    };
  }

  async renewEpoch(old: string): Promise<void> {
    await this.run(RENEW, [this.#place.keys.meta], [old, hexId()]);
  }

  /** Creates the log if there is none, and returns its epoch. */
  async prepare(): Promise<string> {
    const { keys, what } = this.#place;
    const [epoch, form] = (await this.run(OPEN, [keys.meta, keys.log], [hexId()])) as [string, string];
    if (Number(form) !== REDIS_FORM) {
      const which = Number(form) > REDIS_FORM ? 'a newer' : 'an older';
      throw new SyncError(
        'log_damaged',
        `${what}: ${which} version wrote the update log (form ${form}, known ${REDIS_FORM})`,
      );
    }
    return epoch;
  }

  /** Whether an acknowledged append survives a crash, and memory pressure. */
  async durability(): Promise<Durability> {
    const wanted = [
      ['appendonly', 'yes'],
      ['appendfsync', 'always'],
      ['no-appendfsync-on-rewrite', 'no'],
      ['maxmemory-policy', 'noeviction'],
    ] as const;
    const weak: string[] = [];
    for (const [name, value] of wanted) {
      let found: unknown;
      try {
        found = ((await this.#client.call('CONFIG', 'GET', name)) as unknown[])[1];
      } catch (error) {
        // Managed services forbid the command; any other failure shows in the next call.
        return { level: 'weak', reason: `Redis: ${name} cannot be verified (${errorText(error)})` };
      }
      if (found !== value) weak.push(`${name} is ${String(found)}, not ${value}`);
    }
    weak.push(...(await this.#replayProblem()));
    return weak.length === 0 ? { level: 'durable' } : { level: 'weak', reason: `Redis: ${weak.join(', ')}` };
  }

  /**
   * When Redis replays its append-only file, it checks transactions (a script's writes are one)
   * against the permissions of the user `default`, and drops them silently if it has none:
   * redis/redis#14541, valkey-io/valkey#3983. Fixed versions cannot be detected.
   */
  async #replayProblem(): Promise<string[]> {
    let reply: unknown[];
    try {
      reply = (await this.#client.call('ACL', 'GETUSER', 'default')) as unknown[];
    } catch (error) {
      const text = errorText(error);
      // Before version 6 Redis had no users.
      return /unknown command/i.test(text)
        ? []
        : [`the permissions of the user "default" cannot be verified (${text})`];
    }
    const field = (name: string): string => String(reply[reply.indexOf(name) + 1]);
    if (field('commands') === '+@all' && /^~?\*$/.test(field('keys'))) return [];
    return [
      'the user "default" does not have all permissions, so a restart can drop written data (redis/redis#14541): ' +
        'set it to "off ~* &* +@all"',
    ];
  }

  /** Redis makes keys as they are written, and {@link RedisSession.#wake} looks after mail. */
  mend(): Promise<void> {
    return Promise.resolve();
  }

  async mail(text: string): Promise<void> {
    await this.run(SEND_MAIL, [this.#place.keys.mail], [text]);
  }

  end(): void {
    this.#ended = true;
    this.#client.disconnect();
    this.#waiter.disconnect();
  }

  /**
   * Waits for mail, and for rows after the head, in a loop, until {@link end}. Rejects when the
   * connection fails.
   */
  async #wake(hooks: SessionHooks): Promise<void> {
    const { keys, times } = this.#place;
    let mailAt: string | undefined;
    let rowAt = 0;
    while (!this.#ended) {
      mailAt ??= await this.#lastMail();
      // A row that somebody adds without moving the head is seen once.
      const head = Number((await this.#waiter.hget(keys.meta, 'head')) ?? 0);
      const from = Number.isSafeInteger(head) && head >= 0 ? `${Math.max(head, rowAt)}-0` : '$';
      hooks.hint(); // rows that arrived between two waits
      const streams = mailAt === undefined ? [keys.log, from] : [keys.log, keys.mail, from, mailAt];
      try {
        const found = await this.#waiter.xread('COUNT', 1, 'BLOCK', times.lookMs, 'STREAMS', ...streams);
        for (const [id] of entriesOf(found, keys.log))
          rowAt = Math.max(rowAt, Number.parseInt(id, 10) + (/-0$/.test(id) ? 0 : 1));
        for (const [id, text] of mailOf(found, keys.mail)) {
          mailAt = id;
          hooks.mail(text);
        }
      } catch (error) {
        if (mailAt === undefined || !CLOSED.test(errorText(error))) throw error;
        mailAt = undefined;
      }
    }
  }

  /**
   * Id of the last mail; undefined: its key is closed to this user, who does without as long as it
   * is.
   */
  async #lastMail(): Promise<string | undefined> {
    try {
      const [last] = await this.#waiter.xrevrange(this.#place.keys.mail, '+', '-', 'COUNT', 1);
      return last?.[0] ?? '0-0';
    } catch (error) {
      if (CLOSED.test(errorText(error))) return undefined;
      throw error;
    }
  }

  /**
   * Maps an error reply of Redis to a `SyncError`. Returns all other errors, and those that need a
   * new connection, unchanged.
   */
  #failure(error: unknown): unknown {
    const { what } = this.#place;
    const text = errorText(error);
    if (text.startsWith(ERROR_PREFIX.otherEpoch)) return replaced(what, text.slice(ERROR_PREFIX.otherEpoch.length + 1));
    if (text.startsWith(ERROR_PREFIX.conflict)) return conflict(what);
    if (text.startsWith(ERROR_PREFIX.afterHead)) return rowAfterHead(text.slice(ERROR_PREFIX.afterHead.length + 1));
    if (text.startsWith(ERROR_PREFIX.damaged)) return new SyncError('log_damaged', `${what}: ${text}`);
    if (/^(OOM|MISCONF)\b/.test(text)) return unwritable(what, error);
    // The connection is still usable.
    if (/^(BUSY|TRYAGAIN|NOREPLICAS)\b/.test(text) || CLOSED.test(text)) return unavailable(what, text, error);
    return error;
  }
}

/** A reply of XREAD: of each stream its entries. */
type StreamReply = readonly (readonly [string, readonly (readonly [string, readonly string[]])[]])[] | null;

function entriesOf(reply: StreamReply, key: string): readonly (readonly [string, readonly string[]])[] {
  return reply?.find(([stream]) => stream === key)?.[1] ?? [];
}

/** Ids and texts of the mail in a reply. */
function mailOf(reply: StreamReply, key: string): [string, string][] {
  return entriesOf(reply, key).map(([id, [, text = '']]) => [id, text]);
}

/** Errors of a key that is closed to this user, or in use by others. */
const CLOSED = /NOPERM|No permissions|WRONGTYPE/;

const SHAS = new Map<string, string>();

function shaOf(script: string): string {
  const known = SHAS.get(script) ?? createHash('sha1').update(script).digest('hex');
  SHAS.set(script, known);
  return known;
}

async function connectClient({ url, times }: RedisPlace, hooks: SessionHooks): Promise<Redis> {
  const { Redis } = await import('ioredis');
  const options = {
    lazyConnect: true,
    connectTimeout: times.connectMs,
    connectionName: 'policysync',
    // The keeper reconnects. Nothing is resent: an append is not idempotent.
    retryStrategy: () => null,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: null,
  } satisfies RedisOptions;
  const client = new Redis(url.href, options);
  let first: unknown;
  client.on('error', (error) => {
    first ??= error;
    hooks.lost(error);
  });
  client.on('end', () => hooks.lost(new Error('the connection was closed')));
  // `connectTimeout` covers the TCP connection only: a frozen server accepts it, and never replies
  // to the first commands of ioredis.
  const timer = setTimeout(() => client.disconnect(), times.connectMs).unref();
  try {
    await client.connect();
    return client;
  } catch (error) {
    client.disconnect();
    throw first ?? error; // `error` is only "Connection is closed."
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Throws if the server is a replica: after a failover the address may still lead to the old
 * primary.
 */
async function refuseReplica(client: Redis): Promise<void> {
  let role: unknown;
  try {
    [role] = (await client.call('ROLE')) as unknown[];
  } catch {
    return; // a managed service forbids the command: an append to a replica fails
  }
  if (role === 'slave') throw new Error('the server is a replica and cannot be written');
}
