import { randomUUID } from 'node:crypto';
import type { Server as HttpServer } from 'node:http';
import { type ServerSecurity, serverSecurity } from '../auth/security.js';
import { listenHttp } from '../http/app.js';
import type { DeclaredRoute } from '../http/declared-route.js';
import { Drain } from '../http/drain.js';
import { openListenerTls } from '../http/listener-tls.js';
import { createHttpProgram, type Listening } from '../http/program.js';
import { SyncError } from '../lib/errors.js';
import { pemFile, type TlsFiles } from '../lib/net/tls.js';
import { type Logger, silentLogger } from '../lib/observe/log.js';
import { createMetrics, type Metrics } from '../lib/observe/metrics.js';
import { logStart } from '../lib/observe/start-lines.js';
import { openTracing } from '../lib/observe/tracing.js';
import { aborted, firstOf } from '../lib/run/async.js';
import type { Parts } from '../lib/run/lifecycle.js';
import { packageVersion } from '../lib/run/version.js';
import { A_LOGGER, AN_OBJECT, checkParts, type PartRulesOf } from '../lib/settings/given-parts.js';
import { settingValues } from '../lib/settings/options.js';
import type { GivenValues } from '../lib/settings/setting.js';
import type { Connection } from '../pubsub/connection.js';
import { createHub, type Hub } from '../pubsub/hub.js';
import type { PeerInfo } from '../pubsub/peer.js';
import type { SocketServer } from '../pubsub/socket-server.js';
import { createServerBudgets } from './budgets.js';
import { createTraceMemory, type TraceMemory } from './changes/change-times.js';
import { type ChangeStage, rememberStage, type StageFeed } from './changes/stages.js';
import { openClaims } from './clients/claims-file.js';
import { type RecentUpdates, recentUpdates } from './clients/recent-updates.js';
import { StateFiles } from './clients/state-files.js';
import { type ClientParts, composeClients, runClients } from './compose-clients.js';
import { serverHttp } from './http.js';
import { CommitAbouts } from './live/commit-abouts.js';
import { FleetFeeds } from './live/feeds.js';
import type { FleetSources } from './live/gather.js';
import { retryUntilAvailable } from './log/backbone/retry-until-available.js';
import { type OpenedUpdateLog, openUpdateLog } from './log/open-update-log.js';
import { SERVER_SETTINGS, type ServerOptions } from './options.js';
import { ClientsFile, readClients } from './peers/clients-file.js';
import { Hour } from './peers/hour.js';
import { Instances } from './peers/instances.js';
import { createPolicy, type Policy } from './policy/policy.js';
import { readSshKey } from './policy/source/ssh-key.js';
import { type MayHave, mayHaveBy, standsOverBy } from './publish/may-have.js';
import { Publisher } from './publish/publish.js';
import { checkBaseEntries } from './publish/update-rules.js';
import { checkExternalSource } from './routes/data-config.js';
import { createServerMetrics, type ServerMetrics } from './server-metrics.js';
import { logFact, serverStartFacts, startWarnings } from './start-facts.js';

