import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { isDatasource, limitsOf } from '../../auth/caller.js';
import { addRoute } from '../../http/route.js';
import type { Sessions } from '../sessions/sessions.js';

const DEFAULT_LIMIT = 500;
const MAX_LIMIT = 1000;

const traceQuery = z.object({
  after: z.string().optional().describe('Only clients whose names come after this one: `next` of the previous page'),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).default(DEFAULT_LIMIT).describe('Clients on a page'),
});
const traceParams = z.object({ id: z.string() });

/** `GET /trace/{id}`: what became of one change (docs/visibility.md). */
export function traceRoutes(app: FastifyInstance, deps: { sessions: Pick<Sessions, 'trace'> }): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/trace/:id',
      access: ['datasource', 'listener'],
      limited: 'own',
      tag: 'Statistics',
      scans: true,
      summary: 'What became of one change: at the server, and at each client',
      description:
        'By the seq or the id of a data update, or by a policy commit: at least 7 digits, or the seq of its row.',
      query: traceQuery,
      responses: {
        200: {
          description: 'Stages with their times, and a page of the clients concerned',
          schema: async () => (await import('../../wire/trace.js')).traceAnswer,
        },
        404: { description: 'No such change is known' },
      },
    },
    async ({ query, caller, request }) => {
      const { id } = traceParams.parse(request.params);
      return await deps.sessions.trace({ ...query, id, limits: limitsOf(caller), seesPublisher: isDatasource(caller) });
    },
  );
}
