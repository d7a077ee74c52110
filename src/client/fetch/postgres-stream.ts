import { isIP, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { type ConnectionOptions, connect } from 'node:tls';
import { PostgresMessages } from './postgres-messages.js';

/** Length and code of the message that asks for TLS (Postgres' protocol, "SSLRequest"). */
const TLS_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);
const [YES, NO] = ['S', 'N'];

/** The database does not speak TLS. */
export class WithoutTls extends Error {}

/**
 * The connection to a database as `pg` gets it: encrypted where `tls` says so, and every message on
 * it has passed {@link PostgresMessages}. `socket` is not connected yet.
 */
export class PostgresStream extends Duplex {
  readonly #socket: Socket;
  readonly #tls: false | ConnectionOptions;
  readonly #messages = new PostgresMessages();
  /** What carries the messages: the socket, or TLS over it. */
  #inner: Duplex;

  constructor(socket: Socket, tls: false | ConnectionOptions) {
    super({ allowHalfOpen: false });
    this.#socket = socket;
    this.#inner = socket;
    this.#tls = tls;
    this.#messages.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) this.#messages.pause();
    });
    this.#messages.once('end', () => this.push(null));
    this.#messages.once('error', (error) => this.destroy(error));
  }

  /** Emits `connect` when messages can be sent. `host`: the name in the database's certificate. */
  connect(place: number | string, host = ''): this {
    this.#ends(this.#socket);
    this.#socket.once('connect', () => {
      if (this.#tls === false) this.#begin(this.#socket);
      else this.#askForTls(this.#tls, host);
    });
    if (typeof place === 'string') this.#socket.connect(place);
    else this.#socket.connect(place, host);
    return this;
  }

  #askForTls(tls: ConnectionOptions, host: string): void {
    this.#socket.once('data', (answer) => {
      const said = answer.toString('latin1');
      if (said === NO) return void this.destroy(new WithoutTls('The server does not support SSL connections'));
      // What comes with it was sent before anything was encrypted.
      if (said !== YES) return void this.destroy(new Error('There was an error establishing an SSL connection'));
      const name = isIP(host) === 0 ? { servername: host } : {};
      const secure = connect({ host, ...tls, ...name, socket: this.#socket });
      this.#ends(secure);
      this.#begin(secure);
    });
    this.#socket.write(TLS_REQUEST);
  }

  #ends(inner: Duplex): void {
    inner.once('error', (error) => this.destroy(error));
    inner.once('close', () => {
      if (inner === this.#inner) this.#messages.end();
    });
  }

  #begin(inner: Duplex): void {
    this.#inner = inner;
    inner.pipe(this.#messages);
    this.emit('connect');
  }

  /** As of a socket. */
  setNoDelay(isOn?: boolean): this {
    this.#socket.setNoDelay(isOn);
    return this;
  }

  setKeepAlive(isOn?: boolean, afterMs?: number): this {
    this.#socket.setKeepAlive(isOn, afterMs);
    return this;
  }

  override _read(): void {
    this.#messages.resume();
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#inner.write(chunk, encoding, done);
  }

  override _final(done: () => void): void {
    if (this.#inner.destroyed) done();
    else this.#inner.end(() => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#inner.destroy();
    this.#socket.destroy();
    done(error);
  }
}
