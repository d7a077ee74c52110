import { SyncError } from '../errors.js';
import { Pieces } from './pieces.js';

/** Bytes of a text that are decoded at a time. */
const DECODED_BYTES = 64 * 1024;

/** Header values of a response, as undici and Node give them. */
export type HeaderValues = Readonly<Record<string, string | string[] | undefined>>;

/** The value of one header; of a header that was sent several times, the list form. */
export function headerText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}

/**
 * Seconds of the header `Retry-After` of a response (a number or a date, RFC 9110 section 10.2.3),
 * at most `maxSeconds`: a peer must not silence us. A date is by the clock of the peer, as is its
 * header `Date`; without that, our clock has to do. Undefined without a valid header.
 */
export function retryAfterSeconds(headers: HeaderValues, maxSeconds: number, nowMs = Date.now()): number | undefined {
  const text = headerText(headers['retry-after'])?.trim() ?? '';
  const dateMs = Date.parse(headerText(headers.date) ?? '');
  const sentMs = Number.isNaN(dateMs) ? nowMs : dateMs;
  const seconds = /^\d+$/.test(text) ? Number(text) : Math.ceil((Date.parse(text) - sentMs) / 1000);
  return Number.isNaN(seconds) ? undefined : Math.min(Math.max(0, seconds), maxSeconds);
}

/** User name and password of a URL as an `authorization` header; undefined where it has neither. */
export function basicAuthorization({ username, password }: URL): string | undefined {
  if (username === '' && password === '') return undefined;
  return `Basic ${Buffer.from(`${decoded(username)}:${decoded(password)}`).toString('base64')}`;
}

/** Decodes percent-escapes; returns a text with a lone % as it is. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The parts of a response that reading its body needs. */
export interface ReadableAnswer {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: AsyncIterable<Uint8Array> & { destroy(error?: Error): unknown };
}

/**
 * The body of a response as text, decoded as it arrives. Throws `answer_too_large`, and closes the
 * connection, if it is longer than `limitBytes`, or is announced to be.
 */
export async function bodyText({ headers, body }: ReadableAnswer, limitBytes: number): Promise<string> {
  const tooLarge = (bytes: string): SyncError => {
    const message = `the answer of the sync server has ${bytes} bytes, more than ${limitBytes}`;
    return new SyncError('answer_too_large', message, { retryable: true });
  };
  const announced = Number(headers['content-length'] ?? 0);
  if (announced > limitBytes) throw dropped(body, tooLarge(String(announced)));
  const decoder = new TextDecoder();
  const waiting = new Pieces();
  let text = '';
  let sizeBytes = 0;
  for await (const chunk of body) {
    sizeBytes += chunk.length;
    if (sizeBytes > limitBytes) throw dropped(body, tooLarge(`at least ${sizeBytes}`));
    waiting.push(chunk);
    if (waiting.bytes >= DECODED_BYTES) text += decoder.decode(waiting.join(), { stream: true });
  }
  return text + decoder.decode(waiting.join());
}

/** The first bytes of a body, as many as arrived before it failed. */
export async function bodyStart(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  limitBytes: number,
): Promise<Buffer> {
  const pieces = new Pieces();
  try {
    for await (const chunk of body) {
      pieces.push(chunk);
      if (pieces.bytes >= limitBytes) break; // which also ends the connection
    }
  } catch {
    // The status is what counts; the text beside it is a courtesy.
  }
  return pieces.join().subarray(0, limitBytes);
}

/** Drops the rest of a body and returns the error to throw. */
function dropped(body: ReadableAnswer['body'], error: SyncError): SyncError {
  body.destroy();
  return error;
}

/** A request that may be redirected. Names of headers are in lower case. */
interface Request {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
}

/** What {@link followRedirects} reads of a response. */
interface Response {
  readonly status: number;
  readonly headers: HeaderValues;
}

/** How redirects are followed. */
export interface RedirectRules<Q extends Request, R extends Response> {
  readonly max: number;
  /** Sends one request; the body of a redirect is dropped here. */
  readonly send: (request: Q, redirects: number) => Promise<R>;
  /**
   * The request to the new place. Decides which credentials travel (see {@link redirectedHeaders});
   * throws for a forbidden place.
   */
  readonly next: (request: Q, to: URL, response: R) => Q | Promise<Q>;
  /** The error for a redirect that leads nowhere, or for one too many. */
  readonly fail: (request: Q, why: string, response: R) => Error;
}

/**
 * Sends a request and follows redirects (RFC 9110 section 15.4) to the first response that is none.
 */
export async function followRedirects<Q extends Request, R extends Response>(
  first: Q,
  { max, send, next, fail }: RedirectRules<Q, R>,
): Promise<{ request: Q; response: R; redirects: number }> {
  let request = first;
  for (let redirects = 0; ; redirects++) {
    const response = await send(request, redirects);
    const { status, headers } = response;
    if (!isRedirect(status)) return { request, response, redirects };
    if (redirects === max) throw fail(request, `more than ${max} redirects`, response);
    const to = headerText(headers.location) ?? '';
    if (to === '') throw fail(request, `answered ${status} without saying where to go`, response);
    if (!URL.canParse(to, request.url.href)) throw fail(request, `answered ${status} to what is not a URL`, response);
    const url = new URL(to, request.url);
    if (url.protocol !== 'http:' && url.protocol !== 'https:') {
      throw fail(request, `answered ${status} to ${url.protocol.slice(0, -1)}: only http and https are read`, response);
    }
    request = await next(request, url, response);
  }
}

/** True for the statuses that name another place for the document. */
export function isRedirect(status: number): boolean {
  return status === 301 || status === 302 || status === 303 || status === 307 || status === 308;
}

/**
 * The headers of a redirected request. Another origin gets `ownHeaders` and the type of the body:
 * every other header was configured for the first origin and may be a credential.
 */
export function redirectedHeaders(
  { url, headers }: Request,
  to: URL,
  ownHeaders: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  if (to.origin === url.origin) return headers;
  const type = headers['content-type'];
  return type === undefined ? ownHeaders : { ...ownHeaders, 'content-type': type };
}
