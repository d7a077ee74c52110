import { setMaxListeners } from 'node:events';
import { aborted, isAbort } from '../lib/async.js';
import type { Dial } from '../lib/connect.js';
import { type ErrorCode, failureFields, SyncError } from '../lib/errors.js';
import { hexId } from '../lib/hex-id.js';
import { type Logger, redactUrl } from '../lib/log.js';
import { serverAddress } from '../lib/server-address.js';
import { createSocketClient, type OpenSession } from '../pubsub/socket-client.js';
import { peerUpdate } from '../wire/data.js';
import { parseKeepingData } from '../wire/inline-data.js';
import {
  HEARTBEAT_METHOD,
  heartbeat,
  type Position,
  SESSION_PROTOCOL,
  type SessionAnswer,
  type SessionSubscribe,
  sessionAnswer,
} from '../wire/session.js';
import { opalPolicyTopic, policyTopic } from '../wire/topics.js';
import type { ClientSettings } from './options.js';
import type { PositionRecord } from './position/position.js';
import type { StateReporter } from './position/state-reporter.js';
import type { DataUpdater } from './reconcile/data-updater.js';
import type { EngineKeeper } from './reconcile/engine-keeper.js';
import type { PolicyUpdater } from './reconcile/policy-updater.js';
import { serverLoadAllows } from './server-load.js';
import { outermostDirectories } from './topics.js';

/** What follows the server. */
export interface FollowedParts {
  readonly policy: PolicyUpdater;
  readonly data: DataUpdater;
  /** Tells a server of ours how this client stands. */
  readonly reporter: StateReporter;
}

/** How the connection to the server stands. */
export interface ServerState {
  readonly connected: boolean;
  readonly error: string | undefined;
  /** The code of that error. */
  readonly code: ErrorCode | undefined;
  readonly connections: number;
  /** When it was connected, or lost, last; milliseconds since 1970. */
  readonly sinceMs: number;
}

/** One stretch of time during which the client follows the server. */
interface Period {
  readonly stop: AbortController;
  readonly done: Promise<void>;
}

/** The reason that everything under way ends with when the client is disconnected; its name marks it as no failure. */
const DISCONNECTED = 'disconnected from the sync server';

/**
 * Everything that follows the sync server: the socket, the policy updater and the data updater. It can be stopped and
 * started again while the engine goes on serving (specification "Client server-connectivity"); what the updaters know of the
 * engine stays with them meanwhile.
 */
