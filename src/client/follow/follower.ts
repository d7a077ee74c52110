import { setMaxListeners } from 'node:events';
import { type ErrorCode, errorText, failureFields, firstIssue, SyncError } from '../../lib/errors.js';
import type { Dial } from '../../lib/net/connect.js';
import { serverAddress } from '../../lib/net/server-address.js';
import { type Logger, redactUrl } from '../../lib/observe/log.js';
import { aborted, type BackoffOptions, backoffMs, isAbort, sleep } from '../../lib/run/async.js';
import { hexId } from '../../lib/run/hex-id.js';
import type { Farewell } from '../../pubsub/close-reason.js';
import {
  createSocketClient,
  type OpenSession,
  type SocketClient,
  type SocketSession,
} from '../../pubsub/socket-client.js';
import { ASK_METHOD } from '../../wire/client-ask.js';
import { peerUpdate } from '../../wire/data.js';
import { parseKeepingData } from '../../wire/inline-data.js';
import {
  HEARTBEAT_METHOD,
  heartbeat,
  type Position,
  SESSION_PROTOCOL,
  type SessionAnswer,
  type SessionSubscribe,
  sessionAnswer,
} from '../../wire/session.js';
import { opalPolicyTopic, policyTopic } from '../../wire/topics.js';
import type { AskedActions } from '../asked/asked-actions.js';
import type { ClientSettings } from '../options.js';
import type { PositionRecord } from '../position/position.js';
import type { StateReporter } from '../position/state-reporter.js';
import type { DataUpdater } from '../reconcile/data-updater.js';
import type { EngineKeeper } from '../reconcile/engine-keeper.js';
import type { PolicyUpdater } from '../reconcile/policy-updater.js';
import { outermostDirectories } from '../topics.js';

/** What follows the server. */
export interface FollowedParts {
  readonly policy: PolicyUpdater;
  readonly data: DataUpdater;
  /** Reports the state of this client to our servers. */
  readonly reporter: StateReporter;
  /** Does what our servers ask over the socket; undefined: nothing. */
  readonly asked?: Pick<AskedActions, 'kinds' | 'take'> | undefined;
}

/** State of the connection to the server. */
interface ServerState {
  readonly connected: boolean;
  readonly error: string | undefined;
  /** The code of that error. */
  readonly code: ErrorCode | undefined;
  readonly connections: number;
  /** When it was connected, or lost, last; milliseconds since 1970. */
  readonly sinceMs: number;
}

/** One period in which the client follows the server. */
interface Period {
  readonly stop: AbortController;
  readonly done: Promise<void>;
}

/** Reason of the abort when the client is disconnected on purpose. */
const DISCONNECTED = 'disconnected from the sync server';

/**
 * Follows the sync server: the socket, the policy updater and the data updater. Can stop and start
 * again while the engine keeps serving (specification "Client server-connectivity"); the updaters
 * keep what they know of the engine.
 */
