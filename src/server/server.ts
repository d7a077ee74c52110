import { randomUUID } from 'node:crypto';
import { serverSecurity } from '../auth/security.js';
import { listenHttp } from '../http/app.js';
import type { DeclaredRoute } from '../http/declared-route.js';
import { Drain } from '../http/drain.js';
import { openListenerTls } from '../http/listener-tls.js';
import { createHttpProgram, type Listening } from '../http/program.js';
import { aborted, firstOf } from '../lib/async.js';
import { SyncError } from '../lib/errors.js';
import type { Parts } from '../lib/lifecycle.js';
import { type Logger, silentLogger } from '../lib/log.js';
import { createMetrics } from '../lib/metrics.js';
import { settingValues } from '../lib/options.js';
import type { GivenValues } from '../lib/setting.js';
import { logStart } from '../lib/start-lines.js';
import { pemFile } from '../lib/tls.js';
import { openTracing } from '../lib/tracing.js';
import { packageVersion } from '../lib/version.js';
import type { Connection } from '../pubsub/connection.js';
import { createHub } from '../pubsub/hub.js';
import type { PeerInfo } from '../pubsub/peer.js';
import { retryUntilAvailable } from './backbone/retry-until-available.js';
import { createServerBudgets } from './budgets.js';
import { drainServer } from './drain.js';
import { CommitAbouts } from './fleet/commit-abouts.js';
import { FleetFeeds } from './fleet/feeds.js';
import type { FleetSources } from './fleet/gather.js';
import { serverHttp } from './http.js';
import { Hour } from './instances/hour.js';
import { createInstances, type Instances } from './instances/instances.js';
import type { UpdateLog } from './log/update-log.js';
import { mayHaveBy } from './may-have.js';
import { type OpenedUpdateLog, openUpdateLog } from './open-update-log.js';
import { SERVER_SETTINGS, type ServerOptions } from './options.js';
import { createPolicy, type Policy } from './policy.js';
import { createPublisher } from './publish.js';
import { checkExternalSource } from './routes/data-config.js';
import { createServerMetrics, type ServerMetrics } from './server-metrics.js';
import { openClaims } from './sessions/claims-file.js';
import { readClients, storeClients } from './sessions/clients-file.js';
import { type RecentUpdate, recentUpdates, updateOf } from './sessions/recent-updates.js';
import { Sessions } from './sessions/sessions.js';
import { StateFiles } from './sessions/state-files.js';
import { commitOfRow } from './shared-policy-head.js';
import { readSshKey } from './source/ssh-key.js';
import { logFact, startFacts, startWarnings } from './start-facts.js';
import { createTraceMemory, type TraceMemory } from './trace/change-times.js';

/** A sync server. */
export interface Server {
  /**
   * Opens the state folder, listens, and returns the address. Fetches policy in the background: `/policy` responds with 503
   * until the first commit arrives. Rejects with `state_dir_in_use`, `state_dir_unusable`, `listen_failed`, `log_unwritable`,
   * `log_damaged`, `backbone_unavailable` or `config_invalid` (policy source, keys, backbone), and leaves nothing running.
   */
  start(): Promise<{ url: string; port: number }>;
  /**
   * Prepares a stop that nobody notices, as SIGTERM does in the program: `GET /ready` is 503, and for SYNC_DRAIN_DELAY everything else
   * stays; then subscribers are sent to the servers that share the log. Resolves when it is time to call {@link stop}, which cuts it
   * short. Idempotent; does nothing before the start.
   */
  drain(): Promise<void>;
  /**
   * Stops all parts, including those of a start in progress; requests in flight may finish. A second call returns the same
   * promise; a later start rejects with `already_stopped`.
   */
  stop(): Promise<void>;
  /**
   * Resolves when the server has stopped. Rejects when the policy source or the update log fails in a way that only a restart
   * repairs; with `backbone_replaced` when the backbone holds another log than the one that was read.
   */
  ended(): Promise<void>;
  /** Every route of its HTTP API and who may call it; empty before the start. */
  readonly routes: readonly DeclaredRoute[];
}

/** What a server is made with, beside its settings. Each part may be left out. */
export interface ServerDeps {
  readonly log: Logger;
  /** Environment for git, proxies and folders. Default: that of the process. */
  readonly env: NodeJS.ProcessEnv;
}

/**
 * Settings by the names of {@link SERVER_SETTINGS}, times in milliseconds. What is missing has its default, but for the state folder,
 * which has none in a library.
 */
export type GivenServerSettings = GivenValues<typeof SERVER_SETTINGS> & { readonly stateDir: string };

