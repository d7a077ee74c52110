import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { isDatasource, limitsOf } from '../../auth/caller.js';
import { addRoute } from '../../http/route.js';
import type { TraceAnswer } from '../../wire/trace.js';
import type { TraceQuery } from '../changes/trace-of.js';
import type { FleetSources } from '../live/gather.js';
import { readChanges } from '../live/read-changes.js';
import { docPath } from './paging.js';

/** Changes on a page of `GET /changes`. */
const CHANGES = { limit: 50, most: 100 };
/** Clients on a page of `GET /trace/{id}`. */
const CLIENTS = { limit: 500, most: 1000 };

const changesQuery = z.object({
  before: z.string().max(200).optional().describe('`next` of the page before'),
  limit: z.coerce.number().int().min(1).max(CHANGES.most).default(CHANGES.limit).describe('Changes on a page'),
  kind: z.enum(['policy', 'data']).optional().describe('Only commits, or only updates'),
  path: docPath
    .optional()
    .describe('Only updates with an entry at, below or above this path: the history of a document'),
  topic: z.string().max(1000).optional().describe('Only updates with an entry on this topic'),
});

/**
 * `GET /changes`: policy commits and data updates with how far each came
 * (docs/reference/fleet-api.md).
 */
export function changesRoute(app: FastifyInstance, sources: FleetSources): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/changes',
      access: ['datasource', 'listener'],
      limited: 'own',
      tag: 'Statistics',
      scans: true,
      summary: 'Policy commits and data updates, newest first, with how far each came',
      description:
        'Updates go back as far as the log keeps them, commits to the last fifty that were served and those in memory.',
      query: changesQuery,
      responses: {
        200: {
          description: 'A page of changes',
          schema: async () => (await import('../../wire/fleet.js')).changesAnswer,
        },
      },
    },
    async ({ query, caller }) =>
      await readChanges(sources, { ...query, limits: limitsOf(caller), seesPublisher: isDatasource(caller) }),
  );
}

const traceQuery = z.object({
  after: z.string().optional().describe('Only clients whose names come after this one: `next` of the previous page'),
  limit: z.coerce.number().int().min(1).max(CLIENTS.most).default(CLIENTS.limit).describe('Clients on a page'),
});
const traceParams = z.object({ id: z.string() });

/** `GET /trace/{id}`: what became of one change (docs/reference/fleet-api.md). */
export function traceRoute(app: FastifyInstance, trace: (query: TraceQuery) => Promise<TraceAnswer>): void {
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
      return await trace({ ...query, id, limits: limitsOf(caller), seesPublisher: isDatasource(caller) });
    },
  );
}
