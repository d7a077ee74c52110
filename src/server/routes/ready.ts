import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { addRoute } from '../../http/route.js';
import { insider } from '../../wire/insider.js';
import { refusedUpdates } from '../../wire/refused-updates.js';
import type { WriteStatus } from '../log/log-store.js';
import { type PolicySourceStatus, viewOfSource } from '../policy/source/source.js';

export interface ReadyDeps {
  /** Undefined if no policy source is configured. */
  readonly policySource: { status(): PolicySourceStatus } | undefined;
  /** `failed` rejects when the update log fails for good. */
  readonly log: { readonly failed?: Promise<never> | undefined; readonly writes: WriteStatus };
  /** Whether the server drains. */
  readonly drain: { readonly isBegun: boolean };
}

const ready = z.object({
  status: z.literal('ok'),
  limited: insider(z.string()).describe('What does not work here at present; the rest does'),
});
const notReady = z.object({
  status: z.literal('unavailable'),
  reason: z.enum(['draining', 'log_failed', 'policy_not_read', 'policy_refused']),
  message: insider(z.string()).describe('The reason in a sentence'),
});

/**
 * `GET /ready`, open to everyone: whether a load balancer should send callers here. An unavailable
 * backbone does not change it, nor does a log that takes no updates: all instances would go at
 * once, and what they know is still worth serving.
 */
export function readyRoutes(app: FastifyInstance, { policySource, log, drain }: ReadyDeps): void {
  let hasFailed = false;
  log.failed?.catch(() => {
    hasFailed = true;
  });

  function obstacle(): Omit<z.infer<typeof notReady>, 'status'> | undefined {
    if (drain.isBegun)
      return { reason: 'draining', message: 'the server was asked to stop; it sends its clients away' };
    if (hasFailed) return { reason: 'log_failed', message: 'the update log has failed; see the server log' };
    const source = policySource?.status();
    if (source === undefined || viewOfSource(source).head != null) return undefined;
    if (source.refused !== undefined) {
      return { reason: 'policy_refused', message: `no commit is served yet: ${source.error}` };
    }
    return { reason: 'policy_not_read', message: 'no commit has been read yet; GET /healthcheck says how far it is' };
  }

  const declaration = {
    method: 'GET',
    path: '/ready',
    access: 'everyone',
    strangers: 'words',
    insiders: ['datasource', 'listener'],
    tag: 'Health',
    summary: 'Whether callers should be sent here',
    responses: {
      200: { description: 'They should', schema: ready },
      503: { description: 'Not yet, or no longer', schema: notReady },
    },
  } as const;
  addRoute(app, declaration, ({ reply }) => {
    const found = obstacle();
    if (found !== undefined) return reply.code(503).send({ status: 'unavailable', ...found });
    const { writes } = log;
    if (writes.ok) return { status: 'ok' };
    return { status: 'ok', limited: `${refusedUpdates(writes.fromBytes)} are refused: ${writes.reason}` };
  });
}
