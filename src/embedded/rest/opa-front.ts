import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { failureFields, SyncError } from '../../lib/errors.js';
import { OpenConnections } from '../../lib/net/open-connections.js';
import type { Endpoint } from '../../lib/net/tls.js';
import type { Logger } from '../../lib/observe/log.js';
import { ByteBudget, type Holder } from '../../lib/run/budget.js';
import type { DecisionSource } from '../types.js';
import { type ArrivedBody, BodyReader } from './body-reader.js';
import { errorAnswer, REFUSED, type RestAnswer, TOO_LARGE } from './rest-answers.js';
import { RestApi, type RestRequest } from './rest-api.js';
import { RestFigures } from './rest-figures.js';
import { handlerLabel, mayAsk, restRoute, restTarget } from './rest-target.js';

/** Options of {@link createOpaFront}. */
export interface OpaFrontOptions {
  /** Origins whose web pages may ask (`*`: all). */
  readonly origins: readonly string[];
  /** Undefined: all addresses. */
  readonly host: string | undefined;
  /** 0: any that is free. */
  readonly port: number;
  /** The most bytes of a request's body, and of what it unpacks to. Default 64 MiB. */
  readonly bodyBytes?: number;
  /** The most bytes of all bodies under way, half of them of one address. Default 256 MiB. */
  readonly totalBodyBytes?: number;
  /** The most bytes of all responses under way, half of them of one address. Default 256 MiB. */
  readonly responseBytes?: number;
  /** The most connections; beyond, idle ones give way. Default 4,000. */
  readonly connections?: number;
  /** The most requests under way; others are rejected. Default 10,000. */
  readonly requests?: number;
  /**
   * The longest time for the headers of a request to arrive, in milliseconds. Default 32 s, as OPA.
   */
  readonly headersTimeoutMs?: number;
  /** The longest time for a whole request to arrive, in milliseconds. Default 2 min. */
  readonly requestTimeoutMs?: number;
  /**
   * A caller that reads nothing of its response for this long is disconnected, in milliseconds.
   * Default 30 s.
   */
  readonly readerTimeoutMs?: number;
}

/** Dependencies of {@link createOpaFront}. */
export interface OpaFrontDeps {
  readonly source: DecisionSource;
  readonly log: Logger;
  /** Whether the engine holds a policy. */
  isReady(): boolean;
  /** Throws for a request under a name that is not ours. Default: every name is accepted. */
  checkHost?(request: Pick<IncomingMessage, 'headers' | 'url'>): void;
}

/** OPA's REST API over HTTP. */
export interface OpaFront {
  /** Listens. Rejects with `listen_failed`; its cause is the system's error. */
  listen(): Promise<Endpoint>;
  /** Accepts no more connections, lets requests under way finish for a while, and ends the rest. */
  close(): Promise<void>;
}

const MIB = 1024 * 1024;
/** Responses up to this size are not counted: refusals and health checks always get through. */
const UNCOUNTED_BYTES = 1_024;
/** OPA reads up to 1 MiB: an input in a URL is rarely so long. */
const MAX_HEADER_BYTES = 128 * 1024;
/** Requests of one connection that wait for their turn. */
const MAX_PIPELINED = 100;
/** OPA keeps idle connections for ever. */
const KEEP_ALIVE_MS = 120_000;
/** How often overdue requests are looked for. */
const CHECK_MS = 5_000;
/** The longest time that requests under way may keep a stop waiting. */
const CLOSE_GRACE_MS = 5_000;
/** How often a stop closes connections that have become idle. */
const CLOSE_LOOK_MS = 50;

const BUSY = errorAnswer(503, 'internal_error', 'too many requests are under way: send fewer at a time', [
  'Retry-After',
  '1',
]);

/**
 * Creates OPA's REST API for a source of decisions. It serves once {@link OpaFront.listen} is
 * called.
 */
export function createOpaFront(options: OpaFrontOptions, deps: OpaFrontDeps): OpaFront {
  const front = new Front(options, deps);
  const { headersTimeoutMs = 32_000, requestTimeoutMs = 120_000 } = options;
  const server = createServer(
    {
      headersTimeout: headersTimeoutMs,
      requestTimeout: requestTimeoutMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      connectionsCheckingInterval: Math.min(CHECK_MS, headersTimeoutMs, requestTimeoutMs),
      maxHeaderSize: MAX_HEADER_BYTES,
      noDelay: true,
    },
    (request, response) => void front.serve(request, response),
  );
  front.connections.follow(server);
  return { listen: () => listen(server, options), close: () => close(server) };
}

/** The requests of a front. */
class Front {
  readonly #options: OpaFrontOptions;
  readonly #deps: OpaFrontDeps;
  readonly #api: RestApi;
  readonly #bodies: BodyReader;
  readonly #responses: ByteBudget;
  /** Each may hold the headers of one request. */
  readonly connections: OpenConnections;
  readonly #figures = new RestFigures();
  readonly #maxRequests: number;
  readonly #readerTimeoutMs: number;
  #requests = 0;
  readonly #ofConnection = new WeakMap<Socket, number>();

