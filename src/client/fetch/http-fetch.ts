import { pipeline, Readable } from 'node:stream';
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { SyncError } from '../../lib/errors.js';
import { charsetOf, isUtf8 } from '../../lib/json/charset.js';
import { bodyStart, followRedirects, headerText, isRedirect } from '../../lib/net/http-response.js';
import type { OutgoingTls } from '../../lib/net/tls.js';
import { HTTP_PROVIDER_NAMES } from '../../wire/data.js';
import { createDispatcher } from '../outbound/dispatcher.js';
import type { OutboundGate } from '../outbound/gate.js';
import { exchange, type HttpAnswer, jsonStringOf, utf8Of } from './http-exchange.js';
import {
  answerFailure,
  bodyFailure,
  configFailure,
  type FetchTimes,
  readFailure,
  statusFailure,
} from './http-failure.js';
import { firstHop, type Hop, httpConfigOf, nextHop, validatorsOf } from './http-rules.js';
import type { FetchContext, FetchProvider, FetchRequest, FetchResult, FetchSource } from './provider.js';
import type { OwnedBody } from './spool.js';

/** Options of {@link HttpProvider}. */
export interface HttpProviderOptions extends FetchTimes {
  /** Environment with HTTP_PROXY, HTTPS_PROXY and NO_PROXY. Default: no proxy. */
  env?: Readonly<Record<string, string | undefined>>;
  /** Trusted authorities and our certificate. Default: the well-known authorities. */
  tls?: OutgoingTls | undefined;
  /** Restricts destinations and methods. Default: no restrictions. */
  gate?: OutboundGate | undefined;
}

/** More redirects are taken for a loop. */
const MAX_REDIRECTS = 10;
/**
 * Maximum content codings of one response: each decoder needs memory, and a header has room for
 * thousands.
 */
const MAX_CODINGS = 3;
/**
 * Unneeded responses up to this size are read, so that the connection can be reused; longer ones
 * are closed.
 */
const DRAIN_BYTES = 16_384;

/**
 * The default provider, which reads documents over HTTP (specification data-source-entry.config;
 * opal-protocol P4.8).
 */
export class HttpProvider implements FetchProvider {
  readonly names = HTTP_PROVIDER_NAMES;
  readonly #options: HttpProviderOptions;
  readonly #dispatcher: ReturnType<typeof createDispatcher>;
  /** First hops by request: `host` is called before `fetch`. */
  readonly #firstHops = new WeakMap<FetchRequest, Hop>();

  constructor(options: HttpProviderOptions) {
    const { silenceTimeoutMs, env = {}, tls, gate } = options;
    this.#options = options;
    this.#dispatcher = createDispatcher(silenceTimeoutMs, env, { tls, gate });
  }

  host(request: FetchRequest): string {
    return this.#hopOf(request).url.host;
  }

