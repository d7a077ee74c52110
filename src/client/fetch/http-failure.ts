import { errorText, SyncError } from '../../lib/errors.js';
import { connectText, SERVER_CA } from '../../lib/net/connect-failure.js';
import { type HeaderValues, headerText, retryAfterSeconds } from '../../lib/net/http-response.js';
import { type Hop, isRetryableStatus, shownUrl } from './http-rules.js';

/** Errors of a read. Messages name the source and contain no secrets. */

/**
 * Maximum characters of an error response in a message: enough for the sentence that most sources
 * send.
 */
const EXCERPT_LENGTH = 200;
/** Headers whose values are not secret: a message may show them. */
const PUBLIC_HEADERS = ['accept', 'accept-encoding', 'cache-control', 'content-type', 'host', 'user-agent'];

/** Maximum Retry-After, so that a wrong clock of a source cannot stop retries. */
const RETRY_AFTER_MAX_SECONDS = 3600;

/** Timeouts of a read. */
export interface FetchTimes {
  /** Timeout to connect, to respond, and between two chunks of a body. */
  silenceTimeoutMs: number;
}

/**
 * Returns the error for a response without a document, by its status. `start`: the start of its
 * body.
 */
export function statusFailure(hop: Hop, status: number, headers: HeaderValues, start: Uint8Array): SyncError {
  const excerpt = excerptOf(hop, start);
  const wait = retryAfterSeconds(headers, RETRY_AFTER_MAX_SECONDS);
  return new SyncError('fetch_failed', `${hopName(hop)} answered ${status}${excerpt === '' ? '' : `: ${excerpt}`}`, {
    retryable: isRetryableStatus(status),
    ...(wait !== undefined && (status === 429 || status === 503) ? { retryAfterSeconds: wait } : {}),
  });
}

/** Returns the error for a document that the spool rejected, with the name of the source. */
export function bodyFailure(hop: Hop, status: number, headers: HeaderValues, cause: SyncError): SyncError {
  const type = headerText(headers['content-type']) ?? 'none';
  const answer = cause.code === 'fetch_not_json' ? ` answered ${status} with content type ${JSON.stringify(type)}` : '';
  return new SyncError(cause.code, `${hopName(hop)}${answer}: ${cause.message}`, { cause, retryable: cause.retryable });
}

/** Returns the error for an entry with an invalid configuration. */
export function configFailure(hop: Hop, why: string): SyncError {
  return new SyncError('fetch_config_invalid', `${hopName(hop)}: config.method: ${why}`);
}

/**
 * Returns the error for a failure of the gate, the connection or the decoding; keeps a `SyncError`.
 * `isRedirected`: the hop is not the URL of the entry and may differ the next time.
 */
export function readFailure(hop: Hop, cause: unknown, times: FetchTimes, isRedirected: boolean): SyncError {
  if (cause instanceof SyncError && cause.code === 'address_refused') {
    const retryable = isRedirected || cause.retryable;
    return new SyncError('address_refused', `${hopName(hop)}: ${cause.message}`, { cause, retryable });
  }
  return cause instanceof SyncError ? cause : connectionFailure(hop, cause, times);
}

function connectionFailure(hop: Hop, cause: unknown, times: FetchTimes): SyncError {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : '';
  const silence = `${times.silenceTimeoutMs / 1000} s`;
  // A request that cannot be sent as written: a header with a line break, a proxy that requires
  // other credentials.
  if (code === 'UND_ERR_INVALID_ARG') return failure(hop, errorText(cause), cause, false);
  if (code === 'UND_ERR_CONNECT_TIMEOUT') return failure(hop, `no connection within ${silence}`, cause, true);
  if (code === 'UND_ERR_HEADERS_TIMEOUT') return failure(hop, `no answer within ${silence}`, cause, true);
  if (code === 'UND_ERR_BODY_TIMEOUT') return failure(hop, `silent for ${silence} within the body`, cause, true);
  if (/^(Z_|ERR__)/.test(code)) {
    return failure(hop, `the compressed body is damaged or incomplete (${errorText(cause)})`, cause, true);
  }
  return failure(hop, connectText(cause, SERVER_CA) || code, cause, true);
}

/** Returns the error for an unreadable response. */
export function answerFailure(hop: Hop, why: string, retryable = false): SyncError {
  return failure(hop, why, undefined, retryable);
}

function failure(hop: Hop, why: string, cause: unknown, retryable: boolean): SyncError {
  return new SyncError('fetch_failed', `${hopName(hop)}: ${why}`, { cause, retryable });
}

function hopName(hop: Hop): string {
  return `${hop.method} ${shownUrl(hop.url.href)}`;
}

/**
 * Returns the start of a body as one line. Sources often repeat the request: masks its query and
 * its secrets.
 */
function excerptOf(hop: Hop, start: Uint8Array): string {
  let text = Buffer.from(start).toString('utf8');
  for (const secret of secretsOf(hop)) text = text.replaceAll(secret, '***');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out
  const line = text.replace(/[\s\u0000-\u001f\u007f-\u009f\ufffd]+/g, ' ').trim();
  return line.length > EXCERPT_LENGTH ? `${line.slice(0, EXCERPT_LENGTH)}...` : line;
}

function secretsOf(hop: Hop): string[] {
  const values = [hop.url.search.slice(1), ...hop.url.searchParams.values()];
  for (const [name, value] of Object.entries(hop.headers)) {
    if (PUBLIC_HEADERS.includes(name)) continue;
    const words = value.split(/[\s;,]+/); // scheme and token, or several cookies
    values.push(value, ...words, ...words.map((word) => word.slice(word.indexOf('=') + 1)));
  }
  // Short words (flags, numbers) are not secret, and masking them would make the text unreadable.
  return values.filter((value) => value.length >= 6).sort((a, b) => b.length - a.length);
}
