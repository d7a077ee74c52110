import * as z from 'zod';
import { CLIENT_SETTINGS } from '../../client/options.js';
import { ERROR_CODES, type ErrorCode, SyncError } from '../../lib/errors.js';
import { jsonOrUndefined } from '../../lib/json/json-text.js';
import { connectFailure, SERVER_CA } from '../../lib/net/connect-failure.js';
import { headerText } from '../../lib/net/http-response.js';
import type { ServerAnswer, ServerCaller } from '../../lib/net/server-request.js';
import { createLogger, redactUrl, type Secret } from '../../lib/observe/log.js';
import { loadProgramSettings } from './program-settings.js';
import { refusedTokenText } from './token-claims.js';

/** Timeout of the whole response. */
const ANSWER_TIMEOUT_MS = 30_000;

/** A request of a command to a sync server or client. */
export interface CommandRequest {
  readonly url: string;
  readonly token: Secret | undefined;
  /** JSON text: the request is a POST; without it, a GET. */
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds to add to the timeout, for a request that makes the server wait. */
  readonly extraTimeMs?: number;
}

/**
 * The statuses of success, and the error codes and message prefix (`not published`) of a failure.
 */
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

/**
 * Sends a request like the client does: with the authority and the client certificate of the
 * settings (SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE, SYNC_CLIENT_TLS_CERT_FILE and related ones)
 * and the proxies of the environment. Rejects with `config_invalid` for invalid settings, with
 * `server_unreachable`, `tls_failed` or `tls_mismatch` without a response, and for a status outside
 * `good` (default: 200) with the server's error code and message, or the code of `rules`.
 */
export async function askServer(
  request: CommandRequest,
  rules: AnswerRules,
  env: NodeJS.ProcessEnv,
): Promise<ServerAnswer> {
  const { body, extraTimeMs = 0 } = request;
  const { good = [200] } = rules;
  const silenceMs = ANSWER_TIMEOUT_MS + extraTimeMs;
  return connected(
    { request, silenceMs, rules, env },
    async ({ requestServer, caller, close, dispatcher, headers }) => {
      // Follows no redirects: the token is only for the given server, and a 301 would turn a POST
      // into a GET.
      const get = { dispatcher, headers, good, signal: AbortSignal.timeout(silenceMs) };
      const post = { method: 'POST', headers: { ...headers, 'content-type': 'application/json' } } as const;
      const answer = await requestServer(new URL(request.url), body === undefined ? get : { ...get, ...post, body });
      await close();
      if (good.includes(answer.status)) return answer;
      throw failureOf(answer, caller, request, rules);
    },
  );
}

/** The failure that a response says. */
function failureOf(answer: ServerAnswer, caller: ServerCaller, request: CommandRequest, rules: AnswerRules): SyncError {
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
  const said = caller.said(answer.text);
  const answered = `${who} answered ${answer.status}: ${said}${unsent}`;
  const isMaster = rules.refused === 'master_token_refused';
  const why = answer.status === 401 ? refusedTokenText(said, request.token, isMaster) : undefined;
  return new SyncError(codeOf(answer, rules), `${failed}${why === undefined ? answered : `${why} (${answered})`}`);
}

/**
 * What has no such route, by its answer; undefined: the route is there, and has not what was asked
 * for.
 */
function absentOf({ text, headers }: ServerAnswer, peer: string): { text: string; isOpal?: boolean } | undefined {
  const errorCode = headerText(headers['x-sync-error']);
  if (errorCode === 'not_found')
    return { text: `the sync ${peer} has nothing there: it is of another version, or its address has a path too much` };
  if (errorCode !== undefined) return undefined;
  // As OPAL's framework says it; our own servers give each error a code.
  const { success } = opalNotFound.safeParse(jsonOrUndefined(text));
  if (success) return { text: `this is an OPAL ${peer}, which does not have this`, isOpal: true };
  return { text: `this is not the address of a sync ${peer}` };
}

