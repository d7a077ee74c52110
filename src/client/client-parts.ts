import { rm } from 'node:fs/promises';
import { endpointOf } from '../lib/net/proxy.js';
import { type Logger, logLevelsOf } from '../lib/observe/log.js';
import { createMetrics, type Metrics } from '../lib/observe/metrics.js';
import { openTracing } from '../lib/observe/tracing.js';
import { type BackoffOptions, withAnySignal } from '../lib/run/async.js';
import type { Parts } from '../lib/run/lifecycle.js';
import { packageVersion } from '../lib/run/version.js';
import { docPathText } from '../wire/doc-path.js';
import { AskedActions, ownDetails } from './asked/asked-actions.js';
import type { ClientDeps } from './client-deps.js';
import { type ClientMetrics, createClientMetrics } from './client-metrics.js';
import { DriftCheck } from './drift/drift-check.js';
import type { EngineChoice } from './engine/choose-engine.js';
import { createEngine } from './engine/create-engine.js';
import type { PolicyEngine } from './engine/engine.js';
import type { RunningEngine } from './engine/opa/running-engine.js';
import { HttpProvider } from './fetch/http-fetch.js';
import { createPostgresProvider } from './fetch/postgres-provider.js';
import { type FetchProvider, loadProviderModules } from './fetch/provider.js';
import { createFetcher, type Fetcher } from './fetch/providers.js';
import { createSpool, type Spool } from './fetch/spool.js';
import { Follower } from './follow/follower.js';
import { BundleTraces, UpdateTraces } from './follow/traces.js';
import { healthPaths } from './health/health-document.js';
import { HealthWriter } from './health/health-writer.js';
import type { ClientSettings } from './options.js';
import { OutboundGate } from './outbound/gate.js';
import { type OutboundConnections, openOutbound } from './outbound/outbound.js';
import { ChangeSteps } from './position/change-steps.js';
import { Applier } from './reconcile/applier.js';
import { DataUpdater } from './reconcile/data-updater.js';
import type { EngineCopy } from './reconcile/engine-copy.js';
import { EngineKeeper } from './reconcile/engine-keeper.js';
import { PolicyUpdater } from './reconcile/policy-updater.js';
import { Reporter } from './report/reporter.js';
import { ServerApi } from './server-api.js';
import { clientIdOf } from './start-facts.js';
import { DataEvents } from './status/data-events.js';
import { Status } from './status/status.js';
import { logFinished } from './status/transactions.js';
import { temporaryFolder } from './temporary-folder.js';

/** What the parts of the client are made of, for its composition root. */

/**
 * Longest silence of the sync server: it may build the first bundle of a large repository
 * meanwhile.
 */
const SERVER_ANSWER_MS = 120_000;
/** Longest time of a question to an OPA over REST, unless the application says otherwise. */
const DECISION_TIMEOUT_MS = 5_000;
/** First wait of every retry; the longest is SYNC_RETRY_MAX. */
const RETRY_MIN_MS = 200;

/** What most parts are made with. */
export interface ClientCommon {
  readonly settings: ClientSettings;
  readonly env: ClientDeps['env'];
  readonly logOf: (component: string) => Logger;
  readonly backoff: BackoffOptions;
  readonly status: Status;
  readonly events: DataEvents;
  /** Undefined: no SDK for traces is in this process. */
  readonly traces: UpdateTraces | undefined;
  readonly policyTraces: BundleTraces | undefined;
  readonly steps: ChangeSteps;
  readonly metrics: Metrics;
  readonly meter: ClientMetrics;
  readonly outbound: OutboundConnections;
  readonly gate: OutboundGate;
  readonly decisionTimeoutMs: number;
}

export async function openCommon(
  settings: ClientSettings,
  { log, env, lookUp, decisions = {} }: ClientDeps,
  parts: Parts,
): Promise<ClientCommon> {
  const logOf = (component: string): Logger => log.child({ component });
  const { policyUpdaterEnabled: policyEnabled, dataUpdaterEnabled: dataEnabled } = settings;
  const { traces, policyTraces } = await openTraces(settings, parts);
  const logEnd = logFinished(logOf('data'));
  const status = new Status(
    { policyEnabled, dataEnabled, cutOffIsUnhealthy: settings.cutOffIsUnhealthy },
    (result, transaction) => {
      logEnd(result, transaction);
      traces?.finished(transaction.update);
    },
    logEnd,
  );
  const events = new DataEvents();
  if (traces !== undefined) events.subscribe(traces.onData);
  events.subscribe(status.onData);
  const steps = new ChangeSteps();
  events.subscribe(steps.onData);
  const metrics = createMetrics();
  return {
    ...{ settings, env, logOf, status, events, steps, traces, policyTraces, metrics },
    backoff: { minMs: RETRY_MIN_MS, maxMs: settings.retryMaxMs },
    meter: createClientMetrics(metrics),
    outbound: parts.add(await openOutbound(settings, { log: logOf('tls'), env }), (one) => one.close()),
    gate: new OutboundGate(settings, lookUp === undefined ? {} : { lookUp }),
    decisionTimeoutMs: decisions.timeoutMs ?? DECISION_TIMEOUT_MS,
  };
}