/** A sync server. */
export interface Server {
  /**
   * Opens the state folder, listens, and returns the address. Fetches policy in the background:
   * `/policy` responds with 503 until the first commit arrives. Rejects with `state_dir_in_use`,
   * `state_dir_unusable`, `listen_failed`, `log_unwritable`, `log_damaged`, `backbone_unavailable`
   * or `config_invalid` (policy source, keys, backbone), and leaves nothing running.
   */
  start(): Promise<{ url: string; port: number }>;
  /**
   * Prepares a stop that nobody notices, as SIGTERM does in the program: `GET /ready` is 503, and
   * for SYNC_DRAIN_DELAY everything else stays; then subscribers are sent to the servers that share
   * the log. Resolves when it is time to call {@link stop}, which cuts it short. Idempotent; does
   * nothing before the start.
   */
  drain(): Promise<void>;
  /**
   * Stops all parts, including those of a start in progress; requests in flight may finish. A
   * second call returns the same promise; a later start rejects with `already_stopped`.
   */
  stop(): Promise<void>;
  /**
   * Resolves when the server has stopped. Rejects when the policy source or the update log fails in
   * a way that only a restart repairs; with `backbone_replaced` when the backbone holds another log
   * than the one that was read.
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

const SERVER_PARTS: PartRulesOf<ServerDeps> = { log: A_LOGGER, env: AN_OBJECT };

/**
 * Settings by the names of {@link SERVER_SETTINGS}, times in milliseconds. What is missing has its
 * default, but for the state folder, which has none in a library.
 */
export type GivenServerSettings = GivenValues<typeof SERVER_SETTINGS> & { readonly stateDir: string };

/**
 * The composition root of the server: creates the parts in order; they end in reverse order.
 * `given`: the settings that differ from their defaults, or all of them, from `loadSettings`.
 * Throws `config_invalid` that names each one, or each part, that is not valid. Without a logger
 * the server is silent.
 */
export function createServer(given: GivenServerSettings, parts: Partial<ServerDeps> = {}): Server {
  const { stateDir, ...settings } = settingValues(SERVER_SETTINGS, given, Object.keys(SERVER_PARTS));
  checkParts(parts, SERVER_PARTS);
  if (stateDir === undefined || stateDir === '')
    throw new SyncError('config_invalid', 'stateDir is missing: name the folder of its state');
  const options = { ...settings, stateDir };
  const deps = { log: parts.log ?? silentLogger(), env: parts.env ?? process.env };
  return createHttpProgram('server', (made) => compose(options, deps, made), deps.log);
}

async function compose(options: ServerOptions, deps: ServerDeps, parts: Parts): Promise<Listening> {
  const { log } = deps;
  const logOf = (component: string): Logger => log.child({ component });
  const { security, tls } = await checkSettings(options, log);
  const opened = await openLog(options, deps, parts);
  const { updateLog, isShared } = opened;
  const hour = new Hour(Date.now);
  const changes = await composeChanges(options, { ...deps, opened, hour }, parts);
  const { policy, memory } = changes;
  /** Open sockets; the socket server fills it. */
  const connections = new Set<Connection>();
  const peers = (): PeerInfo[] => [...connections].map(({ info }) => info);
  const drain = new Drain();
  const instance = randomUUID();
  const instances = new Instances({
    ...{ instance, version: packageVersion(), log: updateLog, hour },
    clients: () => peers().filter(({ topics }) => topics.length > 0).length,
    isDraining: () => drain.isBegun,
    source: () => policy.tracker?.status().state ?? 'none',
    logger: logOf('instances'),
  });
  parts.add(instances, (one) => one.close());
  const stateFiles = new StateFiles();
  const about = { ...changes, opened, instance, instances, peers, stateFiles, logger: logOf('sessions') };
  const clients = await openClients(options, about, parts);
  const { registry, everyone, peerInstances, heartbeats } = clients;
  const fleetLog = logOf('fleet');
  const fleet: FleetSources = {
    environment: options.environment,
    ...{
      instance,
      log: updateLog,
      memory,
      tracker: policy.tracker,
      commits: policy.commits,
      registry,
      everyone,
      instances,
    },
    recent: clients.recent,
    abouts: new CommitAbouts(policy.commits, fleetLog),
    now: Date.now,
    logger: fleetLog,
  };
  const feeds = parts.add(new FleetFeeds(fleet), (one) => one.close());
  const { app, sockets, streams } = await serverHttp(
    options,
    {
      ...{ ...changes, instance, security, tls, updateLog, isShared, clients, instances, stateFiles },
      ...{ connections, peers, drain, fleet, feeds, log },
      budgets: createServerBudgets(options),
    },
    parts,
  );
  const unsubscribe = updateLog.onSkipped(() => sockets.sendToReload());
  parts.add(unsubscribe, () => unsubscribe());

  await peerInstances.join();
  parts.run((signal) => runClients(clients, signal));
  const address = await listenHttp(app, options);
  log.info(
    { ...address, page: pageAddress(address, options), state_dir: options.stateDir, head: updateLog.head },
    'sync server is listening',
  );
  parts.run((signal) => policy.run({ onHead: (notified) => heartbeats.tellHead(notified) }, signal));
  const announce = (): void => peerInstances.changed();
  const draining = { drain, server: app.server, sockets, streams, isShared, announce, log: logOf('drain') };
  return { app, address, drain: (signal) => drainServer(options, draining, signal) };
}

/** Logs how this server starts; rejects settings that do not fit together or their files. */
async function checkSettings(
  options: ServerOptions,
  log: Logger,
): Promise<{ security: ServerSecurity; tls: TlsFiles | undefined }> {
  logStart(log, serverStartFacts(options, { version: packageVersion(), nodeVersion: process.versions.node }));
  for (const warning of startWarnings(options)) log.warn(warning);
  checkExternalSource(options.dataSources, { allowInsecure: options.allowInsecureExternalSource });
  checkBaseEntries(options.dataSources);
  const security = await serverSecurity(options);
  if (options.policyRepoSshKey !== undefined) await readSshKey(options.policyRepoSshKey);
  const tls = await openListenerTls({
    cert: pemFile('SYNC_SERVER_TLS_CERT_FILE', options.tlsCertFile),
    key: pemFile('SYNC_SERVER_TLS_KEY_FILE', options.tlsKeyFile),
    ca: pemFile('SYNC_SERVER_TLS_CA_FILE', options.tlsCaFile),
  });
  return { security, tls };
}

/** Opens the update log and adopts base entries. A failure of the log ends the server. */
async function openLog(
  options: ServerOptions,
  { log }: { log: Logger },
  { add, run, signal }: Parts,
): Promise<OpenedLog> {
  const opened = add(await openUpdateLog(options, { log: log.child({ component: 'update-log' }), signal }), (one) =>
    one.close(),
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

/** `isNew`: nothing was in it. */
type OpenedLog = OpenedUpdateLog & { readonly isNew: boolean };

/** What publishes data updates and commits, and what observes both. */
interface ChangeParts {
  readonly hub: Hub;
  readonly publisher: Publisher;
  readonly policy: Policy;
  readonly mayHave: MayHave;
  readonly memory: TraceMemory;
  readonly feed: StageFeed;
  readonly metrics: Metrics;
  readonly meter: ServerMetrics;
}

async function composeChanges(
  options: ServerOptions,
  { log, env, opened, hour }: ServerDeps & { readonly opened: OpenedLog; readonly hour: Hour },
  { add }: Parts,
): Promise<ChangeParts> {
  const { updateLog, isShared } = opened;
  const tracing = await openTracing(packageVersion());
  if (tracing !== undefined) add(tracing, (one) => one.flush());
  const metrics = createMetrics();
  const meter = createServerMetrics(metrics);
  const hub = createHub(log.child({ component: 'pubsub' }));
  const memory = createTraceMemory();
  const feed = (stage: ChangeStage): void => {
    meter.stage(stage);
    hour.stage(stage);
    rememberStage(memory, stage);
  };
  const { dataSources, updatesRetained } = options;
  const isAll = updatesRetained && !(dataSources !== undefined && 'external_source_url' in dataSources);
  const mayHave = mayHaveBy({ updateLog, isAll, dataPlaces: () => policy.dataPlaces() });
  const standsOver = standsOverBy({ updateLog, isAll, hasData: (path) => policy.hasData(path) });
  const publisher = new Publisher(
    { retainDefault: options.updatesRetainDefault, inlineDataLimitBytes: options.inlineDataLimitBytes },
    { updateLog, mayHave, standsOver, hub, feed, tracing, log: log.child({ component: 'publish' }) },
  );
  const policy = createPolicy(options, {
    ...{ hub, feed, updateLog, isShared, log, env, tracing },
    measured: meter.source,
    times: memory.commits,
  });
  return { hub, publisher, policy, mayHave, memory, feed, metrics, meter };
}

async function openClients(
  options: ServerOptions,
  deps: Pick<ChangeParts, 'policy' | 'memory' | 'feed'> & {
    readonly opened: OpenedLog;
    readonly instance: string;
    readonly instances: Instances;
    readonly peers: () => readonly PeerInfo[];
    readonly stateFiles: StateFiles;
    readonly logger: Logger;
  },
  { add, signal }: Parts,
): Promise<ClientParts & { readonly recent: RecentUpdates }> {
  const { opened, policy, feed, memory, instance, instances, peers, stateFiles: files, logger: log } = deps;
  const { updateLog, presence, mail } = opened;
  const { stateDir, clientAwayTtlMs: memoryMs, heartbeatIntervalMs: heartbeatMs } = options;
  const { claims } = add(await openClaims({ stateDir, memoryMs }, { log, files }), (one) => one.close());
  const recent = add(await retryUntilAvailable(() => recentUpdates(updateLog), { log, signal }), (one) => one.close());
  const parts = composeClients(
    { instance, heartbeatMs, memoryMs },
    {
      ...{ log: updateLog, isNewLog: opened.isNew, recent, memory, claims, presence, mail, instances, logger: log },
      stored: await readClients(stateDir, log),
      policyHead: () => policy.tracker?.wanted(),
      servedCommits: () => policy.commits.served(),
      moduleText: (commit, path) => policy.moduleText(commit, path),
      connections: peers,
      arrives: (client, enter) => clientsFile.arrives(client, enter),
      feed,
    },
  );
  const about = { stateDir, instance, memoryMs };
  const clientsFile = new ClientsFile(about, { registry: parts.registry, updates: updateLog, files, log });
  const ending = new AbortController();
  const stored = clientsFile.run(ending.signal);
  add(ending, () => {
    ending.abort();
    return stored;
  });
  const changed = (): void => parts.peerInstances.changed();
  const unsubscribe = [updateLog.onRecord(changed), updateLog.onSkipped(changed)];
  add(unsubscribe, (ends) => {
    for (const end of ends) end();
  });
  return { ...parts, recent };
}

/** Where a browser on this machine finds the live page: 0.0.0.0 cannot be opened in one. */
function pageAddress({ url }: { readonly url: string }, { host }: { readonly host: string }): string {
  const page = new URL('/ui', url);
  if (['0.0.0.0', '::'].includes(host)) page.hostname = 'localhost';
  return page.href;
}

/** Time budget of one subscriber that arrives elsewhere, with its catch-up. */
const EACH_MS = 5;

/** How long to send subscribers away: as the others can take them in, at most `maxMs`. */
export function drainSpreadMs(subscribers: number, maxMs: number): number {
  return Math.min(subscribers * EACH_MS, maxMs);
}

/**
 * What a server does before a graceful stop. Its readiness is false; for `drainDelayMs` it serves
 * as usual, new subscribers included. Then it refuses new subscribers and, where other instances
 * share its log, sends away those that it has. Publishes and all other requests are served
 * throughout, and until the stop has closed the listener. Rejects when the signal aborts.
 */
async function drainServer(
  { drainDelayMs, drainSpreadMs: maxMs }: { drainDelayMs: number; drainSpreadMs: number },
  deps: {
    readonly drain: Drain;
    readonly server: HttpServer;
    readonly sockets: Pick<SocketServer, 'sendAway' | 'connectionCount'>;
    /** Streams of the fleet. */
    readonly streams: { end(): void };
    readonly isShared: boolean;
    /** Tells the other instances that this one drains. */
    readonly announce: () => void;
    readonly log: Logger;
  },
  signal: AbortSignal,
): Promise<void> {
  const { drain, server, sockets, streams, isShared, announce, log } = deps;
  log.info({ delay_ms: drainDelayMs, subscribers: sockets.connectionCount }, 'draining: GET /ready is 503');
  const begun = drain.begin(server, drainDelayMs, signal);
  announce();
  await begun;
  streams.end();
  // Subscribers of a lone server have nowhere to go: they wait less if they stay to the end.
  if (!isShared) return;
  const { connectionCount: subscribers } = sockets;
  const spreadMs = drainSpreadMs(subscribers, maxMs);
  if (subscribers > 0)
    log.info({ subscribers, spread_ms: spreadMs }, 'draining: subscribers are sent to other servers');
  await sockets.sendAway(spreadMs, signal);
}
