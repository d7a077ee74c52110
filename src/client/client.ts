import { rm } from 'node:fs/promises';
import { clientAuthenticator } from '../auth/security.js';
import type { DeclaredRoute } from '../http/declared-route.js';
import { Drain } from '../http/drain.js';
import { openListenerTls } from '../http/listener-tls.js';
import { createHttpProgram, type ListenAddress, type Listening } from '../http/program.js';
import { type BackoffOptions, withAnySignal } from '../lib/async.js';
import type { Parts } from '../lib/lifecycle.js';
import { type Logger, logLevelsOf, redactUrl, silentLogger } from '../lib/log.js';
import { createMetrics, type Metrics } from '../lib/metrics.js';
import { settingValues } from '../lib/options.js';
import { endpointOf } from '../lib/proxy.js';
import type { GivenValues } from '../lib/setting.js';
import { logStart } from '../lib/start-lines.js';
import { pemFile } from '../lib/tls.js';
import { openTracing } from '../lib/tracing.js';
import { packageVersion } from '../lib/version.js';
import { docPathText } from '../wire/doc-path.js';
import { AskedActions } from './asked/asked-actions.js';
import { ownDetails } from './asked/own-details.js';
import { authzenOffer } from './authzen/settings.js';
import { type ClientMetrics, createClientMetrics } from './client-metrics.js';
import type { Decider, DecisionDefaults, DecisionPosition } from './decisions/decision.js';
import { Decisions } from './decisions/decisions.js';
import { DriftCheck } from './drift/drift-check.js';
import { chooseEngine, type EngineChoice } from './engine/choose-engine.js';
import { createEngine } from './engine/create-engine.js';
import type { PolicyEngine } from './engine/engine.js';
import { type EngineRest, withRest } from './engine/engine-rest.js';
import type { RunningEngine } from './engine/running-engine.js';
import { createHttpProvider } from './fetch/http-fetch.js';
import { createPostgresProvider } from './fetch/postgres-provider.js';
import { type FetchProvider, loadProviderModules } from './fetch/provider.js';
import { createFetcher, type Fetcher } from './fetch/providers.js';
import { createSpool, type Spool } from './fetch/spool.js';
import { Follower } from './follower.js';
import { healthPaths } from './health/health-document.js';
import { HealthWriter } from './health/health-writer.js';
import { createOffline } from './offline/create-offline.js';
import { Revalidation } from './offline/revalidation.js';
import { CLIENT_SETTINGS, type ClientSettings } from './options.js';
import { OutboundGate } from './outbound/gate.js';
import { type Outbound, openOutbound } from './outbound/outbound.js';
import type { LookUp } from './outbound/own-places.js';
import { PolicyTraces } from './policy-traces.js';
import { ChangeSteps } from './position/change-steps.js';
import { clientIdOf } from './position/client-id.js';
import { PositionWaits } from './position/position-waits.js';
import { type ReportedState, StateReporter } from './position/state-reporter.js';
import { Applier } from './reconcile/applier.js';
import { DataUpdater } from './reconcile/data-updater.js';
import { EngineKeeper } from './reconcile/engine-keeper.js';
import { PolicyUpdater } from './reconcile/policy-updater.js';
import { Reporter } from './report/reporter.js';
import { ServerApi } from './server-api.js';
import { engineFact, startFacts } from './start-facts.js';
import { DataEvents } from './status/data-events.js';
import { Status } from './status/status.js';
import { logFinished } from './status/transactions.js';
import { temporaryFolder } from './temporary-folder.js';
import { UpdateTraces } from './update-traces.js';

