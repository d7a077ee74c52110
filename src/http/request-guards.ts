import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isIP, Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { authorize } from '../auth/authorize.js';
import { ANONYMOUS, type Authenticator, type Caller, isInsider } from '../auth/caller.js';
import type { PageSessions } from '../auth/page-session.js';
import { SyncError } from '../lib/errors.js';
import { networkOf } from '../lib/net/address.js';
import { isLoopback } from '../lib/net/proxy.js';
import type { Logger } from '../lib/observe/log.js';
import type { RateLimit } from '../lib/run/rate.js';
import type { ClientAddresses } from './address-limits.js';
import { hostName } from './host-name.js';
import { authorizeSession, pageCaller } from './page-caller.js';

/** Most `Host` headers that are cached. */
const MAX_TAKEN = 100;

/** Throws `host_refused` (421) for a request under a foreign name. */
export type HostCheck = (request: Asked) => void;

/** What is looked at of a request. */
type Asked = Pick<IncomingMessage, 'headers' | 'url'> & { readonly socket?: Pick<Socket, 'localAddress'> };

/**
 * A web page can point its own name at 127.0.0.1 after it was loaded (DNS rebinding); for the
 * browser we are then its origin. It cannot change the name in its requests. So a listener on
 * loopback accepts loopback names and `names` alone (SYNC_ALLOWED_HOSTS; `.example` for all below
 * it). Another listener accepts every name unless some are set. A request without a name (HTTP/1.0)
 * comes from no browser. Where `host` is a name, or an address in a spelling that only the system
 * reads, the address at which a request arrived decides.
 */