  constructor(options: OpaFrontOptions, deps: OpaFrontDeps) {
    const { bodyBytes = 64 * MIB, totalBodyBytes = 256 * MIB, responseBytes = 256 * MIB } = options;
    this.#options = options;
    this.#deps = deps;
    this.#maxRequests = options.requests ?? 10_000;
    this.#readerTimeoutMs = options.readerTimeoutMs ?? 30_000;
    this.#bodies = new BodyReader(bodyBytes, new ByteBudget(totalBodyBytes, { what: 'bytes of bodies' }));
    this.#responses = new ByteBudget(responseBytes, { what: 'bytes of responses' });
    this.connections = new OpenConnections(options.connections ?? 4_000);
    this.#api = new RestApi(bodyBytes, {
      source: deps.source,
      isReady: () => deps.isReady(),
      metrics: () => this.#figures.text(),
    });
  }

  /** Serves one request. Never rejects. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const startMs = performance.now();
    const { socket, method = '' } = request;
    const ofConnection = (this.#ofConnection.get(socket) ?? 0) + 1;
    this.#ofConnection.set(socket, ofConnection);
    this.#requests += 1;
    const target = restTarget(request.url ?? '');
    const route = target === undefined ? undefined : restRoute(method, target.path);
    try {
      if (ofConnection > MAX_PIPELINED || this.#requests > this.#maxRequests) this.#send(response, BUSY);
      else if (target === undefined || route === undefined) this.#send(response, this.#foreignName(request) ?? REFUSED);
      else await this.#serveRoute(request, response, { target, route });
    } catch (error) {
      this.#deps.log.error(failureFields(error, 'stack'), 'uncaught exception in a request to the embedded engine');
      response.destroy();
    } finally {
      this.#requests -= 1;
      this.#ofConnection.set(socket, (this.#ofConnection.get(socket) ?? 1) - 1);
    }
    this.#figures.observe(response.statusCode, handlerLabel(route), method, (performance.now() - startMs) / 1000);
  }

  async #serveRoute(
    request: IncomingMessage,
    response: ServerResponse,
    asked: Pick<RestRequest, 'target' | 'route'>,
  ): Promise<void> {
    const { headers } = request;
    const method = request.method === 'POST' ? 'POST' : 'GET';
    const foreign = this.#foreignName(request);
    if (foreign !== undefined) return this.#send(response, foreign);
    const { query } = asked.target;
    if (!mayAsk(asked.route, { method, query, headers }, this.#options.origins)) return this.#send(response, REFUSED);
    if (method === 'GET')
      return this.#send(response, await this.#api.answer({ ...asked, method, headers, body: undefined }));
    const body = await this.#bodies.read(request, holderOf(response));
    if (typeof body === 'string') return this.#sendUnread(response, body);
    try {
      this.#send(response, await this.#api.answer({ ...asked, method, headers, body: body.bytes }));
    } finally {
      body.release();
    }
  }

  /** The response to a request under a name that is not ours. */
  #foreignName(request: IncomingMessage): RestAnswer | undefined {
    try {
      this.#deps.checkHost?.(request);
      return undefined;
    } catch (error) {
      if (error instanceof SyncError)
        return errorAnswer(error.status, error.code, error.message, ['X-Sync-Error', error.code]);
      throw error;
    }
  }

  /** Responds to a request whose body is not read to its end: nothing else can follow it. */
  #sendUnread(response: ServerResponse, why: Extract<ArrivedBody, string>): void {
    if (why === 'aborted') return;
    const { headers, ...answer } = why === 'busy' ? BUSY : TOO_LARGE;
    this.#send(response, { ...answer, headers: [...headers, 'Connection', 'close'] });
  }

  /** Takes room for a response until it is sent; returns false if there is none. */
  #hasRoomFor(response: ServerResponse, { body }: RestAnswer): boolean {
    const bytes = Buffer.byteLength(body);
    if (bytes <= UNCOUNTED_BYTES) return true;
    const taken = this.#responses.take(holderOf(response), bytes);
    if (typeof taken !== 'function') return false;
    this.connections.whenOver(response.req.socket, response, taken);
    return true;
  }

  #send(response: ServerResponse, answer: RestAnswer): void {
    const { status, headers, body } = this.#hasRoomFor(response, answer) ? answer : BUSY;
    response.writeHead(status, [...headers, 'Content-Length', String(Buffer.byteLength(body))]);
    response.end(body);
    const { socket } = response;
    // Node ends a connection that makes no progress for this long.
    if (socket !== null && socket.writableLength > 0) socket.setTimeout(this.#readerTimeoutMs);
  }
}

/** Callers of an engine have no tokens: an address is all that tells them apart. */
function holderOf({ req }: ServerResponse): Holder {
  return { subject: null, address: req.socket.remoteAddress ?? '?' };
}

async function listen(server: Server, { host, port }: Pick<OpaFrontOptions, 'host' | 'port'>): Promise<Endpoint> {
  // As OPA, which takes the IPv4 address of localhost.
  const at = host === 'localhost' ? '127.0.0.1' : host;
  server.listen({ port, exclusive: true, ...(at === undefined ? {} : { host: at }) });
  try {
    await once(server, 'listening');
  } catch (cause) {
    throw new SyncError('listen_failed', `the embedded engine cannot listen on ${host ?? ''}:${port}`, { cause });
  }
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has an address with a port');
  return { host: host ?? address.address, port: address.port };
}

async function close(server: Server): Promise<void> {
  if (!server.listening) return;
  const looks = setInterval(() => server.closeIdleConnections(), CLOSE_LOOK_MS);
  const limit = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
  try {
    const closed = once(server, 'close');
    server.close();
    await closed;
  } finally {
    clearInterval(looks);
    clearTimeout(limit);
  }
}