/** Sends what is left of it last of all. */
async function openTraces(
  settings: ClientSettings,
  parts: Parts,
): Promise<Pick<ClientCommon, 'traces' | 'policyTraces'>> {
  const tracing = await openTracing(packageVersion());
  if (tracing === undefined) return { traces: undefined, policyTraces: undefined };
  parts.add(tracing, (one) => one.flush());
  const options = { clientId: clientIdOf(settings) };
  return { traces: new UpdateTraces(options, { tracing }), policyTraces: new BundleTraces(options, { tracing }) };
}

/** The engine and the parts that work with it alone. */
interface EngineSide {
  readonly engine: RunningEngine;
  readonly applier: Applier;
  readonly held: EngineCopy;
  readonly keeper: EngineKeeper;
  readonly healthWriter: HealthWriter | undefined;
  readonly drift: DriftCheck | undefined;
}

/** Makes the engine and starts it at once: that takes as long as all other parts together. */
export async function openEngine(
  { settings, env, logOf, backoff, status, meter, outbound, gate, decisionTimeoutMs }: ClientCommon,
  { choice, engineUrl }: { choice: EngineChoice; engineUrl: string | undefined },
  parts: Parts,
): Promise<EngineSide> {
  const { healthDocument, probeEnabled, probeIntervalMs, probeTimeoutMs } = settings;
  const log = logOf('engine');
  const engine = parts.add(
    await createEngine(settings, {
      ...{ log, env, signal: parts.signal, outgoing: outbound.tls, choice, outbound, gate },
      decisionTimeoutMs,
      listens: engineUrl !== undefined,
      reserved: healthPaths(healthDocument),
    }),
    (one) => one.close(),
  );
  if (engineUrl !== undefined) gate.protect('the policy engine of this client', endpointOf(new URL(engineUrl)));
  for (const { what, place } of engine.listeners) gate.protect(what, place);
  const applier = new Applier(meter.engine(engine.engine), {
    takesPolicy: settings.policyUpdaterEnabled,
    onCleared: (paths) =>
      log.warn({ paths: paths.map(docPathText) }, 'documents of somebody else had the place of a rule: removed'),
  });
  const { held } = applier;
  const mayResume = settings.offlineModeEnabled && engine.engine.seals !== undefined;
  const keeper = new EngineKeeper(
    { tellsStart: engine.kind !== 'external', probeEnabled, probeIntervalMs, probeTimeoutMs, mayResume, backoff },
    { engine: engine.engine, held, status, log },
  );
  const events = { onStarted: () => keeper.started(), onGone: (reason: string) => keeper.ended(reason) };
  parts.run((signal) => engine.run(events, signal));
  const healthWriter =
    healthDocument === false
      ? undefined
      : new HealthWriter(
          { paths: healthPaths(healthDocument), backoff },
          { engine: engine.engine, status, log: logOf('health') },
        );
  const { driftCheckIntervalMs: intervalMs } = settings;
  const { exclusive } = keeper;
  const drift =
    intervalMs === 0
      ? undefined
      : new DriftCheck({ intervalMs }, { held, engine: engine.engine, exclusive, log: logOf('drift') });
  return { engine, applier, held, keeper, healthWriter, drift };
}

export function makeFollower(
  { settings, status, outbound: { dial } }: ClientCommon,
  { api, keeper, engine, log }: Pick<EngineSide, 'keeper' | 'engine'> & { api: ServerApi; log: Logger },
): Follower {
  return new Follower(settings, {
    ...{ keeper, dial, log },
    askServerLoad: (signal) => api.loadLimit(signal),
    onCutOff: (sinceMs) => status.serverCutOff(sinceMs),
    engineGoesOn: () => goesOn(engine.engine),
  });
}

/** A stop waits no longer for the answer of an engine. */
const LAST_LOOK_MS = 500;

function goesOn(engine: PolicyEngine): Promise<boolean> {
  return withAnySignal([], async (signal) => (await engine.goesOn?.(signal)) === true, LAST_LOOK_MS);
}

