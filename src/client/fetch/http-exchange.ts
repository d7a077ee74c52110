import { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { SyncError } from '../../lib/errors.js';
import { decoderOf, type TextReader } from '../../lib/json/charset.js';
import { type HeaderValues, headerText } from '../../lib/net/http-response.js';
import type { Hop } from './http-rules.js';
import type { FetchSource } from './provider.js';

/** The response to one request. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: HeaderValues;
  /**
   * The whole body if it is small; otherwise a stream, which the caller reads to its end or
   * destroys.
   */
  readonly body: Readable | readonly Uint8Array[];
}

/** Options of one request. */
export interface ExchangeOptions {
  readonly signal: AbortSignal;
  /** Timeout of the response, and between two chunks of it. */
  readonly silenceTimeoutMs: number;
}

/** Bodies up to this Content-Length are buffered: most are small, and a stream costs more. */
const SMALL_BYTES = 65_536;

/**
 * Sends one request. Rejects with undici's error if the connection fails, and with the signal's
 * reason if it aborts; a stream that has not ended by then fails the same way.
 */
export function exchange(
  dispatcher: Dispatcher,
  { url, method, headers, body }: Hop,
  { signal, silenceTimeoutMs }: ExchangeOptions,
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted(); // it would wait for a connection otherwise
    const handler = new AnswerHandler(signal, resolve, reject);
    const times = { headersTimeout: silenceTimeoutMs, bodyTimeout: silenceTimeoutMs };
    const path = `${url.pathname}${url.search}`;
    try {
      dispatcher.dispatch({ origin: url.origin, path, method, headers, body: body ?? null, ...times }, handler);
    } catch (error) {
      handler.onResponseError(undefined, error as Error);
    }
  });
}

/** undici's handler of the request. */
class AnswerHandler implements Dispatcher.DispatchHandler {
  readonly #signal: AbortSignal;
  readonly #resolve: (answer: HttpAnswer) => void;
  readonly #reject: (reason: unknown) => void;
  #controller: Dispatcher.DispatchController | undefined;
  /** Pieces of a small body, with its response. */
  #small: { readonly answer: HttpAnswer; readonly chunks: Uint8Array[] } | undefined;
  #stream: Readable | undefined;
  #isOver = false;

  constructor(signal: AbortSignal, resolve: (answer: HttpAnswer) => void, reject: (reason: unknown) => void) {
    this.#signal = signal;
    this.#resolve = resolve;
    this.#reject = reject;
    signal.addEventListener('abort', this.#onAbort);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#signal.aborted) this.#onAbort();
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number, headers: HeaderValues): void {
    if (status < 200) return; // the final response follows
    const length = Number(headerText(headers['content-length']) ?? Number.NaN);
    if (length <= SMALL_BYTES) {
      const chunks: Uint8Array[] = [];
      this.#small = { answer: { status, headers, body: chunks }, chunks };
      return;
    }
    const stream = new Readable({
      highWaterMark: 2 * SMALL_BYTES, // one piece of a socket does not stop the next
      read: () => controller.resume(),
      destroy: (error, done) => {
        if (!this.#isOver) controller.abort(error ?? new Error('the rest of the response is not needed'));
        done(error);
      },
    });
    // Readers get the error; without this, one after the last read would end the process.
    stream.on('error', () => undefined);
    this.#stream = stream;
    this.#resolve({ status, headers, body: stream });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#small !== undefined) this.#small.chunks.push(chunk);
    else if (this.#stream?.push(chunk) === false) controller.pause();
  }

  onResponseEnd(): void {
    this.#end();
    if (this.#small !== undefined) this.#resolve(this.#small.answer);
    else this.#stream?.push(null);
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.#end();
    if (this.#stream !== undefined) this.#stream.destroy(error);
    else this.#reject(error);
  }

  readonly #onAbort = (): void => {
    const reason: unknown = this.#signal.reason;
    const error = reason instanceof Error ? reason : new Error('aborted', { cause: reason });
    // Reject at once, even if the request still waits for a connection.
    this.#reject(reason);
    this.#controller?.abort(error);
  };

  #end(): void {
    this.#isOver = true;
    this.#signal.removeEventListener('abort', this.#onAbort);
  }
}

/**
 * Converts a text of any length to one JSON string (`is_json: false`, opal-protocol P4.8), piece by
 * piece. Throws `fetch_not_json` for bytes that are invalid in the charset, and for an unknown
 * charset.
 */
export async function* jsonStringOf(bytes: FetchSource, charset: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from('"');
  for await (const text of textOf(bytes, charset)) yield Buffer.from(JSON.stringify(text).slice(1, -1));
  yield Buffer.from('"');
}

/** Converts a text of any length to UTF-8, piece by piece. Throws as {@link jsonStringOf} does. */
export async function* utf8Of(bytes: FetchSource, charset: string): AsyncGenerator<Uint8Array> {
  for await (const text of textOf(bytes, charset)) yield Buffer.from(text);
}

async function* textOf(bytes: FetchSource, charset: string): AsyncGenerator<string> {
  let decoder = decoderFor(charset, new Uint8Array());
  let isFirst = true;
  for await (const chunk of bytes) {
    if (isFirst) decoder = decoderFor(charset, chunk);
    isFirst = false;
    yield decoded(() => decoder.decode(chunk, { stream: true }), charset);
  }
  yield decoded(() => decoder.decode(), charset);
}

function decoderFor(charset: string, start: Uint8Array): TextReader {
  try {
    return decoderOf(charset, start);
  } catch (cause) {
    throw new SyncError('fetch_not_json', `the charset ${JSON.stringify(charset)} is not known`, { cause });
  }
}

function decoded(decode: () => string, charset: string): string {
  try {
    return decode();
  } catch (cause) {
    throw new SyncError('fetch_not_json', `the text is not valid ${charset}`, { cause });
  }
}
