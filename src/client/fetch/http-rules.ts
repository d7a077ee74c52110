import { firstIssue, SyncError } from '../../lib/errors.js';
import { isRecord } from '../../lib/json/is-record.js';
import { basicAuthorization, type HeaderValues, headerText, redirectedHeaders } from '../../lib/net/http-response.js';
import { redactUrl } from '../../lib/observe/log.js';
import { type FETCH_METHODS, type FetcherConfig, fetcherConfig } from '../../wire/data.js';
import type { FetchRequest, Validators } from './provider.js';

/**
 * Pure rules of {@link HttpProvider}: the requests of a read, and the interpretation of
 * responses.
 */

/** One HTTP request of a read; a read has several if the source redirects. */
export interface Hop {
  url: URL;
  method: Uppercase<(typeof FETCH_METHODS)[number]>;
  /** Names in lower case. */
  headers: Readonly<Record<string, string>>;
  body?: string;
  /** True while validators of the caller's copy are among the headers. */
  conditional: boolean;
}

/** Headers of every read. */
const OWN_HEADERS = {
  accept: 'application/json, */*;q=0.5',
  'accept-encoding': 'gzip, br',
  'cache-control': 'no-cache',
  'user-agent': 'policysync',
};
const BODY_HEADERS = ['content-type', 'content-encoding', 'content-language', 'content-location'];
/** Validators belong to one URL; another may have different content with the same ones. */
const VALIDATOR_HEADERS = ['if-none-match', 'if-modified-since'];

/**
 * Returns the first request of a read. Throws `fetch_failed`, not retryable, for a URL that is not
 * http or https, and `fetch_config_invalid` for an invalid configuration. Differs from OPAL
 * (opal-protocol P4.8): sends an object in `data` as JSON unless a header selects a form, and makes
 * caches revalidate, because an update announces a newer version.
 */
export function firstHop({ url, config: given, previous }: FetchRequest): Hop {
  const config = httpConfigOf(url, given);
  const method = (config.method ?? 'get').toUpperCase() as Hop['method'];
  const own = lowerCased(config.headers ?? {});
  delete own['content-length']; // computed from the body
  const headers: Record<string, string> = { ...OWN_HEADERS, ...own };
  const hop: Hop = { url: parseHttpUrl(url), method, headers, conditional: false };
  const data = config.data;
  if (data !== undefined && data !== null) {
    headers['content-type'] ??= typeof data === 'string' ? 'text/plain; charset=utf-8' : 'application/json';
    hop.body = bodyText(data, headers['content-type']);
  }
  if (method === 'GET' && previous?.etag !== undefined) headers['if-none-match'] = previous.etag;
  if (method === 'GET' && previous?.lastModified !== undefined) headers['if-modified-since'] = previous.lastModified;
  hop.conditional = method === 'GET' && (previous?.etag !== undefined || previous?.lastModified !== undefined);
  return withUserInfo(hop);
}

/** Parses the `config` of an HTTP entry. Throws `fetch_config_invalid` with the invalid member. */
export function httpConfigOf(url: string, config: FetchRequest['config']): FetcherConfig {
  if (config === undefined || config === null) return {};
  const parsed = fetcherConfig.safeParse(config);
  if (parsed.success) return parsed.data;
  throw new SyncError('fetch_config_invalid', `${shownUrl(url)}: config.${firstIssue(parsed.error)}`);
}

/**
 * Sends a string unchanged, an object as a form if the header selects that (as OPAL always does),
 * everything else as JSON.
 */
function bodyText(data: unknown, contentType: string): string {
  if (typeof data === 'string') return data;
  const isForm = contentType.toLowerCase().startsWith('application/x-www-form-urlencoded');
  if (!isForm || !isRecord(data)) return JSON.stringify(data);
  const pairs = Object.entries(data).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each: unknown): [string, string] => [
      name,
      typeof each === 'object' && each !== null ? JSON.stringify(each) : String(each),
    ]),
  );
  return new URLSearchParams(pairs).toString();
}

/**
 * Returns the request after a redirect: 303 changes to GET, and so does a POST after 301 and 302
 * (RFC 9110 section 15.4). Drops validators, which belong to the first URL.
 */
export function nextHop(hop: Hop, to: URL, status: number, ownHeaders: Hop['headers'] = OWN_HEADERS): Hop {
  const toGet =
    (status === 303 && hop.method !== 'HEAD') || ((status === 301 || status === 302) && hop.method === 'POST');
  const drop = [...VALIDATOR_HEADERS, ...(toGet ? BODY_HEADERS : [])];
  const kept = Object.entries(redirectedHeaders(hop, to, ownHeaders)).filter(([name]) => !drop.includes(name));
  const next: Hop = {
    url: to,
    method: toGet ? 'GET' : hop.method,
    headers: Object.fromEntries(kept),
    conditional: false,
  };
  if (!toGet && hop.body !== undefined) next.body = hop.body;
  return withUserInfo(next);
}

/**
 * Returns the validators for the next request. None for a document that changed less than a minute
 * before it was sent: times have a resolution of a second, many file servers derive entity tags
 * from them, and so a second change within that second would be missed (RFC 9110 section 8.8.2.2;
 * the minute, from RFC 7232, covers clock differences).
 */
export function validatorsOf(headers: HeaderValues): Validators {
  const etag = headerText(headers.etag);
  const lastModified = headerText(headers['last-modified']);
  const changed = Date.parse(lastModified ?? '');
  const sent = Date.parse(headerText(headers.date) ?? '');
  if (lastModified === undefined) return etag === undefined ? {} : { etag };
  if (!(sent - changed >= 60_000)) return {};
  return etag === undefined ? { lastModified } : { etag, lastModified };
}

/** Whether a status is transient. */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 425 || status === 429 || status >= 500;
}

/** Returns a URL for messages, without credentials and query, even if it is invalid. */
export function shownUrl(url: string): string {
  if (URL.canParse(url)) return redactUrl(url);
  const [place = ''] = redactUrl(url).split(/[?#]/);
  return JSON.stringify(place.replace(/^[^/]*@/, '***@').slice(0, 200));
}

function parseHttpUrl(text: string): URL {
  if (text === '') throw refused(text, 'there is no URL');
  if (!URL.canParse(text)) throw refused(text, 'this is not a URL');
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw refused(url.href, `only http and https are read, not ${url.protocol.slice(0, -1)}`);
  }
  return url;
}

/** Moves user name and password of the URL to the `authorization` header. */
function withUserInfo(hop: Hop): Hop {
  const authorization = basicAuthorization(hop.url);
  if (authorization === undefined) return hop;
  const url = new URL(hop.url);
  url.username = '';
  url.password = '';
  return { ...hop, url, headers: { authorization, ...hop.headers } };
}

function lowerCased(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

function refused(url: string, why: string): SyncError {
  return new SyncError('fetch_failed', url === '' ? why : `${shownUrl(url)}: ${why}`);
}
