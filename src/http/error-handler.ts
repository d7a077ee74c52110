import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { ERROR_CODES, type ErrorCode, errorText, failureFields, SyncError } from '../lib/errors.js';
import { type Logger, redactUrl } from '../lib/observe/log.js';

/**
 * Turns errors into responses (opal-protocol P0.3): `{"detail": ...}` for errors that a caller can
 * act on, and `{"error":"Uncaught server exception"}` for our bugs, whose stack is logged and never
 * sent. The response of a {@link SyncError} has its code in the header `x-sync-error`.
 */
export function useErrorHandler(app: FastifyInstance, log: Logger): void {
  const routes = new RouteMethods();
  app.addHook('onRoute', (route) => routes.add(route.url, route.method));

  // Before the body is read: a wrong path is never reported as a wrong body.
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404) return sendUnknown(routes, request, reply);
  });
  app.setNotFoundHandler((request, reply) => sendUnknown(routes, request, reply));
  app.setErrorHandler((error: FastifyError, request, reply) => sendError(error, request, reply, log));
}

const NOT_FOUND: ErrorCode = 'not_found';

/** 405 with every method of the path, else 404. */
function sendUnknown(routes: RouteMethods, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const methods = routes.of(request.url.split('?', 1)[0] ?? '');
  // An OPAL server says the same, without a code.
  if (methods.length === 0) return reply.code(404).header('x-sync-error', NOT_FOUND).send({ detail: 'Not Found' });
  return reply
    .code(405)
    .headers({ allow: methods.join(', '), 'x-sync-error': NOT_FOUND })
    .send({ detail: 'Method Not Allowed' });
}

/** Sends the response for a thrown error. */
export function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply, log: Logger): FastifyReply {
  const known = error instanceof SyncError ? error : fromFastify(error, request);
  // A target may be a whole URL, with a password in it.
  const place = { method: request.method, path: redactUrl(request.url.split('?', 1)[0] ?? '') };
  if (known === undefined) {
    log.error({ ...failureFields(error, 'stack'), ...place }, 'uncaught exception in a request');
    return reply.code(500).send({ error: 'Uncaught server exception' });
  }
  const fields = { ...place, code: known.code, status: known.status };
  // A response with `Retry-After` is part of a normal start: a fleet that waits must not fill the
  // log.
  if (known.status >= 500 && known.retryAfterSeconds === undefined)
    log.warn({ ...fields, remedy: ERROR_CODES[known.code].remedy }, errorText(known));
  else log.debug(fields, errorText(known));
  if (known.status < 500) request.routeOptions.config.onRefused?.(known);
  if (known.retryAfterSeconds !== undefined) reply.header('retry-after', String(Math.ceil(known.retryAfterSeconds)));
  if (known.status === 401) reply.header('www-authenticate', 'Bearer');
  const isKnownCaller = request.caller !== undefined && !request.isInsider;
  return reply
    .code(known.status)
    .header('x-sync-error', known.code)
    .send({ detail: isKnownCaller && tellsOfOthers(known) ? outsideText(known) : (known.detail ?? known.message) });
}

/**
 * Whether the text is of something that failed behind us, and not of the request or of what is
 * turned off.
 */
function tellsOfOthers({ status }: SyncError): boolean {
  return status >= 500 && status !== 501;
}

function outsideText({ code, outside }: SyncError): string {
  return outside ?? ERROR_CODES[code].cause;
}

/** The error for a request that Fastify itself rejects; undefined for every other error. */
function fromFastify(error: unknown, { routeOptions, server }: FastifyRequest): SyncError | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, statusCode: status, message } = error as FastifyError;
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') {
    const limitBytes = routeOptions.bodyLimit;
    const isOwn = limitBytes !== server.initialConfig.bodyLimit;
    const limit = isOwn ? `the ${limitBytes} bytes that it may have here` : 'SYNC_BODY_LIMIT_BYTES allows';
    return new SyncError('body_too_large', `the body is larger than ${limit}`);
  }
  if (code === 'FST_ERR_CTP_INVALID_MEDIA_TYPE') {
    const detail = [{ loc: ['body'], msg: 'Content-Type is not valid', type: 'type_error.dict' }];
    return new SyncError('request_invalid', message, { detail });
  }
  const isClientError = status !== undefined && status >= 400 && status < 500;
  return isClientError ? new SyncError('request_invalid', message, { status }) : undefined;
}

/** The methods of each path. */
class RouteMethods {
  readonly #patterns = new Map<string, { pattern: RegExp; methods: Set<string> }>();

  add(url: string, method: string | string[]): void {
    const known = this.#patterns.get(url) ?? { pattern: urlPattern(url), methods: new Set<string>() };
    for (const name of [method].flat()) known.methods.add(name);
    this.#patterns.set(url, known);
  }

  of(path: string): string[] {
    const methods = new Set<string>();
    for (const known of this.#patterns.values()) {
      if (known.pattern.test(path)) for (const method of known.methods) methods.add(method);
    }
    return [...methods].sort();
  }
}

/** `/clients/:id` as an expression; a trailing slash makes no difference. */
function urlPattern(url: string): RegExp {
  const segments = url
    .replace(/\/$/, '')
    .split('/')
    .map((segment) =>
      segment.startsWith(':') ? '[^/]+' : segment === '*' ? '.*' : segment.replace(/[.+?^${}()|[\]\\]/g, '\\$&'),
    );
  return new RegExp(`^${segments.join('/')}/?$`);
}