export class Follower {
  readonly #settings: ClientSettings;
  readonly #keeper: EngineKeeper;
  readonly #dial: Dial;
  readonly #log: Logger;
  readonly #askServerLoad: (signal: AbortSignal) => Promise<void>;
  readonly #server = {
    connected: false,
    error: undefined as string | undefined,
    code: undefined as ErrorCode | undefined,
    connections: 0,
    /** When it was connected, or lost, last; milliseconds since 1970. */
    sinceMs: Date.now(),
  };
  readonly #statId: string;
  /** The name that the server gave us in place of our id. */
  #listedAs: string | undefined;
  #period: Period | undefined;
  /** {@link run} has ended: what starts now nobody would stop. */
  #isOver = false;
  /** Ends {@link run} with the failure of a part. */
  #fail: (error: unknown) => void = () => undefined;

  constructor(
    settings: ClientSettings,
    deps: { keeper: EngineKeeper; askServerLoad: (signal: AbortSignal) => Promise<void>; dial: Dial; log: Logger },
  ) {
    this.#settings = settings;
    this.#dial = deps.dial;
    this.#statId = settings.clientStatId ?? `CLIENT_${hexId()}`;
    this.#keeper = deps.keeper;
    this.#askServerLoad = deps.askServerLoad;
    this.#log = deps.log;
  }

  /** Where the data topics are that this client subscribes to. */
  get #dataTopics(): readonly string[] {
    return this.#settings.dataUpdaterEnabled ? this.#settings.dataTopics : [];
  }

  /** Whether the socket is up and since when, what ended it last, and how often it was established. */
  get server(): ServerState {
    return this.#server;
  }

  /** False from the moment on that it is to stop. */
  get following(): boolean {
    return this.#period !== undefined && !this.#period.stop.signal.aborted;
  }

  /** The updaters' way to the engine: a step that has not begun when the client is disconnected never begins. */
  readonly exclusive = <T>(step: (signal: AbortSignal) => Promise<T>): Promise<T> =>
    this.#keeper.exclusive(step, this.#period?.stop.signal);

  /** Starts to follow; policy and data arrive in the background. Nothing happens where it follows already, or has ended. */
  start(parts: FollowedParts): void {
    if (this.#period !== undefined || this.#isOver) return;
    const stop = new AbortController();
    const { signal } = stop;
    setMaxListeners(0, signal);
    // Set before anything runs: the first step that a part takes asks for it.
    const period = { stop, done: Promise.resolve() };
    this.#period = period;
    period.done = Promise.all([
      parts.policy.run(signal),
      parts.data.run(signal),
      this.#followSocket(parts, signal),
    ]).then(() => undefined);
    period.done.catch((error: unknown) => this.#fail(error));
  }

  /** Ends everything that follows; steps that the engine has begun come to their end first. Twice is once. */
  async stop(): Promise<void> {
    const period = this.#period;
    if (period === undefined) return;
    period.stop.abort(new DOMException(DISCONNECTED, 'AbortError'));
    try {
      await period.done;
    } finally {
      if (this.#period === period) this.#period = undefined;
      if (this.#server.connected) this.#server.sinceMs = Date.now();
      this.#server.connected = false;
      this.#server.error = undefined;
    }
  }

  /** Waits until the signal aborts and then stops; rejects when a part failed in a way that it does not mend itself. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      await new Promise<void>((resolve, reject) => {
        this.#fail = reject;
        void aborted(signal).then(resolve);
      });
    } finally {
      this.#isOver = true;
      await this.stop();
    }
  }

  async #followSocket(parts: FollowedParts, signal: AbortSignal): Promise<void> {
    if (this.#settings.waitOnServerLoad) {
      const onRefused = (reason: string): void => {
        this.#server.error = reason;
        this.#server.code = undefined;
      };
      try {
        await serverLoadAllows({ ask: this.#askServerLoad, onRefused, log: this.#log }, signal);
      } catch (error) {
        if (isAbort(error, signal)) return;
        throw error;
      }
    }
    await this.#socket(parts, signal).run(signal);
  }

  /** The server serves us under another name where our id is somebody else's: whoever looks for us should know. */
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

  #socket({ policy, data, reporter }: FollowedParts, signal: AbortSignal): ReturnType<typeof createSocketClient> {
    const settings = this.#settings;
    const server = this.#server;
    const dataTopics = new Set(this.#dataTopics);
    let spreadMs = 0;
    const directories = settings.policyUpdaterEnabled ? outermostDirectories(settings.policyDirs) : [];
    const socketLog = this.#log.child({ component: 'socket' });
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
        log: socketLog,
        topics: (session) => [
          ...directories.map((directory) => policyTopicFor(session, directory, settings.scopeId)),
          ...dataTopics,
        ],
        subscribeWith: (session): Partial<SessionSubscribe> => {
          if (!speaksSessions(session)) return {};
          const position = data.logPosition;
          return {
            client_id: reporter.clientId,
            ...(position === undefined ? {} : { position: wirePosition(position) }),
          };
        },
        onConnected: async (session) => {
          server.connected = true;
          server.sinceMs = Date.now();
          server.connections++;
          server.error = undefined;
          const answer = speaksSessions(session) ? openedSession(session.subscribed) : undefined;
          socketLog.info(
            {
              server: redactUrl(settings.serverUrl),
              extensions: session.protocol ?? 'none',
              session: answer !== undefined,
            },
            'subscribed',
          );
          this.#isListedAs(answer?.listed_as, reporter.clientId, socketLog);
          if (settings.policyUpdaterEnabled) policy.request();
          if (settings.dataUpdaterEnabled) {
            data.connected(answer === undefined ? undefined : { ...answer, spreadMs: answer.spread_ms });
          }
          if (answer !== undefined) reporter.follow(session, answer.heartbeat_seconds * 1000);
        },
        onRequest: (method, args) => {
          if (method !== HEARTBEAT_METHOD) return false;
          const beat = heartbeat.safeParse(args);
          if (!beat.success) return false;
          spreadMs = beat.data.return_ms ?? 0;
          this.#isListedAs(beat.data.listed_as, reporter.clientId, socketLog);
          if (settings.dataUpdaterEnabled) data.heartbeat(beat.data);
          if (settings.policyUpdaterEnabled) policy.headIs(beat.data.policy_head);
          return true;
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
              {
                topic,
                ...failureFields(
                  new SyncError(
                    'frame_invalid',
                    `${parsed.error.issues[0]?.path.join('.')}: ${parsed.error.issues[0]?.message}`,
                  ),
                ),
              },
              'a data update is not as documented',
            );
            data.resync();
          }
        },
        spreadMs: () => spreadMs,
        onDisconnected: (reason) => {
          server.connected = false;
          server.sinceMs = Date.now();
          server.error = reason;
          server.code = 'server_unreachable';
          if (!signal.aborted)
            socketLog.warn(
              failureFields(new SyncError('server_unreachable', reason)),
              'connection to the sync server lost',
            );
        },
        onFailed: (reason, code) => {
          server.error = reason;
          server.code = code;
        },
      },
    );
  }
}

/** Each client subscribes to one of the two forms of policy notices: ours from our servers, OPAL's from OPAL's. */
function policyTopicFor(session: OpenSession, directory: string, scope: string): string {
  return session.protocol === undefined && scope === 'default'
    ? opalPolicyTopic(directory)
    : policyTopic(directory, scope);
}

function speaksSessions({ protocol }: OpenSession): boolean {
  return (protocol ?? 0) >= SESSION_PROTOCOL;
}

/** What a server says that opened a session; undefined for one that has none, whatever version it offers. */
function openedSession(answer: unknown): Extract<SessionAnswer, { accepted: true }> | undefined {
  const parsed = sessionAnswer.safeParse(answer);
  return parsed.success && parsed.data.accepted ? parsed.data : undefined;
}

/** Without the topics: those are in the subscription itself. */
function wirePosition({ topics: _, ...position }: PositionRecord): Position {
  return position;
}