  async fetch(request: FetchRequest, context: FetchContext): Promise<FetchResult> {
    const { gate } = this.#options;
    const at = { hop: this.#hopOf(request) };
    const isJson = httpConfigOf(request.url, request.config).is_json !== false;
    try {
      if (at.hop.headers.host !== undefined) await gate?.checkHostHeader(at.hop.url, at.hop.headers.host);
      return await this.#read(at, isJson, context);
    } catch (error) {
      context.signal.throwIfAborted(); // an abort is not a failure of the source
      throw readFailure(at.hop, error, this.#options, at.hop !== this.#hopOf(request));
    }
  }

  close(): Promise<void> {
    return this.#dispatcher.destroy();
  }

  #hopOf(request: FetchRequest): Hop {
    const known = this.#firstHops.get(request);
    if (known !== undefined) return known;
    const hop = firstHop(request);
    const problem = this.#options.gate?.methodProblem(hop.method);
    if (problem !== undefined) throw configFailure(hop, problem);
    this.#firstHops.set(request, hop);
    return hop;
  }

  /** `at` holds the current request, for error messages. */
  async #read(at: { hop: Hop }, isJson: boolean, context: FetchContext): Promise<FetchResult> {
    const { signal } = context;
    const {
      request: hop,
      response: answer,
      redirects,
    } = await followRedirects<Hop, HttpAnswer>(at.hop, {
      max: MAX_REDIRECTS,
      send: async (next) => {
        at.hop = next;
        const answer = await exchange(this.#dispatcher, next, {
          signal,
          silenceTimeoutMs: this.#options.silenceTimeoutMs,
        });
        if (isRedirect(answer.status)) await drain(answer);
        return answer;
      },
      next: (from, to, { status }) => nextHop(from, to, status),
      fail: (from, why) => answerFailure(from, why),
    });
    const { status, headers } = answer;
    if (status === 304 && hop.conditional) {
      await drain(answer);
      return { outcome: 'unchanged' };
    }
    // 206 is a partial document, which was not requested.
    if (status < 200 || status > 299 || status === 206) {
      throw statusFailure(
        hop,
        status,
        headers,
        await startOf(answer, () => decoded(hop, answer, context.sink.limitBytes)),
      );
    }
    const document = await take(hop, answer, isJson, context);
    const validators = redirects === 0 && hop.method === 'GET' ? validatorsOf(headers) : {};
    return { outcome: 'body', body: document, ...validators };
  }
}

async function take(hop: Hop, answer: HttpAnswer, isJson: boolean, { sink }: FetchContext): Promise<OwnedBody> {
  try {
    const announced = Number(headerText(answer.headers['content-length']) ?? 0);
    if (announced > sink.limitBytes && answer.headers['content-encoding'] === undefined) {
      throw new SyncError('fetch_too_large', `the document has ${announced} bytes, more than ${sink.limitBytes}`);
    }
    const bytes = decoded(hop, answer, sink.limitBytes);
    const charset = charsetOf(headerText(answer.headers['content-type']));
    if (!isJson) return await sink.take(jsonStringOf(bytes, charset));
    return await sink.take(isUtf8(charset) ? bytes : utf8Of(bytes, charset));
  } catch (error) {
    dropRest(answer);
    if (!(error instanceof SyncError) || error.code === 'fetch_failed') throw error;
    throw bodyFailure(hop, answer.status, answer.headers, error);
  }
}

/**
 * Returns the decompressed body. `limitBytes`: of what is between two codings, which may be much
 * and become nothing.
 */
function decoded(hop: Hop, answer: HttpAnswer, limitBytes: number): FetchSource {
  const names = (headerText(answer.headers['content-encoding']) ?? '')
    .split(',')
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== '' && name !== 'identity');
  if (names.length === 0) return answer.body;
  if (names.length > MAX_CODINGS) throw answerFailure(hop, `more than ${MAX_CODINGS} content encodings`);
  let stream = answer.body instanceof Readable ? answer.body : Readable.from(answer.body);
  for (const [index, name] of names.reverse().entries()) {
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
    const packed = index === 0 ? stream : bounded(stream, limitBytes);
    // The reader of the last stream gets the error of any.
    stream = pipeline(packed, decoder, () => undefined);
  }
  return stream;
}

async function* bounded(source: Readable, limitBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of source as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > limitBytes)
      throw new SyncError('fetch_too_large', `the document unpacks to more than ${limitBytes} bytes`);
    yield chunk;
  }
}

/** Reads the rest of an unneeded response, or closes the connection if it is long. */
async function drain(answer: HttpAnswer): Promise<void> {
  await startOf(answer, () => answer.body);
}

/** Drops the rest of a response, and its connection. */
function dropRest({ body }: HttpAnswer): void {
  if (body instanceof Readable) body.destroy();
}

/** The start of a response's body; errors are ignored. */
async function startOf(answer: HttpAnswer, bytes: () => FetchSource): Promise<Uint8Array> {
  try {
    return await bodyStart(bytes(), DRAIN_BYTES);
  } catch {
    return Buffer.alloc(0); // unknown encoding: the status matters more
  } finally {
    dropRest(answer);
  }
}
