import { type IncomingMessage, maxHeaderSize, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { type Authenticator, anonymousAuth } from '../auth/caller.js';
import type { PageSessions } from '../auth/page-session.js';
import { SyncError } from '../lib/errors.js';
import { OpenConnections } from '../lib/net/open-connections.js';
import { rawRefusal } from '../lib/net/raw-refusal.js';
import type { TlsFiles } from '../lib/net/tls.js';
import type { Logger } from '../lib/observe/log.js';
import type { RateLimit } from '../lib/run/rate.js';
import { insiderCut } from '../wire/insider.js';
import { type AddressLimits, ClientAddresses, useUnauthenticatedBodyLimits } from './address-limits.js';
import { type CallerBudgets, createCallerBudgets, useCallerBudgets } from './caller-budgets.js';
import type { ResponseDeclaration } from './declared-route.js';
import { sendError, useErrorHandler } from './error-handler.js';
import { useJsonBodies } from './json-body.js';
import { keepListenerCurrent, listenerOptions } from './listener-tls.js';
import { type HostCheck, useAuthHook, useCors, useRateLimit, useSlowReaderTimeout } from './request-guards.js';
import { upgradeOptions } from './upgrade.js';

/**
 * Longest time for one whole request to arrive: 16 MiB at 140 KiB/s. Keeps slow senders from
 * holding sockets.
 */
const REQUEST_TIMEOUT_MS = 120_000;
/** Longest time that a request in flight may keep a stop waiting. */
const CLOSE_GRACE_MS = 5_000;
/**
 * Default of {@link HttpAppOptions.readerTimeoutMs}: longer than a network fails without breaking
 * connections.
 */
const READER_TIMEOUT_MS = 30_000;
/** How often a stop closes connections that have become idle. */
const CLOSE_LOOK_MS = 50;
/** Connections of an API without limits of its own. */
const MAX_CONNECTIONS = 4_000;

/** Options of {@link createHttpApp}. */
export interface HttpAppOptions {
  /** Largest request body. */
  bodyLimitBytes: number;
  /**
   * A caller that reads nothing of its response for this long is disconnected; see
   * `useSlowReaderTimeout`. Default 30 s.
   */
  readerTimeoutMs?: number;
  /** Certificate of the listener, which then accepts TLS only. Default: plain HTTP. */
  tls?: TlsFiles | undefined;
  /** Authenticates callers. Default: authentication is off. */
  authenticator?: Authenticator;
  /** Sessions of the live page, whose cookie then counts as a token. Default: no cookie counts. */
  pageSessions?: PageSessions | undefined;
  /** Requests of one address. Default: no limit. */
  rateLimit?: RateLimit | undefined;
  /** Allowed `Host` names. Default: any. */
  checkHost?: HostCheck;
  /** What an address may use before it has authenticated. Default: no limit. */
  limits?: AddressLimits | undefined;
  /**
   * What each caller may have under way. Default: the budgets of an API without settings for them.
   */
  budgets?: CallerBudgets | undefined;
  /** Longest time for the body of an unauthenticated caller; see `useUnauthenticatedBodyLimits`. */
  unauthenticatedBodyTimeoutMs?: number;
  /** Origins whose web pages may call. Default: none. */
  allowedOrigins?: readonly string[];
}

/**
 * The HTTP API of a program without its routes: JSON bodies (`json-body.ts`), error responses
 * (`error-handler.ts`), limits, authentication (`useAuthHook`). Ignores a trailing slash. Add
 * routes with `addRoute`, then call {@link listenHttp}.
 */
export function createHttpApp(options: HttpAppOptions, deps: { log: Logger }): FastifyInstance {
  const ofNode: object = { ...upgradeOptions(() => app.server), requireHostHeader: false };
  const app = fastify({
    logger: false,
    bodyLimit: options.bodyLimitBytes,
    requestTimeout: REQUEST_TIMEOUT_MS,
    // A request on a connection that is open when the close begins is served like any other: no
    // caller could have known.
    return503OnClosing: false,
    // Names of clients have up to 265 characters, each of up to nine in a path. No route has a
    // pattern that long texts could slow down.
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 2500 },
    schemaController: { compilersFactory: { buildValidator: noSchemas, buildSerializer: noSchemas } },
    // Hidden from Fastify's types, which would make every app one of TLS.
    ...(options.tls === undefined
      ? { http: ofNode }
      : ({ https: { ...listenerOptions(options.tls), ...ofNode } } as object)),
    clientErrorHandler: answerParserError,
    frameworkErrors: (error, request, reply) => {
      sendError(error, request, reply, deps.log);
    },
  });
  app.decorate('declaredRoutes', []);
  useProtocolChecks(app);
  const { checkHost, limits } = options;
  if (checkHost !== undefined)
    app.addHook(
      'onRequest',
      syncHook(({ raw }) => checkHost(raw)),
    );
  useCors(app, options.allowedOrigins ?? []);
  const addresses = limits?.addresses ?? new ClientAddresses();
  if (options.rateLimit !== undefined) useRateLimit(app, options.rateLimit, addresses);
  const connections = limits?.connections ?? new OpenConnections(MAX_CONNECTIONS);
  connections.follow(app.server, (connection) => limits?.connected(connection));
  if (limits !== undefined) useAddressLimits(app, limits);
  useJsonBodies(app);
  useErrorHandler(app, deps.log);
  useSlowReaderTimeout(app, options.readerTimeoutMs ?? READER_TIMEOUT_MS, deps.log);
  if (options.tls !== undefined) keepListenerCurrent(app, options.tls, deps.log);
  useAuthHook(app, options.authenticator ?? anonymousAuth(), options.pageSessions);
  usePartialAnswers(app);
  if (limits !== undefined) {
    const letIn = syncHook(({ raw, caller, routeOptions }) => {
      if (caller !== undefined && routeOptions.config.audience?.access !== 'everyone') limits.letIn(raw);
    });
    app.addHook('onRequest', letIn);
    const { unauthenticatedBodyTimeoutMs: timeoutMs } = options;
    useUnauthenticatedBodyLimits(app, { limits, ...(timeoutMs === undefined ? {} : { timeoutMs }) }, deps.log);
  }
  const budgets = options.budgets ?? createCallerBudgets();
  useCallerBudgets(app, { budgets, connections, addressOf: (request) => addresses.of(request), log: deps.log });
  return app;
}

