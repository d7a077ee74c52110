import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';

/**
 * Node itself refuses connections beyond this many more than there may be: those that give way take
 * a moment to end.
 */
const ENDING = 100;

/** One connection. */
export class OpenConnection {
  /** As it was accepted: below TLS where there is some. */
  readonly socket: Socket;
  /** Requests under way. */
  requests = 0;
  /** Called when it ends. */
  readonly ends = new Set<() => void>();

  constructor(socket: Socket) {
    this.socket = socket;
  }
}

/**
 * The open connections of a listener. Where there are as many as may be, one without a request
 * under way gives way to a new one: first those that have sent none yet, then those that have been
 * idle longest. So nobody is kept out by connections on which nothing happens.
 */
export class OpenConnections {
  readonly max: number;
  readonly #all = new Set<OpenConnection>();
  /** By the socket that requests come from. */
  readonly #ofSocket = new WeakMap<object, OpenConnection>();
  /** Those below TLS whose handshake is under way, by the address of the peer. */
  readonly #shaking = new Map<string, OpenConnection>();
  /** Oldest first. */
  readonly #unused = new Set<OpenConnection>();
  readonly #idle = new Set<OpenConnection>();
  #gaveWay = 0;

  constructor(max: number) {
    this.max = max;
  }

  /** How many are open. */
  get count(): number {
    return this.#all.size;
  }

  /** How many have given way, or were refused since no other could. */
  get gaveWay(): number {
    return this.#gaveWay;
  }

  /** Follows the connections of a listener; `onOpened` is called with each one that stays. */
  follow(server: Server, onOpened: (connection: OpenConnection) => void = () => undefined): void {
    server.maxConnections = this.max + ENDING;
    const isTls = server instanceof TlsServer;
    server.on('connection', (socket: Socket) => {
      // An upgrade that is no socket is served anew on the same connection.
      if (this.#ofSocket.has(socket)) return;
      const connection = this.#opened(socket);
      if (connection === undefined) return;
      if (isTls) this.#shake(connection);
      onOpened(connection);
    });
    server.on('secureConnection', (socket: Socket) => {
      const below = this.#shaking.get(peerOf(socket));
      if (below !== undefined) this.#ofSocket.set(socket, below);
    });
    server.prependListener('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
      const end = this.use(socket);
      this.whenOver(socket, response, end);
    });
  }

  /** The connection of a socket, below TLS or above. */
  of(socket: object): OpenConnection | undefined {
    return this.#ofSocket.get(socket);
  }

  /** A request on it is under way until the returned function is called: it gives way to nobody. */
  use(socket: object): () => void {
    const connection = this.#ofSocket.get(socket);
    if (connection === undefined) return () => undefined;
    connection.requests++;
    this.#unused.delete(connection);
    this.#idle.delete(connection);
    return () => {
      connection.requests--;
      if (connection.requests === 0 && this.#all.has(connection)) this.#idle.add(connection);
    };
  }

  /**
   * Calls back, once, when a response is over: sent, or its connection lost, also while others are
   * before it on the connection.
   */
  whenOver(socket: object, response: ServerResponse, callback: () => void): void {
    const ends = this.#ofSocket.get(socket)?.ends;
    const over = (): void => {
      response.off('close', over);
      ends?.delete(over);
      callback();
    };
    response.once('close', over);
    ends?.add(over);
  }

  /**
   * Ends a connection on which no request is under way, one of those that `mayEnd` lets through;
   * returns whether there was one.
   */
  makeRoom(mayEnd: (connection: OpenConnection) => boolean = () => true): boolean {
    for (const line of [this.#unused, this.#idle]) {
      for (const connection of line) {
        if (!mayEnd(connection)) continue;
        this.#gaveWay++;
        this.#ended(connection);
        connection.socket.destroy();
        return true;
      }
    }
    return false;
  }

  #opened(socket: Socket): OpenConnection | undefined {
    if (this.#all.size >= this.max && !this.makeRoom()) {
      this.#gaveWay++;
      socket.destroy();
      return undefined;
    }
    const connection = new OpenConnection(socket);
    this.#all.add(connection);
    this.#unused.add(connection);
    this.#ofSocket.set(socket, connection);
    socket.once('close', () => this.#ended(connection));
    return connection;
  }

  #shake(connection: OpenConnection): void {
    const peer = peerOf(connection.socket);
    this.#shaking.set(peer, connection);
    connection.ends.add(() => {
      if (this.#shaking.get(peer) === connection) this.#shaking.delete(peer);
    });
  }

  #ended(connection: OpenConnection): void {
    if (!this.#all.delete(connection)) return;
    this.#unused.delete(connection);
    this.#idle.delete(connection);
    for (const end of [...connection.ends]) end();
    connection.ends.clear();
  }
}

function peerOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
