import type { FastifyInstance } from 'fastify';

/** How long a browser may remember what it was told: as OPAL says (protocol-facts 0.3). */
const MAX_AGE_SECONDS = 600;

/**
 * Lets web pages of the given origins call the API (`*`: of all). With none, which is the default here unlike OPAL's,
 * nothing is said and browsers refuse: an API without authentication on this machine would else be open to every page
 * that somebody looks at.
 */
export function useCors(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  app.addHook('onRequest', async (request, reply) => {
    const { origin } = request.headers;
    if (origin === undefined || !(origins.includes('*') || origins.includes(origin))) return;
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
