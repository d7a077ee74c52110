import type { FastifyInstance } from 'fastify';
import type { Authenticator } from '../auth/caller.js';
import { createHttpApp } from '../http/app.js';
import { docsRoutes } from '../http/docs.js';
import { createHostCheck } from '../http/host-check.js';
import { type MetricsAccess, metricsRoute } from '../http/metrics-route.js';
import type { Logger } from '../lib/log.js';
import type { Metrics } from '../lib/metrics.js';
import type { TlsFiles } from '../lib/tls.js';
import { packageVersion } from '../lib/version.js';
import type { Offline } from './offline/offline.js';
import { type CallbackRoutesDeps, callbackRoutes } from './routes/callbacks.js';
import { connectivityRoutes } from './routes/connectivity.js';
import { type HealthRoutesDeps, healthRoutes } from './routes/health.js';
import { type PositionRoutesDeps, positionRoutes } from './routes/position.js';
import { type StoreConfigOptions, storeConfigRoute } from './routes/store-config.js';
import { type TriggerDeps, triggerRoutes } from './routes/triggers.js';

/** No route of the client takes a large body. */
const BODY_LIMIT_BYTES = 1024 * 1024;

/** What the client API tells about. */
export interface ClientHttpDeps extends HealthRoutesDeps, TriggerDeps {
  readonly offline: Offline;
  readonly store: StoreConfigOptions;
  /** Finds out who calls; see `auth/security.ts`. */
  readonly authenticator: Authenticator;
  readonly callbacks: CallbackRoutesDeps;
  readonly position: PositionRoutesDeps;
  readonly metrics: { readonly access: MetricsAccess; readonly metrics: Metrics };
  readonly log: Logger;
  /** Where it listens, and under which names it may be asked beside loopback names. */
  readonly listen: { readonly host: string; readonly names: readonly string[] };
  /** Certificate of the listener; none: plain HTTP. */
  readonly tls?: TlsFiles | undefined;
}

/** The client API (opal-protocol P2.6). The caller listens. */
export function clientHttp(deps: ClientHttpDeps): FastifyInstance {
  const app = createHttpApp(
    {
      bodyLimitBytes: BODY_LIMIT_BYTES,
      authenticator: deps.authenticator,
      tls: deps.tls,
      checkHost: createHostCheck(deps.listen),
    },
    { log: deps.log },
  );
  healthRoutes(app, deps);
  callbackRoutes(app, deps.callbacks);
  triggerRoutes(app, deps);
  positionRoutes(app, deps.position);
  metricsRoute(app, deps.metrics.access, deps.metrics.metrics);
  connectivityRoutes(app, deps);
  storeConfigRoute(app, deps.store);
  const description = 'Says how policy and data of one engine stand, and steers the client.';
  docsRoutes(app, { title: 'PolicySync client', version: packageVersion(), description });
  return app;
}
