import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { limitsOf } from '../../auth/caller.js';
import { addRoute } from '../../http/route.js';
import type { ClientsAnswer } from '../../wire/clients.js';
import type { RefusedWrites, WriteStatus } from '../log/log-store.js';
import type { ClientsQuery } from '../peers/clients-view.js';
import { type PolicySourceStatus, viewOfSource } from '../policy/source/source.js';

const DEFAULT_LIMIT = 500;
const MAX_LIMIT = 1000;

const clientsQuery = z.object({
  id: z.string().optional().describe('Only clients with this name or id'),
  after: z.string().optional().describe('Only clients whose names come after this one: `next` of the previous page'),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).default(DEFAULT_LIMIT).describe('Page size'),
});

/**
 * `GET /clients`: what each client should hold, and what it holds (docs/reference/fleet-api.md).
 */
export function clientsRoutes(
  app: FastifyInstance,
  deps: {
    list: (query: ClientsQuery) => Promise<ClientsAnswer>;
    /** Undefined if no policy source is configured. */
    policySource: { status(): PolicySourceStatus } | undefined;
    log: { readonly writes: WriteStatus };
  },
): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/clients',
      access: ['datasource', 'listener'],
      limited: 'own',
      tag: 'Statistics',
      scans: true,
      summary: 'Every client: what it should hold, what it holds, how far behind it is',
      query: clientsQuery,
      responses: {
        200: {
          description: 'A page of the clients of all server instances, by name',
          schema: async () => (await import('../../wire/clients.js')).clientsAnswer,
        },
      },
    },
    async ({ query, caller }) => {
      const page = await deps.list({ ...query, limits: limitsOf(caller) });
      const { writes } = deps.log;
      return {
        ...page,
        policy_source: viewOfSource(deps.policySource?.status()),
        ...(!writes.ok && { log_refuses: refusalOf(writes) }),
      };
    },
  );
}

function refusalOf({ sinceMs, reason, fromBytes }: RefusedWrites): ClientsAnswer['log_refuses'] {
  return { since: sinceMs, reason, ...(fromBytes !== undefined && { from_bytes: fromBytes }) };
}
