import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { firstOf } from '../lib/async.js';
import type { Budget, Release } from '../lib/budget.js';
import { errorText, failureFields, SyncError } from '../lib/errors.js';
import { rawRefusal } from '../lib/raw-refusal.js';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../wire/frames.js';
import { Connection, type ConnectionDeps } from './connection.js';
import { EventLoopTick } from './event-loop-tick.js';
import type { Subscriber } from './hub.js';
import { ANY_PEER, type Peer, upgradeQuery } from './peer.js';
import { sendAway } from './send-away.js';
import { Tarpit } from './tarpit.js';

/** What {@link createSocketServer} is made with. */
export interface SocketServerOptions {
  /** Path of the socket; a query is ignored. Default `/ws` (opal-protocol P1.1). */
  path?: string;
  /** Largest message that is accepted; a larger one ends the connection with 1009. */
  frameLimitBytes: number;
  /** A subscriber with more than this unsent is dropped at the next message. */
  bufferLimitBytes: number;
  /** Default 20 s, as OPAL (opal-protocol P1.1). */
  pingIntervalMs?: number;
  /** Default 20 s. */
  pongTimeoutMs?: number;
  /** Delay of the first 401 or 403 of an address; see `tarpit.ts`. Default 1 s. */
  refusalDelayMs?: number;
  /** Connections at one time; more are refused with 503 and `Retry-After`. Default: no bound. */
  maxConnections?: number;
  /** How long {@link SocketServer.close} waits for the closing handshakes. Default 2 s. */
  closeGraceMs?: number;
}

/** What a socket server works with. */
export interface SocketServerDeps extends ConnectionDeps {
  /** Open connections: filled here, for sessions and statistics to read. */
  connections?: Set<Connection>;
  /** What one token and one address may have of all sockets, and of all subscriptions. Default: no bounds. */
  budgets?: { readonly sockets: Budget; readonly topics: Budget } | undefined;
  /** Called first for each upgrade; rejects it by throwing a `SyncError`, whose status is sent. */
  screen?(request: IncomingMessage): void;
  /** Address of a peer. Default: of its connection. */
  addressOf?(request: IncomingMessage): string;
  /**
   * Returns the peer, or rejects with a `SyncError`, whose status is sent. Settles in bounded time. Default: every peer
   * may connect.
   */
  authenticate?(request: IncomingMessage): Promise<Peer>;
  /**
   * A publish on topics other than statistics; resolves when it was accepted. Default: such calls return `false`. Calls of
   * one connection run one after the other. `except`: a subscriber that is not notified: the publisher, where it has none
   * of our extensions and names no other notifier.
   */
  onPublish?(topics: readonly string[], dataText: string, peer: Peer, except?: Subscriber): Promise<void>;
}

/** Pub/sub over WebSocket, compatible with OPAL's framing (opal-protocol P1). Owns no port. */
export interface SocketServer {
  /** Open connections. */
  readonly connectionCount: number;
  /** Bytes that peers have not read yet, in all and of the slowest one. */
  queued(): { totalBytes: number; largestBytes: number };
  /** For the `upgrade` event of an `http.Server`. Responds to every request, never throws. */
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /**
   * Publications were skipped: closes, with 1012, the connections of clients that cannot notice that by themselves, so that
   * they reconnect and load everything. Our own clients notice it at the next heartbeat.
   */
  sendToReload(): void;
  /**
   * Refuses new connections, and closes those that are open with 1001, spread over this time, so that they connect to other servers;
   * a publish in flight is answered first. Resolves when all were told; rejects when the signal aborts.
   */
  sendAway(spreadMs: number, signal: AbortSignal): Promise<void>;
  /** Ends all connections with 1012 and refuses new ones; resolves when nothing is left. Twice is one close. */
  close(): Promise<void>;
}

/** `Retry-After` of a server that stops. */
const LEAVING_RETRY_SECONDS = 1;
/** `Retry-After` of a server that is full. */
const FULL_RETRY_SECONDS = 10;

