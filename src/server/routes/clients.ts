import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { addRoute } from '../../http/route.js';
import { clientsAnswer } from '../../wire/clients.js';
import { limitedView } from '../sessions/limited-view.js';
import type { Sessions } from '../sessions/sessions.js';
import type { PolicySourceStatus } from '../source/source.js';
import { viewOfSource } from '../source/source-view.js';

/** `GET /clients`: each client of the fleet, what it should hold and what it holds (docs/visibility.md). */
export function clientsRoutes(
  app: FastifyInstance,
  deps: {
    sessions: Pick<Sessions, 'clients'>;
    /** Undefined where no policy source is configured. */
    policySource: { status(): PolicySourceStatus } | undefined;
  },
): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/clients',
      access: ['datasource', 'listener'],
      tag: 'Statistics',
      summary: 'Every client: what it should hold, what it holds, how far behind it is',
      query: z.object({ id: z.string().optional().describe('Only the client with this id') }),
      answers: { 200: { description: 'The clients of all server instances, by id', schema: clientsAnswer } },
    },
    async ({ query, caller: { permittedTopics } }) => {
      const answer = await deps.sessions.clients(query.id);
      const shown = permittedTopics === undefined ? answer : limitedView(answer, permittedTopics);
      return { ...shown, policy_source: viewOfSource(deps.policySource?.status()) };
    },
  );
}
