import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { type Caller, type GuardedAudience, isInsider, isOneOf } from '../auth/caller.js';
import type { PageSessions } from '../auth/page-session.js';
import { SyncError } from '../lib/errors.js';
import { isLoopbackHost } from './host-name.js';

/**
 * Names of the cookie. A browser takes the first over TLS only, from this host only, and for all of
 * it.
 */
const SECURE_NAME = '__Host-policysync';
const PLAIN_NAME = 'policysync';
/** What the page sends with each request that changes something: no form of another page can. */
const PAGE_HEADER = 'x-sync-ui';
/** Methods that change nothing. */
const READING: ReadonlySet<string> = new Set(['GET', 'HEAD']);

type Request = Pick<IncomingMessage, 'headers' | 'method' | 'socket'>;

/**
 * Who is signed in to the live page, by the cookie of a request; undefined without one. Throws
 * `unauthorized` for a session that has ended, and `origin_refused` for a request that another page
 * may have caused.
 */
export function pageCaller(request: Request, sessions: PageSessions): Caller | undefined {
  const value = sessionCookie(request);
  if (value === undefined) return undefined;
  refuseOtherPages(request);
  return sessions.open(value);
}

/**
 * Throws `session_not_permitted` (403) if the route does not take the session: a listener reads
 * only. (A 401 would say that nobody is signed in.)
 */
export function authorizeSession(
  { access, limited }: GuardedAudience,
  caller: Caller,
  method: string | undefined,
): void {
  const { peerType } = caller;
  const isReader = peerType === 'listener';
  if (isReader && !READING.has(method ?? '')) {
    throw new SyncError('session_not_permitted', 'This session is of a listener token, which reads only.');
  }
  if (access !== 'token' && !isOneOf(access, caller)) {
    const text = `This session is of a ${peerType} token; that needs one of kind ${access.join(' or ')}.`;
    throw new SyncError('session_not_permitted', text);
  }
  if (limited !== 'nothing' || isInsider(access, caller)) return;
  throw new SyncError('session_not_permitted', 'This session is of a token with limits, and that concerns all topics.');
}

/**
 * Throws `origin_refused` (403) for a request that a page of another origin may have caused. A
 * browser says where a request comes from: by `Sec-Fetch-Site` at https and loopback addresses, by
 * `Origin` in all requests that change something. Pages at another port of this host count as
 * others, although a browser sends them the same cookies. A request that changes something must
 * also have a header that only a script of this origin can set.
 */
export function refuseOtherPages({ headers, method }: Pick<Request, 'headers' | 'method'>): void {
  if (READING.has(method ?? '') ? mayRead(headers) : mayChange(headers)) return;
  const text =
    'the session of the live page counts for requests of that page only: send a token in `Authorization` instead';
  throw new SyncError('origin_refused', text);
}

function mayRead(headers: IncomingHttpHeaders): boolean {
  const { origin } = headers;
  const site = headers['sec-fetch-site'];
  // `none`: the address was typed.
  return (origin === undefined || isOwn(headers)) && (site === undefined || site === 'same-origin' || site === 'none');
}

function mayChange(headers: IncomingHttpHeaders): boolean {
  if (headers[PAGE_HEADER] !== '1') return false;
  const site = headers['sec-fetch-site'];
  return site === undefined
    ? isOwn(headers)
    : site === 'same-origin' && (headers.origin === undefined || isOwn(headers));
}

function isOwn({ origin, host }: IncomingHttpHeaders): boolean {
  return origin !== undefined && URL.canParse(origin) && new URL(origin).host === host?.toLowerCase();
}

/**
 * The value of the cookie. A plain one does not count over TLS, with us or with a proxy: another
 * server of the domain may have set it.
 */
function sessionCookie(request: Request): string | undefined {
  const cookies = (request.headers.cookie ?? '').split(';').map((item) => item.trim().split('=', 2));
  const named = (wanted: string): string | undefined => cookies.find(([name]) => name === wanted)?.[1];
  return named(SECURE_NAME) ?? (isTls(request) || isBehindTls(request.headers) ? undefined : named(PLAIN_NAME));
}

/**
 * Whether a browser speaks TLS with a proxy before us: it sends `Sec-Fetch-Site` only there, and to
 * loopback addresses.
 */
function isBehindTls(headers: IncomingHttpHeaders): boolean {
  return headers['sec-fetch-site'] !== undefined && !isLoopbackHost(headers.host);
}

function isTls({ socket }: Pick<Request, 'socket'>): boolean {
  return 'encrypted' in socket;
}

/**
 * The header `Set-Cookie` of a new session. The cookie is for TLS alone where the browser speaks
 * TLS: with us, or, as its `Origin` says, with a proxy before us.
 */
export function sessionSetCookie(request: Request, value: string, maxAgeSeconds: number): string {
  const isSecure = isTls(request) || request.headers.origin?.startsWith('https:') === true;
  return setCookie(isSecure ? SECURE_NAME : PLAIN_NAME, value, maxAgeSeconds);
}

/** The headers `Set-Cookie` that have a browser forget the session. */
export function sessionClearCookies(): string[] {
  return [SECURE_NAME, PLAIN_NAME].map((name) => setCookie(name, '', 0));
}

function setCookie(name: string, value: string, maxAgeSeconds: number): string {
  const secure = name === SECURE_NAME ? '; Secure' : '';
  return `${name}=${value}; Path=/; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict${secure}`;
}
