import { setMaxListeners } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { closeHttpApp, listenHttp } from '../http/app.js';
import { errorText } from '../lib/errors.js';
import type { Logger } from '../lib/log.js';
import { createSocketClient, type SocketSession } from '../pubsub/socket-client.js';
import { parseKeepingData, peerUpdate } from '../wire/data.js';
import { opalPolicyTopic, policyTopic } from '../wire/topics.js';
import { createEngine, type RunningEngine } from './engine/create-engine.js';
import { createHttpFetcher } from './fetch/http-fetch.js';
import { createSpool } from './fetch/spool.js';
import { clientHttp } from './http.js';
import type { ClientSettings } from './options.js';
import { Applier } from './reconcile/applier.js';
import { DataUpdater } from './reconcile/data-updater.js';
import { EngineKeeper } from './reconcile/engine-keeper.js';
import { PolicyUpdater } from './reconcile/policy-updater.js';
import { ServerApi } from './server-api.js';
import { Status } from './status.js';
import { outermostDirectories } from './topics.js';

/** A sync client. */
export interface Client {
  /** Gets the engine, listens, and starts to follow the server; policy and data arrive in the background. */
  start(): Promise<{ url: string; port: number }>;
  /** Ends everything that it started, the inline engine included. A second call is the same stop. */
  stop(): Promise<void>;
  /** Settles when the client has ended: rejects when a part failed in a way that trying again does not mend. */
  ended(): Promise<void>;
}

/** First wait of every retry; the longest is SYNC_RETRY_MAX. */
const RETRY_MIN_MS = 200;

