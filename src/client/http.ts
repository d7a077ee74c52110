import type { FastifyInstance } from 'fastify';
import { createHttpApp } from '../http/app.js';
import { addRoute } from '../http/route.js';
import type { Logger } from '../lib/log.js';
import type { PolicyUpdater } from './reconcile/policy-updater.js';
import type { Status } from './status.js';

/** No route of the client takes a large body. */
const BODY_LIMIT_BYTES = 1024 * 1024;

/** What the client API tells about. */
export interface ClientHttpDeps {
  readonly status: Status;
  readonly policy: PolicyUpdater;
  readonly server: () => { connected: boolean; error: string | undefined };
  readonly engineMode: () => string;
  readonly log: Logger;
}

/** The client API (protocol-facts 2.6): liveness, readiness, health. The caller listens. */
export function clientHttp(deps: ClientHttpDeps): FastifyInstance {
  const app = createHttpApp({ bodyLimitBytes: BODY_LIMIT_BYTES }, { log: deps.log });
  const { status } = deps;
  const unavailable = { status: 'unavailable' } as const;

  for (const path of ['/', '/healthy', '/healthcheck']) {
    const summary = 'Whether policy and data are current and the engine answers';
    addRoute(app, { method: 'GET', path, access: 'everyone', tag: 'Health', summary }, ({ reply }) => {
      if (!status.healthy) return reply.code(503).send({ ...unavailable, ...details(deps) });
      return { status: 'ok', online: deps.server().connected, ...details(deps) };
    });
  }
  const summary = 'Whether policy and data were synced once';
  addRoute(app, { method: 'GET', path: '/ready', access: 'everyone', tag: 'Health', summary }, ({ reply }) => {
    if (!status.ready) return reply.code(503).send({ ...unavailable, ...details(deps) });
    return { status: 'ok', ...details(deps) };
  });
  return app;
}

/** Why it is as it is: the same for healthy and unhealthy, beside the fields that OPAL's users read. */
function details(deps: ClientHttpDeps): object {
  const { status, policy } = deps;
  return {
    ready: status.ready,
    healthy: status.healthy,
    policy: { hash: policy.hash ?? null, last_transaction: status.lastPolicy ?? null },
    data: { last_transaction: status.lastData ?? null, failing: [...status.failing.values()] },
    engine: { ...status.engine, error: status.engine.error ?? null, policy_mode: deps.engineMode() },
    server: { connected: deps.server().connected, error: deps.server().error ?? null },
  };
}
