import { randomUUID } from 'node:crypto';
import { serverSecurity } from '../auth/security.js';
import { AddressLimits } from '../http/address-limits.js';
import { closeHttpApp, createHttpApp, listenHttp } from '../http/app.js';
import { ClientAddresses } from '../http/client-address.js';
import { refuseForeignPages } from '../http/cors.js';
import { docsRoutes } from '../http/docs.js';
import { createHostCheck } from '../http/host-check.js';
import { openListenerTls } from '../http/listener-tls.js';
import { metricsRoute } from '../http/metrics-route.js';
import type { ApiInfo } from '../http/openapi.js';
import { consumeRateLimit } from '../http/rate-limit.js';
import type { RouteDeclaration } from '../http/route.js';
import { onWebSocketUpgrade } from '../http/upgrade.js';
import { failureFields, SyncError } from '../lib/errors.js';
import type { Logger } from '../lib/log.js';
import { createMetrics } from '../lib/metrics.js';
import { RateLimit } from '../lib/rate.js';
import { logStart } from '../lib/start-lines.js';
import { pemFile } from '../lib/tls.js';
import { packageVersion } from '../lib/version.js';
import { createHub } from '../pubsub/hub.js';
import { createSocketServer } from '../pubsub/socket-server.js';
import type { PeerEntry, ServerDataSources } from '../wire/data.js';
import { authorizeUpdate } from './authorize-update.js';
import { retryUntilAvailable } from './backbone/retry-until-available.js';
import { checkExternalSource } from './external-source.js';
import { openUpdateLog } from './open-update-log.js';
import type { ServerSettings } from './options.js';
import { createPolicy, noBundles } from './policy.js';
import { ALWAYS_FRESH } from './policy-freshness.js';
import { createPublisher } from './publish.js';
import { clientsRoutes } from './routes/clients.js';
import { dataRoutes } from './routes/data.js';
import { dataLogRoutes } from './routes/data-log.js';
import { dataRefreshRoutes } from './routes/data-refresh.js';
import { dataUpdatesRoutes } from './routes/data-updates.js';
import { healthRoutes, loadLimitRoutes, rootRoutes } from './routes/health.js';
import { policyRoutes } from './routes/policy.js';
import { statisticsRoutes } from './routes/statistics.js';
import { jwksRoutes, tokenRoutes } from './routes/token.js';
import { type WebhookRouteOptions, webhookRoutes } from './routes/webhook.js';
import { addServerReadings, createServerMetrics } from './server-metrics.js';
import { openClaims } from './sessions/claims-file.js';
import { recentUpdates, updateOf } from './sessions/recent-updates.js';
import { createSessions, type Sessions } from './sessions/sessions.js';
import { socketPeer } from './socket-peer.js';
import { socketUpdate } from './socket-update.js';
import type { Tracker } from './source/tracker.js';
import { logFact, startFacts, startWarnings } from './start-facts.js';

/** Settings of a server; unlike the program, the library asks for a state folder. */
export type ServerOptions = Omit<ServerSettings, 'stateDir'> & { stateDir: string };

/** A sync server. */
export interface Server {
  /**
   * Opens the state folder, listens, and answers where. Policy is fetched in the background: until the first commit is
   * there `/policy` answers 503. Rejects with `state_dir_in_use`, `listen_failed`, `log_unwritable`, `log_damaged`,
   * `backbone_unavailable` or `config_invalid` (policy source, keys, backbone); then nothing is left running.
   */
  start(): Promise<{ url: string; port: number }>;
  /**
   * Ends everything; requests in flight may finish. Also ends a start that is under way. A second call is the same stop, and a start
   * after it rejects with `already_stopped`.
   */
  stop(): Promise<void>;
  /**
   * Settles when the policy source is no longer followed. Rejects when it, or the update log, failed in a way that only
   * another start mends; with `backbone_replaced` where the log in the backbone is not the one that was read.
   */
  ended(): Promise<void>;
  /** Every route of its HTTP API and who may call it; empty before the start. */
  readonly routes: readonly RouteDeclaration[];
}

/** Connections for requests beside those that SYNC_MAX_CONNECTIONS allows for sockets. */
const REQUEST_CONNECTIONS = 1024;

