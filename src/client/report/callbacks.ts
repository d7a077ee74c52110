import { createHash } from 'node:crypto';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import * as z from 'zod';
import { SyncError } from '../../lib/errors.js';
import { basicAuthorization, redirectedHeaders } from '../../lib/net/http-response.js';
import type { Secret } from '../../lib/observe/log.js';
import { withoutEnd } from '../../lib/run/without-end.js';
import { callbackItem, FETCH_METHODS, type FetcherConfig, fetcherConfig, isHttpFetcher } from '../../wire/data.js';
import { pythonJson } from './report-hash.js';

/**
 * The configuration of a callback, complete: member names, order and defaults are OPAL's
 * (opal-protocol P2.6), except that the method is POST wherever none is named (specification
 * callback-config.pair; OPAL sends GET).
 */
export const completeCallbackConfig = z.object({
  fetcher: z.string().nullable(),
  headers: z.record(z.string(), z.string()).nullable(),
  is_json: z.boolean(),
  process_data: z.boolean(),
  method: z.enum(FETCH_METHODS),
  data: z.null().describe('The body of a callback is the report'),
});
export type CallbackConfig = z.infer<typeof completeCallbackConfig>;

/** Where reports go, and how. */
export interface CallbackTarget {
  readonly url: string;
  readonly config: CallbackConfig;
}

/** The URL of a callback. */
export const callbackUrl = z
  .string()
  .max(2048)
  .refine((text) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol), 'must be an http or https URL');

/** A configuration that a callback can be called with. */
export const callbackConfig = fetcherConfig
  .refine(({ fetcher }) => isHttpFetcher(fetcher), {
    path: ['fetcher'],
    message: 'callbacks are called over HTTP: leave it out',
  })
  .refine(({ headers }) => Object.entries(headers ?? {}).every(isSendable), {
    path: ['headers'],
    message: 'a name or value is not one that HTTP can carry',
  });

/** SYNC_DEFAULT_UPDATE_CALLBACKS (specification "UpdateCallbackConfig"). */
export const configuredCallbacks = z.strictObject({
  callbacks: z.array(z.union([callbackUrl, z.tuple([callbackUrl, callbackConfig])])),
});

/** SYNC_DEFAULT_UPDATE_CALLBACK_CONFIG where it is not set. */
export const DEFAULT_CALLBACK_CONFIG: CallbackConfig = {
  fetcher: null,
  headers: { 'content-type': 'application/json' },
  is_json: true,
  process_data: false,
  method: 'post',
  data: null,
};

/** A configuration that somebody gave, completed. */
export function completeConfig(given: FetcherConfig): CallbackConfig {
  return {
    fetcher: given.fetcher ?? null,
    headers: given.headers ?? null,
    is_json: given.is_json !== false,
    process_data: given.process_data !== false,
    method: given.method ?? 'post',
    data: null,
  };
}

/**
 * The target of one item: a plain URL takes the default configuration, a pair exactly its own.
 * Undefined for an item that no report can be sent to: a peer may have sent anything, and the
 * update itself must not suffer.
 */
export function readTarget(item: unknown, defaults: CallbackConfig): CallbackTarget | undefined {
  const parsed = callbackItem.safeParse(item);
  if (!parsed.success) return undefined;
  const [url, given] = typeof parsed.data === 'string' ? [parsed.data, undefined] : parsed.data;
  const isUsable =
    callbackUrl.safeParse(url).success && (given === undefined || callbackConfig.safeParse(given).success);
  if (!isUsable) return undefined;
  return { url, config: given === undefined ? defaults : completeConfig(given) };
}

/**
 * What identifies a target (opal-protocol P2.6): hex SHA-256 of its URL and of its configuration as
 * Python prints it.
 */
export function targetKey({ url, config }: CallbackTarget): string {
  const { fetcher, headers, is_json, process_data, method, data } = config;
  const printed = pythonJson(JSON.stringify({ fetcher, headers, is_json, process_data, method, data }));
  return createHash('sha256')
    .update(url + printed)
    .digest('hex');
}

function isSendable([name, value]: [string, string]): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return true;
  } catch {
    return false; // the schema's message says it, without the value
  }
}

/** A registered callback. */
export interface CallbackEntry extends CallbackTarget {
  readonly key: string;
}

/** Each of them receives every report. */
const MAX_CALLBACKS = 100;

/**
 * The callbacks that receive every report: the configured ones, and those registered since. In
 * memory only.
 */
