import { setMaxListeners } from 'node:events';
import { rm } from 'node:fs/promises';
import { clientAuthenticator } from '../auth/security.js';
import { openListenerTls } from '../http/listener-tls.js';
import type { RouteDeclaration } from '../http/route.js';
import { errorText, failureFields, SyncError } from '../lib/errors.js';
import { type Logger, redactUrl } from '../lib/log.js';
import { createMetrics } from '../lib/metrics.js';
import { endpointOf } from '../lib/proxy.js';
import { logStart } from '../lib/start-lines.js';
import { pemFile } from '../lib/tls.js';
import { packageVersion } from '../lib/version.js';
import { addClientReadings, createClientMetrics } from './client-metrics.js';
import { DriftCheck } from './drift/drift-check.js';
import { createEngine } from './engine/create-engine.js';
import { createHttpProvider } from './fetch/http-fetch.js';
import { createPostgresProvider } from './fetch/postgres-provider.js';
import type { FetchProvider } from './fetch/provider.js';
import { loadProviderModules } from './fetch/provider-modules.js';
import { createFetcher } from './fetch/providers.js';
import { createSpool } from './fetch/spool.js';
import { Follower } from './follower.js';
import { healthPaths } from './health/health-document.js';
import { HealthWriter } from './health/health-writer.js';
import { createOffline } from './offline/create-offline.js';
import type { ClientSettings } from './options.js';
import { OutboundGate } from './outbound/gate.js';
import { openOutbound } from './outbound/outbound.js';
import type { LookUp } from './outbound/own-places.js';
import { clientIdOf } from './position/client-id.js';
import { PositionWaits } from './position/position-waits.js';
import { StateReporter } from './position/state-reporter.js';
import { Applier } from './reconcile/applier.js';
import { DataUpdater } from './reconcile/data-updater.js';
import { EngineKeeper } from './reconcile/engine-keeper.js';
import { PolicyUpdater } from './reconcile/policy-updater.js';
import { Revalidation } from './reconcile/revalidation.js';
import { Reporter } from './report/reporter.js';
import { ServerApi } from './server-api.js';
import { startFacts } from './start-facts.js';
import { Status } from './status/status.js';
import { temporaryFolder } from './temporary-folder.js';

/** A sync client. */
export interface Client {
  /** Listens and starts to follow the server; the engine is got in the background, then policy and data arrive. */
  start(): Promise<{ url: string; port: number }>;
  /**
   * Ends everything that it started, the inline engine included. A second call is the same stop, and a start after it rejects with
   * `already_stopped`.
   */
  stop(): Promise<void>;
  /** Settles when the client has ended: rejects when a part failed in a way that trying again does not mend. */
  ended(): Promise<void>;
  /** Every route of the client API and who may call it; empty before the start. */
  readonly routes: readonly RouteDeclaration[];
}

/** Longest silence of the sync server: a first bundle of a large repository is built while we wait. */
const SERVER_ANSWER_MS = 120_000;
const ENGINE = 'the policy engine of this client';
/** First wait of every retry; the longest is SYNC_RETRY_MAX. */
const RETRY_MIN_MS = 200;

