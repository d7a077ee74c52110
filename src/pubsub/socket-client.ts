import { type ErrorCode, errorCode, errorText, failureFields, SyncError } from '../lib/errors.js';
import type { Dial } from '../lib/net/connect.js';
import { type Logger, redactUrl, type Secret } from '../lib/observe/log.js';
import { aborted, isAbort, sleep, timerMs } from '../lib/run/async.js';
import type { Farewell } from './close-reason.js';
import { Link, type LinkDeps } from './link.js';
import { ANNOUNCE_TOPIC } from './peer.js';
import { ReconnectBackoff } from './reconnect-backoff.js';

/** What {@link createSocketClient} is made with. */
export interface SocketClientOptions {
  /** Address of the socket, path included: `ws://host:7002/ws`. */
  url: string;
  /** Sent as Bearer. */
  token?: Secret | undefined;
  /** Time between RPC pings, for proxies that end quiet connections; 0 for none. */
  keepAliveIntervalMs: number;
  /** Longest wait between two attempts. */
  reconnectMaxMs: number;
  /** Timeout of the handshake, and of `subscribe`. Default 10 s (opal-protocol P1.1). */
  openTimeoutMs?: number;
  /** Time between WebSocket pings, and timeout of each. Default 20 s. */
  pingIntervalMs?: number;
  /** Time for each answer to OPAL's readiness check. Default 1 s (opal-protocol P1.5). */
  readyPingMs?: number;
  /**
   * Announce this id to the server, as OPAL's clients do for its statistics (opal-protocol P1.7).
   */
  announceAs?: string | undefined;
  /** Largest message that is accepted. Default 64 MiB. */
  frameLimitBytes?: number;
  /** Opens the connections. Default: directly, with the well-known authorities. */
  dial?: Dial | undefined;
}

/** One connection, as the client's parts see it. */
export interface SocketSession {
  /** Version of our extensions that the server speaks; undefined for an OPAL server. */
  readonly protocol: number | undefined;
  /** Aborts when the connection has ended. */
  readonly signal: AbortSignal;
  /** The result of `subscribe`: `true`, or the session of our extensions. */
  readonly subscribed: unknown;
  /**
   * Calls a method of the server. Rejects with `server_unreachable` when no response arrives in
   * time.
   */
  call(method: string, args: object, timeoutMs: number): Promise<unknown>;
}

/** What is known of a connection before the topics are subscribed. */
export type OpenSession = Pick<SocketSession, 'protocol' | 'signal'>;

/** What a socket client works with. */
export interface SocketClientDeps extends LinkDeps {
  /** The topics to subscribe to; asked once for each connection. */
  topics(session: OpenSession): readonly string[];
  /**
   * More arguments of `subscribe`, for a server that knows them; asked once for each connection.
   */
  subscribeWith?(session: OpenSession): object;
  /**
   * Called when the topics are subscribed: nothing is missed from now on, so this is the moment to
   * catch up. Notifications follow when it has resolved. A rejection ends the connection and counts
   * as a failed attempt. The next attempt waits until it has settled: respect `session.signal`.
   */
  onConnected(session: SocketSession): Promise<void>;
  /**
   * A publication; `dataText` is its data exactly as the server wrote it. Must return soon; a throw
   * means reconnect. Publications that arrive before the response to `subscribe` follow after
   * `onConnected`, which says whose log it is.
   */
  onNotify(topic: string, dataText: string): void;
  /**
   * Called once for each call of `onConnected`, when that connection has ended. `sentAway`: the
   * server drains, and this client reconnects at once; that is no failure.
   */
  onDisconnected(reason: string, sentAway: boolean): void;
  /** Time over which the clients of this server spread their reconnects, as it said last. */
  spreadMs?(): number;
  /**
   * What it says when {@link SocketClient.run} ends: undefined where the client itself does not.
   * Default: nothing.
   */
  farewell?(): Farewell | undefined;
  /** Called before each wait for the next attempt, with why there is no connection. */
  onFailed?(reason: string, code: ErrorCode): void;
}

/** A lasting subscription: connects, subscribes, reconnects. */
export interface SocketClient {
  /**
   * Runs until the signal aborts, and resolves when the connection is closed. Never rejects because
   * of the server.
   */
  run(signal: AbortSignal): Promise<void>;
}

/**
 * OPAL's readiness check: this many pings of a second each, then subscribe anyway (opal-protocol
 * P1.5).
 */
const READY_PINGS = 5;
const READY_PING_MS = 1000;
const KEEP_ALIVE_ANSWER_MS = 10_000;
const OPEN_TIMEOUT_MS = 10_000;