/** A sync client. It decides, too: by whichever engine it keeps current. */
export interface Client<A = ListenAddress | undefined> extends Decider {
  /**
   * Starts to follow the server; the engine starts in the background, then policy and data arrive. Returns the address of its API;
   * undefined where it has none, since no port is given.
   */
  start(): Promise<A>;
  /**
   * Prepares a stop, as SIGTERM does in the program: `GET /ready` is 503, and for SYNC_DRAIN_DELAY everything else stays. Resolves when
   * it is time to call {@link stop}, which cuts it short. Idempotent; does nothing before the start.
   */
  drain(): Promise<void>;
  /**
   * Ends all parts, the inline engine included. A second call is the same stop; a start after it rejects with
   * `already_stopped`.
   */
  stop(): Promise<void>;
  /**
   * Resolves when the client has stopped; rejects when a part fails in a way that trying again does not mend. From then on each decision
   * rejects with that reason.
   */
  ended(): Promise<void>;
  /** Every route of the client API and who may call it; empty before the start. */
  readonly routes: readonly DeclaredRoute[];
}

/** What a client is made with, beside its settings. Each part may be left out. */
export interface ClientDeps {
  readonly log: Logger;
  /** Environment for proxies, programs and folders. Default: that of the process. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** More providers, beside the built-in ones and those of SYNC_FETCH_PROVIDER_MODULES; closed with the client. */
  readonly fetchProviders?: readonly FetchProvider[];
  /** Resolves the host names of updates. Default: the system's resolver. */
  readonly lookUp?: LookUp;
  /** How {@link Client.decide} works where a call does not say otherwise. */
  readonly decisions?: DecisionDefaults;
  /** Has an embedded engine listen for OPA's REST API, too. Default: it opens no port. */
  readonly rest?: EngineRest;
}

/** Longest silence of the sync server: it may build the first bundle of a large repository meanwhile. */
const SERVER_ANSWER_MS = 120_000;
/** Longest time of a question to an OPA over REST, unless the application says otherwise. */
const DECISION_TIMEOUT_MS = 5_000;
/** First wait of every retry; the longest is SYNC_RETRY_MAX. */
const RETRY_MIN_MS = 200;

/** What most parts are made with. */
interface Common {
  readonly settings: ClientSettings;
  readonly env: ClientDeps['env'];
  readonly logOf: (component: string) => Logger;
  readonly backoff: BackoffOptions;
  readonly status: Status;
  readonly events: DataEvents;
  /** Undefined: no SDK for traces is in this process. */
  readonly traces: UpdateTraces | undefined;
  readonly policyTraces: PolicyTraces | undefined;
  readonly steps: ChangeSteps;
  readonly metrics: Metrics;
  readonly meter: ClientMetrics;
  readonly outbound: Outbound;
  readonly gate: OutboundGate;
  readonly decisionTimeoutMs: number;
}

/** Settings by the names of {@link CLIENT_SETTINGS}, times in milliseconds. What is missing has its default. */
export type GivenClientSettings = GivenValues<typeof CLIENT_SETTINGS>;

/**
 * The composition root of the client: makes the parts in order; they end in reverse order. `given`: the settings that differ from
 * their defaults, or all of them, from `loadSettings`. Throws `config_invalid` that names each one that is not valid. Without a
 * logger the client is silent. Without a `port` it has no API.
 */
export function createClient(
  given: GivenClientSettings & { readonly port: number },
  parts?: Partial<ClientDeps>,
): Client<ListenAddress>;
export function createClient(given?: GivenClientSettings, parts?: Partial<ClientDeps>): Client;
export function createClient(given: GivenClientSettings = {}, parts: Partial<ClientDeps> = {}): Client {
  const settings = withRest(settingValues(CLIENT_SETTINGS, given), parts.rest);
  const deps = { ...parts, log: parts.log ?? silentLogger(), env: parts.env ?? process.env };
  const decisions = new Decisions(deps.decisions ?? {}, { log: deps.log.child({ component: 'decisions' }) });
  const program = createHttpProgram(
    'client',
    (made) => compose(settings, { ...deps, decider: decisions, hasApi: given.port !== undefined }, made),
    deps.log,
  );
  program.ended().catch((error: unknown) => decisions.fail(error)); // callers of ended() get it, too
  return {
    start: async () => {
      try {
        return await program.start();
      } catch (error) {
        decisions.fail(error);
        throw error;
      }
    },
    drain: program.drain,
    stop: () => {
      decisions.stop();
      return program.stop();
    },
    ended: program.ended,
    get routes() {
      return program.routes;
    },
    decide: decisions.decide.bind(decisions),
    decideMany: decisions.decideMany.bind(decisions),
    onChange: decisions.onChange.bind(decisions),
  };
}