const opalNotFound = z.strictObject({ detail: z.literal('Not Found') });

/**
 * Returns the server's error code, except `unauthorized`, whose remedy is for servers: here, the
 * token of the caller is wrong.
 */
function codeOf({ status, headers }: ServerAnswer, rules: AnswerRules): ErrorCode {
  const errorCode = headerText(headers['x-sync-error']);
  const isNamed = errorCode !== undefined && errorCode !== 'unauthorized' && Object.hasOwn(ERROR_CODES, errorCode);
  if (isNamed) return errorCode as ErrorCode;
  return status === 401 ? (rules.refused ?? 'token_refused') : rules.code;
}

/** A response that goes on. */
export interface ServerStream {
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Ends it. */
  close(): Promise<void>;
}

/**
 * Opens a response that goes on until it is closed, or until `silenceMs` without a byte of it.
 * Undefined: the server does not have this route. Rejects as {@link askServer}.
 */
export async function openServerStream(
  request: CommandRequest & { readonly silenceMs: number; readonly signal: AbortSignal },
  rules: AnswerRules,
  env: NodeJS.ProcessEnv,
): Promise<ServerStream | undefined> {
  const { url, signal, silenceMs } = request;
  return connected(
    { request, silenceMs, rules, env },
    async ({ openAnswer, readAnswer, caller, close, dispatcher, headers }) => {
      const opened = await openAnswer(new URL(url), { dispatcher, headers, signal });
      if (opened.statusCode === 200) return { chunks: opened.body, close };
      const answer = await readAnswer(opened, []);
      await close();
      if (answer.status === 404) return undefined;
      throw failureOf(answer, caller, request, rules);
    },
  );
}

/** Opens what a request needs and uses it; after a failure, which it explains, all is closed. */
async function connected<T>(
  {
    request,
    silenceMs,
    rules,
    env,
  }: {
    request: CommandRequest;
    /** Longest time without a byte. */
    silenceMs: number;
    rules: AnswerRules;
    env: NodeJS.ProcessEnv;
  },
  use: (connection: Awaited<ReturnType<typeof connect>>['connection']) => Promise<T>,
): Promise<T> {
  const { connection, explained } = await connect(request, silenceMs, env);
  try {
    return await use(connection);
  } catch (error) {
    const cause = await explained(error);
    await connection.close();
    if (cause instanceof SyncError) throw cause;
    const { what, unreachable = 'server_unreachable' } = rules;
    const message = `${what === undefined ? '' : `${what}: `}no answer from ${redactUrl(request.url)}`;
    throw connectFailure(cause, { message, code: unreachable, caSetting: SERVER_CA });
  }
}

async function connect({ url, token, headers: given = {} }: CommandRequest, silenceMs: number, env: NodeJS.ProcessEnv) {
  // Imported lazily: usage errors and help do not need it.
  const [{ ServerCaller, ...requests }, { openOutbound }, { plainFailure }] = await Promise.all([
    import('../../lib/net/server-request.js'),
    import('../../client/outbound/outbound.js'),
    import('../../lib/net/tls-probe.js'),
  ]);
  const { selfSignedAllowed, trustedCaFile, clientCertFile, clientKeyFile } = CLIENT_SETTINGS;
  const tls = { selfSignedAllowed, trustedCaFile, clientCertFile, clientKeyFile };
  const { values } = loadProgramSettings('client', tls, { env });
  const log = createLogger('policysync', { level: 'warn', format: 'pretty' });
  const outbound = await openOutbound({ ...values, serverUrl: url, serverWsUrl: undefined }, { log, env });
  const dispatcher = outbound.dispatcher(silenceMs);
  const caller = new ServerCaller(url, token);
  const close = async (): Promise<void> => {
    outbound.close();
    await dispatcher.destroy();
  };
  return {
    connection: { ...requests, caller, dispatcher, headers: { ...given, ...caller.authorization() }, close },
    explained: (error: unknown): Promise<unknown> => plainFailure(error, url, outbound.dial),
  };
}