export class CallbackRegistry {
  readonly #entries = new Map<string, CallbackEntry>();

  constructor(configured: readonly CallbackTarget[]) {
    for (const target of configured) this.put(target);
  }

  all(): readonly CallbackEntry[] {
    return [...this.#entries.values()];
  }

  get(key: string): CallbackEntry | undefined {
    return this.#entries.get(key);
  }

  /**
   * Registers a target and returns it with its key. The default key is {@link targetKey}, so that
   * the same target is never called twice; under another key it replaces that twin, and whatever
   * had the key (opal-protocol P2.6). Throws `callback_limit`.
   */
  put(target: CallbackTarget, key?: string): CallbackEntry {
    const automatic = targetKey(target);
    const entry: CallbackEntry = { key: key ?? automatic, url: target.url, config: target.config };
    const isNew = !this.#entries.has(entry.key) && !this.#entries.has(automatic);
    if (isNew && this.#entries.size >= MAX_CALLBACKS) {
      throw new SyncError('callback_limit', `there are ${MAX_CALLBACKS} callbacks already: delete one first`);
    }
    if (entry.key !== automatic) this.#entries.delete(automatic);
    this.#entries.set(entry.key, entry);
    return entry;
  }

  /** False when there was none. */
  delete(key: string): boolean {
    return this.#entries.delete(key);
  }
}

/** One HTTP request to a callback. */
export interface CallbackRequest {
  readonly url: URL;
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'HEAD' | 'DELETE';
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Our own server, whose callback route asks for the token that the client has from it. */
export interface OwnServer {
  readonly url: string;
  readonly token: Secret | undefined;
}

/** They belong to the connection, or are computed from the body. */
const NOT_CONFIGURABLE = ['content-length', 'transfer-encoding', 'connection', 'keep-alive', 'upgrade', 'expect'];
const OWN_HEADERS = { accept: '*/*', 'user-agent': 'policysync' };

/** Route of a PolicySync server for reports. */
const REPORT_PATH = '/data/callback_report';

/**
 * The request that delivers a report to a target. It carries the client's token where the target is
 * `own`, below the path of its URL, and no authorization is configured: a secured server would
 * reject the default callback otherwise. A target that a peer named (`isConfigured` is false) gets
 * it only for the route of reports, and under no other name: an origin may have other services
 * beside it.
 */
export function callbackRequest(
  { url, config }: CallbackTarget,
  report: string,
  own: OwnServer,
  isConfigured: boolean,
): CallbackRequest {
  const place = new URL(url);
  const headers: Record<string, string> = { ...OWN_HEADERS, 'content-type': 'application/json' };
  const basic = basicAuthorization(place);
  if (basic !== undefined) headers.authorization = basic;
  for (const [name, value] of Object.entries(config.headers ?? {})) headers[name.toLowerCase()] = value;
  for (const name of NOT_CONFIGURABLE) delete headers[name];
  const getsToken = isConfigured ? isOwn(place, own.url) : headers.host === undefined && isReportRoute(place, own.url);
  if (headers.authorization === undefined && own.token !== undefined && getsToken) {
    headers.authorization = `Bearer ${own.token.reveal()}`;
  }
  place.username = '';
  place.password = '';
  place.hash = '';
  return { url: place, method: config.method.toUpperCase() as CallbackRequest['method'], headers, body: report };
}

/**
 * The request that follows a redirect, with the same method and report: a report that became a GET
 * would be lost unnoticed. Another origin gets none of the configured headers and not our token.
 */
export function redirected(request: CallbackRequest, to: URL): CallbackRequest {
  const url = new URL(to);
  url.username = '';
  url.password = '';
  return { ...request, url, headers: redirectedHeaders(request, to, OWN_HEADERS) };
}

function isOwn(place: URL, serverUrl: string): boolean {
  const { server, base } = placeOf(serverUrl);
  return place.origin === server.origin && (place.pathname === base || place.pathname.startsWith(`${base}/`));
}

function isReportRoute(place: URL, serverUrl: string): boolean {
  const { server, base } = placeOf(serverUrl);
  return place.origin === server.origin && place.pathname === `${base}${REPORT_PATH}`;
}

function placeOf(serverUrl: string): { server: URL; base: string } {
  const server = new URL(serverUrl.replace(/^ws/i, 'http'));
  return { server, base: withoutEnd(server.pathname, '/') };
}