async function compose(
  settings: ClientSettings,
  deps: ClientDeps & { decider: Decisions; hasApi: boolean },
  parts: Parts,
): Promise<Listening<ListenAddress | undefined>> {
  const { log, env, hasApi } = deps;
  const startedMs = Date.now();
  const clientId = clientIdOf(settings);
  logStart(
    log,
    startFacts(settings, { version: packageVersion(), nodeVersion: process.versions.node, clientId, hasApi }),
  );
  const authzen = authzenOffer(settings);
  const choosing = chooseEngine(settings, { log: log.child({ component: 'engine' }), env, signal: parts.signal });
  choosing.catch(() => undefined); // awaited below
  // Loaded while the OPA program is asked for its version.
  const loading = Promise.all([import('./http.js'), import('../http/app.js')]);
  loading.catch(() => undefined); // awaited below
  const authenticator = await clientAuthenticator(settings);
  const common = await openCommon(settings, deps, parts);
  const { outbound, gate, status, metrics, backoff, logOf } = common;
  const tls = await openListenerTls({
    cert: pemFile('SYNC_CLIENT_API_TLS_CERT_FILE', settings.apiTlsCertFile),
    key: pemFile('SYNC_CLIENT_API_TLS_KEY_FILE', settings.apiTlsKeyFile),
    ca: pemFile('SYNC_CLIENT_API_TLS_CA_FILE', settings.apiTlsCaFile),
  });
  const providers = [...(deps.fetchProviders ?? []), ...(await loadProviderModules(settings.fetchProviderModules))];
  const choice = await choosing;
  const engineUrl = choice.kind === 'embedded' && deps.rest === undefined ? undefined : settings.engineUrl;
  logStart(log, [engineFact(engineUrl, choice)]);
  const { engine, applier, keeper, healthWriter, drift } = await openEngine(common, { choice, engineUrl }, parts);
  const { spool, fetcher } = await openFetcher(common, providers, parts);
  const { api, reporter } = openServerSide(common, parts);
  const askServerLoad = (signal: AbortSignal): Promise<void> => api.loadLimit(signal);
  const onCutOff = (sinceMs: number | undefined): void => status.serverCutOff(sinceMs);
  const engineGoesOn = (): Promise<boolean> => goesOn(engine.engine);
  const follower = new Follower(settings, {
    ...{ keeper, askServerLoad, dial: outbound.dial, onCutOff, engineGoesOn, log },
  });
  const { policy, data } = makeUpdaters(common, { applier, follower, fetcher, api, reporter });
  applier.watchWithheld(() => data.policyChanged());
  const { waits, stateReporter } = makePosition(common, clientId, { engine, policy, data });
  attachDecisions(deps.decider, common, { engine, applier, keeper, data });
  const asked = makeAsked(common, { policy, data, engine, drift, startedMs, log });
  const followed = { policy, data, reporter: stateReporter, asked };
  const revalidation = new Revalidation(settings, { follower, policy, data });
  const { backup, offline } = createOffline(
    { settings, env, backoff },
    {
      ...{ engine: engine.engine, applier, keeper, policy, data, status, spool },
      follower: { start: () => follower.start(followed), stop: () => follower.stop() },
      refetch: () => revalidation.request(),
      log: logOf('offline'),
    },
  );
  // Runs once nothing changes any more, and while the spool is still there.
  if (settings.offlineModeEnabled) parts.add(backup, () => backup.saveOrTell().then(() => backup.settled()));

  const [{ clientHttp }, { closeHttpApp, listenHttp }] = await loading;
  const drain = new Drain();
  const app = clientHttp(settings, {
    ...{ authenticator, tls, metrics, status, engine, healthWriter, drift, follower, policy, data, waits },
    ...{ reporter, offline, authzen, decisions: deps.decider, drain, log: logOf('http') },
  });
  parts.add(app, (one) => closeHttpApp(one));
  const address = hasApi ? await listenHttp(app, { host: settings.host, port: settings.port }) : undefined;
  if (address !== undefined) gate.protect('the API of this client', { host: settings.host, port: address.port });

  const onBack = (): void => {
    data.engineBack();
    policy.engineBack();
  };
  parts.run((signal) => keeper.run({ onBack, onRefilled: () => offline.engineRestarted() }, signal));
  for (const part of [healthWriter, drift, follower, revalidation, offline, reporter]) {
    if (part !== undefined) parts.run((signal) => part.run(signal));
  }
  const peers = { server: redactUrl(settings.serverUrl), ...(engineUrl && { engine: redactUrl(engineUrl) }) };
  log.info(
    { ...address, ...peers, policy_mode: engine.engine.policyMode },
    `sync client ${address === undefined ? 'has started' : 'is listening'}`,
  );
  async function prepareStop(signal: AbortSignal): Promise<void> {
    if (address === undefined) return;
    log.info({ delay_ms: settings.drainDelayMs }, 'draining: GET /ready is 503');
    await drain.begin(app.server, settings.drainDelayMs, signal);
  }
  return { app, address, drain: prepareStop };
}

