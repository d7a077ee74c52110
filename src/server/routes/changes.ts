import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { isDatasource, limitsOf } from '../../auth/caller.js';
import { addRoute } from '../../http/route.js';
import { isDocPath, parseDocPath } from '../../wire/doc-path.js';
import type { FleetSources } from '../fleet/gather.js';
import { readChanges } from '../fleet/read-changes.js';

const DEFAULT_LIMIT = 50;
const MAX_LIMIT = 100;

const changesQuery = z.object({
  before: z.string().max(200).optional().describe('`next` of the page before'),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).default(DEFAULT_LIMIT).describe('Changes on a page'),
  kind: z.enum(['policy', 'data']).optional().describe('Only commits, or only updates'),
  path: z
    .string()
    .refine(isDocPath, 'must be a path without . and .. segments')
    .transform((text) => parseDocPath(text))
    .optional()
    .describe('Only updates with an entry at, below or above this path: the history of a document'),
  topic: z.string().max(1000).optional().describe('Only updates with an entry on this topic'),
});

/** `GET /changes`: policy commits and data updates with how far each came (docs/visibility.md). */
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
