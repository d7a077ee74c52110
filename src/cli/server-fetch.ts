import * as z from 'zod';
import { CLIENT_SETTINGS } from '../client/options.js';
import { connectFailure, SERVER_CA } from '../lib/connect-failure.js';
import { ERROR_CODES, type ErrorCode, SyncError } from '../lib/errors.js';
import { basicAuthorization, bodyText } from '../lib/http-response.js';
import { jsonOrUndefined } from '../lib/json-text.js';
import { createLogger, redactUrl, type Secret } from '../lib/log.js';
import { problemText } from '../lib/problem-text.js';
import { loadProgramSettings } from './program-settings.js';
import { refusedTokenText } from './token-claims.js';

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
 * Rejects with `config_invalid` for invalid settings, with `server_unreachable`, `tls_failed` or `tls_mismatch` without a response, and for a
 * status outside `good` (default: 200) with the server's error code and message, or the code of `rules`.
 */
export async function askServer(
  request: ServerRequest,
  rules: AnswerRules,
  env: NodeJS.ProcessEnv,
): Promise<ServerAnswer> {
  const { good = [200] } = rules;
  let answer: Answered;
  try {
    answer = await send(request, env);
  } catch (cause) {
    throw noAnswer(cause, request, rules);
  }
  if (good.includes(answer.status)) return answer;
  throw failureOf(answer, request, rules);
}

/** The failure of a request without a response. */
function noAnswer(
  cause: unknown,
  { url }: ServerRequest,
  { what, unreachable = 'server_unreachable' }: AnswerRules,
): SyncError {
  if (cause instanceof SyncError) return cause;
  const message = `${what === undefined ? '' : `${what}: `}no answer from ${redactUrl(url)}`;
  return connectFailure(cause, { message, code: unreachable, caSetting: SERVER_CA });
}

/** The failure that a response says. */
function failureOf(answer: Answered, request: ServerRequest, rules: AnswerRules): SyncError {
  const { what, unreachable = 'server_unreachable' } = rules;
  const failed = what === undefined ? '' : `${what}: `;
  const who = what === undefined ? redactUrl(request.url) : 'the server';
  const peer = unreachable === 'client_unreachable' ? 'client' : 'server';
  const absence = answer.status === 404 ? absentOf(answer, peer) : undefined;
  if (absence !== undefined) {
    const code = absence.isOpal && peer === 'server' ? 'opal_server' : unreachable;
    return new SyncError(code, `${failed}${redactUrl(request.url)} answered 404: ${absence.text}`);
  }
  const unsent = answer.status === 401 && request.token === undefined ? ' (no token was sent)' : '';
  const said = problemText(request.token?.hideIn(answer.text) ?? answer.text);
  const answered = `${who} answered ${answer.status}: ${said}${unsent}`;
  const isMaster = rules.refused === 'master_token_refused';
  const why = answer.status === 401 ? refusedTokenText(said, request.token, isMaster) : undefined;
  return new SyncError(codeOf(answer, rules), `${failed}${why === undefined ? answered : `${why} (${answered})`}`);
}

/** What has no such route, by its answer; undefined: the route is there, and has not what was asked for. */
function absentOf({ text, errorCode }: Answered, peer: string): { text: string; isOpal?: boolean } | undefined {
  if (errorCode === 'not_found')
    return { text: `the sync ${peer} has nothing there: it is of another version, or its address has a path too much` };
  if (errorCode !== undefined) return undefined;
  // As OPAL's framework says it; our own servers give each error a code.
  const { success } = opalNotFound.safeParse(jsonOrUndefined(text));
  if (success) return { text: `this is an OPAL ${peer}, which does not have this`, isOpal: true };
  return { text: `this is not the address of a sync ${peer}` };
}

const opalNotFound = z.strictObject({ detail: z.literal('Not Found') });

