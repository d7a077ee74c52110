import { PassThrough } from 'node:stream';
import type { FastifyReply } from 'fastify';

/** Bytes of events that may wait for a slow reader, beyond the last {@link EventStream.restart}. */
const MAX_WAITING_BYTES = 1024 * 1024;
/** A comment this often shows the reader, and proxies, that the stream is alive. */
const COMMENT_MS = 15_000;
const COMMENT = ':\n\n';
/**
 * A reader that has not taken what waits for it after so long has lost its stream; after the end it
 * has less time.
 */
const TIMES: StreamTimes = { takeMs: 60_000, endMs: 5000 };

export interface StreamTimes {
  readonly takeMs: number;
  readonly endMs: number;
}

/**
 * A stream of server-sent events (`text/event-stream`). It never waits for its reader: what a slow
 * one leaves unread is bounded, and further events are dropped until it has read the rest.
 */
export class EventStream {
  /**
   * Called when events were dropped and the reader has read all others: it needs everything anew.
   */
  onCaughtUp: () => void = () => undefined;
  /** Called once, when the reader has left or the stream was ended. */
  onClosed: () => void = () => undefined;
  readonly #body = new PassThrough();
  #comments: NodeJS.Timeout | undefined;
  /** Bytes since the reader was level with us, or since {@link restart}. */
  #waiting = 0;
  #isBehind = false;
  #isClosed = false;
  /** Since when something waits for the reader; undefined: it has taken all. */
  #stuckSinceMs: number | undefined;
  #leave: () => void = () => undefined;
  /** Cuts the connection unless the reader takes the rest in time. */
  #expectEnd: () => void = () => undefined;
  readonly #times: StreamTimes;

  constructor(times: StreamTimes = TIMES) {
    this.#times = times;
    this.#body.on('drain', () => {
      this.#waiting = 0;
      if (this.#isBehind && !this.#isClosed) this.onCaughtUp();
    });
    this.#body.on('error', () => undefined); // the reader has gone: `close` follows
  }

  /**
   * Sends the response. `retryMs`: how long the reader waits before it comes back when it has lost
   * the stream.
   */
  open(reply: FastifyReply, retryMs: number): FastifyReply {
    // A response that waits for its turn on a connection hears nothing of the end of that.
    const { raw } = reply;
    const { socket } = reply.request.raw;
    const left = (): void => this.#close();
    raw.once('close', left);
    socket.once('close', left);
    this.#leave = () => socket.off('close', left);
    this.#expectEnd = () => {
      const timer = setTimeout(() => socket.destroy(), this.#times.endMs).unref();
      raw.once('close', () => clearTimeout(timer));
    };
    raw.on('drain', () => {
      this.#stuckSinceMs = undefined;
    });
    this.#body.write(`retry: ${Math.round(retryMs)}\n\n`);
    this.#comments = setInterval(
      () => {
        if (this.#isStuck(raw.writableNeedDrain)) socket.destroy();
        else if (!this.#body.writableNeedDrain) this.#body.write(COMMENT);
      },
      Math.min(COMMENT_MS, this.#times.takeMs / 4),
    ).unref();
    // Proxies hold back what they buffer or compress.
    if (socket.destroyed) this.#close();
    const headers = { 'cache-control': 'no-store, no-transform', 'x-accel-buffering': 'no' };
    return reply.type('text/event-stream').headers(headers).send(this.#body);
  }

  /** Sends an event, unless too much is unread. */
  send(frame: Buffer): void {
    if (this.#isClosed || this.#isBehind) return;
    if (this.#waiting + frame.length > MAX_WAITING_BYTES && this.#body.writableNeedDrain) {
      this.#isBehind = true;
      return;
    }
    this.#waiting += frame.length;
    this.#body.write(frame);
  }

  /** Sends an event that makes all before it superfluous. */
  restart(frame: Buffer): void {
    if (this.#isClosed) return;
    this.#isBehind = false;
    this.#waiting = 0;
    this.#body.write(frame);
  }

  /** Sends a last event, and ends the stream. */
  end(frame: string): void {
    if (this.#isClosed) return;
    this.#body.end(frame);
    this.#expectEnd();
    this.#close();
  }

  /**
   * Whether something waits for the reader for too long. `isWaiting`: whether the connection holds
   * something for it now.
   */
  #isStuck(isWaiting: boolean): boolean {
    if (!isWaiting) this.#stuckSinceMs = undefined;
    else this.#stuckSinceMs ??= performance.now();
    return this.#stuckSinceMs !== undefined && performance.now() - this.#stuckSinceMs >= this.#times.takeMs;
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#comments);
    this.#leave();
    this.onClosed();
  }
}

/** An event as text of `text/event-stream`; `data` has no line breaks. */
export function eventText(name: string, data: string, id?: string): string {
  return `event: ${name}\n${id === undefined ? '' : `id: ${id}\n`}data: ${data}\n\n`;
}
