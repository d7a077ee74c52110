import type { Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import type { Client, ClientConfig, QueryConfig } from 'pg';
import { errorText, SyncError } from '../../lib/errors.js';
import type { OutgoingTls } from '../../lib/net/tls.js';
import { timerMs } from '../../lib/run/async.js';
import { requirePackages } from '../../lib/run/optional-package.js';
import { checkedSocket } from '../outbound/connect-checked.js';
import { shownUrl } from './http-rules.js';
import { type BoundedRead, PostgresBounds } from './postgres-bounds.js';
import { type PostgresRequest, postgresRequest } from './postgres-config.js';
import { rowsDocument, selectText } from './postgres-rows.js';
import { PostgresStream, WithoutTls } from './postgres-stream.js';
import type { FetchProvider, Outbound } from './provider.js';

/** Options of {@link createPostgresProvider}. */
export interface PostgresProviderOptions {
  /** Connection timeout. */
  connectTimeoutMs: number;
  /** Timeout of one statement, enforced by the server. */
  statementTimeoutMs: number;
  /** Authorities that `sslmode=verify-ca` and `verify-full` trust. Default: the well-known ones. */
  tls?: OutgoingTls | undefined;
}

/** Each read has a connection, and a database allows 100 by default. */
const READS_PER_DATABASE = 6;

/** Timeout of a graceful end of a connection. */
const END_MS = 1000;

/**
 * Creates a provider that reads documents from Postgres: the rows of one query, in a read-only
 * transaction on a separate connection (opal-protocol P4.8). The database prints the rows as JSON,
 * which preserves numbers of any size. Loads `pg` on the first read, which fails with
 * `package_missing` unless it is installed.
 */
export function createPostgresProvider(options: PostgresProviderOptions): FetchProvider {
  const { connectTimeoutMs, statementTimeoutMs } = options;
  const bounds = new PostgresBounds();
  return {
    names: ['PostgresFetchProvider', 'postgres'],
    host: (request) => {
      const { host, port } = postgresRequest(request);
      return `${host}:${port}`;
    },
    perHost: READS_PER_DATABASE,
    async fetch(wanted, { sink, signal, outbound }) {
      const request = postgresRequest(wanted);
      let session: Session | undefined;
      try {
        session = await openSession(request, { ...options, outbound, bounds }, signal);
        const { client, read } = session;
        await client.query('BEGIN TRANSACTION READ ONLY');
        await client.query(`SET LOCAL statement_timeout = ${Math.ceil(timerMs(statementTimeoutMs))}`);
        await client.query(oneStatement(`DECLARE policysync NO SCROLL CURSOR FOR ${selectText(request)}`));
        const fetchRows = async (count: number): Promise<{ row: string; key: string | null }[]> => {
          read.next();
          const { rows } = await client.query<{ row: string; key: string | null }>(`FETCH ${count} FROM policysync`);
          return rows;
        };
        return { outcome: 'body', body: await sink.take(rowsDocument(request.shape, fetchRows)) };
      } catch (error) {
        signal.throwIfAborted(); // an abort is not a failure of the source
        throw postgresFailure(wanted.url, request, session?.read.excess ?? error, connectTimeoutMs);
      } finally {
        await session?.close();
      }
    },
  };
}

/** A connection that ends at once when the signal aborts. */
interface Session {
  readonly client: Client;
  readonly read: BoundedRead;
  close(): Promise<void>;
}

/** Options of a connection. */
interface SessionOptions extends PostgresProviderOptions {
  readonly outbound: Outbound;
  readonly bounds: PostgresBounds;
}

async function openSession(request: PostgresRequest, options: SessionOptions, signal: AbortSignal): Promise<Session> {
  if (request.sslMode !== 'prefer') return connect(request, tlsOf(request, options), options, signal);
  try {
    return await connect(request, tlsOf(request, options), options, signal);
  } catch (error) {
    if (!(error instanceof WithoutTls)) throw error;
    return connect(request, false, options, signal);
  }
}

async function connect(
  request: PostgresRequest,
  ssl: false | ConnectionOptions,
  { connectTimeoutMs, outbound, bounds }: SessionOptions,
  signal: AbortSignal,
): Promise<Session> {
  requirePackages('the Postgres data source', ['pg']);
  const { default: pg } = await import('pg');
  const { host, port, user, database, password } = request;
  // A Unix socket is on this machine, like the loopback address.
  const addresses = await outbound.addresses({ host: host.startsWith('/') ? '127.0.0.1' : host, port });
  signal.throwIfAborted();
  const socket: Socket = checkedSocket(addresses);
  const config: ClientConfig = {
    host,
    port,
    user,
    database,
    // A function: with an empty text, `pg` would use PGPASSWORD and ~/.pgpass, which do not belong
    // to the entry.
    password: () => password?.reveal() ?? '',
    ssl: false, // the stream is encrypted itself
    application_name: 'policysync',
    connectionTimeoutMillis: timerMs(connectTimeoutMs),
    stream: () => new PostgresStream(socket, ssl),
    // The rows are texts, whatever the database says that they are.
    types: { getTypeParser: () => String },
  };
  const client = new pg.Client(config);
  // A lost connection also fails the current call, which reports it.
  client.on('error', () => undefined);
  const read = bounds.watch(socket);
  const onAbort = (): void => void socket.destroy();
  signal.addEventListener('abort', onAbort, { once: true });
  const close = async (): Promise<void> => {
    signal.removeEventListener('abort', onAbort);
    const timer = setTimeout(onAbort, END_MS);
    try {
      await client.end();
    } finally {
      clearTimeout(timer);
      socket.destroy();
      read.end();
    }
  };
  try {
    await client.connect();
    return { client, read, close };
  } catch (error) {
    socket.destroy();
    signal.removeEventListener('abort', onAbort);
    read.end();
    throw read.excess ?? error;
  }
}

function tlsOf({ sslMode, host, port }: PostgresRequest, { tls }: PostgresProviderOptions): false | ConnectionOptions {
  switch (sslMode) {
    case 'disable':
      return false;
    case 'prefer':
    case 'require':
      // As in libpq: encrypted, without verification of the server.
      return { rejectUnauthorized: false };
    case 'verify-ca':
    case 'verify-full': {
      const context = tls === undefined ? {} : { secureContext: tls.context({ host, port }) };
      const anyName = sslMode === 'verify-ca' ? { checkServerIdentity: () => undefined } : {};
      return { rejectUnauthorized: true, ...context, ...anyName };
    }
  }
}

/**
 * With the extended protocol, a server accepts exactly one statement, whatever the entry's query
 * contains.
 */
function oneStatement(text: string): QueryConfig & { queryMode: 'extended' } {
  return { text, queryMode: 'extended' };
}

/**
 * Transient classes of SQLSTATE: connection, rollback, resources, locks, operator intervention
 * (including a statement timeout), system, internal. All others persist until query, permissions or
 * data change.
 */
const PASSING = ['08', '40', '53', '55', '57', '58', 'XX'];
const SQLSTATE = /^[0-9A-Z]{5}$/;
/** Messages of `pg` for a failed handshake, which have no codes. */
const NO_AGREEMENT = /^SASL|SSL connection/;

/**
 * Returns the error for a failed connection, statement or read. The message names the database and
 * contains no password.
 */
export function postgresFailure(url: string, request: PostgresRequest, cause: unknown, connectMs: number): SyncError {
  const name = shownUrl(url);
  if (cause instanceof SyncError) {
    return new SyncError(cause.code, `${name}: ${cause.message}`, { cause, retryable: cause.retryable });
  }
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const isAnswer = SQLSTATE.test(code);
  let text = errorText(cause) || code;
  if (text === 'timeout expired') text = `no connection within ${connectMs / 1000} s`;
  if (isAnswer) text = `${text} (SQLSTATE ${code})`;
  const password = request.password?.reveal() ?? '';
  // Masks the password in case a server repeats it.
  if (password.length >= 4) text = text.replaceAll(password, '***');
  const retryable = isAnswer ? PASSING.includes(code.slice(0, 2)) : !NO_AGREEMENT.test(text);
  return new SyncError('fetch_failed', `${name}: ${text}`, { cause, retryable });
}
