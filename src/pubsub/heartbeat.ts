import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';

/** Times of a {@link Heartbeat}, in milliseconds. */
export interface HeartbeatOptions {
  intervalMs: number;
  /** Timeout of a ping. */
  timeoutMs: number;
}

/**
 * Pings a peer and calls `onDead` once when it no longer responds, as with a cut cable. Every
 * received byte counts as a response, and so does a backlog that drains: a slow peer is not dead.
 */
export class Heartbeat {
  readonly #ws: WebSocket;
  readonly #socket: Socket;
  readonly #timeoutMs: number;
  readonly #onDead: () => void;
  readonly #interval: NodeJS.Timeout;
  #deadline: NodeJS.Timeout | undefined;
  /** As they were when the ping was sent. */
  #receivedBytes = 0;
  #drainedBytes = 0;
  /** Number of the last ping, and of the last one that was taken. */
  #pings = 0;
  #sent = 0;

  /** Starts at once. */
  constructor(ws: WebSocket, socket: Socket, { intervalMs, timeoutMs }: HeartbeatOptions, onDead: () => void) {
    this.#ws = ws;
    this.#socket = socket;
    this.#timeoutMs = timeoutMs;
    this.#onDead = onDead;
    // One function for all heartbeats: a server has one for each idle subscriber.
    this.#interval = setInterval(Heartbeat.#beat, intervalMs, this);
  }

  stop(): void {
    clearInterval(this.#interval);
    clearTimeout(this.#deadline);
  }

  static #beat(heartbeat: Heartbeat): void {
    if (heartbeat.#deadline === undefined && heartbeat.#ws.readyState === heartbeat.#ws.OPEN) heartbeat.#ping();
  }

  #ping(): void {
    this.#receivedBytes = this.#socket.bytesRead;
    this.#drainedBytes = drainedBytes(this.#socket);
    const ping = ++this.#pings;
    // The error of a closing socket comes as its close event.
    this.#ws.ping(undefined, undefined, () => {
      this.#sent = ping;
    });
    this.#lookLater();
  }

  #lookLater(): void {
    this.#deadline = setTimeout(() => this.#look(), this.#timeoutMs);
  }

  #look(): void {
    this.#deadline = undefined;
    if (this.#socket.bytesRead !== this.#receivedBytes) return;
    const drained = drainedBytes(this.#socket);
    if (this.#sent !== this.#pings && drained !== this.#drainedBytes) {
      this.#drainedBytes = drained;
      this.#lookLater();
      return;
    }
    this.stop();
    this.#onDead();
  }
}

/** Bytes that the operating system has taken. */
function drainedBytes(socket: Socket): number {
  return socket.bytesWritten - socket.writableLength;
}