/** A synchronous hook: a promise would cost every request. */
function syncHook(check: (request: FastifyRequest, reply: FastifyReply) => void) {
  return (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void => {
    try {
      check(request, reply);
    } catch (error) {
      done(error as Error);
      return;
    }
    done();
  };
}

/** Counts requests through proxies for their addresses. */
function useAddressLimits(app: FastifyInstance, limits: AddressLimits): void {
  const count = syncHook(({ raw }, reply) => {
    if (limits.requested(raw)) limits.connections.whenOver(raw.socket, reply.raw, () => limits.done(raw));
  });
  app.addHook('onRequest', count);
}

/**
 * Replaces Fastify's own compilers, which take longer to load than the rest of Fastify: routes
 * parse with zod.
 */
function noSchemas(): never {
  throw new Error('routes have no schemas of Fastify');
}

/**
 * Listens and returns the address. Port 0 takes a free one. Rejects with `listen_failed` that names
 * host and port.
 */
export async function listenHttp(
  app: FastifyInstance,
  { host, port }: { host: string; port: number },
): Promise<{ url: string; port: number }> {
  try {
    await app.listen({ host, port });
  } catch (cause) {
    throw new SyncError('listen_failed', `cannot listen on ${host}:${port}`, { cause });
  }
  const address = app.server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has an address with a port');
  const shownHost = host.includes(':') ? `[${host}]` : host;
  const scheme = app.server instanceof TlsServer ? 'https' : 'http';
  return { url: `${scheme}://${shownHost}:${address.port}`, port: address.port };
}

/**
 * Closes the app: accepts no new connections, and requests in flight may finish within
 * {@link CLOSE_GRACE_MS}. Node leaves a keep-alive connection open that was busy when the close
 * began, so idle connections are closed repeatedly.
 */
export async function closeHttpApp(app: FastifyInstance, graceMs = CLOSE_GRACE_MS): Promise<void> {
  const looks = setInterval(() => app.server.closeIdleConnections(), CLOSE_LOOK_MS);
  const limit = setTimeout(() => app.server.closeAllConnections(), graceMs);
  try {
    await app.close();
  } finally {
    clearInterval(looks);
    clearTimeout(limit);
  }
}

/** An error of Node's parser: `reason` is its sentence about the bytes. */
type ParserError = NodeJS.ErrnoException & { readonly reason?: string };

/**
 * What a caller is told of what Node could not read; it is no request, so that no route and no hook
 * sees it.
 */
export function parserRefusal({ code, reason }: ParserError): SyncError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new SyncError('headers_too_large', `request line and headers are larger than ${maxHeaderSize} bytes`);
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new SyncError('body_too_large', 'the extensions of a chunk of the body are larger than they may be');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new SyncError('request_timeout', 'the request did not arrive as a whole in time');
    default: {
      const why = reason === undefined ? '' : `: ${reason}`;
      return new SyncError('request_invalid', `the request cannot be read as HTTP${why}`, { status: 400 });
    }
  }
}