/** The composition root of the server: makes the parts, starts them in order, stops them in reverse. */
export function createServer(options: ServerOptions, deps: { log: Logger; env: NodeJS.ProcessEnv }): Server {
  const { log } = deps;
  /** How to end what was started, in the order of the starts. */
  const ends: (() => Promise<void>)[] = [];
  /** Aborts when the server is stopped amid its start. */
  const givenUp = new AbortController();
  let starting: Promise<{ url: string; port: number }> | undefined;
  let stopping: Promise<void> | undefined;
  let following: Promise<void> = new Promise(() => undefined);
  let logFailed: Promise<never> = new Promise(() => undefined);
  let routes: readonly RouteDeclaration[] = [];

  async function start(): Promise<{ url: string; port: number }> {
    if (stopping !== undefined) throw new SyncError('already_stopped', 'this server was stopped');
    const { stateDir } = options;
    logStart(log, startFacts(options, { version: packageVersion(), nodeVersion: process.versions.node }));
    for (const warning of startWarnings(options)) log.warn(warning);
    checkExternalSource(options.dataSources, { allowInsecure: options.allowInsecureExternalSource });
    const security = await serverSecurity(options);
    const { authenticator } = security;
    const tls = await openListenerTls({
      cert: pemFile('SYNC_SERVER_TLS_CERT_FILE', options.tlsCertFile),
      key: pemFile('SYNC_SERVER_TLS_KEY_FILE', options.tlsKeyFile),
      ca: pemFile('SYNC_SERVER_TLS_CA_FILE', options.tlsCaFile),
    });
    const { signal } = givenUp;
    const opened = await openUpdateLog(options, { log: log.child({ component: 'update-log' }), signal });
    const { updateLog, isShared } = opened;
    ends.push(() => opened.close());
    logStart(log, [logFact(options, updateLog)]);
    logFailed = updateLog.failed ?? logFailed;
    logFailed.catch((error: unknown) => log.error(failureFields(error, 'stack'), 'the update log failed'));
    await retryUntilAvailable(() => updateLog.adoptBase(baseEntries(options.dataSources)), { log, signal });

    const addresses = new ClientAddresses(options.trustedProxies);
    const limits = new AddressLimits(
      { connections: options.connectionsPerAddress, bytes: options.unauthenticatedBytesPerAddress },
      { addresses, log: log.child({ component: 'http' }) },
    );
    const checkHost = createHostCheck({ host: options.host, names: options.allowedHosts });
    const rateLimit = options.rateLimit === undefined ? undefined : new RateLimit(options.rateLimit);
    const hub = createHub(log.child({ component: 'pubsub' }));
    const metrics = createMetrics();
    const meter = createServerMetrics(metrics);
    const publisher = meter.publisher(
      createPublisher(
        { updateLog, hub: meter.delivery(hub), log: log.child({ component: 'publish' }) },
        { retainDefault: options.updatesRetainDefault, inlineDataLimitBytes: options.inlineDataLimitBytes },
      ),
    );
    const policy = createPolicy(options, {
      hub,
      onHead: (noticed) => sessions.headMoved(noticed),
      updateLog,
      isShared,
      log,
      env: deps.env,
      measured: meter.source,
    });
    const kept = await openClaims(
      { stateDir, memoryMs: options.clientMemoryMs },
      { log: log.child({ component: 'sessions' }) },
    );
    ends.push(() => kept.close());
    const sessions: Sessions = createSessions(
      { instance: randomUUID(), heartbeatMs: options.heartbeatIntervalMs, memoryMs: options.clientMemoryMs },
      {
        log: updateLog,
        recent: await retryUntilAvailable(() => recentUpdates(updateLog), { log, signal }),
        policyHead: () => policy?.tracker.wanted(),
        claims: kept.claims,
        presence: opened.presence,
        peers: () => sockets.peers(),
        onApplied: meter.applied,
        logger: log.child({ component: 'sessions' }),
      },
    );
    const stopListening = updateLog.onRecord((record) => sessions.recorded(updateOf(record)));
    ends.push(async () => void stopListening());
    const sockets = createSocketServer(
      {
        frameLimitBytes: options.frameLimitBytes,
        bufferLimitBytes: options.subscriberBufferBytes,
        maxConnections: options.maxConnections,
      },
      {
        hub,
        sessions: sessions.handler,
        meter: meter.sockets,
        addressOf: (request) => addresses.of(request),
        screen: (request) => {
          checkHost(request);
          if (rateLimit !== undefined) consumeRateLimit(rateLimit, addresses.of(request));
          if (limits.requested(request)) request.socket.once('close', () => limits.done(request));
          refuseForeignPages(request.headers, options.allowedOrigins);
        },
        log: log.child({ component: 'socket' }),
        authenticate: async (request) => {
          const peer = await socketPeer(authenticator, request.headers.authorization);
          limits.letIn(request);
          return peer;
        },
        onPublish: async (topics, dataText, peer, except) => {
          const update = socketUpdate(topics, dataText);
          authorizeUpdate(update, peer);
          await publisher.publish(update, peer.subject, { except });
        },
      },
    );

    const stopReloads = updateLog.onSkipped(() => sockets.sendToReload());
    ends.push(async () => void stopReloads());
    const app = createHttpApp(
      { ...options, tls, rateLimit, authenticator, checkHost, limits },
      { log: log.child({ component: 'http' }) },
    );
    ends.push(async () => {
      // Together: the HTTP server waits for its sockets too.
      await Promise.all([sockets.close(), closeHttpApp(app)]);
    });
    routes = app.declaredRoutes;
    rootRoutes(app);
    healthRoutes(app, { policySource: policy?.tracker, log: updateLog, isShared });
    policyRoutes(app, {
      bundles: meter.bundles(policy?.bundles ?? noBundles()),
      freshness: policy?.freshness ?? ALWAYS_FRESH,
    });
    await webhookRoutes(app, webhookOptions(options), {
      requestLook: () => policy?.tracker.requestLook(),
      log: log.child({ component: 'webhook' }),
    });
    dataRoutes(app, options, {
      publisher,
      updateLog,
      sessions: { ...sessions, waitApplied: meter.waits(sessions.waitApplied) },
      log: log.child({ component: 'data' }),
    });
    dataUpdatesRoutes(app, { ...options, isShared }, { updateLog });
    dataLogRoutes(app, { updateLog });
    dataRefreshRoutes(app, { updateLog, publisher });
    tokenRoutes(app, { masterToken: options.authMasterToken }, security);
    loadLimitRoutes(app, options);
    statisticsRoutes(app, options, { peers: sockets.peers, version: packageVersion() });
    clientsRoutes(app, { sessions, policySource: policy?.tracker });
    addServerReadings(metrics, {
      log: updateLog,
      logUp: () => updateLog.status.up,
      sockets,
      sessions: sessions.summary,
      policy: () => policy?.tracker.status(),
    });
    metricsRoute(app, options.metricsAccess, metrics);
    docsRoutes(app, apiInfo());
    // Last, since its path is the operator's and must not be one of the others.
    jwksRoutes(app, { path: options.authJwksUrl }, security.publishedKeys);
    onWebSocketUpgrade(app.server, sockets.handleUpgrade);
    // Beyond the sockets there is room for requests, so that a full server still says that it is well.
    app.server.maxConnections = options.maxConnections + REQUEST_CONNECTIONS;
    await sessions.join();
    inBackground((signal) => sessions.run(signal));
    const address = await listenHttp(app, options);
    log.info({ ...address, state_dir: stateDir, head: updateLog.head }, 'sync server is listening');
    if (policy !== undefined) follow(policy.tracker);
    return address;
  }

  /** The source is looked at in the background, so that a slow first fetch holds up nothing. */
  function follow(tracker: Tracker): void {
    const stop = new AbortController();
    following = tracker.run(stop.signal);
    // Whoever started the server hears of it by ended(); here it only must not count as unhandled.
    const settled = following.catch((error: unknown) =>
      log.error(failureFields(error, 'stack'), 'the policy source is not followed'),
    );
    ends.push(async () => {
      stop.abort();
      await settled;
    });
  }

  /** Runs a part that does not fail, until the stop. */
  function inBackground(run: (signal: AbortSignal) => Promise<void>): void {
    const stop = new AbortController();
    const ended = run(stop.signal);
    ends.push(async () => {
      stop.abort();
      await ended;
    });
  }

  async function stop(): Promise<void> {
    // A start under way is let finish its step, but waits for no backbone any more; what it opened is closed below.
    givenUp.abort();
    await starting?.catch(() => undefined);
    await endAll();
  }

  /** Ends what was started, last first; a failure of one keeps none of the others from ending. */
  async function endAll(): Promise<void> {
    const failures: unknown[] = [];
    for (const end of ends.splice(0).reverse()) await end().catch((error: unknown) => failures.push(error));
    if (failures.length > 0) throw new AggregateError(failures);
  }

  return {
    start: () => {
      starting ??= start().catch(async (error: unknown) => {
        await endAll();
        throw error;
      });
      return starting;
    },
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
    ended: () => Promise.race([following, logFailed]),
    get routes() {
      return routes;
    },
  };
}

function apiInfo(): ApiInfo {
  const description = 'Serves policy bundles, takes data updates, and tells subscribers of both.';
  return { title: 'PolicySync server', version: packageVersion(), description };
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

/** The inline entries that the operator set; undefined where nothing is set or an external API answers them. */
function baseEntries(sources: ServerDataSources | undefined): readonly PeerEntry[] | undefined {
  return sources !== undefined && 'config' in sources ? sources.config.entries : undefined;
}