/**
 * The composition root of the server: creates the parts in order; they end in reverse order. `given`: the settings that differ from
 * their defaults, or all of them, from `loadSettings`. Throws `config_invalid` that names each one that is not valid. Without a
 * logger the server is silent.
 */
export function createServer(given: GivenServerSettings, parts: Partial<ServerDeps> = {}): Server {
  const { stateDir, ...settings } = settingValues(SERVER_SETTINGS, given);
  if (stateDir === undefined)
    throw new SyncError('config_invalid', 'stateDir is missing: name the folder of its state');
  const options = { ...settings, stateDir };
  const deps = { log: parts.log ?? silentLogger(), env: parts.env ?? process.env };
  return createHttpProgram('server', (made) => compose(options, deps, made), deps.log);
}

async function compose(options: ServerOptions, deps: ServerDeps, parts: Parts): Promise<Listening> {
  const { log, env } = deps;
  const logOf = (component: string): Logger => log.child({ component });
  logStart(log, startFacts(options, { version: packageVersion(), nodeVersion: process.versions.node }));
  for (const warning of startWarnings(options)) log.warn(warning);
  checkExternalSource(options.dataSources, { allowInsecure: options.allowInsecureExternalSource });
  const security = await serverSecurity(options);
  if (options.policyRepoSshKey !== undefined) await readSshKey(options.policyRepoSshKey);
  const tls = await openListenerTls({
    cert: pemFile('SYNC_SERVER_TLS_CERT_FILE', options.tlsCertFile),
    key: pemFile('SYNC_SERVER_TLS_KEY_FILE', options.tlsKeyFile),
    ca: pemFile('SYNC_SERVER_TLS_CA_FILE', options.tlsCaFile),
  });
  const opened = await openLog(options, deps, parts);
  const { updateLog, isShared } = opened;

  const tracing = await openTracing(packageVersion());
  if (tracing !== undefined) parts.add(tracing, (one) => one.flush());
  const metrics = createMetrics();
  const hour = new Hour(Date.now);
  const meter = createServerMetrics(metrics, hour);
  const hub = createHub(logOf('pubsub'));
  const delivery = meter.delivery(hub);
  const memory = createTraceMemory();
  const { dataSources, updatesRetained } = options;
  const isAll = updatesRetained && !(dataSources !== undefined && 'external_source_url' in dataSources);
  const mayHave = mayHaveBy({ updateLog, isAll, dataPlaces: () => policy.dataPlaces() });
  const publisher = meter.publisher(
    createPublisher(
      {
        ...{ updateLog, mayHave, hub: delivery },
        ...{ subscriberCount: (topics: readonly string[]) => hub.subscriberCount(topics) },
        ...{ times: memory.updates, tracing, log: logOf('publish') },
      },
      { retainDefault: options.updatesRetainDefault, inlineDataLimitBytes: options.inlineDataLimitBytes },
    ),
  );
  const policy = createPolicy(options, {
    ...{ hub: delivery, updateLog, isShared, log, env, tracing },
    measured: meter.source,
    times: memory.commits,
  });
  /** Open sockets; the socket server fills it. */
  const connections = new Set<Connection>();
  const peers = (): PeerInfo[] => [...connections].map(({ info }) => info);
  const drain = new Drain();
  const instance = randomUUID();
  const instances = createInstances({
    ...{ instance, version: packageVersion(), log: updateLog, hour },
    clients: () => peers().filter(({ topics }) => topics.length > 0).length,
    isDraining: () => drain.isBegun,
    source: () => policy.tracker?.status().state ?? 'none',
    logger: logOf('instances'),
  });
  parts.add(instances, ({ close }) => close());
  const stateFiles = new StateFiles();
  const about = { opened, policy, peers, meter, memory, instances, stateFiles, log };
  const sessions = await openSessions({ ...options, instance }, about, parts);
  const fleetLog = logOf('fleet');
  const fleet: FleetSources = {
    environment: options.environment,
    ...{ instance, log: updateLog, memory, tracker: policy.tracker, commits: policy.commits, sessions, instances },
    recent: sessions.recent,
    abouts: new CommitAbouts(policy.commits, fleetLog),
    now: Date.now,
    logger: fleetLog,
  };
  const feeds = parts.add(new FleetFeeds(fleet), (one) => one.close());
  const { app, sockets, streams } = await serverHttp(
    options,
    {
      ...{
        instance,
        security,
        tls,
        updateLog,
        mayHave,
        isShared,
        hub,
        publisher,
        policy,
        sessions,
        instances,
        stateFiles,
      },
      ...{ connections, peers, metrics, meter, drain, fleet, feeds, log },
      budgets: createServerBudgets(options),
    },
    parts,
  );
  const unsubscribe = updateLog.onSkipped(() => sockets.sendToReload());
  parts.add(unsubscribe, () => unsubscribe());

  await sessions.join();
  parts.run((signal) => sessions.run(signal));
  const address = await listenHttp(app, options);
  log.info(
    { ...address, page: pageAddress(address, options), state_dir: options.stateDir, head: updateLog.head },
    'sync server is listening',
  );
  parts.run((signal) => policy.run({ onHead: (notified) => sessions.headMoved(notified) }, signal));
  const announce = (): void => sessions.announce();
  const draining = { drain, server: app.server, sockets, streams, isShared, announce, log: logOf('drain') };
  return { app, address, drain: (signal) => drainServer(options, draining, signal) };
}