/** Answers what Node could not parse. */
function answerParserError(error: ParserError, socket: Socket): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  if (socket.writable) socket.write(rawRefusal(parserRefusal(error)));
  socket.destroy();
}

/**
 * Refuses, with the body of all errors, what Node would refuse with an empty one: a request of
 * HTTP/1.1 without `Host` (RFC 9112, 3.2; the server must be made with `requireHostHeader: false`),
 * and an expectation that nobody knows.
 */
function useProtocolChecks(app: FastifyInstance): void {
  app.addHook('onRequest', ({ raw: { headers, httpVersion } }, _reply, done) => {
    const isMissing = headers.host === undefined && httpVersion === '1.1';
    done(isMissing ? new SyncError('request_invalid', 'the request has no header Host', { status: 400 }) : undefined);
  });
  (app.server as Server).on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const text = `only "100-continue" can be expected, not ${JSON.stringify(String(request.headers.expect).slice(0, 100))}`;
    const error = new SyncError('request_invalid', text, { status: 417 });
    const body = Buffer.from(JSON.stringify({ detail: error.message }));
    const type = { 'content-type': 'application/json', 'content-length': body.length };
    response.writeHead(error.status, { ...type, 'x-sync-error': error.code, connection: 'close' }).end(body);
  });
}

type Cut = (answer: unknown) => unknown;

/**
 * Leaves out of answers what their callers may not know: members that are for insiders, as the
 * declared response says. This is the only place that does so; it sees the objects that handlers
 * return or send, and no texts or bytes.
 */
function usePartialAnswers(app: FastifyInstance): void {
  const cuts = new WeakMap<ResponseDeclaration, Promise<Cut>>();
  app.addHook('preSerialization', (request, reply, answer, done) => {
    const declared = request.routeOptions.config.responses?.[reply.statusCode];
    // What is not declared is an error, and `sendError` knows what it may say.
    if (request.isInsider || declared === undefined) {
      // The same address has less for others: nothing in between may keep this for them.
      if (isOpen(request)) reply.header('cache-control', 'no-store');
      done(null, answer);
      return;
    }
    const cut = cuts.get(declared) ?? cutOf(declared);
    cuts.set(declared, cut);
    cut.then((known) => done(null, known(answer)), done);
  });
}

function isOpen({ routeOptions: { config } }: FastifyRequest): boolean {
  return config.audience?.access === 'everyone' && config.audience.strangers === 'words';
}

async function cutOf({ schema }: ResponseDeclaration): Promise<Cut> {
  const loaded = typeof schema === 'function' ? await schema() : schema;
  return (loaded && insiderCut(loaded)) ?? ((answer) => answer);
}
