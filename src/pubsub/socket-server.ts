import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { errorText, failureFields, SyncError } from '../lib/errors.js';
import { rawRefusal } from '../lib/net/raw-refusal.js';
import { firstOf } from '../lib/run/async.js';
import type { Budget, Release } from '../lib/run/budget.js';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../wire/frames.js';
import { Connection, type ConnectionDeps, type ConnectionOptions } from './connection.js';
import { EventLoopTick } from './event-loop-tick.js';
import type { Subscriber } from './hub.js';
import { ANY_PEER, type Peer, upgradeQuery } from './peer.js';
import { sendAway } from './send-away.js';
import { Tarpit } from './tarpit.js';

/** What a {@link SocketServer} is made with. */
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
  /**
   * What one token and one address may have of all sockets, and of all subscriptions. Default: no
   * bounds.
   */
  budgets?: { readonly sockets: Budget; readonly topics: Budget } | undefined;
  /** Called first for each upgrade; rejects it by throwing a `SyncError`, whose status is sent. */
  screen?(request: IncomingMessage): void;
  /** Address of a peer. Default: of its connection. */
  addressOf?(request: IncomingMessage): string;
  /**
   * Returns the peer, or rejects with a `SyncError`, whose status is sent. Settles in bounded time.
   * Default: every peer may connect.
   */
  authenticate?(request: IncomingMessage): Promise<Peer>;
  /**
   * A publish on topics other than statistics; resolves when it was accepted. Default: such calls
   * return `false`. Calls of one connection run one after the other. `except`: a subscriber that is
   * not notified: the publisher, where it has none of our extensions and names no other notifier.
   */
  onPublish?(topics: readonly string[], dataText: string, peer: Peer, except?: Subscriber): Promise<void>;
}

/** `Retry-After` of a server that stops. */
const LEAVING_RETRY_SECONDS = 1;
/** `Retry-After` of a server that is full. */
const FULL_RETRY_SECONDS = 10;

/** `Retry-After` where the tarpit is full. Python clients back off by themselves after a 429. */
const REFUSED_RETRY_SECONDS = 10;

/** Pub/sub over WebSocket, compatible with OPAL's framing (opal-protocol P1). Owns no port. */
export class SocketServer {
  readonly #options: SocketServerOptions;
  readonly #deps: SocketServerDeps;
  readonly #connections: Set<Connection>;
  readonly #limits: ConnectionOptions;
  /** Shared by all connections. */
  readonly #connectionDeps: ConnectionDeps;
  readonly #wss: WebSocketServer;
  readonly #tarpit: Tarpit;
  readonly #admissions = new Map<Promise<void>, Duplex>();
  #authenticating = 0;
  /** No new connections. */
  #isLeaving = false;
  #closed: Promise<void> | undefined;
  #onLastGone = (): void => undefined;
  readonly #failed = (error: Error): void => this.#deps.log.debug({ error: errorText(error) }, 'socket failed');

