import type { FastifyInstance } from 'fastify';
import { SyncError } from '../lib/errors.js';
import type { RateLimit } from '../lib/rate.js';
import type { ClientAddresses } from './client-address.js';

/** Health checks of orchestrators, which must respond most of all while a server is under pressure. */
const FREE = new Set(['/', '/healthcheck', '/healthy', '/ready']);

/** Limits the rate of each address: 429 with `Retry-After`, before any other work for the request. */
export function useRateLimit(app: FastifyInstance, limit: RateLimit, addresses: ClientAddresses): void {
  app.addHook('onRequest', async (request) => {
    if (!FREE.has(request.routeOptions.url ?? '')) consumeRateLimit(limit, addresses.of(request.raw));
  });
}

/** Consumes one request of the key's share. Throws `rate_limited` (429) if none is left. */
export function consumeRateLimit(limit: RateLimit, key: string): void {
  const waitMs = limit.take(key, Date.now());
  if (waitMs > 0) throw new SyncError('rate_limited', limit.rate.text, { retryAfterSeconds: waitMs / 1000 });
}
