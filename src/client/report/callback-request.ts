import { basicAuthorization } from '../../lib/http-headers.js';
import type { Secret } from '../../lib/log.js';
import { redirectedHeaders } from '../../lib/redirects.js';
import type { CallbackTarget } from './targets.js';

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
 * The request that delivers a report to a target. It carries the client's token where the target is `own`, below the path of
 * its URL, and no authorization is configured: a secured server would reject the default callback otherwise. A target that a
 * peer named (`isConfigured` is false) gets it only for the route of reports, and under no other name: an origin may have
 * other services beside it.
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
 * The request that follows a redirect, with the same method and report: a report that became a GET would be lost
 * unnoticed. Another origin gets none of the configured headers and not our token.
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
  return { server, base: server.pathname.replace(/\/+$/, '') };
}
