import type { FastifyInstance } from 'fastify';
import type { ServerSecurity } from '../auth/security.js';
import { AddressLimits, ClientAddresses } from '../http/address-limits.js';
import { closeHttpApp, createHttpApp } from '../http/app.js';
import { docsRoutes } from '../http/docs.js';
import type { Drain } from '../http/drain.js';
import { logLevelRoutes } from '../http/log-level-route.js';
import { metricsRoute } from '../http/metrics-route.js';
import { consumeRateLimit, createHostCheck, type HostCheck, refuseForeignPages } from '../http/request-guards.js';
import { openUiOnLoopbackOnly, uiPageRoutes } from '../http/ui-page.js';
import { onWebSocketUpgrade } from '../http/upgrade.js';
import { OpenConnections } from '../lib/net/open-connections.js';
import type { Places } from '../lib/net/places.js';
import type { TlsFiles } from '../lib/net/tls.js';
import type { Logger } from '../lib/observe/log.js';
import type { Metrics } from '../lib/observe/metrics.js';
import type { Parts } from '../lib/run/lifecycle.js';
import { RateLimit } from '../lib/run/rate.js';
import { packageVersion } from '../lib/run/version.js';
import type { Connection } from '../pubsub/connection.js';
import type { Hub } from '../pubsub/hub.js';
import type { PeerInfo } from '../pubsub/peer.js';
import { SocketServer } from '../pubsub/socket-server.js';
import type { ServerBudgets } from './budgets.js';
import type { CutOff } from './clients/lease.js';
import type { StateFiles } from './clients/state-files.js';
import type { ClientParts } from './compose-clients.js';
import type { FleetFeeds } from './live/feeds.js';
import type { FleetSources } from './live/gather.js';
import { backbonePlace } from './log/backbone/open-backbone.js';
import type { UpdateLog } from './log/update-log.js';
import type { ServerOptions } from './options.js';
import type { Instances } from './peers/instances.js';
import type { Policy } from './policy/policy.js';
import type { MayHave } from './publish/may-have.js';
import type { Publisher } from './publish/publish.js';
import { authorizeUpdate, socketPeer, socketUpdate } from './publish/publish-access.js';
import { changesRoute, traceRoute } from './routes/changes.js';
import { clientRoutes } from './routes/client.js';
import { clientsRoutes } from './routes/clients.js';
import { dataRoutes } from './routes/data.js';
import { dataConfigRoute } from './routes/data-config.js';
import { dataLogRoutes, documentsRoute } from './routes/data-log.js';
import { dataRefreshRoutes } from './routes/data-refresh.js';
import { dataUpdatesRoutes } from './routes/data-updates.js';
import { type FleetStreams, fleetEventsRoute } from './routes/fleet-events.js';
import { loadLimitRoutes, rootRoutes, serverHealthRoutes } from './routes/health.js';
import { instancesRoutes } from './routes/instances.js';
import { policyRoutes } from './routes/policy.js';
import { policyViewsRoutes } from './routes/policy-views.js';
import { readyRoutes } from './routes/ready.js';
import { statisticsRoutes } from './routes/statistics.js';
import { jwksRoutes, tokenRoutes } from './routes/token.js';
import { uiSessionRoutes } from './routes/ui-session.js';
import { type WebhookRouteOptions, webhookRoutes } from './routes/webhook.js';
import { addServerReadings, type ServerMetrics } from './server-metrics.js';

/** The parts that the API serves. */
export interface ServerHttpDeps {
  /** Id of this instance. */
  readonly instance: string;
  readonly security: ServerSecurity;
  readonly tls: TlsFiles | undefined;
  readonly updateLog: UpdateLog;
  readonly isShared: boolean;
  readonly hub: Hub;
  readonly publisher: Publisher;
  readonly policy: Policy;
  readonly mayHave: MayHave;
  readonly budgets: ServerBudgets;
  readonly clients: ClientParts;
  readonly instances: Instances;
  readonly stateFiles: StateFiles;
  /** Open sockets; the socket server maintains the set. */
  readonly connections: Set<Connection>;
  readonly peers: () => readonly PeerInfo[];
  readonly metrics: Metrics;
  readonly meter: ServerMetrics;
  readonly drain: Drain;
  readonly fleet: FleetSources;
  readonly feeds: FleetFeeds;
  readonly log: Logger;
}

