import type { IncomingMessage } from 'node:http';
import type { Decision } from '../client/decisions/decision.js';
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

declare global {
  namespace Express {
    interface Request {
      /** The decision that let the request pass. */
      decision?: Decision | undefined;
    }
  }
}

/** The part of a request of Express that the guard reads. */
export interface ExpressRequest extends IncomingMessage, Express.Request {
  readonly method: string;
  readonly url: string;
  readonly baseUrl: string;
  readonly params: unknown;
  readonly query: unknown;
  readonly route?: { readonly path?: unknown; readonly stack?: readonly { readonly handle?: unknown }[] } | undefined;
}

/** The part of a response of Express that the guard writes. */
export interface ExpressResponse {
  status(code: number): unknown;
  setHeader(name: string, value: string): unknown;
  json(body: unknown): unknown;
}

/** Options of {@link policyGuard}. */
export interface ExpressGuardOptions<R, S> extends GuardOptions<R> {
  /** Path of the decision about requests. */
  readonly path: string;
  /**
   * Whether all routers before and after the guard are case-sensitive:
   * `app.set('case sensitive routing', true)`, and `express.Router({ caseSensitive: true })`.
   * Default: false, and upper-case letters outside the route of the guard are 403.
   */
  readonly caseSensitive?: boolean | undefined;
  /** Answers a request that does not pass. Default: the status, headers and body of `given`. */
  readonly respond?: (given: GuardResponse, request: R, response: S) => unknown;
}

/**
 * A middleware that leaves the types of requests and responses to the route, or to the handlers
 * after it.
 */
export type ExpressGuard<R, S> = <Q extends R, T extends S>(
  request: Q,
  response: T,
  next: (error?: unknown) => void,
) => Promise<void>;

/**
 * A middleware that asks the policy before what follows it:
 * `app.use(policyGuard({ client, path }))` for all, or `app.get('/documents/:id', policyGuard({
 * client, path }), handler)` for one route. What the policy does not allow is answered 403, and so
 * is an address that has several readings; where there is no decision, 503. Errors of the
 * application's own functions go to `next`.
 */
export function policyGuard<R extends ExpressRequest = ExpressRequest, S extends ExpressResponse = ExpressResponse>(
  options: ExpressGuardOptions<R, S>,
): ExpressGuard<R, S> {
  const ways: RouterWays = {
    ignoresCase: options.caseSensitive === true ? 'no' : 'ascii',
    ...{ comparesEncoded: true, mergesSlashes: false, endsAtSemicolon: false },
  };
  const guard: ExpressGuard<R, S> = async (request, response, next) => {
    try {
      const verdict = await judgeRequest(options, options.path, request, factsOf(request, guard, ways));
      request.decision = verdict.decision;
      if (verdict.response !== undefined) {
        await (options.respond ?? send)(verdict.response, request, response);
        return;
      }
      if (verdict.decision !== undefined) response.setHeader(DECISION_HEADER, verdict.decision.id);
    } catch (error) {
      next(error);
      return;
    }
    next();
  };
  return guard;
}

function send({ status, headers, body }: GuardResponse, _: unknown, response: ExpressResponse): void {
  response.status(status);
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.json(body);
}

/**
 * What Express tells. Its `route` is the last one that matched, which may have let the request
 * pass: it counts only for a guard that is one of its handlers.
 */
function factsOf(request: ExpressRequest, guard: unknown, ways: RouterWays): RequestFacts {
  const { method, baseUrl, url, params, query } = request;
  const { path, stack = [] } = request.route ?? {};
  const isOfRoute = typeof path === 'string' && stack.some(({ handle }) => handle === guard);
  const address = { mount: baseUrl, target: url, route: isOfRoute ? path : null };
  return { method, route: isOfRoute ? `${baseUrl}${path}` : null, params, query, address, ways };
}