export class Follower {
  readonly #settings: ClientSettings;
  readonly #keeper: EngineKeeper;
  readonly #dial: Dial;
  readonly #log: Logger;
  readonly #askServerLoad: (signal: AbortSignal) => Promise<void>;
  readonly #onCutOff: (sinceMs: number | undefined) => void;
  readonly #engineGoesOn: () => Promise<boolean>;
  /** Since when the server is cut off, by the clock of this client. */
  #cutOffMs: number | undefined;
  #server: ServerState = {
    connected: false,
    error: undefined,
    code: undefined,
    connections: 0,
    sinceMs: Date.now(),
  };
  readonly #statId: string;
  /** The name under which the server lists this client instead of its id. */
  #listedAs: string | undefined;
  #period: Period | undefined;
  /** A server may list this client: the answer to the subscription may still be on its way. */
  #isExpected = false;
  /** {@link run} has ended: nobody would stop what starts now. */
  #isOver = false;
  /** What the server is told once the client was asked to stop. */
  #farewell: Farewell | undefined;
  /** Ends {@link run} with the failure of a part. */
  #fail: (error: unknown) => void = () => undefined;

  constructor(
    settings: ClientSettings,
    deps: {
      keeper: EngineKeeper;
      askServerLoad: (signal: AbortSignal) => Promise<void>;
      dial: Dial;
      /**
       * Called when the server says that it is cut off from the others, with since when, and when
       * it is so no longer.
       */
      onCutOff?: (sinceMs: number | undefined) => void;
      /**
       * Whether the engine goes on deciding when the client has stopped. Must not reject. Default:
       * it does not.
       */
      engineGoesOn?: () => Promise<boolean>;
      log: Logger;
    },
  ) {
    this.#settings = settings;
    this.#dial = deps.dial;
    this.#statId = settings.clientStatId ?? `CLIENT_${hexId()}`;
    this.#keeper = deps.keeper;
    this.#askServerLoad = deps.askServerLoad;
    this.#onCutOff = deps.onCutOff ?? (() => undefined);
    this.#engineGoesOn = deps.engineGoesOn ?? (async () => false);
    this.#log = deps.log;
  }

  /**
   * Whether the socket is up and since when, what ended it last, and how often it was established.
   */
  get server(): ServerState {
    return this.#server;
  }

  /** False as soon as {@link stop} is called. */
  get following(): boolean {
    return this.#period !== undefined && !this.#period.stop.signal.aborted;
  }

  /**
   * Runs a step of an updater in the engine, unless the client is disconnected before the step
   * begins.
   */
  readonly exclusive = <T>(step: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    this.#keeper.exclusive(step, this.#period?.stop.signal);

  /**
   * Starts to follow; policy and data arrive in the background. Does nothing where it follows
   * already, or has ended.
   */
  start(parts: FollowedParts): void {
    if (this.#period !== undefined || this.#isOver) return;
    const stop = new AbortController();
    const { signal } = stop;
    setMaxListeners(0, signal);
    // Set before a part runs: its first step reads it.
    const period = { stop, done: Promise.resolve() };
    this.#period = period;
    period.done = Promise.all([
      parts.policy.run(signal),
      parts.data.run(signal),
      this.#followSocket(parts, signal),
    ]).then(() => undefined);
    period.done.catch((error: unknown) => this.#fail(error));
  }

  /** Stops following; waits for steps that the engine has begun. Idempotent. */
  async stop(): Promise<void> {
    const period = this.#period;
    if (period === undefined) return;
    period.stop.abort(new DOMException(DISCONNECTED, 'AbortError'));
    try {
      await period.done;
    } finally {
      if (this.#period === period) this.#period = undefined;
      const { connected, sinceMs } = this.#server;
      this.#server = {
        ...this.#server,
        connected: false,
        error: undefined,
        sinceMs: connected ? Date.now() : sinceMs,
      };
    }
  }

  /** Waits until the signal aborts, then stops; rejects when a part fails for good. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      await new Promise<void>((resolve, reject) => {
        this.#fail = reject;
        void aborted(signal).then(resolve);
      });
    } finally {
      this.#isOver = true;
      if (signal.aborted && this.#isExpected)
        this.#farewell = (await this.#engineGoesOn()) ? 'leaves_engine' : 'goodbye';
      await this.stop();
    }
  }

  async #followSocket(parts: FollowedParts, signal: AbortSignal): Promise<void> {
    if (this.#settings.waitOnServerLoad) {
      const onRefused = (reason: string): void => this.#failed(reason, undefined);
      try {
        await serverHasCapacity({ ask: this.#askServerLoad, onRefused, log: this.#log }, signal);
      } catch (error) {
        if (isAbort(error, signal)) return;
        throw error;
      }
    }
    await this.#socket(parts, signal).run(signal);
  }

  #socket(parts: FollowedParts, signal: AbortSignal): SocketClient {
    const { policy, data, reporter, asked } = parts;
    const settings = this.#settings;
    const dataTopics = new Set(settings.dataUpdaterEnabled ? settings.dataTopics : []);
    const directories = settings.policyUpdaterEnabled ? outermostDirectories(settings.policyDirs) : [];
    const log = this.#log.child({ component: 'socket' });
    let spreadMs = 0;
    return createSocketClient(
      {
        url: serverAddress(settings.serverWsUrl ?? settings.serverUrl.replace(/^http/, 'ws'), '/ws'),
        token: settings.clientToken,
        dial: this.#dial,
        keepAliveIntervalMs: settings.keepAliveIntervalMs,
        announceAs: settings.statisticsEnabled ? this.#statId : undefined,
        reconnectMaxMs: settings.reconnectMaxMs,
      },
      {
        log,
        topics: (session) => [
          ...directories.map((directory) => policyTopicFor(session, directory, settings.scopeId)),
          ...dataTopics,
        ],
        subscribeWith: (session): Partial<SessionSubscribe> => {
          this.#isExpected = true;
          if (!speaksSessions(session)) return {};
          const position = data.logPosition;
          const { clientLabels: labels } = settings;
          return {
            client_id: reporter.clientId,
            at: Date.now(),
            ...(Object.keys(labels).length > 0 && { labels }),
            ...(asked !== undefined && { asks: [...asked.kinds] }),
            ...(position === undefined ? {} : { position: wirePosition(position) }),
          };
        },
        onConnected: async (session) => this.#connected(parts, session, log),
        onRequest: (method, args, call) => {
          if (method === ASK_METHOD && asked !== undefined) {
            asked.take(args, call);
            return true;
          }
          if (method !== HEARTBEAT_METHOD) return false;
          const beat = heartbeat.safeParse(args);
          if (!beat.success) return false;
          spreadMs = beat.data.return_ms ?? 0;
          this.#isListedAs(beat.data.listed_as, reporter.clientId, log);
          this.#isCutOff(beat.data.cut_off_ms, log);
          if (settings.dataUpdaterEnabled) data.heartbeat(beat.data);
          if (settings.policyUpdaterEnabled) policy.headIs(beat.data.policy_head);
          return true;
        },
        onNotify: (topic, dataText) => {
          if (dataTopics.has(topic)) receive(data, topic, dataText, log);
          else policy.notified(dataText);
        },
        spreadMs: () => spreadMs,
        farewell: () => this.#farewell,
        onDisconnected: (reason, sentAway) => {
          this.#isExpected = false;
          this.#server = { ...this.#server, connected: false, sinceMs: Date.now() };
          this.#isCutOff(undefined, log);
          if (sentAway) return;
          this.#failed(reason, 'server_unreachable');
          if (signal.aborted) return;
          log.warn(failureFields(new SyncError('server_unreachable', reason)), 'connection to the sync server lost');
        },
        onFailed: (reason, code) => {
          this.#isExpected = false;
          this.#failed(reason, code);
        },
      },
    );
  }

  #failed(error: string, code: ErrorCode | undefined): void {
    this.#server = { ...this.#server, error, code };
  }

  #connected({ policy, data, reporter }: FollowedParts, session: SocketSession, log: Logger): void {
    const { serverUrl, policyUpdaterEnabled, dataUpdaterEnabled } = this.#settings;
    const connections = this.#server.connections + 1;
    this.#server = { ...this.#server, connected: true, sinceMs: Date.now(), connections, error: undefined };
    const answer = speaksSessions(session) ? openedSession(session.subscribed) : undefined;
    const extensions = session.protocol ?? 'none';
    log.info({ server: redactUrl(serverUrl), extensions, session: answer !== undefined }, 'subscribed');
    this.#isListedAs(answer?.listed_as, reporter.clientId, log);
    this.#isCutOff(answer?.cut_off_ms, log);
    if (policyUpdaterEnabled) policy.request();
    if (dataUpdaterEnabled)
      data.connected(answer === undefined ? undefined : { ...answer, spreadMs: answer.spread_ms });
    if (answer !== undefined) reporter.follow(session, answer.heartbeat_seconds * 1000);
  }

  /**
   * `forMs`: how long the server has been cut off; undefined: it is not, or this client is not
   * connected to it. Clocks may differ.
   */
  #isCutOff(forMs: number | undefined, log: Logger): void {
    if ((forMs === undefined) === (this.#cutOffMs === undefined)) return;
    this.#cutOffMs = forMs === undefined ? undefined : Date.now() - Math.round(forMs);
    this.#onCutOff(this.#cutOffMs);
    if (forMs === undefined) return;
    const since = new Date(Date.now() - Math.round(forMs)).toISOString();
    log.warn({ since }, 'the sync server is cut off from its backbone: what is published elsewhere does not arrive');
  }

  /**
   * The server lists a client under another name where another client has its id: an operator
   * should know.
   */
  #isListedAs(name: string | undefined, clientId: string, log: Logger): void {
    if (name === this.#listedAs) return;
    this.#listedAs = name;
    if (name === undefined) {
      log.info({ client_id: clientId }, 'the server lists this client under its id again');
      return;
    }
    log.warn(
      { client_id: clientId, listed_as: name },
      'another client uses the id of this one: the server lists it under another name; give each its own SYNC_CLIENT_ID',
    );
  }
}

function receive(data: DataUpdater, topic: string, dataText: string, log: Logger): void {
  const parsed = peerUpdate.safeParse(parseKeepingData(dataText));
  if (parsed.success) {
    data.receive(parsed.data, topic, dataText);
    return;
  }
  // Its content is lost: reading the configuration again brings in what a server of ours retained.
  const failure = new SyncError('frame_invalid', firstIssue(parsed.error));
  log.error({ topic, ...failureFields(failure) }, 'a data update is not as documented');
  data.resync();
}

/**
 * Each client subscribes to one of the two forms of policy notices: ours from our servers, OPAL's
 * from OPAL's.
 */
function policyTopicFor(session: OpenSession, directory: string, scope: string): string {
  return session.protocol === undefined && scope === 'default'
    ? opalPolicyTopic(directory)
    : policyTopic(directory, scope);
}

function speaksSessions({ protocol }: OpenSession): boolean {
  return (protocol ?? 0) >= SESSION_PROTOCOL;
}

/**
 * The session that the server opened; undefined for a server without sessions, whatever version it
 * offers.
 */
function openedSession(answer: unknown): Extract<SessionAnswer, { accepted: true }> | undefined {
  const parsed = sessionAnswer.safeParse(answer);
  return parsed.success && parsed.data.accepted ? parsed.data : undefined;
}

/** Without the topics: the subscription has them. */
function wirePosition({ topics: _, ...position }: PositionRecord): Position {
  return position;
}

/** Backoff of the requests, as of OPAL's clients (opal-protocol P8.2). */
const WAITS: BackoffOptions = { minMs: 1000, maxMs: 10_000 };

/** What waiting for the server works with. */
interface ServerLoadDeps {
  /** Asks `GET /loadlimit`; throws unless the answer is 200. */
  readonly ask: (signal: AbortSignal) => Promise<void>;
  /** Called for each refusal. */
  readonly onRefused: (reason: string) => void;
  readonly log: Logger;
  readonly waits?: BackoffOptions;
}

/**
 * SYNC_WAIT_ON_SERVER_LOAD: resolves when the server has capacity for one more client. Retries for
 * ever, not before the server's `Retry-After`; rejects with the signal's reason when that aborts.
 */
export async function serverHasCapacity(deps: ServerLoadDeps, signal: AbortSignal): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await deps.ask(signal);
      if (attempt > 1) deps.log.info({ attempt }, 'the sync server takes one more client');
      return;
    } catch (error) {
      signal.throwIfAborted();
      const floorMs = error instanceof SyncError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
      const waitMs = backoffMs(attempt, deps.waits ?? WAITS, floorMs);
      const reason = errorText(error);
      deps.onRefused(reason);
      deps.log[attempt <= 5 ? 'info' : 'warn'](
        { attempt, retry_in_ms: Math.round(waitMs), ...failureFields(error) },
        'waiting for the sync server to take one more client',
      );
      await sleep(waitMs, signal);
    }
  }
}