async function openCommon(
  settings: ClientSettings,
  { log, env, lookUp, decisions = {} }: ClientDeps,
  parts: Parts,
): Promise<Common> {
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
    outbound: parts.add(await openOutbound(settings, { log: logOf('tls'), env }), ({ close }) => close()),
    gate: new OutboundGate(settings, lookUp === undefined ? {} : { lookUp }),
    decisionTimeoutMs: decisions.timeoutMs ?? DECISION_TIMEOUT_MS,
  };
}

/** Sends what is left of it last of all. */
async function openTraces(settings: ClientSettings, parts: Parts): Promise<Pick<Common, 'traces' | 'policyTraces'>> {
  const tracing = await openTracing(packageVersion());
  if (tracing === undefined) return { traces: undefined, policyTraces: undefined };
  parts.add(tracing, (one) => one.flush());
  const options = { clientId: clientIdOf(settings) };
  return { traces: new UpdateTraces(options, { tracing }), policyTraces: new PolicyTraces(options, { tracing }) };
}

/** The engine and the parts that work with it alone. */
interface EngineSide {
  readonly engine: RunningEngine;
  readonly applier: Applier;
  readonly keeper: EngineKeeper;
  readonly healthWriter: HealthWriter | undefined;
  readonly drift: DriftCheck | undefined;
}

/** Makes the engine and starts it at once: that takes as long as all other parts together. */
async function openEngine(
  { settings, env, logOf, backoff, status, meter, outbound, gate, decisionTimeoutMs }: Common,
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
    ({ close }) => close(),
  );
  if (engineUrl !== undefined) gate.protect('the policy engine of this client', endpointOf(new URL(engineUrl)));
  for (const { what, place } of engine.listeners) gate.protect(what, place);
  const applier = new Applier(meter.engine(engine.engine), {
    takesPolicy: settings.policyUpdaterEnabled,
    onCleared: (paths) =>
      log.warn({ paths: paths.map(docPathText) }, 'documents of somebody else had the place of a rule: removed'),
  });
  const mayResume = settings.offlineModeEnabled && engine.engine.seals !== undefined;
  const keeper = new EngineKeeper(
    { tellsStart: engine.kind !== 'external', probeEnabled, probeIntervalMs, probeTimeoutMs, mayResume, backoff },
    { engine: engine.engine, applier, status, log },
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
      : new DriftCheck({ intervalMs }, { applier, engine: engine.engine, exclusive, log: logOf('drift') });
  return { engine, applier, keeper, healthWriter, drift };
}

/** A stop waits no longer for the answer of an engine. */
const LAST_LOOK_MS = 500;

function goesOn(engine: PolicyEngine): Promise<boolean> {
  return withAnySignal([], async (signal) => (await engine.goesOn?.(signal)) === true, LAST_LOOK_MS);
}

