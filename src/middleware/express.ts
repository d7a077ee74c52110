import type { Decision } from '../client/decisions/decision.js';
import {
  DECISION_HEADER,
  type GuardOptions,
  type GuardResponse,
  judge,
  pathSegments,
  type RequestInput,
} from './guard.js';

export type { GuardResponse, RequestInput };

/** The part of a request of Express that the guard reads. */
export interface ExpressRequest {
  readonly method: string;
  readonly originalUrl: string;
  readonly baseUrl: string;
  readonly params: unknown;
  readonly query: unknown;
  readonly route?: { readonly path?: unknown } | undefined;
  /** The decision that let the request pass. */
  decision?: Decision | undefined;
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
  /** Answers a request that does not pass. Default: the status, headers and body of `given`. */
  readonly respond?: (given: GuardResponse, request: R, response: S) => unknown;
}

/**
 * A middleware that asks the policy before what follows it: `app.use(policyGuard({ client, path }))` for all, or
 * `app.get('/documents/:id', policyGuard({ client, path }), handler)` for one route. What the policy does not allow is answered
 * 403; where there is no decision, 503 with `Retry-After`. Errors of the application's own functions go to `next`.
 */
export function policyGuard<R extends ExpressRequest = ExpressRequest, S extends ExpressResponse = ExpressResponse>(
  options: ExpressGuardOptions<R, S>,
): (request: R, response: S, next: (error?: unknown) => void) => Promise<void> {
  return async (request, response, next) => {
    try {
      const verdict = await judge(options, options.path, request, factsOf(request));
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
}

function send({ status, headers, body }: GuardResponse, _: unknown, response: ExpressResponse): void {
  response.status(status);
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
  response.json(body);
}

function factsOf({ method, originalUrl, baseUrl, params, query, route }: ExpressRequest): Omit<RequestInput, 'user'> {
  const path = route?.path;
  return {
    ...{ method, path: pathSegments(originalUrl), params, query },
    route: typeof path === 'string' ? `${baseUrl}${path}` : null,
  };
}