/** The fetcher of data sources, and its spool. */
export async function openFetcher(
  { settings, env, logOf, outbound: { tls }, gate }: ClientCommon,
  more: readonly FetchProvider[],
  parts: Parts,
): Promise<{ spool: Spool; fetcher: Fetcher }> {
  const { fetchTimeoutMs, fetchTotalTimeoutMs, fetchConcurrency: concurrency, fetchPerHost: perHost } = settings;
  const dir = parts.add(await temporaryFolder('policysync-spool-'), (path) =>
    rm(path, { recursive: true, force: true }),
  );
  const spool = await createSpool({ dir, limitBytes: settings.fetchLimitBytes });
  const providers = [
    new HttpProvider({ silenceTimeoutMs: fetchTimeoutMs, env, tls, gate }),
    createPostgresProvider({ connectTimeoutMs: fetchTimeoutMs, statementTimeoutMs: fetchTotalTimeoutMs, tls }),
    ...more,
    ...(await loadProviderModules(settings.fetchProviderModules)),
  ];
  const options = { totalTimeoutMs: fetchTotalTimeoutMs, concurrency, perHost };
  const fetcher = createFetcher(options, { providers, spool, gate, log: logOf('fetch') });
  return { spool, fetcher: parts.add(fetcher, (one) => one.close()) };
}

/** The API of the sync server, and the reports to callbacks. */
export function openServerSide(
  { settings, logOf, backoff, status, events, outbound, gate }: ClientCommon,
  { add }: Parts,
): { api: ServerApi; reporter: Reporter } {
  const { fetchTimeoutMs: timeoutMs } = settings;
  const reporter = new Reporter(
    { ...settings, timeoutMs, backoff },
    {
      dispatcher: outbound.dispatcher(timeoutMs),
      gated: outbound.dispatcher(timeoutMs, gate),
      gate,
      events,
      log: logOf('report'),
    },
  );
  const api = new ServerApi({
    serverUrl: settings.serverUrl,
    dataConfigUrl: settings.dataConfigUrl,
    token: settings.clientToken,
    policyDirs: settings.policyDirs,
    limitBytes: settings.serverAnswerLimitBytes,
    dispatcher: outbound.dispatcher(SERVER_ANSWER_MS),
    gated: outbound.dispatcher(SERVER_ANSWER_MS, gate),
    onDataFailed: (reason) => status.configFailed(reason),
  });
  return { reporter: add(reporter, (one) => one.close()), api: add(api, (one) => one.close()) };
}

/** The updaters of policy and data. */
export function makeUpdaters(
  { settings, logOf, backoff, status, events, steps, traces, policyTraces, meter }: ClientCommon,
  deps: {
    applier: Applier;
    follower: Follower;
    fetcher: Fetcher;
    api: ServerApi;
    reporter: Reporter;
    /** The engine may have been there before this client. */
    outlives: boolean;
  },
): { policy: PolicyUpdater; data: DataUpdater } {
  const { applier, follower, fetcher, api, reporter } = deps;
  const shared = { applier, exclusive: follower.exclusive };
  const data = new DataUpdater(
    { topics: settings.dataTopics, backoff, pollMinMs: settings.pollMinMs },
    {
      ...shared,
      fetch: meter.fetch(fetcher.fetch.bind(fetcher)),
      fetchConfig: (signal) => api.dataConfig(signal),
      fetchBase: (signal) => api.baseConfig(signal),
      fetchUpdates: (query, signal) => api.updates(query, signal),
      ended: deps.outlives,
      ...{ events, traces },
      log: logOf('data'),
    },
  );
  const fetchBundle = meter.bundle(async (baseHash: string | undefined, signal: AbortSignal) => {
    const bundle = await api.policy(baseHash, signal);
    steps.policyFetched(bundle.hash);
    return bundle;
  });
  const policy = new PolicyUpdater(
    { backoff, firstWaitMs: settings.firstPolicyWaitMs },
    {
      ...shared,
      withDocuments: data.withDocuments,
      applier: policyTraces?.applier(applier) ?? applier,
      status,
      fetchBundle: policyTraces?.fetch(fetchBundle) ?? fetchBundle,
      onApplied: (hash) => {
        data.policyChanged();
        if (hash !== '') reporter.policyApplied(hash);
      },
      log: logOf('policy'),
    },
  );
  applier.held.watchWithheld(() => data.policyChanged());
  return { policy, data };
}

/** What the servers may ask this client over the socket. */
export function makeAsked(
  { settings, status, logOf }: ClientCommon,
  deps: Pick<EngineSide, 'engine' | 'drift'> & {
    policy: PolicyUpdater;
    data: DataUpdater;
    startedMs: number;
    log: Logger;
  },
): AskedActions {
  const { policyUpdaterEnabled: policyEnabled, dataUpdaterEnabled: dataEnabled, remoteActions: mayAct } = settings;
  return new AskedActions(
    { mayAct, policyEnabled, dataEnabled },
    {
      ...deps,
      levels: logLevelsOf(deps.log),
      details: () => ownDetails({ ...deps, recent: status.recent }),
      log: logOf('asked'),
    },
  );
}
