import { closeHttpApp, createHttpApp, listenHttp } from '../http/app.js';
import type { Logger } from '../lib/log.js';
import { createHub } from '../pubsub/hub.js';
import { createSocketServer } from '../pubsub/socket-server.js';
import type { PeerEntry, ServerDataSources } from '../wire/data.js';
import { openSqliteLog } from './log/sqlite-log.js';
import type { ServerSettings } from './options.js';
import { createPolicy, noBundles } from './policy.js';
import { createPublisher } from './publish.js';
import { dataRoutes } from './routes/data.js';
import { healthRoutes } from './routes/health.js';
import { policyRoutes } from './routes/policy.js';
import { rootRoutes } from './routes/root.js';
import { socketUpdate } from './socket-update.js';
import type { Tracker } from './source/tracker.js';

/** Settings of a server; unlike the program, the library asks for a state folder. */
export type ServerOptions = Omit<ServerSettings, 'stateDir'> & { stateDir: string };

/** A sync server. */
export interface Server {
  /**
   * Opens the state folder, listens, and answers where. Policy is fetched in the background: until the first commit is
   * there `/policy` answers 503. Rejects with `state_dir_in_use`, `listen_failed`, `log_unwritable`, `log_damaged` or
   * `config_invalid` (repository URL, branch); then nothing is left running.
   */
  start(): Promise<{ url: string; port: number }>;
  /** Ends everything; requests in flight may finish. Also ends a start that is under way. A second call is the same stop. */
  stop(): Promise<void>;
  /**
   * Settles when the policy source is no longer followed. Rejects when it, or the update log, failed in a way that only
   * another start mends.
   */
  ended(): Promise<void>;
}

/** The composition root of the server: makes the parts, starts them in order, stops them in reverse. */
export function createServer(options: ServerOptions, deps: { log: Logger; env: NodeJS.ProcessEnv }): Server {
  const { log } = deps;
  /** How to end what was started, in the order of the starts. */
  const ends: (() => Promise<void>)[] = [];
  let starting: Promise<{ url: string; port: number }> | undefined;
  let stopping: Promise<void> | undefined;
  let following: Promise<void> = new Promise(() => undefined);
  let logFailed: Promise<never> = new Promise(() => undefined);

  async function start(): Promise<{ url: string; port: number }> {
    const { stateDir, policyRepoUrl } = options;
    const updateLog = await openSqliteLog({ stateDir }, { log: log.child({ component: 'update-log' }) });
    ends.push(() => updateLog.close());
    logFailed = updateLog.failed ?? logFailed;
    logFailed.catch((error: unknown) => log.error({ err: error }, 'the update log failed'));
    await updateLog.adoptBase(baseEntries(options.dataSources));

    const hub = createHub(log.child({ component: 'pubsub' }));
    const publisher = createPublisher({ updateLog, hub, log: log.child({ component: 'publish' }) });
    const policy =
      policyRepoUrl === undefined
        ? undefined
        : createPolicy({ ...options, policyRepoUrl }, { hub, log, env: deps.env });
    const sockets = createSocketServer(
      { frameLimitBytes: options.frameLimitBytes, bufferLimitBytes: options.subscriberBufferBytes },
      {
        hub,
        log: log.child({ component: 'socket' }),
        onPublish: async (topics, dataText, peer) => {
          await publisher.publish(socketUpdate(topics, dataText), peer.subject);
        },
      },
    );

    const app = createHttpApp(options, { log: log.child({ component: 'http' }) });
    rootRoutes(app);
    healthRoutes(app, { policySource: policy?.tracker, log: updateLog });
    policyRoutes(app, { bundles: policy?.bundles ?? noBundles() });
    dataRoutes(app, options, { publisher, updateLog, log: log.child({ component: 'data' }) });
    app.server.on('upgrade', sockets.handleUpgrade);
    ends.push(async () => {
      // Together: the HTTP server waits for its sockets too.
      await Promise.all([sockets.close(), closeHttpApp(app)]);
    });
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
    const settled = following.catch((error: unknown) => log.error({ err: error }, 'the policy source is not followed'));
    ends.push(async () => {
      stop.abort();
      await settled;
    });
  }

  async function stop(): Promise<void> {
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
  };
}

/** The inline entries that the operator set; undefined where nothing is set or an external API answers them. */
function baseEntries(sources: ServerDataSources | undefined): readonly PeerEntry[] | undefined {
  return sources !== undefined && 'config' in sources ? sources.config.entries : undefined;
}
