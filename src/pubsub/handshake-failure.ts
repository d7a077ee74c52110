import type { IncomingMessage } from 'node:http';
import { SyncError } from '../lib/errors.js';
import { bodyStart, retryAfterSeconds } from '../lib/http-response.js';
import { redactUrl, Secret } from '../lib/log.js';
import { problemText } from '../lib/problem-text.js';
import { secretsOfUrl } from '../lib/server-address.js';

/** Longest wait that a server can ask for with `Retry-After`. */
const RETRY_AFTER_MAX_SECONDS = 600;
/** What is read of a refusal, and for how long. */
const REFUSAL_TEXT_BYTES = 4096;
const REFUSAL_TEXT_MS = 2000;

/**
 * The error for a handshake that a server refuses: `token_refused` for a 401, else `server_refused`, with what it says, without token and
 * secrets of the URL.
 */
export async function handshakeFailure(
  { url, token }: { readonly url: string; readonly token?: Secret | undefined },
  response: IncomingMessage,
): Promise<SyncError> {
  const timer = setTimeout(() => response.destroy(), REFUSAL_TEXT_MS);
  const text = (await bodyStart(response, REFUSAL_TEXT_BYTES)).toString('utf8');
  clearTimeout(timer);
  const { statusCode, headers } = response;
  const seconds = retryAfterSeconds(headers, RETRY_AFTER_MAX_SECONDS) ?? 0;
  const secrets = [...(token === undefined ? [] : [token]), ...secretsOfUrl(url).map((part) => new Secret(part))];
  const said = secrets.reduce((shown, secret) => secret.hideIn(shown), text);
  const why = text === '' ? '' : `: ${problemText(said)}`;
  return new SyncError(
    statusCode === 401 ? 'token_refused' : 'server_refused',
    `${redactUrl(url)} refused the connection with ${statusCode ?? 'no status'}${why}`,
    { retryable: true, ...(seconds > 0 ? { retryAfterSeconds: seconds } : {}) },
  );
}
