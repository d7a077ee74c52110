import { readFile } from 'node:fs/promises';
import type { ConnectionOptions } from 'node:tls';
import type { Client, ClientConfig } from 'pg';
import { errorText, SyncError } from '../../../lib/errors.js';
import { hexId } from '../../../lib/run/hex-id.js';
import type { Durability } from '../log-store.js';
import { conflict, headOf, replaced, rowAfterHead, unavailable, unwritable } from './backbone-errors.js';
import { connectHiding } from './hidden-password.js';
import {
  NOW_MS,
  POSTGRES_FORM,
  type PostgresNames,
  postgresProbe,
  postgresSchema,
  type SchemaPart,
  STATE,
} from './postgres-schema.js';
import type { BackboneState, BackboneTimes, Session, SessionHooks } from './session-keeper.js';

/** Location of a log in Postgres. */
export interface PostgresPlace {
  readonly url: URL;
  /** Without secrets, for messages. */
  readonly what: string;
  readonly names: PostgresNames;
  readonly times: BackboneTimes;
}

const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'];

/**
 * Two connections, so that appends do not queue behind reads; the reading one also listens for
 * NOTIFY. A third one, made when it is needed, is for what the log does not depend on: its locks,
 * waits and failures are its own.
 */
export class PostgresSession implements Session {
  readonly #place: PostgresPlace;
  readonly #writer: Client;
  readonly #reader: Client;
  readonly #config: ClientConfig;
  readonly #parts: readonly SchemaPart[];
  #aside: Promise<Client> | undefined;
  #isEnded = false;

  private constructor(place: PostgresPlace, config: ClientConfig, [writer, reader]: readonly [Client, Client]) {
    this.#place = place;
    this.#config = config;
    this.#writer = writer;
    this.#reader = reader;
    this.#parts = postgresSchema(place.names);
  }

  static connect(place: PostgresPlace, hooks: SessionHooks): Promise<PostgresSession> {
    return connectHiding([place.url], hooks, (own) => PostgresSession.#connect(place, own));
  }

  static async #connect(place: PostgresPlace, hooks: SessionHooks): Promise<PostgresSession> {
    const config = await clientConfig(place);
    const writer = await connectClient(config, hooks.lost);
    try {
      const reader = await connectClient(config, hooks.lost);
      const mail = new MailParts((text) => hooks.mail(text));
      reader.on('notification', ({ payload = '' }) => {
        if (!mail.take(payload)) hooks.hint();
      });
      const session = new PostgresSession(place, config, [writer, reader]);
      await session.read(`LISTEN "${place.names.channel}"`);
      return session;
    } catch (error) {
      destroy(writer);
      throw error;
    }
  }

