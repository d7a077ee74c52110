import { CLIENT_SETTINGS } from '../client/options.js';
import { connectFailure, SERVER_CA } from '../lib/connect-failure.js';
import { ERROR_CODES, type ErrorCode, SyncError } from '../lib/errors.js';
import { basicAuthorization, bodyText } from '../lib/http-response.js';
import { createLogger, redactUrl, type Secret } from '../lib/log.js';
import { loadSettings } from '../lib/options.js';
import { problemText } from '../lib/problem-text.js';

/** Timeout of the whole response. */
const ANSWER_TIMEOUT_MS = 30_000;
/** Maximum size of a response. */
const ANSWER_LIMIT_BYTES = 256 * 1024 * 1024;

/** A request of a command to a sync server or client. */
export interface ServerRequest {
  readonly url: string;
  readonly token: Secret | undefined;
  /** JSON text: the request is a POST; without it, a GET. */
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds to add to the timeout, for a request that makes the server wait. */
  readonly extraTimeMs?: number;
}

/** The statuses of success, and the error codes and message prefix (`not published`) of a failure. */
export interface AnswerRules {
  readonly good?: readonly number[];
  /** Code of a failure for which the server sends no code. */
  readonly code: ErrorCode;
  /** Code of a 401. Default: `token_refused`. */
  readonly refused?: ErrorCode;
  /** Code if there is no response. Default: `server_unreachable`. */
  readonly unreachable?: ErrorCode;
  readonly what?: string;
}

/** Status and body of a successful response. */
export interface ServerAnswer {
  readonly status: number;
  readonly text: string;
}

/**
 * Sends a request like the client does: with the authority and the client certificate of the settings
 * (SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE, SYNC_CLIENT_TLS_CERT_FILE and related ones) and the proxies of the environment.
 * Rejects with `config_invalid` for invalid settings, with `server_unreachable` or `tls_failed` without a response, and for a
 * status outside `good` (default: 200) with the server's error code and message, or the code of `rules`.
 */
export async function askServer(
  request: ServerRequest,
  rules: AnswerRules,
  env: NodeJS.ProcessEnv,
): Promise<ServerAnswer> {
  const { good = [200], what, unreachable = 'server_unreachable' } = rules;
  const failed = what === undefined ? '' : `${what}: `;
  let answer: ServerAnswer & { errorCode: string | undefined };
  try {
    answer = await send(request, env);
  } catch (cause) {
    if (cause instanceof SyncError) throw cause;
    const message = `${failed}no answer from ${redactUrl(request.url)}`;
    throw connectFailure(cause, { message, code: unreachable, caSetting: SERVER_CA });
  }
  if (good.includes(answer.status)) return answer;
  const who = what === undefined ? redactUrl(request.url) : 'the server';
  if (answer.status === 404 && answer.errorCode === undefined) {
    const peer = unreachable === 'client_unreachable' ? 'client' : 'server';
    const message = `${failed}${redactUrl(request.url)} answered 404: this is not the address of a sync ${peer}`;
    throw new SyncError(unreachable, message);
  }
  const unsent = answer.status === 401 && request.token === undefined ? ' (no token was sent)' : '';
  const said = problemText(answer.text);
  throw new SyncError(codeOf(answer, rules), `${failed}${who} answered ${answer.status}: ${said}${unsent}`);
}

/** Returns the server's error code, except `unauthorized`, whose remedy is for servers: here, the token of the caller is wrong. */
function codeOf(
  { status, errorCode }: { status: number; errorCode: string | undefined },
  rules: AnswerRules,
): ErrorCode {
  const isNamed = errorCode !== undefined && errorCode !== 'unauthorized' && Object.hasOwn(ERROR_CODES, errorCode);
  if (isNamed) return errorCode as ErrorCode;
  return status === 401 ? (rules.refused ?? 'token_refused') : rules.code;
}

async function send(
  { url, token, body, headers: given = {}, extraTimeMs = 0 }: ServerRequest,
  env: NodeJS.ProcessEnv,
): Promise<ServerAnswer & { errorCode: string | undefined }> {
  // Imported lazily: usage errors and help do not need it.
  const [{ default: undici }, { openOutbound }] = await Promise.all([
    import('undici'),
    import('../client/outbound/outbound.js'),
  ]);
  const { selfSignedAllowed, trustedCaFile, clientCertFile, clientKeyFile } = CLIENT_SETTINGS;
  const { values } = loadSettings({ selfSignedAllowed, trustedCaFile, clientCertFile, clientKeyFile }, { env });
  const log = createLogger('policysync', { level: 'warn', format: 'pretty' });
  const connections = await openOutbound({ ...values, serverUrl: url, serverWsUrl: undefined }, { log, env });
  const timeoutMs = ANSWER_TIMEOUT_MS + extraTimeMs;
  const dispatcher = connections.dispatcher(timeoutMs);
  const headers: Record<string, string> = { ...given };
  const basic = basicAuthorization(new URL(url));
  if (token !== undefined) headers.authorization = `Bearer ${token.reveal()}`;
  else if (basic !== undefined) headers.authorization = basic;
  try {
    // Follows no redirects: the token is only for the given server, and a 301 would turn a POST into a GET.
    const answer = await undici.request(url, {
      ...(body === undefined
        ? { headers }
        : { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body }),
      dispatcher,
      signal: AbortSignal.timeout(timeoutMs),
    });
    const errorCode = answer.headers['x-sync-error'];
    return {
      status: answer.statusCode,
      text: await bodyText(answer, ANSWER_LIMIT_BYTES),
      errorCode: typeof errorCode === 'string' ? errorCode : undefined,
    };
  } finally {
    connections.close();
    await dispatcher.destroy();
  }
}
