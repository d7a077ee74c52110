import * as z from 'zod';
import { SyncError } from '../../lib/errors.js';
import { Secret } from '../../lib/observe/log.js';
import { withoutEnd } from '../../lib/run/without-end.js';
import { shownUrl } from './http-rules.js';
import type { FetchRequest } from './provider.js';

/** The request of an entry to a Postgres database. */
export interface PostgresRequest {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: Secret | undefined;
  readonly database: string;
  readonly sslMode: SslMode;
  /** One SELECT (or VALUES, TABLE, WITH ... SELECT), without a semicolon at its end. */
  readonly query: string;
  readonly shape: PostgresShape;
}

/**
 * The form of the document: a list of all rows, the first row, or rows by the value of a column.
 */
export type PostgresShape =
  | { readonly kind: 'list' }
  | { readonly kind: 'one' }
  | { readonly kind: 'keyed'; readonly column: string };

/**
 * As in libpq. `prefer`, the default: encrypted if the server supports it; `require`: encrypted;
 * `verify-ca` and `verify-full` also verify the server.
 */
const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;
export type SslMode = (typeof SSL_MODES)[number];

/** White space of SQL, and the end of a statement. */
const BLANKS = ' \t\n\v\f\r;';

const text = z.string().min(1);
const port = z.coerce.number().int().min(1).max(65_535);

/** `config` of an entry (opal-protocol P4.8). */
const postgresConfig = z.strictObject({
  fetcher: z.string().nullish(),
  query: text,
  connection_params: z
    .strictObject({
      database: text.nullish(),
      user: text.nullish(),
      password: z.string().nullish(),
      host: text.nullish(),
      port: port.nullish(),
    })
    .nullish(),
  fetch_one: z.boolean().nullish(),
  fetch_key: text.nullish(),
});

/** Accepted parameters of a URL's query, including some without effect. */
const urlQuery = z.strictObject({
  host: text.optional(),
  port: port.optional(),
  user: text.optional(),
  password: z.string().optional(),
  dbname: text.optional(),
  sslmode: z.enum(SSL_MODES).optional(),
  application_name: z.string().optional(),
  connect_timeout: z.string().optional(),
});

/**
 * Parses URL (`postgresql://user:password@host:port/database?sslmode=...`) and `config` of an
 * entry; `connection_params` override the URL. Throws `fetch_config_invalid` with the invalid
 * member, without passwords.
 */
export function postgresRequest({ url, config }: FetchRequest): PostgresRequest {
  const given = checked(postgresConfig, config ?? {}, url, 'config');
  const { connection_params: params } = given;
  const place = placeOf(url);
  const user = params?.user ?? place.user;
  if (user === undefined) throw invalid(url, 'names no user');
  const password = params?.password ?? place.password;
  if (given.fetch_one === true && (given.fetch_key ?? undefined) !== undefined) {
    throw invalid(url, 'config.fetch_key: does not go with fetch_one');
  }
  return {
    host: params?.host ?? place.host ?? 'localhost',
    port: params?.port ?? place.port ?? 5432,
    user,
    password: password === undefined ? undefined : new Secret(password),
    database: params?.database ?? place.database ?? user,
    sslMode: place.sslMode,
    query: withoutEnd(given.query, BLANKS),
    shape:
      given.fetch_one === true
        ? { kind: 'one' }
        : typeof given.fetch_key === 'string'
          ? { kind: 'keyed', column: given.fetch_key }
          : { kind: 'list' },
  };
}

interface Place {
  host: string | undefined;
  port: number | undefined;
  user: string | undefined;
  password: string | undefined;
  database: string | undefined;
  sslMode: SslMode;
}

function placeOf(url: string): Place {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed === undefined || !/^postgres(ql)?:$/.test(parsed.protocol)) {
    throw invalid(url, 'is not a URL of the form postgresql://user:password@host:port/database');
  }
  const query = checked(urlQuery, Object.fromEntries(parsed.searchParams), url, 'the URL');
  return {
    host: query.host ?? part(url, parsed.hostname.replace(/^\[(.*)\]$/, '$1')),
    port: query.port ?? (parsed.port === '' ? undefined : Number(parsed.port)),
    user: query.user ?? part(url, parsed.username),
    password: query.password ?? part(url, parsed.password),
    database: query.dbname ?? part(url, parsed.pathname.replace(/^\//, '')),
    sslMode: query.sslmode ?? 'prefer',
  };
}

/** Decodes a part of a URL; undefined if it is empty. */
function part(url: string, encoded: string): string | undefined {
  try {
    return encoded === '' ? undefined : decodeURIComponent(encoded);
  } catch {
    throw invalid(url, 'has a percent sign that is no escape: write %25');
  }
}

function checked<S extends z.ZodType>(schema: S, value: unknown, url: string, what: string): z.infer<S> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const place = issue === undefined || issue.path.length === 0 ? what : `${what}.${issue.path.join('.')}`;
  throw invalid(url, `${place}: ${issue?.message}`);
}

function invalid(url: string, why: string): SyncError {
  return new SyncError('fetch_config_invalid', `${shownUrl(url)}: ${why}`);
}