/** The composition root of the client: makes the parts, starts them in order, stops them in reverse. */
export function createClient(
  settings: ClientSettings,
  deps: { log: Logger; env: Readonly<Record<string, string | undefined>> },
): Client {
  const { log, env } = deps;
  const stopping = new AbortController();
  // One listener a part and request: the signal of the whole client has many.
  setMaxListeners(0, stopping.signal);
  const ends: (() => Promise<void>)[] = [];
  let ended: Promise<void> = Promise.resolve();
  let starting: Promise<{ url: string; port: number }> | undefined;
  let stopped: Promise<void> | undefined;

  async function start(): Promise<{ url: string; port: number }> {
    const { signal } = stopping;
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
        else log.warn({ ...line, error: done.error }, 'data transaction');
      },
    );

    const engine: RunningEngine = await createEngine(settings, {
      log: log.child({ component: 'engine' }),
      env,
      signal,
    });
    ends.push(() => engine.close());
    const applier = new Applier(engine.engine);
    const keeper = new EngineKeeper(
      {
        tellsStart: settings.inlineEngineEnabled,
        probeEnabled: settings.probeEnabled,
        probeIntervalMs: settings.probeIntervalMs,
        probeTimeoutMs: settings.probeTimeoutMs,
        backoff,
      },
      { engine: engine.engine, applier, status, log: log.child({ component: 'engine' }) },
    );

    const spoolDir = await mkdtemp(join(tmpdir(), 'policysync-spool-'));
    ends.push(() => rm(spoolDir, { recursive: true, force: true }));
    const spool = await createSpool({ dir: spoolDir, limitBytes: settings.fetchLimitBytes });
    const fetcher = createHttpFetcher(
      {
        silenceTimeoutMs: settings.fetchTimeoutMs,
        totalTimeoutMs: settings.fetchTotalTimeoutMs,
        concurrency: settings.fetchConcurrency,
        perHost: settings.fetchPerHost,
        env,
      },
      { spool, log: log.child({ component: 'fetch' }) },
    );
    ends.push(() => fetcher.close());

    const api = new ServerApi({
      serverUrl: settings.serverUrl,
      dataConfigUrl: settings.dataConfigUrl,
      token: settings.clientToken,
      policyDirs: settings.policyDirs,
    });
    ends.push(() => api.close());

    const data: DataUpdater = new DataUpdater(
      { topics: settings.dataTopics, backoff },
      {
        applier,
        exclusive: keeper.exclusive,
        fetch: (request, fetchSignal) => fetcher.fetch(request, fetchSignal),
        fetchConfig: async (fetchSignal) => {
          try {
            return await api.dataConfig(fetchSignal);
          } catch (error) {
            if (!fetchSignal.aborted) status.configFailed(errorText(error));
            throw error;
          }
        },
        status,
        log: log.child({ component: 'data' }),
      },
    );
    const policy: PolicyUpdater = new PolicyUpdater(
      { backoff },
      {
        applier,
        exclusive: keeper.exclusive,
        fetchBundle: (baseHash, fetchSignal) => api.policy(baseHash, fetchSignal),
        onApplied: () => data.policyChanged(),
        status,
        log: log.child({ component: 'policy' }),
      },
    );

    const dataTopics = new Set(settings.dataUpdaterEnabled ? settings.dataTopics : []);
    const directories = settings.policyUpdaterEnabled ? outermostDirectories(settings.policyDirs) : [];
    const server = { connected: false, error: undefined as string | undefined };
    const socketLog = log.child({ component: 'socket' });
    const socket = createSocketClient(
      {
        url: `${settings.serverWsUrl ?? settings.serverUrl.replace(/^http/, 'ws')}/ws`,
        token: settings.clientToken,
        keepAliveIntervalMs: settings.keepAliveIntervalMs,
        reconnectMaxMs: settings.reconnectMaxMs,
      },
      {
        log: socketLog,
        topics: (session) => [
          ...directories.map((directory) => policyTopicFor(session, directory, settings.scopeId)),
          ...dataTopics,
        ],
        onConnected: async (session) => {
          server.connected = true;
          server.error = undefined;
          socketLog.info({ server: settings.serverUrl, extensions: session.protocol ?? 'none' }, 'subscribed');
          if (settings.policyUpdaterEnabled) policy.request();
          if (settings.dataUpdaterEnabled) data.resync();
        },
        onNotify: (topic, dataText) => {
          if (!dataTopics.has(topic)) {
            policy.notified(dataText);
            return;
          }
          const parsed = peerUpdate.safeParse(parseKeepingData(dataText));
          if (parsed.success) data.receive(parsed.data, topic, dataText);
          else {
            // What it said is not known: reading the configuration again brings in what a server of ours retained.
            socketLog.error(
              { topic, problem: parsed.error.issues[0]?.message, at: parsed.error.issues[0]?.path.join('.') },
              'a data update is not as documented',
            );
            data.resync();
          }
        },
        onDisconnected: (reason) => {
          server.connected = false;
          server.error = reason;
          if (!signal.aborted) socketLog.warn({ reason }, 'connection to the sync server lost');
        },
        onFailed: (reason) => {
          server.error = reason;
        },
      },
    );

    const app = clientHttp({
      status,
      policy,
      server: () => server,
      engineMode: () => engine.engine.policyMode,
      log: log.child({ component: 'http' }),
    });
    ends.push(() => closeHttpApp(app));
    const address = await listenHttp(app, { host: settings.host, port: settings.port });

    const parts = [
      engine.run({ onStarted: () => keeper.lost(), onGone: (reason) => keeper.gone(reason) }, signal),
      keeper.run(signal),
      policy.run(signal),
      data.run(signal),
      socket.run(signal),
    ];
    const running = Promise.all(parts).then(() => undefined);
    ended = running;
    // The caller hears of it by ended(); here it only must not count as unhandled.
    running.catch((error: unknown) => {
      if (!signal.aborted) log.error({ error: errorText(error) }, 'the client cannot go on');
    });
    ends.push(async () => {
      await Promise.allSettled(parts);
    });
    log.info(
      { ...address, server: settings.serverUrl, engine: settings.engineUrl, policy_mode: engine.engine.policyMode },
      'sync client is listening',
    );
    return address;
  }

  async function stop(): Promise<void> {
    stopping.abort();
    // A start under way is let finish its step; what it opened is closed below.
    await starting?.catch(() => undefined);
    for (const end of ends.splice(0).reverse()) await end();
  }

  return {
    start: () => {
      starting ??= start().catch(async (error: unknown) => {
        stopping.abort();
        for (const end of ends.splice(0).reverse()) await end();
        throw error;
      });
      return starting;
    },
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
    ended: () => ended,
  };
}

/** Each client subscribes to one of the two forms of policy notices: the spec's from our servers, OPAL's from OPAL's. */
function policyTopicFor(session: SocketSession, directory: string, scope: string): string {
  return session.protocol === undefined && scope === 'default'
    ? opalPolicyTopic(directory)
    : policyTopic(directory, scope);
}