  read<R extends object>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    return this.#query<R>(this.#reader, text, values);
  }

  write<R extends object>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    return this.#query<R>(this.#writer, text, values);
  }

  /** {@link LogStore.probe}. */
  async probe(epoch: string, bytes: number): Promise<void> {
    try {
      await this.#writer.query(postgresProbe(this.#place.names, epoch, bytes));
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === STATE.probed)) throw this.#failure(error);
    }
  }

  /** Runs a statement that the log does not depend on. */
  async aside<R extends object>(text: string, values: readonly unknown[] = []): Promise<R[]> {
    const client = await this.#asideClient();
    try {
      return await this.#query<R>(client, text, values);
    } catch (error) {
      if (!(error instanceof SyncError)) destroy(client); // the next one gets another
      throw error;
    }
  }

  async look(seq: number): Promise<BackboneState> {
    const { meta, row } = this.#place.names;
    const [state] = await this.read<{
      standby: boolean;
      epoch: string | null;
      head: number | null;
      row_ms: number | null;
      now_ms: number;
    }>(
      `SELECT ${NOW_MS}::float8 AS now_ms, pg_is_in_recovery() AS standby, m.epoch, m.head::float8 AS head,
         (SELECT time_ms::float8 FROM ${row} WHERE seq = $1) AS row_ms
       FROM (SELECT 1) always LEFT JOIN ${meta} m ON true`,
      [seq],
    );
    // After a failover the address may still lead to the old server: reconnect until it leads to
    // the primary.
    if (state === undefined || state.standby) throw new Error('the server is a standby and cannot be written');
    const { epoch, head, row_ms: rowMs, now_ms: nowMs } = state;
    return {
      epoch: epoch ?? undefined,
      head: headOf(this.#place.what, head),
      rowMs: rowMs ?? undefined,
      nowMs,
    };
  }

  async renewEpoch(old: string): Promise<void> {
    await this.write(`UPDATE ${this.#place.names.meta} SET epoch = $2 WHERE epoch = $1`, [old, hexId()]);
  }

  /** Creates the tables if there are none, and returns the epoch. */
  async prepare(): Promise<string> {
    const { names, what } = this.#place;
    const [server] = await this.write<{ encoding: string; standby: boolean }>(
      `SELECT current_setting('server_encoding') AS encoding, pg_is_in_recovery() AS standby`,
    );
    if (server?.standby !== false) throw new Error('the server is a standby and cannot be written');
    if (server.encoding !== 'UTF8') {
      throw new SyncError('config_invalid', `${what}: the database has encoding ${server.encoding}; UTF8 is needed`);
    }
    if ((await this.#missing(this.#writer)).length > 0) await this.#make();
    const form = await this.#form();
    if (form === undefined || form > POSTGRES_FORM) {
      throw new SyncError(
        'log_damaged',
        `${what}: a newer version wrote the update log (form ${form}, known ${POSTGRES_FORM})`,
      );
    }
    const { epoch } = await this.look(0);
    if (epoch === undefined) throw new SyncError('log_damaged', `${what}: ${names.meta} has no row`);
    return epoch;
  }

  /** Checks the settings of the server; the append function itself sets synchronous_commit. */
  async durability(): Promise<Durability> {
    const weak: string[] = [];
    for (const name of ['fsync', 'full_page_writes']) {
      const [row] = await this.read<{ value: string }>('SELECT current_setting($1) AS value', [name]);
      if (row?.value !== 'on') weak.push(`${name} is ${row?.value}`);
    }
    return weak.length === 0 ? { level: 'durable' } : { level: 'weak', reason: `Postgres: ${weak.join(', ')}` };
  }

  async mend(): Promise<void> {
    const client = await this.#asideClient();
    try {
      const missing = await this.#missing(client);
      if (missing.some(({ isLog }) => isLog)) throw replaced(this.#place.what, 'the update log was dropped');
      if (missing.length > 0) await result(client, this.#making(missing));
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /** The notifications of one statement arrive together, in order. */
  async mail(text: string): Promise<void> {
    await this.aside('SELECT pg_notify($1, part) FROM unnest($2::text[]) AS part', [
      this.#place.names.channel,
      mailParts(hexId(), text),
    ]);
  }

  end(): void {
    this.#isEnded = true;
    destroy(this.#writer);
    destroy(this.#reader);
    this.#aside?.then(destroy, () => undefined); // it was not made
  }

  /** The third connection; connects again after it was lost. */
  #asideClient(): Promise<Client> {
    if (this.#aside !== undefined) return this.#aside;
    const forget = (): void => {
      if (this.#aside === connecting) this.#aside = undefined;
    };
    const connecting = this.#connectAside(forget);
    connecting.catch(forget);
    this.#aside = connecting;
    return connecting;
  }

  async #connectAside(onLost: () => void): Promise<Client> {
    const { callMs } = this.#place.times;
    const client = await connectClient({ ...this.#config, query_timeout: callMs }, onLost);
    if (!this.#isEnded) return client;
    destroy(client);
    throw new Error('the connection was closed');
  }

  /** Parts that the database lacks. */
  async #missing(client: Client): Promise<SchemaPart[]> {
    const found = await result<{ name: string }>(
      client,
      `SELECT name FROM unnest($1::text[], $2::boolean[]) AS part (name, is_function)
       WHERE CASE WHEN is_function THEN to_regproc(name)::oid ELSE to_regclass(name)::oid END IS NULL`,
      [this.#parts.map(({ name }) => name), this.#parts.map(({ kind }) => kind === 'function')],
    );
    const names = new Set(found.map(({ name }) => name));
    return this.#parts.filter(({ name }) => names.has(name));
  }

  /**
   * Statements for one call, which is one transaction. With a lock: "IF NOT EXISTS" alone fails
   * when two instances start together.
   */
  #making(parts: readonly SchemaPart[]): string {
    const lock = `SELECT pg_advisory_xact_lock(hashtextextended('${this.#place.names.meta}', 0));`;
    return [lock, ...parts.map(({ sql }) => sql)].join('\n');
  }

  /** Makes the log, or what it lacks. */
  async #make(): Promise<void> {
    const { names, what } = this.#place;
    // Until the end, or the loss, of this connection: what is missing must not change meanwhile.
    await this.write('SELECT pg_advisory_lock(hashtextextended($1, 0))', [names.meta]);
    const missing = await this.#missing(this.#writer);
    const isMissing = (name: string): boolean => missing.some((part) => part.name === name);
    if (isMissing(names.meta) && !isMissing(names.row)) {
      throw new SyncError('log_damaged', `${what}: there is a table ${names.row}, and no ${names.meta}`);
    }
    // What was known of rows that are gone is of another log.
    const forget = isMissing(names.row) && !isMissing(names.meta) ? `DELETE FROM ${names.meta};` : '';
    const first = `INSERT INTO ${names.meta} (form, epoch) VALUES (${POSTGRES_FORM}, '${hexId()}') ON CONFLICT DO NOTHING;`;
    await this.write([this.#making(missing), forget, first].join('\n'));
    await this.write('SELECT pg_advisory_unlock(hashtextextended($1, 0))', [names.meta]);
  }

  async #form(): Promise<number | undefined> {
    const [row] = await this.write<{ form: number }>(`SELECT form FROM ${this.#place.names.meta}`);
    return row?.form;
  }

  async #query<R extends object>(client: Client, text: string, values: readonly unknown[]): Promise<R[]> {
    try {
      return await result<R>(client, text, values);
    } catch (error) {
      if (!MISSING.test(stateOf(error))) throw this.#failure(error);
    }
    // Nothing was done: as if it had been there.
    const { what } = this.#place;
    await this.mend().catch((cause: unknown) => {
      throw cause instanceof SyncError ? cause : unavailable(what, errorText(cause), cause);
    });
    try {
      return await result<R>(client, text, values);
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /**
   * Maps an error response of Postgres to a `SyncError`. Returns all other errors, and those that
   * need a new connection, unchanged.
   */
  #failure(error: unknown): unknown {
    const { what } = this.#place;
    const state = stateOf(error);
    if (state === STATE.otherEpoch)
      return replaced(what, 'the update log was emptied or replaced: it has another epoch');
    if (state === STATE.conflict) return conflict(what);
    if (state === '23505') return rowAfterHead(keyOf(error));
    // Disk full, row too large, and read-only: managed servers become so before their disk is full.
    if (state === '53100' || state === '54000' || state === '25006') return unwritable(what, error);
    // Statement timeout, lock timeout, deadlock, or what may not be done: the connection is still
    // usable.
    if (/^(57014|55P03|40...|42...)$/.test(state)) return unavailable(what, (error as Error).message, error);
    return error;
  }
}

/** SQLSTATEs of a table or function that is not there. */
const MISSING = /^(42P01|42883)$/;

/** The SQLSTATE of an error response; an empty text: it is none. */
function stateOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

/** The key that is taken: of all that is written, only a seq may be (`postgres-schema.ts`). */
function keyOf(error: unknown): string {
  const detail = error instanceof Error && 'detail' in error ? String(error.detail) : '';
  return /=\((\d{1,20})\)/.exec(detail.slice(0, 200))?.[1] ?? 'of the next place';
}

/**
 * Rows of a statement. Only without values it may be several, as one transaction; then there are
 * none.
 */
async function result<R extends object>(client: Client, text: string, values: readonly unknown[] = []): Promise<R[]> {
  // Only the simple protocol (without values) accepts several statements.
  const answer = values.length === 0 ? await client.query(text) : await client.query(text, [...values]);
  return Array.isArray(answer) ? [] : (answer.rows as R[]);
}

async function connectClient(config: ClientConfig, onLost: (error: unknown) => void): Promise<Client> {
  const { default: pg } = await import('pg');
  const client = new pg.Client(config);
  client.on('error', onLost);
  client.on('end', () => onLost(new Error('the connection was closed')));
  try {
    await client.connect();
    return client;
  } catch (error) {
    destroy(client);
    throw error;
  }
}

/** `Client.end()` waits for the server, which may be frozen. */
function destroy(client: Client): void {
  const { stream } = (client as unknown as { connection: { stream: { destroy(): void } } }).connection;
  stream.destroy();
}

async function clientConfig({ url, what, times }: PostgresPlace): Promise<ClientConfig> {
  const query = url.searchParams;
  const part = (text: string): string | undefined => (text === '' ? undefined : decodeURIComponent(text));
  const port = query.get('port') ?? url.port;
  const database = query.get('dbname') ?? part(url.pathname.slice(1));
  const user = query.get('user') ?? part(url.username);
  const password = query.get('password') ?? part(url.password);
  return {
    host: query.get('host') ?? part(url.hostname.replace(/^\[(.*)\]$/, '$1')) ?? 'localhost',
    port: port === '' ? 5432 : Number(port),
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    ...(database === undefined ? {} : { database }),
    ssl: await tlsOf(query, what),
    application_name: 'policysync',
    connectionTimeoutMillis: times.connectMs,
    statement_timeout: times.callMs,
    keepAlive: true,
  };
}

/**
 * As in libpq: `require` encrypts without verification; `verify-full` verifies certificate and host
 * name.
 */
async function tlsOf(query: URLSearchParams, what: string): Promise<false | ConnectionOptions> {
  const mode = query.get('sslmode') ?? 'disable';
  if (!SSL_MODES.includes(mode)) {
    throw new SyncError('config_invalid', `${what}: sslmode must be one of ${SSL_MODES.join(', ')}`);
  }
  if (mode === 'disable' || mode === 'prefer') return false;
  if (mode === 'require') return { rejectUnauthorized: false };
  const file = query.get('sslrootcert');
  const trust = file === null || file === 'system' ? {} : { ca: await authority(file, what) };
  return {
    rejectUnauthorized: true,
    ...trust,
    ...(mode === 'verify-ca' ? { checkServerIdentity: () => undefined } : {}),
  };
}

async function authority(file: string, what: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    throw new SyncError('config_invalid', `${what}: the sslrootcert file cannot be read`, { cause });
  }
}

// Mail goes in parts, since messages of the channel are short: `mail:<id>:<index>:<count>:<text>`.

/** Characters of text in one part: Postgres allows 7,999 bytes in all. */
const PART = 7000;
/** Most parts of one mail. */
const MAX_PARTS = 40;
const FORM = /^mail:([0-9a-f]{1,64}):(\d{1,3}):(\d{1,3}):([\x20-\x7e]*)$/;

/** Splits ASCII text. */
export function mailParts(id: string, text: string): string[] {
  const count = Math.max(1, Math.ceil(text.length / PART));
  if (count > MAX_PARTS) throw new RangeError(`mail of ${text.length} characters is too long`);
  return Array.from({ length: count }, (_, index) => {
    return `mail:${id}:${index}:${count}:${text.slice(index * PART, (index + 1) * PART)}`;
  });
}

/** Joins parts again. Those of one mail come one after the other: a gap loses that mail. */
export class MailParts {
  readonly #onMail: (text: string) => void;
  #open: { readonly id: string; readonly count: number; readonly parts: string[] } | undefined;

  constructor(onMail: (text: string) => void) {
    this.#onMail = onMail;
  }

  /** Takes a message; false: it is none of mail. */
  take(message: string): boolean {
    if (!message.startsWith('mail:')) return false;
    const [, id = '', indexText, countText, part = ''] = FORM.exec(message) ?? [];
    const [index, count] = [Number(indexText), Number(countText)];
    if (index === 0 && count >= 1 && count <= MAX_PARTS) this.#open = { id, count, parts: [] };
    const open = this.#open;
    if (open?.id !== id || open.count !== count || open.parts.length !== index) {
      this.#open = undefined;
      return true;
    }
    open.parts.push(part);
    if (open.parts.length < count) return true;
    this.#open = undefined;
    this.#onMail(open.parts.join(''));
    return true;
  }
}
