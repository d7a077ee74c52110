import type { Body } from '../../../wire/json-node.js';
import type { ArrivingBody } from '../../fetch/arriving-file.js';

/** Maximum time that an upload waits for its end. */
const LONGEST_HOLD_MS = 30_000;

/** Sends one request with this body. Rejects if there is no response, or the signal aborts. */
export type Send<T> = (body: AsyncIterable<Uint8Array>, signal: AbortSignal) => Promise<T>;

/**
 * Sends a document while it is still being read. Holds back the end until {@link Upload.finish};
 * without it the engine has no valid JSON value and changes nothing (OPA reads the whole body of a
 * PUT before its transaction begins).
 */
export class Upload<T> {
  readonly #arriving: ArrivingBody;
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #answer: Promise<T>;
  #isOver = false;

  constructor(arriving: ArrivingBody, send: Send<T>) {
    this.#arriving = arriving;
    this.#timer = setTimeout(() => this.#stop.abort(new Error('the end was not written in time')), LONGEST_HOLD_MS);
    const { signal } = this.#stop;
    this.#answer = send(arriving.pieces(signal), signal).finally(() => {
      this.#isOver = true;
      clearTimeout(this.#timer);
      this.#stop.abort(new Error('the request is over')); // an engine may respond, or end, before it has all
    });
  }

  /** Settles when the request is over; never rejects. */
  get ended(): Promise<void> {
    return this.#answer.then(
      () => undefined,
      () => undefined, // `finish` reports the failure
    );
  }

  /** Whether the upload sends this body. */
  isOf(body: Body): boolean {
    return this.#arriving.body === body;
  }

  /**
   * Sends the end and returns the response; undefined if the request had ended before, without
   * effect. Rejects as `send` does: then the outcome is unknown.
   */
  async finish(signal: AbortSignal): Promise<T | undefined> {
    if (this.#isOver) return undefined;
    clearTimeout(this.#timer);
    const onAbort = (): void => this.#stop.abort(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      signal.throwIfAborted();
      this.#arriving.release();
      return await this.#answer;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** Cancels the upload. */
  drop(): void {
    this.#stop.abort(new Error('it is not written'));
  }
}
