import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { authorizeTopics } from '../../auth/authorize.js';
import { addRoute } from '../../http/route.js';
import { UPDATE_LIMITS } from '../../wire/data.js';
import { isDocPath, parseDocPath } from '../../wire/doc-path.js';
import { list } from '../../wire/lists.js';
import { MAX_TOPICS } from '../../wire/session.js';
import type { FoldedEntry, LogPosition } from '../log/update-log.js';
import type { Publisher } from '../publish/publish.js';
import { authorizeUpdate } from '../publish/publish-access.js';
import { type RefreshPart, refreshParts } from '../publish/refresh.js';

export interface DataRefreshDeps {
  updateLog: LogPosition;
  publisher: Pick<Publisher, 'republish'>;
}

const refreshBody = z
  .object({
    topics: list(z.string().min(1, 'must not be empty'), { max: MAX_TOPICS, empty: 'must name at least one topic' })
      .optional()
      .describe('Default: any'),
    path: z
      .string()
      .refine(isDocPath, 'must be a path without . and .. segments')
      .optional()
      .describe('Documents at, below or above this path; / means all'),
    reason: z.string().max(UPDATE_LIMITS.reasonChars).nullish(),
  })
  // A fetch by all clients must be explicit, with the path /.
  .refine(({ topics, path }) => topics !== undefined || path !== undefined, 'must have topics or a path');

const refreshAnswer = z.object({
  status: z.literal('ok'),
  entries: z.number().describe('Number of entries published again'),
  epoch: z.string(),
  id: z.string().optional(),
  seq: z.number().optional(),
  subscribers: z.number().optional(),
});

/** `POST /data/refresh`: every concerned client fetches its documents again. */
export function dataRefreshRoutes(app: FastifyInstance, { updateLog, publisher }: DataRefreshDeps): void {
  addRoute(
    app,
    {
      method: 'POST',
      path: '/data/refresh',
      access: ['datasource'],
      limited: 'own',
      tag: 'Data',
      summary: 'Fetch documents again',
      description: 'Publishes the matching entries again, except documents with inline data.',
      body: refreshBody,
      responses: { 200: { description: 'Published', schema: refreshAnswer } },
    },
    async ({ body: { topics, path, reason = null }, caller }) => {
      const { permittedTopics, permittedPaths, subject } = caller;
      authorizeTopics(topics ?? [], permittedTopics);
      const wanted = {
        topics: topics === undefined ? permittedTopics : new Set(topics),
        path: path === undefined ? undefined : parseDocPath(path),
        within: permittedPaths,
      };
      const choose = (fold: readonly FoldedEntry[]): RefreshPart[] => {
        const parts = refreshParts(fold, wanted);
        // The parts may include a patch from above a wanted document, which may belong to another
        // publisher.
        for (const part of parts) authorizeUpdate(part, { permittedTopics: undefined, permittedPaths });
        return parts;
      };
      const updates = await publisher.republish(choose, reason ?? 'refresh', subject);
      const entries = updates.reduce((sum, update) => sum + update.entries, 0);
      const { id, seq, subscribers } = updates.at(-1) ?? {};
      return { status: 'ok', entries, epoch: updateLog.epoch, id, seq, subscribers };
    },
  );
}
