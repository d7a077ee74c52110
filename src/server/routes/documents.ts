import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { isDatasource, limitsOf } from '../../auth/caller.js';
import { addRoute } from '../../http/route.js';
import { isDocPath, parseDocPath } from '../../wire/doc-path.js';
import { createDocuments, type DocumentsDeps } from '../documents/documents.js';

const DEFAULT_LIMIT = 200;
const MAX_LIMIT = 1000;

const docPath = z
  .string()
  .refine(isDocPath, 'must be a path without . and .. segments')
  .transform((text) => parseDocPath(text));

const documentsQuery = z.object({
  prefix: docPath.optional().describe('Only documents at or below this path'),
  after: docPath.optional().describe('Only documents whose paths come after this one: `next` of the previous page'),
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).default(DEFAULT_LIMIT).describe('Page size'),
});

/** `GET /data/documents`: what a new client would write, path by path, without the values (docs/visibility.md). */
export function documentsRoutes(app: FastifyInstance, deps: DocumentsDeps): void {
  const documents = createDocuments(deps);
  addRoute(
    app,
    {
      method: 'GET',
      path: '/data/documents',
      access: ['datasource', 'listener'],
      limited: 'own',
      tag: 'Data',
      scans: true,
      summary: 'The documents that a new client would write, by path',
      description:
        'Without their values: `GET /data/log?path=...&include=secrets` has those of inline data, for datasource tokens.',
      query: documentsQuery,
      responses: {
        200: {
          description: 'A page of the documents, by path',
          schema: async () => (await import('../../wire/fleet-views.js')).documentsAnswer,
        },
      },
    },
    async ({ query, caller }) =>
      await documents({ ...query, limits: limitsOf(caller), seesPublisher: isDatasource(caller) }),
  );
}