/** The fetcher of data sources, and its spool. */
async function openFetcher(
  { settings, env, logOf, outbound: { tls }, gate }: Common,
  more: readonly FetchProvider[],
  parts: Parts,
): Promise<{ spool: Spool; fetcher: Fetcher }> {
  const { fetchTimeoutMs, fetchTotalTimeoutMs, fetchConcurrency: concurrency, fetchPerHost: perHost } = settings;
  const dir = parts.add(await temporaryFolder('policysync-spool-'), (path) =>
    rm(path, { recursive: true, force: true }),
  );
  const spool = await createSpool({ dir, limitBytes: settings.fetchLimitBytes });
  const providers = [
    createHttpProvider({ silenceTimeoutMs: fetchTimeoutMs, env, tls, gate }),
    createPostgresProvider({ connectTimeoutMs: fetchTimeoutMs, statementTimeoutMs: fetchTotalTimeoutMs, tls }),
    ...more,
  ];
  const options = { totalTimeoutMs: fetchTotalTimeoutMs, concurrency, perHost };
  const fetcher = createFetcher(options, { providers, spool, gate, log: logOf('fetch') });
  return { spool, fetcher: parts.add(fetcher, ({ close }) => close()) };
}

/** The API of the sync server, and the reports to callbacks. */
function openServerSide(
  { settings, logOf, backoff, status, events, outbound, gate }: Common,
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
function makeUpdaters(
  { settings, logOf, backoff, status, events, steps, traces, policyTraces, meter }: Common,
  deps: { applier: Applier; follower: Follower; fetcher: Fetcher; api: ServerApi; reporter: Reporter },
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
  return { policy, data };
}

/** What the servers may ask this client over the socket. */
function makeAsked(
  { settings, status, logOf }: Common,
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

/** From now on the decisions of this client ask its engine. */
function attachDecisions(
  decisions: Decisions,
  { status, events }: Common,
  { engine, applier, keeper, data }: Pick<EngineSide, 'engine' | 'applier' | 'keeper'> & { data: DataUpdater },
): void {
  let position: DecisionPosition | undefined;
  let isKnown = false;
  const changed = (): void => {
    isKnown = false;
    decisions.stateChanged();
  };
  status.watch(changed);
  events.subscribe(({ kind }) => {
    if (kind === 'position') changed();
  });
  applier.watch((paths) => decisions.documentsChanged(paths));
  applier.watchPolicy(() => decisions.policyChanged());
  decisions.attach({
    engine: engine.decisions,
    isReady: () => status.ready,
    isFilled: () => (engine.decisions.keepsContent === true ? keeper.wasFilled : keeper.isFilled),
    reason: () => status.engine.error ?? engine.getting(),
    policy: () => applier.policy?.hash || undefined,
    serverCutOffSinceMs: () => status.serverCutOffSinceMs,
    position: () => {
      if (!isKnown) {
        const at = data.logPosition;
        position = at && Object.freeze({ epoch: at.epoch, seq: at.applied_through });
        isKnown = true;
      }
      return position;
    },
  });
}

/** Tells callers that wait for an update, and the server, how far this client is. */
function makePosition(
  { status, events, steps, traces, logOf }: Common,
  clientId: string,
  { engine, policy, data }: { engine: RunningEngine; policy: PolicyUpdater; data: DataUpdater },
): { waits: PositionWaits; stateReporter: StateReporter } {
  const waits = new PositionWaits({
    status: (seq) => {
      const applied = data.applyStatus(seq);
      // The caller reads the engine next: one that is unreachable, or being filled, does not have it yet.
      return applied === 'applied' && !status.engine.online ? 'pending' : applied;
    },
    catchUp: () => data.catchUp(),
  });
  const state = (): ReportedState => ({
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
    since: status.sinceMs,
  });
  const traced = traces === undefined ? undefined : <T>(work: () => Promise<T>) => traces.report(work);
  const stateReporter = new StateReporter({ clientId }, { state, steps, traced, log: logOf('session') });
  const changed = (): void => {
    steps.policyChanged(status.policy);
    stateReporter.changed();
    waits.changed();
  };
  status.watch(changed);
  events.subscribe(({ kind }) => {
    if (kind === 'position') changed();
  });
  return { waits, stateReporter };
}
