import { setMaxListeners } from 'node:events';
import type { PolicyEngine } from '../../src/client/engine/engine.js';
import { HttpProvider } from '../../src/client/fetch/http-fetch.js';
import { Follower } from '../../src/client/follow/follower.js';
import { OutboundGate } from '../../src/client/outbound/gate.js';
import { openOutbound } from '../../src/client/outbound/outbound.js';
import { ChangeSteps } from '../../src/client/position/change-steps.js';
import { StateReporter } from '../../src/client/position/state-reporter.js';
import { Applier } from '../../src/client/reconcile/applier.js';
import { DataUpdater } from '../../src/client/reconcile/data-updater.js';
import { EngineKeeper } from '../../src/client/reconcile/engine-keeper.js';
import { PolicyUpdater } from '../../src/client/reconcile/policy-updater.js';
import { ServerApi } from '../../src/client/server-api.js';
import { DataEvents } from '../../src/client/status/data-events.js';
import { Status } from '../../src/client/status/status.js';
import { type Logger, silentLogger } from '../../src/lib/observe/log.js';
import { parseDocPath } from '../../src/wire/doc-path.js';
import { ACCEPTING_ENGINE } from './accepting-engine.js';
import { clientSettings } from './engine.js';
import { startFetcher } from './fetcher.js';
import { until } from './until.js';

/** The parts of a client that follow a server, with an engine that takes everything: a test can have a thousand of them. */
export interface EnginelessClient {
  readonly id: string;
  readonly data: DataUpdater;
  /** The document that was written last at a path, as text; undefined where there is none. */
  text(path: string): string | undefined;
  /** How often the engine was written to. */
  readonly writes: number;
  /** Connections so far. */
  readonly connections: number;
  /** Of each connection: over how long the server asked to spread the catch-up, and how long it was waited with (ms). */
  readonly catchUps: CatchUp[];
}

export interface CatchUp {
  readonly spreadMs: number;
  readonly sinceMs: number;
  /** Undefined: it has not asked for updates yet, or needed none. */
  waitedMs: number | undefined;
}

/** Many {@link EnginelessClient}s that share their HTTP connections. `await using` stops them. */
export interface EnginelessFleet extends AsyncDisposable {
  readonly clients: readonly EnginelessClient[];
}

/** Starts one client for each of `topics`. `log` gets what each one logs. */
export async function enginelessFleet(
  serverUrl: string,
  topics: readonly string[],
  { env = {}, log }: { env?: Record<string, string>; log: (client: number) => Logger },
): Promise<EnginelessFleet> {
  const stop = new AbortController();
  setMaxListeners(0, stop.signal);
  const shared = clientSettings({ SYNC_SERVER_URL: serverUrl, SYNC_POLICY_UPDATER_ENABLED: 'false', ...env });
  const connections = await openOutbound(shared, { log: silentLogger(), env: {} });
  const { dial, tls } = connections;
  const provider = new HttpProvider({ silenceTimeoutMs: 30_000, env: {}, tls });
  const fetcher = await startFetcher(provider, { limitBytes: 1_000_000 });
  const api = new ServerApi({
    serverUrl,
    dataConfigUrl: undefined,
    token: undefined,
    policyDirs: [],
    dispatcher: connections.dispatcher(60_000),
    gated: connections.dispatcher(60_000, new OutboundGate()),
  });
  const running: Promise<void>[] = [];

  function start(own: string, index: number): EnginelessClient {
    const id = `client-${index}`;
    const settings = { ...shared, dataTopics: own.split(',') };
    const logger = log(index);
    const backoff = { minMs: 200, maxMs: 2000 };
    const status = new Status({ policyEnabled: false, dataEnabled: true }, () => undefined);
    const events = new DataEvents();
    events.subscribe(status.onData);
    const catchUps: CatchUp[] = [];
    let writes = 0;
    const engine: PolicyEngine = { ...ACCEPTING_ENGINE, write: async () => void writes++ };
    const applier = new Applier(engine, { takesPolicy: false });
    const keeper = new EngineKeeper(
      { tellsStart: false, probeEnabled: false, probeIntervalMs: 60_000, probeTimeoutMs: 1000, backoff },
      { engine, held: applier.held, status, log: logger },
    );
    const askServerLoad = async (): Promise<void> => undefined;
    const follower = new Follower(settings, { keeper, askServerLoad, dial, log: logger });
    const { exclusive } = follower;
    const data = new DataUpdater(
      { topics: settings.dataTopics, backoff },
      {
        applier,
        exclusive,
        fetch: (request, signal) => fetcher.fetch(request, signal),
        fetchConfig: (signal) => api.dataConfig(signal),
        fetchBase: (signal) => api.baseConfig(signal),
        fetchUpdates: (query, signal) => {
          const current = catchUps.at(-1);
          if (current !== undefined) current.waitedMs ??= performance.now() - current.sinceMs;
          return api.updates(query, signal);
        },
        events,
        log: logger,
      },
    );
    const connected = data.connected.bind(data);
    data.connected = (start) => {
      catchUps.push({ spreadMs: start?.spreadMs ?? 0, sinceMs: performance.now(), waitedMs: undefined });
      connected(start);
    };
    const steps = new ChangeSteps();
    events.subscribe(steps.onData);
    const reporter = new StateReporter(
      { clientId: id },
      {
        state: () => ({
          position: data.logPosition,
          policy_hash: null,
          ready: status.ready,
          healthy: status.healthy,
          engine: { kind: 'none', version: null, online: true },
          failing: status.failures,
          blocked: data.blockedSeqs,
          since: status.sinceMs,
        }),
        steps,
        log: logger,
      },
    );
    const policy = new PolicyUpdater(
      { backoff, firstWaitMs: 0 },
      {
        applier,
        exclusive,
        withDocuments: data.withDocuments,
        fetchBundle: (base, signal) => api.policy(base, signal),
        onApplied: () => undefined,
        status,
        log: logger,
      },
    );
    events.subscribe(() => reporter.changed());
    follower.start({ policy, data, reporter });
    running.push(keeper.run({}, stop.signal), follower.run(stop.signal));
    return {
      id,
      data,
      text: (path) => {
        const node = applier.held.layers.compose(parseDocPath(path));
        return node?.kind === 'leaf' ? node.text() : undefined;
      },
      get writes() {
        return writes;
      },
      get connections() {
        return follower.server.connections;
      },
      catchUps,
    };
  }

  const clients: EnginelessClient[] = [];
  for (const own of topics) {
    clients.push(start(own, clients.length));
    if (clients.length % AT_ONCE > 0 && clients.length < topics.length) continue;
    const follow = (): boolean => clients.slice(-AT_ONCE).every(({ data }) => data.logPosition !== undefined);
    await until(follow, { withinMs: 60_000, what: 'they follow' });
  }
  return {
    clients,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await Promise.allSettled(running); // they end with the abort
      await api.close();
      await fetcher[Symbol.asyncDispose]();
      connections.close();
    },
  };
}

/** They are started so many at a time: that all come in one moment is for tests to bring about. */
const AT_ONCE = 50;