  /** It does nothing until upgrades are handed to it. */
  constructor(options: SocketServerOptions, deps: SocketServerDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#connectionDeps = { ...deps, topics: deps.budgets?.topics };
    this.#connections = deps.connections ?? new Set();
    this.#tarpit = new Tarpit(options.refusalDelayMs ?? 1000);
    this.#limits = {
      bufferLimitBytes: options.bufferLimitBytes,
      pingIntervalMs: options.pingIntervalMs ?? 20_000,
      pongTimeoutMs: options.pongTimeoutMs ?? 20_000,
      tick: new EventLoopTick(),
      onClosed: (connection) => {
        this.#connections.delete(connection);
        if (this.#connections.size === 0) this.#onLastGone();
      },
    };
    // Compression per message costs eight times the sending itself (measured; dependencies.md 2).
    this.#wss = new WebSocketServer({
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: options.frameLimitBytes,
    });
    this.#wss.on('headers', (headers, request) => {
      const version = negotiated(request);
      if (version !== undefined) headers.push(`${PROTOCOL_HEADER}: ${version}`);
    });
  }

  /** Open connections. */
  get connectionCount(): number {
    return this.#connections.size;
  }

  /** Bytes that peers have not read yet, in all and of the slowest one. */
  queued(): { totalBytes: number; largestBytes: number } {
    let totalBytes = 0;
    let largestBytes = 0;
    for (const { queuedBytes } of this.#connections) {
      totalBytes += queuedBytes;
      largestBytes = Math.max(largestBytes, queuedBytes);
    }
    return { totalBytes, largestBytes };
  }

  /** For the `upgrade` event of an `http.Server`. Responds to every request, never throws. */
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // A peer may disconnect during its admission: that shows as a destroyed socket.
    socket.on('error', this.#failed);
    const admission = this.#admit(request, socket, head)
      .catch((error: unknown) => {
        this.#deps.log.error(failureFields(error, 'stack'), 'socket could not be opened');
        socket.destroy();
      })
      .finally(() => this.#admissions.delete(admission));
    this.#admissions.set(admission, socket);
  }

  /**
   * Publications were skipped: closes, with 1012, the connections of clients that cannot notice
   * that by themselves, so that they reconnect and load everything. Our own clients notice it at
   * the next heartbeat.
   */
  sendToReload(): void {
    for (const connection of this.#connections) {
      if (!connection.speaksSessions) connection.close(1012, 'updates were missed: read GET /data/config');
    }
  }

  /**
   * Refuses new connections, and closes those that are open with 1001, spread over this time, so
   * that they connect to other servers; a publish in flight is answered first. Resolves when all
   * were told; rejects when the signal aborts.
   */
  sendAway(spreadMs: number, signal: AbortSignal): Promise<void> {
    this.#isLeaving = true;
    return sendAway([...this.#connections], spreadMs, signal);
  }

  /**
   * Ends all connections with 1012 and refuses new ones; resolves when nothing is left. Twice is
   * one close.
   */
  close(): Promise<void> {
    this.#closed ??= this.#closeAll();
    return this.#closed;
  }

  async #admit(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { path = '/ws', maxConnections = Number.POSITIVE_INFINITY } = this.#options;
    let peer: Peer;
    let giveBack: Release;
    try {
      if (pathOf(request) !== path) {
        throw new SyncError('not_found', `there is no socket at this path, it is at ${path}`);
      }
      this.#throwIfLeaving();
      this.#deps.screen?.(request);
      if (this.#connections.size + this.#authenticating >= maxConnections) {
        const message = 'the server has as many connections as SYNC_MAX_CONNECTIONS allows';
        throw new SyncError('too_many_connections', message, { retryAfterSeconds: FULL_RETRY_SECONDS });
      }
      peer = await this.#authenticated(request);
      this.#throwIfLeaving();
      giveBack = this.#takeSocket(peer, this.#hostOf(request));
    } catch (error) {
      await this.#refuse(request, socket, error);
      return;
    }
    if (socket.destroyed) {
      giveBack();
      return;
    }
    socket.once('close', giveBack);
    this.#wss.handleUpgrade(request, socket, head, (ws) => {
      socket.off('error', this.#failed); // from now on ws handles it
      this.#accept(ws, request, peer);
    });
  }

  #accept(ws: WebSocket, request: IncomingMessage, peer: Peer): void {
    const about = { protocol: negotiated(request), peer, host: this.#hostOf(request), ...upgradeQuery(request) };
    this.#connections.add(new Connection(ws, request.socket, about, this.#limits, this.#connectionDeps));
  }

  #throwIfLeaving(): void {
    if (this.#isLeaving) throw new Error('the server is stopping');
  }

  #hostOf(request: IncomingMessage): string {
    return this.#deps.addressOf?.(request) ?? request.socket.remoteAddress ?? '?';
  }

  /** Takes one of the sockets that a token and an address may have. */
  #takeSocket({ subject }: Peer, address: string): Release {
    const sockets = this.#deps.budgets?.sockets;
    const taken = sockets?.take({ subject, address }, 1);
    if (sockets === undefined || taken === undefined) return () => undefined;
    if (typeof taken === 'function') return taken;
    throw sockets.refusal(taken, FULL_RETRY_SECONDS);
  }

  /** Peers under authentication count as connections: else a burst could exceed the bound. */
  async #authenticated(request: IncomingMessage): Promise<Peer> {
    this.#authenticating++;
    try {
      return (await this.#deps.authenticate?.(request)) ?? ANY_PEER;
    } finally {
      this.#authenticating--;
    }
  }

  async #refuse(request: IncomingMessage, socket: Duplex, reason: unknown): Promise<void> {
    const error = (await this.#heldBack(request, socket, reason)) ?? reason;
    socket.once('finish', () => socket.destroy());
    const leaving = { status: 503, retryAfterSeconds: LEAVING_RETRY_SECONDS };
    socket.end(rawRefusal(this.#isLeaving ? leaving : error instanceof SyncError ? error : { status: 500 }));
  }

  /** Delays a 401 or 403. Returns the error to send instead where the tarpit is full. */
  async #heldBack(request: IncomingMessage, socket: Duplex, reason: unknown): Promise<SyncError | undefined> {
    const status = reason instanceof SyncError ? reason.status : 500;
    const host = this.#hostOf(request);
    const mustWait = status === 401 || status === 403;
    const isDue = !mustWait || (await this.#tarpit.hold(host, socket));
    const address = `${host}:${request.socket.remotePort ?? '?'}`;
    // Refusals that are not delayed must not fill the log.
    this.#deps.log[isDue ? 'warn' : 'debug']({ address, status, ...failureFields(reason) }, 'socket refused');
    if (isDue) return undefined;
    return new SyncError('rate_limited', 'too many refused connections', { retryAfterSeconds: REFUSED_RETRY_SECONDS });
  }

  async #closeAll(): Promise<void> {
    this.#isLeaving = true;
    this.#tarpit.end();
    for (const connection of this.#connections) connection.leave(1012, 'the server is stopping');
    const allGone = new Promise<void>((resolve) => {
      this.#onLastGone = resolve;
      if (this.#connections.size === 0) resolve();
    });
    let grace: NodeJS.Timeout | undefined;
    const graceOver = new Promise<void>((resolve) => {
      grace = setTimeout(resolve, this.#options.closeGraceMs ?? 2000);
    });
    await firstOf([Promise.all([allGone, ...this.#admissions.keys()]), graceOver]);
    clearTimeout(grace);
    for (const connection of this.#connections) connection.drop('takes no part in the end');
    for (const socket of this.#admissions.values()) socket.destroy();
    await allGone;
  }
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
