import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import type { Authenticator } from '../auth/caller.js';
import { createHttpApp } from '../http/app.js';
import { docsRoutes } from '../http/docs.js';
import type { Drain } from '../http/drain.js';
import { logLevelRoutes } from '../http/log-level-route.js';
import { metricsRoute } from '../http/metrics-route.js';
import { createHostCheck } from '../http/request-guards.js';
import { addRoute } from '../http/route.js';
import { JsonText } from '../lib/json/json-text.js';
import type { TlsFiles } from '../lib/net/tls.js';
import { type Logger, redactUrl, type Secret } from '../lib/observe/log.js';
import type { Metrics } from '../lib/observe/metrics.js';
import { packageVersion } from '../lib/run/version.js';
import type { AskPolicy } from './authzen/evaluate.js';
import type { AuthzenOffer } from './authzen/settings.js';
import { addClientReadings } from './client-metrics.js';
import type { Decisions } from './decisions/decisions.js';
import type { DriftCheck } from './drift/drift-check.js';
import type { RunningEngine } from './engine/opa/running-engine.js';
import type { Follower } from './follow/follower.js';
import type { HealthWriter } from './health/health-writer.js';
import type { Offline } from './offline/offline.js';
import type { ClientSettings, EngineAuthSettings } from './options.js';
import type { PositionWaits } from './position/position-waits.js';
import type { DataUpdater } from './reconcile/data-updater.js';
import type { PolicyUpdater } from './reconcile/policy-updater.js';
import type { Reporter } from './report/reporter.js';
import { authzenRoutes } from './routes/authzen.js';
import { callbackRoutes } from './routes/callbacks.js';
import { connectivityRoutes } from './routes/connectivity.js';
import { clientHealthRoutes } from './routes/health.js';
import { positionRoutes } from './routes/position.js';
import { triggerRoutes } from './routes/triggers.js';
import type { Status } from './status/status.js';

/** No route of the client takes a large body. */
const BODY_LIMIT_BYTES = 1024 * 1024;

/** The parts that the client API shows and controls. */
export interface ClientHttpDeps {
  /** Authenticates callers; see `auth/security.ts`. */
  readonly authenticator: Authenticator;
  /** Certificate of the listener; none: plain HTTP. */
  readonly tls: TlsFiles | undefined;
  readonly metrics: Metrics;
  readonly status: Status;
  readonly engine: RunningEngine;
  readonly healthWriter: HealthWriter | undefined;
  readonly drift: DriftCheck | undefined;
  readonly follower: Follower;
  readonly policy: PolicyUpdater;
  readonly data: DataUpdater;
  readonly waits: PositionWaits;
  readonly reporter: Reporter;
  readonly decisions: Decisions;
  readonly offline: Offline;
  /** Undefined: AuthZEN is off. */
  readonly authzen: AuthzenOffer | undefined;
  readonly drain: Drain;
  readonly log: Logger;
}

/** The client API (opal-protocol P2.6). The caller listens. */
export function clientHttp(settings: ClientSettings, deps: ClientHttpDeps): FastifyInstance {
  const { authenticator, tls, metrics } = deps;
  const checkHost = createHostCheck({ host: settings.host, names: settings.allowedHosts });
  const app = createHttpApp({ bodyLimitBytes: BODY_LIMIT_BYTES, authenticator, tls, checkHost }, { log: deps.log });
  clientHealthRoutes(app, deps);
  callbackRoutes(app, deps.reporter);
  triggerRoutes(app, settings, deps);
  positionRoutes(app, deps);
  addClientReadings(metrics, deps);
  metricsRoute(app, settings.metricsAccess, metrics);
  logLevelRoutes(app, deps);
  connectivityRoutes(app, deps);
  storeConfigRoute(app, settings, authenticator.enabled && !settings.excludeStoreSecrets);
  if (deps.authzen !== undefined) authzenRoutes(app, deps.authzen, { ask: asking(deps.decisions) });
  const description = 'Says how policy and data of one engine stand, and steers the client.';
  docsRoutes(app, { title: 'PolicySync client', version: packageVersion(), description }, authenticator.enabled);
  return app;
}

/**
 * Asks for decisions on behalf of callers over HTTP: without an answer they get none, whatever an
 * application does then, and at once.
 */
function asking(decisions: Pick<Decisions, 'decide'>): AskPolicy {
  const options = { onUnavailable: 'error', waitMs: 0 } as const;
  return async (path, input) => (await decisions.decide(path, JsonText.trusted(input), options)).text;
}

const storeDetails = z.object({
  type: z.literal('OPA'),
  url: z.string(),
  token: z.string().optional(),
  auth_type: z.enum(['none', 'token', 'oauth', 'tls']),
  oauth_client_id: z.string().optional(),
  oauth_client_secret: z.string().optional(),
  oauth_server: z.string().optional(),
});

/**
 * `GET /policy-store/config` (opal-protocol P2.6): where the engine is and how to get in. With
 * authentication off nobody gets a secret (opal-protocol P10.5): then `showsSecrets` is false. A
 * member without a value is left out.
 */
export function storeConfigRoute(app: FastifyInstance, settings: EngineAuthSettings, showsSecrets: boolean): void {
  addRoute(
    app,
    {
      method: 'GET',
      path: '/policy-store/config',
      access: ['listener'],
      limited: 'nothing',
      tag: 'Engine',
      summary: 'Where the policy engine is, and how to get in',
      description: 'Deprecated in OPAL; here for those who script against it.',
      responses: { 200: { description: 'The engine', schema: storeDetails } },
    },
    () => storeConfig(settings, showsSecrets),
  );
}

function storeConfig(settings: EngineAuthSettings, showsSecrets: boolean): z.infer<typeof storeDetails> {
  const secret = (value: Secret | undefined): string | undefined => (showsSecrets ? value?.reveal() : undefined);
  const address = (url: string): string => (showsSecrets ? url : redactUrl(url).replace(/\/$/, ''));
  return {
    type: 'OPA',
    url: address(settings.engineUrl),
    token: secret(settings.engineAuthToken),
    auth_type: settings.engineAuthType,
    oauth_client_id: settings.engineOauthClientId,
    oauth_client_secret: secret(settings.engineOauthClientSecret),
    oauth_server: settings.engineOauthServer && address(settings.engineOauthServer),
  };
}