/** The composition root of the client: makes the parts, starts them in order, stops them in reverse. */
export function createClient(
  settings: ClientSettings,
  deps: {
    log: Logger;
    env: Readonly<Record<string, string | undefined>>;
    /** More providers, beside the built-in ones and those of SYNC_FETCH_PROVIDER_MODULES; closed with the client. */
    fetchProviders?: readonly FetchProvider[];
    /** Looks up names for what an update names. Default: as the system does. */
    lookUp?: LookUp;
  },
): Client {
  const { log, env } = deps;
  const stopping = new AbortController();
  // One listener a part and request: the signal of the whole client has many.
  setMaxListeners(0, stopping.signal);
  const ends: (() => Promise<void>)[] = [];
  let ended: Promise<void> = Promise.resolve();
  let starting: Promise<{ url: string; port: number }> | undefined;
  let stopped: Promise<void> | undefined;
  let routes: readonly RouteDeclaration[] = [];

  async function start(): Promise<{ url: string; port: number }> {
    if (stopped !== undefined) throw new SyncError('already_stopped', 'this client was stopped');
    const { signal } = stopping;
    const clientId = clientIdOf(settings);
    logStart(log, startFacts(settings, { version: packageVersion(), nodeVersion: process.versions.node, clientId }));
    const authenticator = await clientAuthenticator(settings);
    const connections = await openOutbound(settings, { log: log.child({ component: 'tls' }), env });
    ends.push(async () => connections.close());
    const tls = await openListenerTls({
      cert: pemFile('SYNC_CLIENT_API_TLS_CERT_FILE', settings.apiTlsCertFile),
      key: pemFile('SYNC_CLIENT_API_TLS_KEY_FILE', settings.apiTlsKeyFile),
      ca: pemFile('SYNC_CLIENT_API_TLS_CA_FILE', settings.apiTlsCaFile),
    });
    const gate = new OutboundGate(settings, deps.lookUp === undefined ? {} : { lookUp: deps.lookUp });
    const backoff = { minMs: RETRY_MIN_MS, maxMs: settings.retryMaxMs };
    const status = new Status(
      { policyEnabled: settings.policyUpdaterEnabled, dataEnabled: settings.dataUpdaterEnabled },
      (done) => {
        const line = {
          update_id: done.id,
          reason: done.reason,
          entries: done.entries,
          duration_ms: done.durationMs,
          outcome: done.success ? 'applied' : 'failed',
        };
        if (done.success) log.info(line, 'data transaction');
        else log.warn({ ...line, ...failureFields(new SyncError('not_applied', done.error)) }, 'data transaction');
      },
    );

    const fetchProviders = [
      ...(deps.fetchProviders ?? []),
      ...(await loadProviderModules(settings.fetchProviderModules)),
    ];
    const engine = await createEngine(settings, {
      log: log.child({ component: 'engine' }),
      env,
      signal,
      outgoing: connections.tls,
      reserved: healthPaths(settings.healthDocument),
    });
    // Loaded now: a program is asked for its version meanwhile.
    const loading = Promise.all([import('./http.js'), import('../http/app.js')]);
    loading.catch(() => undefined); // awaited below
    ends.push(() => engine.close());
    gate.protect(ENGINE, endpointOf(new URL(settings.engineUrl)));
    for (const { what, place } of engine.listeners) gate.protect(what, place);
    const metrics = createMetrics();
    const meter = createClientMetrics(metrics);
    const applier = new Applier(meter.engine(engine.engine));
    const keeper = new EngineKeeper(
      {
        tellsStart: settings.inlineEngineEnabled,
        probeEnabled: settings.probeEnabled,
        probeIntervalMs: settings.probeIntervalMs,
        probeTimeoutMs: settings.probeTimeoutMs,
        mayResume: settings.offlineModeEnabled && engine.engine.seals !== undefined,
        backoff,
      },
      {
        engine: engine.engine,
        applier,
        status,
        onBack: () => {
          data.engineBack();
          policy.engineBack();
        },
        onRefilled: () => offline.engineRestarted(),
        log: log.child({ component: 'engine' }),
      },
    );
    // It takes as long to start as all other parts together. Of a failure `ended` tells.
    const engineRun = engine.run(
      { onStarted: () => keeper.started(), onGone: (reason) => keeper.ended(reason) },
      signal,
    );
    engineRun.catch(() => undefined);
    ends.push(() => engineRun.catch(() => undefined));
    const healthWriter =
      settings.healthDocument === false
        ? undefined
        : new HealthWriter(
            { paths: healthPaths(settings.healthDocument), backoff },
            { engine: engine.engine, status, log: log.child({ component: 'health' }) },
          );
    const follower = new Follower(settings, {
      keeper,
      askServerLoad: (loadSignal) => api.loadLimit(loadSignal),
      dial: connections.dial,
      log,
    });

    const spoolDir = await temporaryFolder('policysync-spool-');
    ends.push(() => rm(spoolDir, { recursive: true, force: true }));
    const spool = await createSpool({ dir: spoolDir, limitBytes: settings.fetchLimitBytes });
    const fetcher = createFetcher(
      {
        totalTimeoutMs: settings.fetchTotalTimeoutMs,
        concurrency: settings.fetchConcurrency,
        perHost: settings.fetchPerHost,
      },
      {
        providers: [
          createHttpProvider({ silenceTimeoutMs: settings.fetchTimeoutMs, env, tls: connections.tls, gate }),
          createPostgresProvider({
            connectTimeoutMs: settings.fetchTimeoutMs,
            statementTimeoutMs: settings.fetchTotalTimeoutMs,
            tls: connections.tls,
          }),
          ...fetchProviders,
        ],
        spool,
        gate,
        log: log.child({ component: 'fetch' }),
      },
    );
    ends.push(() => fetcher.close());

    const reporter = new Reporter(
      { ...settings, timeoutMs: settings.fetchTimeoutMs, backoff },
      {
        dispatcher: connections.dispatcher(settings.fetchTimeoutMs),
        gated: connections.dispatcher(settings.fetchTimeoutMs, gate),
        gate,
        log: log.child({ component: 'report' }),
      },
    );
    ends.push(() => reporter.close());

    const api = new ServerApi({
      serverUrl: settings.serverUrl,
      dataConfigUrl: settings.dataConfigUrl,
      token: settings.clientToken,
      policyDirs: settings.policyDirs,
      limitBytes: settings.serverAnswerLimitBytes,
      dispatcher: connections.dispatcher(SERVER_ANSWER_MS),
      gated: connections.dispatcher(SERVER_ANSWER_MS, gate),
    });
    ends.push(() => api.close());

    /** What cannot be read may list something that is missing here: that shows in the status until it is read. */
    const orTell = async <T>(answer: Promise<T>, fetchSignal: AbortSignal): Promise<T> => {
      try {
        return await answer;
      } catch (error) {
        const isFailure = !(error instanceof SyncError && error.code === 'not_enabled');
        if (isFailure && !fetchSignal.aborted) status.configFailed(errorText(error));
        throw error;
      }
    };
    const waits: PositionWaits = new PositionWaits({
      status: (seq) => {
        const applied = data.applyStatus(seq);
        // Who asks reads the engine next: one that is away, or being filled again, has nothing to show yet.
        return applied === 'applied' && !status.engine.online ? 'pending' : applied;
      },
      catchUp: () => data.catchUp(),
    });
    const stateReporter: StateReporter = new StateReporter(
      { clientId },
      {
        state: () => ({
          position: data.logPosition,
          policy_hash: policy.hash ?? null,
          ready: status.ready,
          healthy: status.healthy,
          policy: status.policy,
          engine: {
            kind: 'opa',
            version: engine.version() ?? null,
            online: status.engine.online,
            error: status.engine.error ?? null,
            since: status.engine.sinceMs,
          },
          failing: status.failures,
          failing_total: status.failing.size,
          blocked: data.blockedSeqs,
        }),
        log: log.child({ component: 'session' }),
      },
    );
    status.watch(() => {
      stateReporter.changed();
      waits.changed();
    });

    const data: DataUpdater = new DataUpdater(
      { topics: settings.dataTopics, backoff, pollMinMs: settings.pollMinMs },
      {
        applier,
        exclusive: follower.exclusive,
        fetch: meter.fetch((request, fetchSignal, onLarge) => fetcher.fetch(request, fetchSignal, onLarge)),
        fetchConfig: (fetchSignal) => orTell(api.dataConfig(fetchSignal), fetchSignal),
        fetchBase: (fetchSignal) => orTell(api.baseConfig(fetchSignal), fetchSignal),
        fetchUpdates: (query, fetchSignal) => orTell(api.updates(query, fetchSignal), fetchSignal),
        onPosition: () => {
          waits.changed();
          stateReporter.changed();
        },
        status,
        observer: reporter.updates,
        log: log.child({ component: 'data' }),
      },
    );
    const policy: PolicyUpdater = new PolicyUpdater(
      { backoff },
      {
        applier,
        exclusive: follower.exclusive,
        fetchBundle: meter.bundle((baseHash, fetchSignal) => api.policy(baseHash, fetchSignal)),
        onApplied: () => {
          data.policyChanged();
          if (policy.hash !== undefined) reporter.policyApplied(policy.hash);
        },
        status,
        log: log.child({ component: 'policy' }),
      },
    );

    follower.attach({ policy, data, reporter: stateReporter });
    const drift =
      settings.driftCheckIntervalMs === 0
        ? undefined
        : new DriftCheck(
            { intervalMs: settings.driftCheckIntervalMs },
            {
              applier,
              engine: engine.engine,
              exclusive: keeper.exclusive,
              log: log.child({ component: 'drift' }),
            },
          );
    const revalidation = new Revalidation(() => {
      const { connected } = follower.server;
      // A client that is disconnected on purpose asks nobody; when it follows again it asks for everything.
      if (!follower.following) return;
      // While the connection is down its return asks for both.
      if (settings.policyUpdaterEnabled && connected) policy.requestComplete();
      if (settings.dataUpdaterEnabled) data.revalidate(connected);
    });
    const { backup, offline } = createOffline(
      { settings, env, backoff },
      {
        ...{ engine: engine.engine, applier, keeper, policy, data, status, spool, follower },
        refetch: () => revalidation.request(),
        log: log.child({ component: 'offline' }),
      },
    );
    // Runs once nothing changes any more, and while the spool is still there.
    if (settings.offlineModeEnabled) {
      ends.push(async () => {
        await backup.saveOrTell();
        await backup.settled();
      });
    }

    addClientReadings(metrics, {
      status,
      connected: () => follower.server.connected,
      connections: () => follower.server.connections,
      position: () => data.logPosition,
      reports: () => reporter.details,
    });
    const [{ clientHttp }, { closeHttpApp, listenHttp }] = await loading;
    const app = clientHttp({
      metrics: { access: settings.metricsAccess, metrics },
      authenticator,
      listen: { host: settings.host, names: settings.allowedHosts },
      tls,
      status,
      policy,
      server: () => follower.server,
      engine: () => ({
        policy_mode: engine.engine.policyMode,
        access: engine.access,
        version: engine.version() ?? null,
        rego: engine.rego() ?? null,
        getting: engine.getting() ?? null,
      }),
      reports: () => reporter.details,
      callbacks: reporter,
      data,
      drift: () => drift?.state,
      position: { data, waits },
      healthDocument: () => healthWriter?.state,
      refetchPolicy: settings.policyUpdaterEnabled ? () => policy.refetch() : undefined,
      refreshData: settings.dataUpdaterEnabled ? () => data.refresh() : undefined,
      following: () => follower.following,
      offline,
      store: {
        url: settings.engineUrl,
        auth: {
          type: settings.engineAuthType,
          token: settings.engineAuthToken,
          oauthServer: settings.engineOauthServer,
          oauthClientId: settings.engineOauthClientId,
          oauthClientSecret: settings.engineOauthClientSecret,
        },
        showsSecrets: authenticator.enabled && !settings.excludeStoreSecrets,
      },
      log: log.child({ component: 'http' }),
    });
    routes = app.declaredRoutes;
    ends.push(() => closeHttpApp(app));
    const address = await listenHttp(app, { host: settings.host, port: settings.port });
    gate.protect('the API of this client', { host: settings.host, port: address.port });

    const parts = [
      engineRun,
      keeper.run(signal),
      healthWriter?.run(signal),
      drift?.run(signal),
      follower.run(signal),
      revalidation.run(signal),
      offline.run(signal),
      reporter.run(signal),
    ];
    const running = Promise.all(parts).then(() => undefined);
    ended = running;
    // The caller hears of it by ended(); here it only must not count as unhandled.
    running.catch((error: unknown) => {
      if (!signal.aborted) log.error(failureFields(error), 'the client cannot go on');
    });
    ends.push(async () => {
      await Promise.allSettled(parts);
    });
    log.info(
      {
        ...address,
        server: redactUrl(settings.serverUrl),
        engine: redactUrl(settings.engineUrl),
        policy_mode: engine.engine.policyMode,
      },
      'sync client is listening',
    );
    return address;
  }

  async function stop(): Promise<void> {
    stopping.abort();
    // A start under way is let finish its step; what it opened is closed below.
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
        stopping.abort();
        await endAll();
        throw error;
      });
      return starting;
    },
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
    ended: () => ended,
    get routes() {
      return routes;
    },
  };
}
