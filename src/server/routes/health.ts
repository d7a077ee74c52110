import type { FastifyInstance } from 'fastify';
import type { PolicySourceStatus } from '../source/source.js';

/** What the health answer is made of. */
export interface HealthDeps {
  /** The policy source; undefined where none is configured. */
  policySource: { status(): PolicySourceStatus } | undefined;
  log: { readonly head: number; readonly epoch: string };
}

/**
 * `GET /healthcheck`, open to everyone: `{"status":"ok", ...}` with the state of the policy source and the position of the
 * update log. A failing policy source is not a reason for 503: the last good commit is served and data flows, and an
 * orchestrator that restarted the server for it would only make things worse.
 */
export function healthRoutes(app: FastifyInstance, deps: HealthDeps): void {
  app.get('/healthcheck', async () => {
    const status = deps.policySource?.status();
    return {
      status: 'ok',
      policy:
        status === undefined
          ? { state: 'none' }
          : { state: status.state, head: status.head ?? null, error: status.error ?? null },
      update_log: { epoch: deps.log.epoch, head: deps.log.head },
    };
  });
}
