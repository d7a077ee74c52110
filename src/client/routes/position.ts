import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import type { Caller } from '../../auth/caller.js';
import { waitTimeout, whileCallerWaits } from '../../http/long-poll.js';
import { addRoute } from '../../http/route.js';
import { SyncError } from '../../lib/errors.js';
import { clientPosition } from '../../wire/client-health.js';
import { docPathText } from '../../wire/doc-path.js';
import type { PositionRecord } from '../position/position.js';
import type { PositionWaits } from '../position/position-waits.js';
import type { DataUpdater } from '../reconcile/data-updater.js';

/** What the position routes need. */
export interface PositionRoutesDeps {
  readonly data: Pick<DataUpdater, 'logPosition' | 'orphans' | 'prune'>;
  readonly waits: Pick<PositionWaits, 'wait'>;
}

const DEFAULT_WAIT_MS = 2000;

const query = z.object({
  'at-least': z
    .string()
    .regex(/^\d{1,15}$/, 'must be the seq of an update')
    .transform(Number)
    .optional(),
  epoch: z.string().optional(),
  timeout: waitTimeout.optional(),
});

const answer = clientPosition.extend({ status: z.enum(['ok', 'applied', 'pending', 'blocked']) });

/** `GET /position` (read your writes, design D21) and `POST /orphans/prune` (design D11). */
export function positionRoutes(app: FastifyInstance, { data, waits }: PositionRoutesDeps): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/position',
      access: ['listener'],
      limited: 'own',
      tag: 'Position',
      summary: 'How far this client is in the update log',
      description:
        'With at-least=<seq> it waits until the engine has that update, or what replaced it, and everything before it that ' +
        'overlaps its paths; at most for `timeout` (default 2s, at most 60s). With epoch=<epoch> it rejects a seq of another log.',
      query,
      responses: {
        200: { description: 'The position; with at-least: the update is applied', schema: answer },
        202: { description: 'The time is up, or the engine refuses the update (`blocked`)', schema: answer },
        409: { description: 'The client follows another log, or a server without one' },
      },
    },
    async ({ query: asked, caller, request, reply }) => {
      const shown = (position: PositionRecord | undefined) => shownTo(caller, position);
      const seq = asked['at-least'];
      const before = data.logPosition;
      assertLog(before, asked.epoch, seq);
      if (seq === undefined) return { status: 'ok', ...shown(before) };
      const timeoutMs = asked.timeout ?? DEFAULT_WAIT_MS;
      const reached = await whileCallerWaits(request, caller, (gone) => waits.wait(seq, timeoutMs, gone));
      const now = data.logPosition;
      // The server may have changed to another log meanwhile, in which the seq means something
      // else.
      assertLog(now, asked.epoch ?? before?.epoch, seq);
      const status = reached === 'unknown' ? 'pending' : reached;
      return reply.code(status === 'applied' ? 200 : 202).send({ status, ...shown(now) });
    },
  );

  addRoute(
    app,
    {
      method: 'POST',
      path: '/orphans/prune',
      access: ['listener'],
      limited: 'nothing',
      tag: 'Position',
      summary: 'Remove the documents that no log and no configuration has',
      description:
        'GET /healthy lists them as `data.orphaned`. Nothing else removes them (see docs/how-to/offline.md).',
      responses: { 200: { description: 'What was removed', schema: z.object({ pruned: z.array(z.string()) }) } },
    },
    async () => ({ pruned: (await data.prune()).map(({ path }) => docPathText(path)) }),
  );
}

function assertLog(position: PositionRecord | undefined, epoch: string | undefined, seq: number | undefined): void {
  if (
    position === undefined ? seq === undefined && epoch === undefined : (epoch ?? position.epoch) === position.epoch
  ) {
    return;
  }
  const now = position === undefined ? 'no update log' : `the update log ${position.epoch}`;
  throw new SyncError('epoch_differs', `this client follows ${now}, so that the seq means nothing here`);
}

function shownTo(
  { permittedTopics }: Pick<Caller, 'permittedTopics'>,
  position: PositionRecord | undefined,
): z.infer<typeof clientPosition> {
  if (position === undefined) {
    return { epoch: null, topics: [], applied_through: 0, applied_beyond: [], unresolved: [] };
  }
  const topics = position.topics.filter((topic) => permittedTopics?.has(topic) ?? true);
  return { ...position, topics };
}
