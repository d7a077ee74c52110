import { pipeline, type Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { type Dispatcher, request } from 'undici';
import { SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { createDispatcher } from './dispatcher.js';
import {
  answerFailure,
  bodyFailure,
  connectionFailure,
  type FetchTimes,
  statusFailure,
  totalTimeoutFailure,
} from './http-failure.js';
import {
  type FetchRequest,
  firstHop,
  type Hop,
  headerText,
  isRedirect,
  nextHop,
  shownUrl,
  type Validators,
  validatorsOf,
} from './http-rules.js';
import { createLimiter, type LimiterOptions } from './limiter.js';
import type { OwnedBody, Spool } from './spool.js';

export type { FetchRequest } from './http-rules.js';

/** Options of {@link createHttpFetcher}. */
export interface HttpFetcherOptions extends FetchTimes, LimiterOptions {
  /** Environment to take HTTP_PROXY, HTTPS_PROXY and NO_PROXY from. Default: no proxy. */
  env?: Readonly<Record<string, string | undefined>>;
}

/** What a read gave: a document that the caller disposes of, or that the caller's copy is still the newest. */
export type FetchResult = ({ outcome: 'body'; body: OwnedBody } & Validators) | { outcome: 'unchanged' };

/** Reads data source entries over HTTP (spec "DataSourceEntry", protocol-facts 4.8). */
export interface HttpFetcher {
  /**
   * Reads one document, once. Waits for its turn first. Nothing is handed on before all of it arrived, decoded, and was
   * found to be one JSON value within the limit. Throws `fetch_failed`, `fetch_too_large`, `fetch_not_json`,
   * `spool_unwritable`: `retryable` says whether it may pass by itself, `retryAfterSeconds` what the source asked for.
   * Rejects with the signal's reason when that aborts.
   */
  fetch(request: FetchRequest, signal: AbortSignal): Promise<FetchResult>;
  /** Closes all connections. */
  close(): Promise<void>;
}

/** More is taken for a circle. */
const MAX_REDIRECTS = 10;
/** Rest of an uninteresting answer that is read so that the connection can be used again; beyond it is closed. */
const DRAIN_BYTES = 16_384;
/** Longest delay that a timer takes. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** A fetcher. Bodies go to `deps.spool`, which also knows the size limit. */
export function createHttpFetcher(options: HttpFetcherOptions, deps: { spool: Spool; log: Logger }): HttpFetcher {
  const { spool, log } = deps;
  const limiter = createLimiter(options);
  const dispatcher = createDispatcher(options.silenceTimeoutMs, options.env ?? {});

  /** Follows redirects to an answer that is none. `at` always holds the current request, for messages. */
  async function read(at: { hop: Hop }, signal: AbortSignal): Promise<FetchResult> {
    for (let redirects = 0; ; redirects++) {
      const { hop } = at;
      const answer = await send(hop, signal);
      const { statusCode: status, headers, body } = answer;
      // Whoever reads the body gets its error; this keeps one that comes after the last read from ending the process.
      body.on('error', () => undefined);
      if (status === 304 && hop.conditional) {
        await drain(answer, signal);
        return { outcome: 'unchanged' };
      }
      if (isRedirect(status)) {
        await drain(answer, signal);
        if (redirects === MAX_REDIRECTS) throw answerFailure(hop, `more than ${MAX_REDIRECTS} redirects`);
        at.hop = nextHop(hop, status, headerText(headers.location));
        continue;
      }
      // 206 is a part of the document, and no part was asked for.
      if (status < 200 || status > 299 || status === 206) {
        throw statusFailure(hop, status, headers, await startOf(hop, answer));
      }
      const document = await take(hop, answer, signal);
      const validators = redirects === 0 && hop.method === 'GET' ? validatorsOf(headers) : {};
      return { outcome: 'body', body: document, ...validators };
    }
  }

  function send(hop: Hop, signal: AbortSignal): Promise<Dispatcher.ResponseData> {
    return request(hop.url, {
      dispatcher,
      signal,
      method: hop.method,
      headers: hop.headers,
      body: hop.body ?? null,
      headersTimeout: options.silenceTimeoutMs,
      bodyTimeout: options.silenceTimeoutMs,
    });
  }

  async function take(hop: Hop, answer: Dispatcher.ResponseData, signal: AbortSignal): Promise<OwnedBody> {
    try {
      const announced = Number(headerText(answer.headers['content-length']) ?? 0);
      if (announced > spool.limitBytes && answer.headers['content-encoding'] === undefined) {
        throw new SyncError('fetch_too_large', `the document has ${announced} bytes, more than ${spool.limitBytes}`);
      }
      return await spool.spool(decoded(hop, answer), signal);
    } catch (error) {
      answer.body.destroy();
      if (!(error instanceof SyncError) || error.code === 'fetch_failed') throw error;
      throw bodyFailure(hop, answer.statusCode, answer.headers, error);
    }
  }

  /** One read within its time. */
  async function fetchNow(first: Hop, signal: AbortSignal): Promise<FetchResult> {
    const at = { hop: first };
    const startedAt = performance.now();
    const stop = new AbortController();
    const onAbort = (): void => stop.abort(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    const timer = setTimeout(() => stop.abort(), Math.min(options.totalTimeoutMs, MAX_TIMER_MS));
    try {
      signal.throwIfAborted();
      const result = await read(at, stop.signal);
      const size = result.outcome === 'body' ? { bytes: result.body.sizeBytes } : {};
      const durationMs = Math.round(performance.now() - startedAt);
      log.debug(
        { url: shownUrl(first.url.href), outcome: result.outcome, ...size, duration_ms: durationMs },
        'fetched',
      );
      return result;
    } catch (error) {
      signal.throwIfAborted(); // a stop that was asked for is no failure of the source
      if (error instanceof SyncError) throw error;
      throw stop.signal.aborted ? totalTimeoutFailure(at.hop, options) : connectionFailure(at.hop, error, options);
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
    }
  }

  return {
    async fetch(wanted, signal) {
      const hop = firstHop(wanted);
      return limiter.run(hop.url.host, signal, () => fetchNow(hop, signal));
    },
    close: () => dispatcher.destroy(),
  };
}

/** The body as the source had it before it was compressed. */
function decoded(hop: Hop, answer: Dispatcher.ResponseData): Readable {
  const names = (headerText(answer.headers['content-encoding']) ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  let stream: Readable = answer.body;
  for (const name of names.reverse()) {
    const decoder =
      name === 'gzip' || name === 'x-gzip'
        ? createGunzip()
        : name === 'br'
          ? createBrotliDecompress()
          : name === 'deflate'
            ? createInflate()
            : undefined;
    if (decoder === undefined) {
      throw answerFailure(hop, `content encoding ${JSON.stringify(name)} is not known`);
    }
    // The reader of the last stream gets the error of any; there is nothing to do about it here.
    stream = pipeline(stream, decoder, () => undefined);
  }
  return stream;
}

/** Reads the rest of an answer that nobody needs, or closes the connection when that is long. */
async function drain(answer: Dispatcher.ResponseData, signal: AbortSignal): Promise<void> {
  await answer.body.dump({ limit: DRAIN_BYTES, signal });
}

/** The start of an error answer. */
async function startOf(hop: Hop, answer: Dispatcher.ResponseData): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  try {
    for await (const chunk of decoded(hop, answer) as AsyncIterable<Uint8Array>) {
      chunks.push(chunk);
      sizeBytes += chunk.length;
      if (sizeBytes > DRAIN_BYTES) break;
    }
  } catch {
    // The status is the failure that counts; the text beside it is a courtesy.
    answer.body.destroy();
  }
  return Buffer.concat(chunks);
}