export function createHostCheck({ host, names }: { host: string; names: readonly string[] }): HostCheck {
  const bound = hostName(host);
  const listensOnLoopback = isLoopback(bound);
  const arrivedOnLoopback = ({ socket }: Asked): boolean =>
    isIP(bound) === 0 && isLoopback(hostName(socket?.localAddress ?? ''));
  const wanted = names.map((name) => name.toLowerCase());
  const isOurs = (name: string): boolean =>
    isLoopback(name) || wanted.some((one) => (one.startsWith('.') ? name.endsWith(one) : name === hostName(one)));
  /** Accepted `Host` headers: nearly all callers send one of a few. */
  const taken = new Set<string>();
  return (request) => {
    if (!listensOnLoopback && names.length === 0 && !arrivedOnLoopback(request)) return;
    const { headers, url = '' } = request;
    const { host: header = '' } = headers;
    if (url.startsWith('/') && taken.has(header)) return;
    const asked = [headers.host, /^https?:\/\/(?:[^/@]*@)?([^/?#]*)/i.exec(url)?.[1]];
    for (const name of asked) {
      if (name === undefined || isOurs(hostName(name))) continue;
      const text = `this address is not ${JSON.stringify(name.slice(0, 100))}: ask by the name it has, or add this one to SYNC_ALLOWED_HOSTS`;
      throw new SyncError('host_refused', text);
    }
    if (header !== '' && taken.size < MAX_TAKEN) taken.add(header);
  };
}

/** How long a browser may cache the response, as with OPAL (opal-protocol P0.3). */
const MAX_AGE_SECONDS = 600;
/**
 * Methods that change nothing, whose responses a browser hides from other pages, and the preflight
 * request itself.
 */
const HARMLESS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Lets web pages of the given origins call the API (`*`: of all). With none, the default here
 * unlike OPAL's, browsers refuse: an API without authentication on this machine would otherwise be
 * open to every page that a user visits. Browsers send some requests without a preflight, so those
 * of other pages are rejected here (`origin_refused`).
 */
export function useCors(app: FastifyInstance, origins: readonly string[]): void {
  app.addHook('onRequest', async (request, reply) => {
    const { origin } = request.headers;
    if (!HARMLESS.has(request.method)) refuseForeignPages(request.headers, origins);
    if (origin === undefined || !isListed(origin, origins)) return;
    reply.header('access-control-allow-origin', origin).header('vary', 'origin');
    reply.header('access-control-allow-credentials', 'true');
    if (request.method !== 'OPTIONS' || request.headers['access-control-request-method'] === undefined) return;
    reply
      .header('access-control-allow-methods', 'DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT')
      .header('access-control-max-age', String(MAX_AGE_SECONDS));
    const wanted = request.headers['access-control-request-headers'];
    if (wanted !== undefined) reply.header('access-control-allow-headers', wanted);
    return reply.code(200).type('text/plain').send('OK');
  });
}

/**
 * Throws `origin_refused` (403) for a request of a web page of another site: its origin is neither
 * this address nor listed. Needed most for sockets, which browsers let every page open to any
 * address. Programs send no `Origin`, or that of this address.
 */
export function refuseForeignPages({ origin, host }: IncomingHttpHeaders, origins: readonly string[]): void {
  if (origin === undefined || isListed(origin, origins)) return;
  if (URL.canParse(origin) && new URL(origin).host === host?.toLowerCase()) return;
  throw new SyncError('origin_refused', 'web pages of this origin may not do that: see SYNC_ALLOWED_ORIGINS');
}

function isListed(origin: string, origins: readonly string[]): boolean {
  return origins.includes('*') || origins.includes(origin);
}

/**
 * Health checks of orchestrators, which must respond most of all while a server is under pressure.
 */
const FREE = new Set(['/', '/healthcheck', '/healthy', '/ready', '/live']);

/**
 * Limits the rate of each address: 429 with `Retry-After`, before any other work for the request.
 */
export function useRateLimit(app: FastifyInstance, limit: RateLimit, addresses: ClientAddresses): void {
  app.addHook('onRequest', async (request) => {
    if (!FREE.has(request.routeOptions.url ?? '')) consumeRateLimit(limit, addresses.of(request.raw));
  });
}

/**
 * Consumes one request of the share of an address or a subject. Throws `rate_limited` (429) if none
 * is left.
 */
export function consumeRateLimit(limit: Pick<RateLimit, 'rate' | 'take'>, key: string): void {
  const waitMs = limit.take(networkOf(key), Date.now());
  if (waitMs > 0) throw new SyncError('rate_limited', limit.rate.text, { retryAfterSeconds: waitMs / 1000 });
}

/**
 * Deny by default (design D36): a route without an access rule cannot be added, and no handler runs
 * before its caller is authorized, which happens before the body is read. With `sessions` a cookie
 * of the live page counts where a request has no `Authorization`.
 */
export function useAuthHook(app: FastifyInstance, authenticator: Authenticator, sessions?: PageSessions): void {
  app.decorateRequest('caller', undefined);
  app.decorateRequest('isInsider', !authenticator.enabled);
  app.addHook('onRoute', ({ url, config }) => {
    if (config?.audience === undefined) throw new Error(`the route ${url} does not say who may call it`);
  });
  const sessionOf = ({ raw, headers }: FastifyRequest): Caller | undefined =>
    sessions && headers.authorization === undefined ? pageCaller(raw, sessions) : undefined;
  app.addHook('onRequest', async (request) => {
    const { audience } = request.routeOptions.config;
    if (audience === undefined) return; // no such route: the error handler responds
    const { authorization } = request.headers;
    if (audience.access === 'everyone') {
      request.caller = ANONYMOUS;
      if (!authenticator.enabled || audience.strangers === 'all') return;
      // An invalid token is as good as none.
      const known = await ifAuthorized(
        async () => sessionOf(request) ?? (await authenticator.authenticate(authorization)),
      );
      if (known === undefined) return;
      request.caller = known;
      request.isInsider = isInsider(audience.insiders, known);
      return;
    }
    const signedIn = sessionOf(request);
    const caller = signedIn ?? (await authenticator.authenticate(authorization));
    request.caller = caller;
    if (!authenticator.enabled) return;
    if (signedIn === undefined) authorize(audience, caller);
    else authorizeSession(audience, caller, request.method);
    request.isInsider = isInsider(audience.access, caller);
  });
}

/** Undefined where that rejects with `unauthorized` or is not for this page. */
async function ifAuthorized(authenticate: () => Promise<Caller>): Promise<Caller | undefined> {
  try {
    return await authenticate();
  } catch (error) {
    if (error instanceof SyncError && error.status < 500) return undefined;
    throw error;
  }
}

/**
 * Disconnects callers that do not read (design D4): one that reads nothing of its response for
 * `silenceMs` would otherwise hold its connection, and the response in memory, for ever. A caller
 * that reads slowly is served. The socket is checked once in that time, so the disconnect comes
 * after one to two times of it.
 */
export function useSlowReaderTimeout(app: FastifyInstance, silenceMs: number, log: Logger): void {
  // Not before there is a response: until then the caller waits. Node itself sets the timeout of a
  // kept connection once the response is sent.
  app.addHook('onSend', async (request, reply) => {
    const { socket } = request.raw;
    if (!(socket instanceof Socket)) return; // a call from within the process
    socket.setTimeout(silenceMs);
    reply.raw.once('timeout', () => {
      const fields = { address: socket.remoteAddress, method: request.method, path: request.routeOptions.url };
      log.info(fields, 'a caller that read nothing of its response is disconnected');
      // An orderly close would have the system offer the unread bytes again and again.
      if (socket instanceof TLSSocket) socket.destroy();
      else socket.resetAndDestroy();
    });
  });
}
