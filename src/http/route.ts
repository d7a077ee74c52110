import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type * as z from 'zod';
import type { Audience, Caller } from '../auth/caller.js';
import type { SyncError } from '../lib/errors.js';
import type { DeclaredRoute, RouteFacts } from './declared-route.js';
import { parseBody, parseQuery } from './json-body.js';

/** A route as the program makes it. Validation and `/openapi.json` both come from it. */
export type RouteDeclaration<Q extends z.ZodType = z.ZodType, B extends z.ZodType = z.ZodType> = DeclaredRoute<Q, B> &
  RouteHooks;

interface RouteHooks {
  /**
   * Runs before the body is read, for a route that is open to everyone; throws the error to send.
   */
  readonly screen?: (request: FastifyRequest) => void;
  /** Called for each rejected request: for a route whose callers never read the response. */
  readonly onRefused?: (error: SyncError) => void;
}

/** What a handler gets: everything is validated already. */
export interface Call<Q, B> {
  readonly query: Q;
  readonly body: B;
  /** The bytes of the body of a `rawBody` route; empty otherwise. */
  readonly raw: Buffer;
  readonly caller: Caller;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Undefined: the route was not made by {@link addRoute}, and the app refuses it. */
    audience?: Audience;
    responses?: RouteFacts['responses'];
    rawBody?: boolean;
    /**
     * Bodies that are larger take one of the few places for such; undefined: the route has none.
     */
    largeFromBytes?: number;
    onRefused?: (error: SyncError) => void;
  }
  interface FastifyRequest {
    /** Who calls; set before a handler runs. */
    caller: Caller | undefined;
    /**
     * Whether the caller is told everything; see {@link Audience}. A handler may find out that it
     * is.
     */
    isInsider: boolean;
  }
  interface FastifyInstance {
    /** Every route that was declared, in order. */
    declaredRoutes: RouteDeclaration[];
  }
}

/**
 * Adds a route. A query or body that does not follow its schema gets 422 (`request_invalid`) before
 * the handler runs, but after the caller was authorized.
 */
export function addRoute<Q extends z.ZodType, B extends z.ZodType>(
  app: FastifyInstance,
  declaration: RouteDeclaration<Q, B>,
  handler: (call: Call<z.infer<Q>, z.infer<B>>) => unknown,
): void {
  const {
    method,
    path,
    rawBody = false,
    scans = false,
    query,
    body,
    responses,
    screen,
    bodyLimitBytes,
    largeBodyBytes,
    onRefused,
  } = declaration;
  app.declaredRoutes.push(declaration);
  const most = app.initialConfig.bodyLimit ?? Number.POSITIVE_INFINITY;
  // An operator who wants less than the usual for all has it.
  const isLarge = bodyLimitBytes !== undefined && largeBodyBytes !== undefined && bodyLimitBytes <= most;
  app.route({
    method,
    url: path,
    config: {
      audience: declaration,
      rawBody,
      ...(responses !== undefined && { responses }),
      ...(isLarge && { largeFromBytes: bodyLimitBytes }),
      ...(onRefused !== undefined && { onRefused }),
    },
    ...(bodyLimitBytes === undefined ? {} : { bodyLimit: isLarge ? largeBodyBytes : Math.min(bodyLimitBytes, most) }),
    ...(screen === undefined ? {} : { onRequest: async (request: FastifyRequest) => screen(request) }),
    handler: async (request, reply) => {
      const { caller } = request;
      if (caller === undefined) throw new Error(`${method} ${path} ran without authentication`);
      const call = {
        // Without a schema the handler's type for it is `unknown`.
        query: (query === undefined ? request.query : parseQuery(query, request.query)) as z.infer<Q>,
        body: (body === undefined || rawBody ? undefined : parseBody(body, request.body)) as z.infer<B>,
        raw: Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0),
        ...{ caller, request, reply },
      };
      if (!scans) return handler(call);
      const endTurn = await app.enterTurn(request);
      try {
        return await handler(call);
      } finally {
        endTurn();
      }
    },
  });
}