/** Checks of callers, shared by the socket and the API. */
interface Guards {
  readonly limits: AddressLimits;
  readonly checkHost: HostCheck;
  readonly rateLimit: RateLimit | undefined;
}

/** For requests, beside SYNC_MAX_CONNECTIONS sockets: a full server still serves /healthcheck. */
const REQUEST_CONNECTIONS = 1024;

/** The HTTP API and the sockets of the server. The caller listens. */
export async function serverHttp(
  options: ServerOptions,
  deps: ServerHttpDeps,
  { add }: Pick<Parts, 'add'>,
): Promise<{ app: FastifyInstance; sockets: SocketServer; streams: FleetStreams }> {
  const log = deps.log.child({ component: 'http' });
  const { connectionsPerAddress, unauthenticatedBytesPerAddress } = options;
  const guards = {
    limits: new AddressLimits(
      { connections: connectionsPerAddress, bytes: unauthenticatedBytesPerAddress },
      {
        addresses: new ClientAddresses(options.trustedProxies),
        connections: new OpenConnections(options.maxConnections + REQUEST_CONNECTIONS),
        log,
      },
    ),
    checkHost: createHostCheck({ host: options.host, names: options.allowedHosts }),
    rateLimit: options.rateLimit === 'none' ? undefined : new RateLimit(options.rateLimit),
  };
  const sockets = createSockets(options, guards, deps);
  const { tls, security, budgets } = deps;
  const app = createHttpApp({ ...options, tls, ...security, ...guards, budgets }, { log });
  // Together: the HTTP server waits for its sockets too. Before the routes: some settings fail
  // there.
  add(app, () => Promise.all([sockets.close(), closeHttpApp(app)]));
  const streams = await addRoutes(app, options, guards, deps);
  // Before the sockets: nobody is shown a fleet that is away because this server stops.
  add(streams, (one) => one.end());
  addServerReadings(deps.metrics, {
    log: deps.updateLog,
    logUp: () => deps.updateLog.status.up && deps.clients.peerInstances.cutOff === undefined,
    logWrites: () => deps.updateLog.writes.ok,
    sockets,
    clients: deps.clients.counts,
    policy: () => deps.policy.tracker?.status(),
    budgets: () => budgets.list(),
  });
  onWebSocketUpgrade(app.server, (...upgrade) => sockets.handleUpgrade(...upgrade));
  return { app, sockets, streams };
}

function createSockets(
  options: ServerOptions,
  { limits, checkHost, rateLimit }: Guards,
  { hub, publisher, clients, connections, meter, security, budgets, log }: ServerHttpDeps,
): SocketServer {
  const { addresses } = limits;
  return new SocketServer(
    {
      frameLimitBytes: options.frameLimitBytes,
      bufferLimitBytes: options.subscriberBufferBytes,
      maxConnections: options.maxConnections,
    },
    {
      ...{ hub, connections, sessions: clients.handler, meter: meter.sockets },
      budgets,
      addressOf: (request) => addresses.of(request),
      screen: (request) => {
        limits.connections.use(request.socket);
        checkHost(request);
        if (rateLimit !== undefined) consumeRateLimit(rateLimit, addresses.of(request));
        if (limits.requested(request)) request.socket.once('close', () => limits.done(request));
        refuseForeignPages(request.headers, options.allowedOrigins);
      },
      authenticate: async (request) => {
        const peer = await socketPeer(security.authenticator, request.headers.authorization);
        limits.letIn(request);
        return peer;
      },
      onPublish: async (topics, dataText, peer, except) => {
        const update = socketUpdate(topics, dataText);
        authorizeUpdate(update, peer);
        await publisher.publish(update, peer.subject, { except });
      },
      log: log.child({ component: 'socket' }),
    },
  );
}

