import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { consumeRateLimit } from '../../http/rate-limit.js';
import { addRoute } from '../../http/route.js';
import { type Rate, RateLimit } from '../../lib/rate.js';

/**
 * `GET /loadlimit` (protocol-facts 2.1): clients with SYNC_WAIT_ON_SERVER_LOAD ask here before they start, so that a fleet
 * starts at the rate that the operator set: 200 `null`, or 429 with `Retry-After`. The rate is over all clients.
 */
export function loadLimitRoutes(app: FastifyInstance, options: { clientLoadLimit: Rate | undefined }): void {
  const limit = options.clientLoadLimit === undefined ? undefined : new RateLimit(options.clientLoadLimit);
  addRoute(
    app,
    {
      method: 'GET',
      path: '/loadlimit',
      access: 'token',
      tag: 'Health',
      summary: 'Whether one more client may start now',
      answers: { 200: { description: 'It may', schema: z.null() }, 429: { description: 'Not yet; see Retry-After' } },
    },
    ({ reply }) => {
      if (limit !== undefined) consumeRateLimit(limit, 'all');
      return reply.type('application/json').send('null');
    },
  );
}
