import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Decision } from '../client/decisions/decision.js';
import { failureFields } from '../lib/errors.js';
import type { RouterWays } from './address.js';
import {
  DECISION_HEADER,
  type GuardOptions,
  type GuardResponse,
  judgeRequest,
  type RequestFacts,
  type RequestInput,
} from './guard.js';

export type { GuardResponse, RequestInput };

declare module 'fastify' {
  interface FastifyContextConfig {
    /**
     * Path of the decision about requests of this route, in place of that of the plugin; false: the
     * route is for everybody.
     */
    policy?: string | false;
  }
  interface FastifyRequest {
    /** The decision that let the request pass; undefined for a route that is for everybody. */
    decision: Decision | undefined;
  }
}

/** Options of {@link policyGuard}. */
export interface FastifyGuardOptions extends GuardOptions<FastifyRequest> {
  /**
   * Path of the decision about requests. Without it only routes with `config: { policy }` are
   * guarded.
   */
  readonly path?: string;
  /** Answers a request that does not pass. Default: the status, headers and body of `response`. */
  readonly respond?: (response: GuardResponse, request: FastifyRequest, reply: FastifyReply) => unknown;
}

/**
 * A plugin that asks the policy before the handler of each route runs. What the policy does not
 * allow is answered 403; where there is no decision, 503; an address that has several readings is
 * 403, too. It applies to the routes of the instance that registers it and of those below, also to
 * unknown addresses.
 */
export async function policyGuard(app: FastifyInstance, options: FastifyGuardOptions): Promise<void> {
  const ways = waysOf(app);
  app.decorateRequest('decision', undefined);
  app.addHook('preHandler', async (request, reply) => {
    const path = pathOf(request, options);
    if (path === undefined) return undefined;
    const { decision, response, error } = await judgeRequest(options, path, request, factsOf(request, ways));
    request.decision = decision;
    if (response === undefined) {
      if (decision !== undefined) reply.header(DECISION_HEADER, decision.id);
      return undefined;
    }
    if (error !== undefined) request.log.warn({ ...failureFields(error), path }, 'no decision about a request');
    if (options.respond !== undefined) await options.respond(response, request, reply);
    else reply.code(response.status).headers(response.headers).send(response.body);
    return reply;
  });
}

// As fastify-plugin does: the hook is for the instance that registers the plugin, and not for one
// of its own.
Object.assign(policyGuard, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'policysync',
});

/** The decision of a route; undefined: the route is for everybody. */
function pathOf({ routeOptions: { config } }: FastifyRequest, options: FastifyGuardOptions): string | undefined {
  const policy: unknown = config.policy;
  if (policy === false) return undefined;
  if (policy === undefined) return options.path;
  if (typeof policy === 'string') return policy;
  throw new TypeError(
    `policy in the config of a route must be the path of a decision, or false; it is a ${typeof policy}`,
  );
}

function factsOf(request: FastifyRequest, ways: RouterWays): RequestFacts {
  const { method, url, params, query, routeOptions, is404 } = request;
  const route = is404 ? null : (routeOptions.url ?? null);
  return { method, route, params, query, address: { mount: '', target: url, route }, ways };
}

/**
 * As the router of an application is set; options of the router may stand beside the others, or in
 * `routerOptions`.
 */
function waysOf({ initialConfig }: FastifyInstance): RouterWays {
  const { routerOptions = {}, ...outside } = initialConfig;
  const inside: Pick<typeof outside, 'caseSensitive' | 'ignoreDuplicateSlashes' | 'useSemicolonDelimiter'> =
    routerOptions;
  return {
    ignoresCase: (inside.caseSensitive ?? outside.caseSensitive) === false ? 'all' : 'no',
    comparesEncoded: false,
    mergesSlashes: Boolean(inside.ignoreDuplicateSlashes || outside.ignoreDuplicateSlashes),
    endsAtSemicolon: Boolean(inside.useSemicolonDelimiter || outside.useSemicolonDelimiter),
  };
}
