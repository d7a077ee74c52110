import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { errorText, SyncError } from '../lib/errors.js';
import { sleep } from '../lib/loop.js';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../wire/frames.js';
import { Connection, type ConnectionDeps, type Peer } from './connection.js';

export type { Peer } from './connection.js';

/** What {@link createSocketServer} is made with. */
export interface SocketServerOptions {
  /** Path of the socket; a query is ignored. Default `/ws` (protocol-facts 1.1). */
  path?: string;
  /** Largest message that is accepted; a larger one ends the connection with 1009. */
  frameLimitBytes: number;
  /** A subscriber with more than this unsent is dropped at the next message. */
  bufferLimitBytes: number;
  /** Default 20 s, as OPAL (protocol-facts 1.1). */
  pingIntervalMs?: number;
  /** Default 20 s. */
  pongTimeoutMs?: number;
  /** How long a 401 or 403 is held back. Python clients come again at once, a hundred times a second. Default 1 s. */
  refusalDelayMs?: number;
  /** How long {@link SocketServer.close} waits for peers to take part. Default 2 s. */
  closeGraceMs?: number;
}

/** What a socket server works with. */
export interface SocketServerDeps extends ConnectionDeps {
  /**
   * Admits a peer, or throws a `SyncError` whose status is answered. Settles in bounded time. Without it everyone may
   * connect.
   */
  authenticate?(request: IncomingMessage): Promise<Peer>;
  /**
   * Takes a publish on topics other than statistics; resolves when it was accepted. Without it such calls are answered
   * `false`. Calls of one connection come one after the other.
   */
  onPublish?(topics: readonly string[], dataText: string, peer: Peer): Promise<void>;
}

/** Pub/sub over WebSocket, compatible with OPAL's framing (protocol-facts 1). Owns no port. */
export interface SocketServer {
  /** Open connections. */
  readonly connectionCount: number;
  /** For the `upgrade` event of an `http.Server`. Answers every request, never throws. */
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Ends all connections with 1012 and refuses new ones; resolves when nothing is left. Twice is one close. */
  close(): Promise<void>;
}

/** Makes a socket server; it does nothing until upgrades are handed to it. */
export function createSocketServer(options: SocketServerOptions, deps: SocketServerDeps): SocketServer {
  const { path = '/ws', refusalDelayMs = 1000, closeGraceMs = 2000 } = options;
  const limits = {
    bufferLimitBytes: options.bufferLimitBytes,
    pingIntervalMs: options.pingIntervalMs ?? 20_000,
    pongTimeoutMs: options.pongTimeoutMs ?? 20_000,
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
  const connections = new Map<Connection, Promise<void>>();
  const admissions = new Map<Promise<void>, Duplex>();
  const closing = new AbortController();

  function accept(ws: WebSocket, request: IncomingMessage, peer: Peer): void {
    const about = { extended: negotiated(request) !== undefined, peer, address: addressOf(request.socket) };
    const connection = new Connection(ws, request.socket, about, limits, deps);
    connections.set(
      connection,
      new Promise((resolve) => {
        ws.once('close', () => {
          connections.delete(connection);
          resolve();
        });
      }),
    );
  }

  async function admit(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    let peer: Peer;
    try {
      if (new URL(request.url ?? '/', 'http://server').pathname !== path) {
        throw new SyncError('not_found', `there is no socket at this path, it is at ${path}`);
      }
      closing.signal.throwIfAborted();
      peer = (await deps.authenticate?.(request)) ?? { subject: null };
      closing.signal.throwIfAborted();
    } catch (error) {
      await refuse(request, socket, error);
      return;
    }
    if (!socket.destroyed) wss.handleUpgrade(request, socket, head, (ws) => accept(ws, request, peer));
  }

  async function refuse(request: IncomingMessage, socket: Duplex, error: unknown): Promise<void> {
    const status = closing.signal.aborted ? 503 : error instanceof SyncError ? error.status : 500;
    const known = error instanceof SyncError;
    deps.log.warn({ address: addressOf(request.socket), status, error: errorText(error) }, 'socket refused');
    if (status === 401 || status === 403) {
      // A stop of the server cuts it short; the answer stays the same.
      await sleep(refusalDelayMs, closing.signal).catch(() => undefined);
    }
    const retryAfter = closing.signal.aborted ? 1 : known ? error.retryAfterSeconds : undefined;
    const body = JSON.stringify({ detail: known ? (error.detail ?? error.message) : STATUS_CODES[status] });
    const headers = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
      'Connection: close',
      'Content-Type: application/json',
      `Content-Length: ${Buffer.byteLength(body)}`,
      ...(retryAfter === undefined ? [] : [`Retry-After: ${retryAfter}`]),
    ];
    socket.once('finish', () => socket.destroy());
    socket.end(`${headers.join('\r\n')}\r\n\r\n${body}`);
  }

  async function closeAll(): Promise<void> {
    closing.abort(new Error('the server is stopping'));
    for (const connection of connections.keys()) connection.close(1012, 'the server is stopping');
    let grace: NodeJS.Timeout | undefined;
    const graceOver = new Promise((resolve) => {
      grace = setTimeout(resolve, closeGraceMs);
    });
    await Promise.race([Promise.all([...connections.values(), ...admissions.keys()]), graceOver]);
    clearTimeout(grace);
    for (const connection of connections.keys()) connection.drop('takes no part in the end');
    for (const socket of admissions.values()) socket.destroy();
    await Promise.all(connections.values());
  }
  let closed: Promise<void> | undefined;

  return {
    get connectionCount() {
      return connections.size;
    },
    handleUpgrade(request, socket, head) {
      // A peer may go away at any moment of the admission; its end shows as a destroyed socket.
      socket.on('error', (error) => deps.log.debug({ error: errorText(error) }, 'socket failed'));
      const admission = admit(request, socket, head)
        .catch((error: unknown) => {
          deps.log.error({ err: error }, 'socket could not be opened');
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

/** The version of our extensions that both ends speak, where the peer asked for them. */
function negotiated(request: IncomingMessage): number | undefined {
  const offered = Number(request.headers[PROTOCOL_HEADER]);
  return Number.isInteger(offered) && offered >= 1 ? Math.min(offered, PROTOCOL_VERSION) : undefined;
}

function addressOf(socket: Socket): string {
  return `${socket.remoteAddress ?? '?'}:${socket.remotePort ?? '?'}`;
}