/** Returns the server's error code, except `unauthorized`, whose remedy is for servers: here, the token of the caller is wrong. */
function codeOf(
  { status, errorCode }: { status: number; errorCode: string | undefined },
  rules: AnswerRules,
): ErrorCode {
  const isNamed = errorCode !== undefined && errorCode !== 'unauthorized' && Object.hasOwn(ERROR_CODES, errorCode);
  if (isNamed) return errorCode as ErrorCode;
  return status === 401 ? (rules.refused ?? 'token_refused') : rules.code;
}

type Answered = ServerAnswer & { readonly errorCode: string | undefined };

/** A response that goes on. */
export interface ServerStream {
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Ends it. */
  close(): Promise<void>;
}

/**
 * Opens a response that goes on until it is closed, or until `silenceMs` without a byte of it. Undefined: the server is of a version
 * without this route. Rejects as {@link askServer}.
 */
export async function openServerStream(
  request: ServerRequest & { readonly silenceMs: number; readonly signal: AbortSignal },
  rules: AnswerRules,
  env: NodeJS.ProcessEnv,
): Promise<ServerStream | undefined> {
  const connection = await connect(request, request.silenceMs, env);
  try {
    const { headers, ask } = connection;
    const answer = await ask({ headers, signal: request.signal });
    if (answer.statusCode === 200) return { chunks: answer.body, close: connection.close };
    const text = await bodyText(answer, ANSWER_LIMIT_BYTES);
    await connection.close();
    if (answer.statusCode === 404) return undefined;
    throw failureOf({ status: answer.statusCode, text, errorCode: errorCodeOf(answer.headers) }, request, rules);
  } catch (cause) {
    await connection.close();
    throw noAnswer(cause, request, rules);
  }
}

async function send(request: ServerRequest, env: NodeJS.ProcessEnv): Promise<Answered> {
  const { body, extraTimeMs = 0 } = request;
  const timeoutMs = ANSWER_TIMEOUT_MS + extraTimeMs;
  const { headers, ask, close } = await connect(request, timeoutMs, env);
  try {
    // Follows no redirects: the token is only for the given server, and a 301 would turn a POST into a GET.
    const answer = await ask({
      ...(body === undefined
        ? { headers }
        : { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    return {
      status: answer.statusCode,
      text: await bodyText(answer, ANSWER_LIMIT_BYTES),
      errorCode: errorCodeOf(answer.headers),
    };
  } finally {
    await close();
  }
}

function errorCodeOf({
  'x-sync-error': code,
}: Readonly<Record<string, string | string[] | undefined>>): string | undefined {
  return typeof code === 'string' ? code : undefined;
}

/** What a request needs. `silenceMs`: longest time without a byte. */
async function connect({ url, token, headers: given = {} }: ServerRequest, silenceMs: number, env: NodeJS.ProcessEnv) {
  // Imported lazily: usage errors and help do not need it.
  const [{ default: undici }, { openOutbound }, { plainFailure }] = await Promise.all([
    import('undici'),
    import('../client/outbound/outbound.js'),
    import('../lib/tls-probe.js'),
  ]);
  const { selfSignedAllowed, trustedCaFile, clientCertFile, clientKeyFile } = CLIENT_SETTINGS;
  const tls = { selfSignedAllowed, trustedCaFile, clientCertFile, clientKeyFile };
  const { values } = loadProgramSettings('client', tls, { env });
  const log = createLogger('policysync', { level: 'warn', format: 'pretty' });
  const connections = await openOutbound({ ...values, serverUrl: url, serverWsUrl: undefined }, { log, env });
  const dispatcher = connections.dispatcher(silenceMs);
  const headers: Record<string, string> = { ...given };
  const basic = basicAuthorization(new URL(url));
  if (token !== undefined) headers.authorization = `Bearer ${token.reveal()}`;
  else if (basic !== undefined) headers.authorization = basic;
  const close = async (): Promise<void> => {
    connections.close();
    await dispatcher.destroy();
  };
  const ask = async (options: Parameters<typeof undici.request>[1] & object) => {
    try {
      return await undici.request(url, { ...options, dispatcher });
    } catch (cause) {
      throw await plainFailure(cause, url, connections.dial);
    }
  };
  return { headers, ask, close };
}
