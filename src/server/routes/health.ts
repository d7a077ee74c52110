import type { FastifyInstance } from 'fastify';
import { z } from 'zod';
import { addRoute } from '../../http/route.js';
import type { PolicySourceStatus } from '../source/source.js';

/** What the health answer is made of. */
export interface HealthDeps {
  /** The policy source; undefined where none is configured. */
  policySource: { status(): PolicySourceStatus } | undefined;
  log: { readonly head: number; readonly epoch: string; readonly failed?: Promise<never> };
}

const healthAnswer = z.object({
  status: z.enum(['ok', 'error']),
  policy: z.object({
    state: z.enum(['none', 'starting', 'following', 'failing']),
    head: z.string().nullish(),
    error: z.string().nullish(),
  }),
  update_log: z.object({ epoch: z.string(), head: z.number(), error: z.string().optional() }),
});

/**
 * `GET /healthcheck`, open to everyone: `{"status":"ok", ...}` with the state of the policy source and the position of the
 * update log. A failing policy source is not a reason for 503: the last good commit is served and data flows, and an
 * orchestrator that restarted the server for it would only make things worse. An update log that failed is one: 503
 * `{"status":"error", ...}`, since a restart is what helps.
 */
export function healthRoutes(app: FastifyInstance, deps: HealthDeps): void {
  let logFailure: string | undefined;
  deps.log.failed?.catch(() => {
    // The reason has the folder's path: it stands in the server's own log, not in an answer that is open to everyone.
    logFailure = 'the update log has failed; the server log says why';
  });
  const declaration = {
    method: 'GET',
    path: '/healthcheck',
    access: 'everyone',
    tag: 'Health',
    summary: 'Whether the server can do its job',
    answers: {
      200: { description: 'It can', schema: healthAnswer },
      503: { description: 'A restart is what helps', schema: healthAnswer },
    },
  } as const;
  addRoute(app, declaration, ({ reply }) => {
    if (logFailure !== undefined) reply.code(503);
    const status = deps.policySource?.status();
    return {
      status: logFailure === undefined ? 'ok' : 'error',
      policy:
        status === undefined
          ? { state: 'none' }
          : { state: status.state, head: status.head ?? null, error: status.error ?? null },
      update_log: {
        epoch: deps.log.epoch,
        head: deps.log.head,
        ...(logFailure !== undefined && { error: logFailure }),
      },
    };
  });
}