/** `Retry-After` where the tarpit is full. Python clients back off by themselves after a 429. */
const REFUSED_RETRY_SECONDS = 10;

/** Makes a socket server; it does nothing until upgrades are handed to it. */
export function createSocketServer(options: SocketServerOptions, deps: SocketServerDeps): SocketServer {
  const { path = '/ws', refusalDelayMs = 1000, closeGraceMs = 2000 } = options;
  const { connections = new Set<Connection>() } = deps;
  const limits = {
    bufferLimitBytes: options.bufferLimitBytes,
    pingIntervalMs: options.pingIntervalMs ?? 20_000,
    pongTimeoutMs: options.pongTimeoutMs ?? 20_000,
    tick: new EventLoopTick(),
    onClosed(connection: Connection) {
      connections.delete(connection);
      if (connections.size === 0) onLastGone();
    },
  };
  // Compression per message costs eight times the time of the sending itself (measured; dependencies.md 2).
  const wss = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: options.frameLimitBytes,
  });
  wss.on('headers', (headers, request) => {
    const version = negotiated(request);
    if (version !== undefined) headers.push(`${PROTOCOL_HEADER}: ${version}`);
  });
  let onLastGone = (): void => undefined;
  const admissions = new Map<Promise<void>, Duplex>();
  let authenticating = 0;
  /** No new connections. */
  let isLeaving = false;
  const tarpit = new Tarpit(refusalDelayMs);
  const hostOf = (request: IncomingMessage): string => deps.addressOf?.(request) ?? request.socket.remoteAddress ?? '?';

  function accept(ws: WebSocket, request: IncomingMessage, peer: Peer): void {
    const about = {
      protocol: negotiated(request),
      peer,
      host: hostOf(request),
      ...upgradeQuery(request),
    };
    const connection = new Connection(ws, request.socket, about, limits, { ...deps, topics: deps.budgets?.topics });
    connections.add(connection);
  }

  function throwIfLeaving(): void {
    if (isLeaving) throw new Error('the server is stopping');
  }

  async function admit(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    let peer: Peer;
    let giveBack: Release;
    try {
      if (pathOf(request) !== path) {
        throw new SyncError('not_found', `there is no socket at this path, it is at ${path}`);
      }
      throwIfLeaving();
      deps.screen?.(request);
      if (connections.size + authenticating >= (options.maxConnections ?? Number.POSITIVE_INFINITY)) {
        throw new SyncError(
          'too_many_connections',
          'the server has as many connections as SYNC_MAX_CONNECTIONS allows',
          {
            retryAfterSeconds: FULL_RETRY_SECONDS,
          },
        );
      }
      peer = await authenticated(request);
      throwIfLeaving();
      giveBack = takeSocket(peer, hostOf(request));
    } catch (error) {
      await refuse(request, socket, error);
      return;
    }
    if (socket.destroyed) {
      giveBack();
      return;
    }
    socket.once('close', giveBack);
    wss.handleUpgrade(request, socket, head, (ws) => {
      socket.off('error', failed); // from now on ws handles it
      accept(ws, request, peer);
    });
  }

  /** Takes one of the sockets that a token and an address may have. */
  function takeSocket({ subject }: Peer, address: string): Release {
    const sockets = deps.budgets?.sockets;
    const taken = sockets?.take({ subject, address }, 1);
    if (sockets === undefined || taken === undefined) return () => undefined;
    if (typeof taken === 'function') return taken;
    throw sockets.refusal(taken, FULL_RETRY_SECONDS);
  }

  /** Peers under authentication count as connections: else a burst could exceed the bound. */
  async function authenticated(request: IncomingMessage): Promise<Peer> {
    authenticating++;
    try {
      return (await deps.authenticate?.(request)) ?? ANY_PEER;
    } finally {
      authenticating--;
    }
  }

  const failed = (error: Error): void => deps.log.debug({ error: errorText(error) }, 'socket failed');

  async function refuse(request: IncomingMessage, socket: Duplex, reason: unknown): Promise<void> {
    const error = (await heldBack(request, socket, reason)) ?? reason;
    socket.once('finish', () => socket.destroy());
    const leaving = { status: 503, retryAfterSeconds: LEAVING_RETRY_SECONDS };
    socket.end(rawRefusal(isLeaving ? leaving : error instanceof SyncError ? error : { status: 500 }));
  }

  /** Delays a 401 or 403. Returns the error to send instead where the tarpit is full. */
  async function heldBack(request: IncomingMessage, socket: Duplex, reason: unknown): Promise<SyncError | undefined> {
    const status = reason instanceof SyncError ? reason.status : 500;
    const mustWait = status === 401 || status === 403;
    const isDue = !mustWait || (await tarpit.hold(hostOf(request), socket));
    const fields = {
      address: `${hostOf(request)}:${request.socket.remotePort ?? '?'}`,
      status,
      ...failureFields(reason),
    };
    // Refusals that are not delayed must not fill the log.
    deps.log[isDue ? 'warn' : 'debug'](fields, 'socket refused');
    if (isDue) return undefined;
    return new SyncError('rate_limited', 'too many refused connections', { retryAfterSeconds: REFUSED_RETRY_SECONDS });
  }

  async function closeAll(): Promise<void> {
    isLeaving = true;
    tarpit.end();
    for (const connection of connections) connection.leave(1012, 'the server is stopping');
    const allGone = new Promise<void>((resolve) => {
      onLastGone = resolve;
      if (connections.size === 0) resolve();
    });
    let grace: NodeJS.Timeout | undefined;
    const graceOver = new Promise<void>((resolve) => {
      grace = setTimeout(resolve, closeGraceMs);
    });
    await firstOf([Promise.all([allGone, ...admissions.keys()]), graceOver]);
    clearTimeout(grace);
    for (const connection of connections) connection.drop('takes no part in the end');
    for (const socket of admissions.values()) socket.destroy();
    await allGone;
  }
  let closed: Promise<void> | undefined;

  return {
    get connectionCount() {
      return connections.size;
    },
    queued: () => {
      let totalBytes = 0;
      let largestBytes = 0;
      for (const { queuedBytes } of connections) {
        totalBytes += queuedBytes;
        largestBytes = Math.max(largestBytes, queuedBytes);
      }
      return { totalBytes, largestBytes };
    },
    sendAway(spreadMs, signal) {
      isLeaving = true;
      return sendAway([...connections], spreadMs, signal);
    },
    sendToReload() {
      for (const connection of connections) {
        if (!connection.speaksSessions) connection.close(1012, 'updates were missed: read GET /data/config');
      }
    },
    handleUpgrade(request, socket, head) {
      // A peer may disconnect during its admission: that shows as a destroyed socket.
      socket.on('error', failed);
      const admission = admit(request, socket, head)
        .catch((error: unknown) => {
          deps.log.error(failureFields(error, 'stack'), 'socket could not be opened');
          socket.destroy();
        })
        .finally(() => admissions.delete(admission));
      admissions.set(admission, socket);
    },
    close() {
      closed ??= closeAll();
      return closed;
    },
  };
}

/** The requested path; undefined for a target that is no URL, such as `//`. */
function pathOf({ url = '/' }: IncomingMessage): string | undefined {
  return URL.canParse(url, 'http://server') ? new URL(url, 'http://server').pathname : undefined;
}

/** The version of our extensions that both ends speak, where the peer asked for them. */
function negotiated(request: IncomingMessage): number | undefined {
  const offered = Number(request.headers[PROTOCOL_HEADER]);
  return Number.isInteger(offered) && offered >= 1 ? Math.min(offered, PROTOCOL_VERSION) : undefined;
}