/** Where a browser on this machine finds the live page; all addresses of a machine (0.0.0.0) are none to ask for. */
function pageAddress({ url }: { readonly url: string }, { host }: { readonly host: string }): string {
  const page = new URL('/ui', url);
  if (['0.0.0.0', '::'].includes(host)) page.hostname = 'localhost';
  return page.href;
}

/** Opens the update log and adopts the base entries of the settings. A failure of the log ends the server. `isNew`: nothing was in it. */
async function openLog(
  options: ServerOptions,
  { log }: { log: Logger },
  { add, run, signal }: Parts,
): Promise<OpenedUpdateLog & { readonly isNew: boolean }> {
  const opened = add(
    await openUpdateLog(options, { log: log.child({ component: 'update-log' }), signal }),
    ({ close }) => close(),
  );
  const { updateLog } = opened;
  const { failed } = updateLog;
  const isNew = updateLog.head === 0;
  if (failed !== undefined) run((signal) => firstOf([failed, aborted(signal)]));
  logStart(log, [logFact(options, updateLog)]);
  const { dataSources } = options;
  // Undefined if nothing is set, or if an external API has the entries.
  const entries = dataSources !== undefined && 'config' in dataSources ? dataSources.config.entries : undefined;
  await retryUntilAvailable(() => updateLog.adoptBase(entries), { log, signal });
  return { ...opened, isNew };
}

async function openSessions(
  options: ServerOptions & { readonly instance: string },
  deps: {
    opened: OpenedUpdateLog & { readonly isNew: boolean };
    policy: Policy;
    peers: () => readonly PeerInfo[];
    meter: ServerMetrics;
    memory: TraceMemory;
    instances: Instances;
    stateFiles: StateFiles;
    log: Logger;
  },
  { add, signal }: Parts,
): Promise<Sessions> {
  const { updateLog, presence, mail } = deps.opened;
  const { stateDir, clientAwayTtlMs: memoryMs, heartbeatIntervalMs: heartbeatMs, instance } = options;
  const { policy, peers, meter, instances, stateFiles: files } = deps;
  const log = deps.log.child({ component: 'sessions' });
  const { claims } = add(await openClaims({ stateDir, memoryMs }, { log, files }), ({ close }) => close());
  const { follow, unsubscribe } = heardUpdates(updateLog);
  add(unsubscribe, () => unsubscribe());
  const sessions = new Sessions(
    { instance, heartbeatMs, memoryMs },
    {
      log: updateLog,
      isNewLog: deps.opened.isNew,
      recent: await retryUntilAvailable(() => recentUpdates(updateLog), { log: deps.log, signal }),
      policyHead: () => policy.tracker?.wanted(),
      servedCommits: () => policy.commits.served(),
      commitOfRow,
      ...{ claims, presence, mail, peers },
      stored: await readClients(stateDir, log),
      moduleText: policy.moduleText,
      onApplied: meter.applied,
      memory: deps.memory,
      ...{ vitals: instances.vitals, onLate: instances.onLate },
      logger: log,
    },
  );
  add(storeClients({ stateDir, instance, memoryMs }, { ...sessions.storable, files, log }), ({ close }) => close());
  follow(sessions);
  return sessions;
}

/** Hears the updates of the log from now on: those that others append while the sessions are opened are for the sessions, too. */
function heardUpdates(log: UpdateLog): { follow(sessions: Sessions): void; unsubscribe(): void } {
  const early: RecentUpdate[] = [];
  let heard = (update: RecentUpdate): void => void early.push(update);
  let isSkipped = false;
  let skipped = (): void => {
    isSkipped = true;
  };
  const ends = [log.onRecord((record) => heard(updateOf(log, record))), log.onSkipped(() => skipped())];
  return {
    follow: (sessions) => {
      heard = (update) => sessions.recorded(update);
      skipped = () => sessions.skipped();
      for (const update of early.splice(0)) heard(update);
      if (isSkipped) skipped();
    },
    unsubscribe: () => {
      for (const end of ends) end();
    },
  };
}
