import { fetch } from 'undici';
import { z } from 'zod';
import { openConnections } from '../client/connections.js';
import { CLIENT_SETTINGS } from '../client/options.js';
import { type ErrorCode, SyncError } from '../lib/errors.js';
import { createLogger, redactUrl, type Secret } from '../lib/log.js';
import { loadSettings } from '../lib/options.js';

/** Longest wait for the server's whole answer. */
const ANSWER_TIMEOUT_MS = 30_000;
/** How much of an answer that is not understood is shown. */
const SHOWN_ANSWER_CHARACTERS = 500;

/** What a command sends to a sync server. */
export interface ServerRequest {
  readonly url: string;
  readonly token: Secret | undefined;
  /** JSON text. */
  readonly body: string;
}

/** How a command fails: the code of a refusal, and what did not happen, such as `not published`. */
export interface ServerFailure {
  readonly code: ErrorCode;
  readonly what: string;
}

/**
 * Posts to a server the way the client itself would: with the authority and the client certificate of the settings
 * (SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE, SYNC_CLIENT_TLS_CERT_FILE and their companions) and the proxies of the
 * environment. Answers with the text of a 200. Rejects with `config_invalid` for these settings, `server_unreachable`
 * without an answer, and the code of `failure` with what the server said for any other status.
 */
export async function postToServer(
  request: ServerRequest,
  failure: ServerFailure,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  let answer: { status: number; text: string };
  try {
    answer = await post(request, env);
  } catch (cause) {
    if (cause instanceof SyncError) throw cause;
    const message = `${failure.what}: no answer from ${redactUrl(request.url)}`;
    throw new SyncError('server_unreachable', message, { cause });
  }
  const { status, text } = answer;
  if (status === 200) return text;
  throw new SyncError(failure.code, `${failure.what}: the server answered ${status}: ${problemText(text)}`);
}

async function post(
  { url, token, body }: ServerRequest,
  env: NodeJS.ProcessEnv,
): Promise<{ status: number; text: string }> {
  const { selfSignedAllowed, trustedCaFile, clientCertFile, clientKeyFile } = CLIENT_SETTINGS;
  const { values } = loadSettings({ selfSignedAllowed, trustedCaFile, clientCertFile, clientKeyFile }, { env });
  const log = createLogger('policysync', { level: 'warn', format: 'pretty' });
  const connections = await openConnections({ ...values, serverUrl: url, serverWsUrl: undefined }, { log, env });
  const dispatcher = connections.dispatcher(ANSWER_TIMEOUT_MS);
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (token !== undefined) headers.authorization = `Bearer ${token.reveal()}`;
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers,
      body,
      // The token goes to the server that was named and to no other. And a redirect is no success: followed, a 301 would
      // turn the request into a GET, whose answer says nothing of it.
      redirect: 'manual',
      dispatcher,
      signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS),
    });
    return { status: response.status, text: await response.text() };
  } finally {
    connections.close();
    await dispatcher.destroy();
  }
}

const refusal = z.object({
  detail: z.union([
    z.string(),
    z.array(z.object({ loc: z.array(z.union([z.string(), z.number()])), msg: z.string() })),
    z.object({ error: z.string() }),
  ]),
});

/** What a server says in the body of an error answer, as one sentence. */
function problemText(text: string): string {
  const parsed = refusal.safeParse(parsedOrUndefined(text));
  if (!parsed.success) return shortened(text);
  const { detail } = parsed.data;
  if (typeof detail === 'string') return detail;
  if ('error' in detail) return detail.error;
  return detail.map(({ loc, msg }) => `${loc.join('.')}: ${msg}`).join('; ');
}

/** An answer as JSON; undefined where it is none, which a schema then refuses. */
export function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // see above
  }
}

/** An answer for messages, bounded. */
export function shortened(text: string): string {
  if (text.trim() === '') return 'an empty answer';
  return text.length > SHOWN_ANSWER_CHARACTERS ? `${text.slice(0, SHOWN_ANSWER_CHARACTERS)}...` : text;
}
