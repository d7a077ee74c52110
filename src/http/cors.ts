import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { SyncError } from '../lib/errors.js';

/** How long a browser may cache the response, as with OPAL (opal-protocol P0.3). */
const MAX_AGE_SECONDS = 600;
/** Methods that change nothing, whose responses a browser hides from other pages, and the preflight request itself. */
const HARMLESS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Lets web pages of the given origins call the API (`*`: of all). With none, the default here unlike OPAL's, browsers refuse: an API
 * without authentication on this machine would otherwise be open to every page that a user visits. Browsers send some requests without
 * a preflight, so those of other pages are rejected here (`origin_refused`).
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
 * Throws `origin_refused` (403) for a request of a web page of another site: its origin is neither this address nor listed. Needed most
 * for sockets, which browsers let every page open to any address. Programs send no `Origin`, or that of this address.
 */
export function refuseForeignPages({ origin, host }: IncomingHttpHeaders, origins: readonly string[]): void {
  if (origin === undefined || isListed(origin, origins)) return;
  if (URL.canParse(origin) && new URL(origin).host === host?.toLowerCase()) return;
  throw new SyncError('origin_refused', 'web pages of this origin may not do that: see SYNC_ALLOWED_ORIGINS');
}

function isListed(origin: string, origins: readonly string[]): boolean {
  return origins.includes('*') || origins.includes(origin);
}