async function addRoutes(
  app: FastifyInstance,
  options: ServerOptions,
  { limits }: Guards,
  deps: ServerHttpDeps,
): Promise<FleetStreams> {
  const { security, updateLog, isShared, publisher, policy, clients, instances, peers, metrics, meter } = deps;
  const logOf = (component: string): Logger => deps.log.child({ component });
  const { tracker } = policy;
  if (!security.authenticator.enabled) openUiOnLoopbackOnly(app);
  rootRoutes(app);
  const { stateFiles } = deps;
  const { everyone, peerInstances, waiters } = clients;
  const cutOff = (): CutOff | undefined => peerInstances.cutOff;
  serverHealthRoutes(app, { policySource: tracker, log: updateLog, isShared, stateFiles, cutOff });
  readyRoutes(app, { policySource: tracker, log: updateLog, drain: deps.drain });
  policyRoutes(app, {
    bundles: meter.bundles(policy.bundles),
    freshness: policy.freshness,
    parentFor: policy.parentFor,
  });
  policyViewsRoutes(app, { views: policy.views, tracker, log: logOf('policy') });
  await webhookRoutes(app, webhookOptions(options), {
    requestRefresh: (named) => tracker?.requestRefresh(named),
    refreshWithin: async (ms, named) => tracker?.refreshWithin(ms, named),
    defaultBranch: () => policy.defaultBranch(),
    head: () => tracker?.head(),
    refused: () => {
      const { refused, error = '', problems = [] } = tracker?.status() ?? {};
      return refused === undefined ? undefined : { commit: refused, error, problems: [...problems] };
    },
    log: logOf('webhook'),
  });
  const dataPlaces = (): Places | undefined => policy.dataPlaces();
  dataRoutes(app, {
    ...{ publisher, dataPlaces, log: logOf('data') },
    countElsewhere: (topics) => peerInstances.countConcerned(topics),
    waitApplied: meter.waits((...args) => waiters.waitApplied(...args)),
  });
  dataConfigRoute(app, options, { updateLog, dataPlaces, mayHave: deps.mayHave, policyHead: () => tracker?.head() });
  dataUpdatesRoutes(app, { ...options, isShared }, { updateLog });
  dataLogRoutes(app, { updateLog, log: logOf('data') });
  documentsRoute(app, options, { log: updateLog, everyone, dataPlaces });
  dataRefreshRoutes(app, { updateLog, publisher });
  tokenRoutes(app, { masterToken: options.authMasterToken }, security);
  loadLimitRoutes(app, options);
  statisticsRoutes(app, options, {
    instance: deps.instance,
    peers,
    everyone,
    version: packageVersion(),
  });
  clientsRoutes(app, { list: clients.list, policySource: tracker, log: updateLog });
  clientRoutes(app, { answers: clients.answers, log: logOf('clients') });
  traceRoute(app, clients.trace);
  changesRoute(app, deps.fleet);
  const streams = fleetEventsRoute(app, deps);
  uiPageRoutes(app);
  uiSessionRoutes(app, {
    ...{ security, masterToken: options.authMasterToken, version: packageVersion(), environment: options.environment },
    addressOf: (request) => limits.addresses.of(request),
    log: logOf('page'),
  });
  const { broadcastUri: uri, broadcastChannelName: name } = options;
  const backbone = uri === undefined ? 'none' : backbonePlace({ uri, name }).kind;
  const budgets = deps.budgets.list;
  instancesRoutes(app, { log: updateLog, instances, everyone, backbone, budgets });
  metricsRoute(app, options.metricsAccess, metrics);
  logLevelRoutes(app, deps);
  const description = 'Serves policy bundles, accepts data updates, and notifies subscribers of both.';
  docsRoutes(
    app,
    { title: 'PolicySync server', version: packageVersion(), description },
    security.authenticator.enabled,
  );
  // Registered last: its path is a setting and must not collide with another route.
  jwksRoutes(app, { path: options.authJwksUrl }, security.publishedKeys);
  return streams;
}

function webhookOptions(options: ServerOptions): WebhookRouteOptions {
  return {
    sourceType: options.policySourceType,
    sourceUrl: options.policySourceType === 'API' ? options.policyBundleUrl : options.policyRepoUrl,
    branch: options.policyRepoBranch,
    secret: options.policyRepoWebhookSecret,
    params: options.policyRepoWebhookParams,
    enforceBranch: options.policyRepoWebhookEnforceBranch,
  };
}