/** Makes a client for our servers and for OPAL's; it does nothing until it runs. */
export function createSocketClient(options: SocketClientOptions, deps: SocketClientDeps): SocketClient {
  const { openTimeoutMs = OPEN_TIMEOUT_MS, pingIntervalMs = 20_000, frameLimitBytes = 64 * 1024 * 1024 } = options;
  const { url, token, dial } = options;
  const linkOptions = { url, token, dial, openTimeoutMs, pingIntervalMs, frameLimitBytes };

  /**
   * One connection from beginning to end. Returns how long it was established; throws when it never
   * was.
   */
  async function connectOnce(signal: AbortSignal): Promise<{ heldMs: number; reason: unknown; sentAway: boolean }> {
    const link = await Link.open(linkOptions, deps, signal);
    const opened = { protocol: link.protocol, signal: link.closed };
    let told = false;
    const close = (): Promise<void> => link.close(signal.aborted ? deps.farewell?.() : undefined);
    const stop = onAbort(signal, close);
    const keepAlive = startKeepAlive(link, options.keepAliveIntervalMs, deps.log);
    try {
      signal.throwIfAborted();
      const subscribed = await subscribe(link, opened, options, deps);
      const call: SocketSession['call'] = (method, args, timeoutMs) => link.call(method, args, timeoutMs);
      const session = { ...opened, subscribed, call };
      told = true;
      await deps.onConnected(session);
      link.notify();
      link.closed.throwIfAborted();
      deps.log.info({ url: redactUrl(options.url), protocol: link.protocol }, 'connected');
      const start = performance.now();
      await aborted(link.closed);
      return { heldMs: performance.now() - start, reason: link.closed.reason, sentAway: link.sentAway };
    } finally {
      clearInterval(keepAlive);
      await stop();
      await close();
      if (told) deps.onDisconnected(errorText(link.closed.reason), link.sentAway);
    }
  }

  return {
    async run(signal) {
      const waits = new ReconnectBackoff({ maxMs: options.reconnectMaxMs });
      while (!signal.aborted) {
        let reason: unknown;
        try {
          const end = await connectOnce(signal);
          if (end.sentAway && !signal.aborted && waits.sentAway(end.heldMs)) {
            deps.log.info({ url: redactUrl(options.url) }, 'the server drains: connecting again at once');
            continue;
          }
          waits.ended(end.heldMs);
          reason = end.reason;
        } catch (error) {
          reason = error;
        }
        if (signal.aborted) return;
        const floorMs = (reason instanceof SyncError ? (reason.retryAfterSeconds ?? 0) : 0) * 1000;
        const delayMs = waits.next(floorMs, deps.spreadMs?.() ?? 0);
        const { failures, level } = waits;
        deps.log[level === 'info' && needsHelp(reason) ? 'warn' : level](
          { url: redactUrl(options.url), failures, retry_in_ms: Math.round(delayMs), ...failureFields(reason) },
          'not connected',
        );
        deps.onFailed?.(errorText(reason), errorCode(reason));
        try {
          await sleep(delayMs, signal);
        } catch (error) {
          if (!isAbort(error, signal)) throw error;
        }
      }
    },
  };
}

/** Returns the result of `subscribe`. */
async function subscribe(
  link: Link,
  session: OpenSession,
  options: SocketClientOptions,
  deps: SocketClientDeps,
): Promise<unknown> {
  const { openTimeoutMs = OPEN_TIMEOUT_MS } = options;
  await waitUntilReady(link, options.readyPingMs);
  const topics = [...new Set(deps.topics(session))];
  if (topics.length === 0) return undefined;
  const result = await link.call('subscribe', { topics, ...deps.subscribeWith?.(session) }, openTimeoutMs);
  if (result !== true && field(result, 'accepted') !== true) {
    const reason = field(result, 'reason');
    const why = typeof reason === 'string' ? `: ${reason.slice(0, 300)}` : '';
    throw new SyncError(
      'server_refused',
      `${redactUrl(options.url)} refused the subscription to ${topics.join(', ')}${why}`,
    );
  }
  if (options.announceAs !== undefined) announce(link, options.announceAs, topics, deps.log);
  return result;
}

/** Failures that an operator has to mend are logged loudly at once. */
function needsHelp(error: unknown): boolean {
  return error instanceof SyncError && ['token_refused', 'tls_failed', 'tls_mismatch'].includes(error.code);
}

/** OPAL's readiness check. Only a lost connection fails it. */
async function waitUntilReady(link: Link, pingMs = READY_PING_MS): Promise<void> {
  for (let attempt = 1; attempt <= READY_PINGS; attempt++) {
    try {
      await link.call('_ping_', {}, pingMs);
      return;
    } catch (error) {
      if (link.closed.aborted) throw error;
    }
  }
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

/**
 * Does not wait for the response: a server that rejects announcements serves this client anyway.
 */
function announce(link: Link, clientId: string, topics: readonly string[], log: Logger): void {
  const data = { topics, client_id: clientId, rpc_id: link.channelId };
  const args = { topics: [ANNOUNCE_TOPIC], data, sync: true, notifier_id: null };
  link.call('publish', args, KEEP_ALIVE_ANSWER_MS).catch((error: unknown) => {
    log.debug({ error: errorText(error) }, 'the server took no announcement');
  });
}

function startKeepAlive(link: Link, intervalMs: number, log: Logger): NodeJS.Timeout | undefined {
  if (intervalMs <= 0) return undefined;
  return setInterval(() => {
    link.call('_ping_', {}, KEEP_ALIVE_ANSWER_MS).catch((error: unknown) => {
      // The call is traffic alone; the pings of the socket decide whether the server lives.
      log.debug({ error: errorText(error) }, 'no answer to the keep-alive');
    });
  }, timerMs(intervalMs));
}

/**
 * Runs an action when the signal aborts. The result cancels it, or waits for it where it has begun.
 */
function onAbort(signal: AbortSignal, action: () => Promise<void>): () => Promise<void> {
  let begun = Promise.resolve();
  const listener = (): void => {
    begun = action();
  };
  signal.addEventListener('abort', listener, { once: true });
  return async () => {
    signal.removeEventListener('abort', listener);
    await begun;
  };
}
