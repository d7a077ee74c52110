import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import * as z from 'zod';
import type { ResponseDeclaration } from '../../http/declared-route.js';
import { whileCallerWaits } from '../../http/long-poll.js';
import { addRoute } from '../../http/route.js';
import { printJson } from '../../lib/json/json-text.js';
import { type AuthzenDecision, foundOf } from '../authzen/answer.js';
import { pathOf } from '../authzen/decision-rules.js';
import { type AskPolicy, evaluate, evaluateAll, withStatus } from '../authzen/evaluate.js';
import {
  badRequest,
  type Evaluation,
  inputOf,
  readEvaluation,
  readEvaluations,
  readSearch,
} from '../authzen/request.js';
import { pageOf, partOf } from '../authzen/search.js';
import type { AuthzenOffer } from '../authzen/settings.js';

/**
 * Most characters that the evaluations of one request have together, each with its defaults: a
 * default is written once and counts for each evaluation that takes it.
 */
const MAX_TOTAL_LENGTH = 16 * 1024 * 1024;

/** `application/json`, with or without parameters. */
const JSON_TYPE = /^application\/json[ \t]*(;[ \t]*[\w-]+=("[^"]*"|[\w.-]+)[ \t]*)*$/i;

/**
 * How long a configuration may be cached whose address is set; one that depends on the request is
 * not cached.
 */
const CONFIGURATION_MAX_AGE_SECONDS = 300;

const properties = z.record(z.string(), z.unknown()).optional();
const entity = z.looseObject({ type: z.string(), id: z.string(), properties });
const soughtEntity = z.looseObject({ type: z.string(), properties });
const action = z.looseObject({ name: z.string(), properties });
const context = z.looseObject({}).optional();
const evaluation = z.looseObject({ subject: entity, action, resource: entity, context });
const decision = z.object({ decision: z.boolean(), context });
const page = z.looseObject({ token: z.string().optional(), limit: z.int().min(0).optional(), properties }).optional();

const SEARCH_BODIES = {
  subject: z.looseObject({ subject: soughtEntity, action, resource: entity, context, page }),
  resource: z.looseObject({ subject: entity, action, resource: soughtEntity, context, page }),
  action: z.looseObject({ subject: entity, resource: entity, context, page }),
} as const;

const found = z.object({
  page: z.object({ next_token: z.string(), count: z.int(), total: z.int() }).optional(),
  context,
  results: z.array(z.looseObject({})),
});

const FAILURES: Readonly<Record<number, ResponseDeclaration>> = {
  400: { description: 'The request is not as the specification says; unknown members are ignored' },
  500: {
    description: 'The policy has no usable answer to this request (`decision_result_invalid`, `decision_failed`)',
  },
  503: { description: 'There is no answer: the engine does not respond. That is neither a permit nor a denial' },
};

/**
 * The AuthZEN Authorization API 1.0 in front of the engine, whichever it is. `ask` gives the value
 * of a rule. A denial is 200 with `"decision":false`; where there is no answer, the response is
 * never a decision.
 */
export function authzenRoutes(app: FastifyInstance, offer: AuthzenOffer, deps: { ask: AskPolicy }): void {
  const ask = withStatus(deps.ask);
  app.addHook('onSend', echoRequestId);
  const declared = {
    method: 'POST',
    access: ['listener'],
    limited: 'nothing',
    tag: 'AuthZEN',
    rawBody: true,
    screen: assertJson,
  } as const;

  addRoute(
    app,
    {
      ...declared,
      path: AUTHZEN_PATHS.evaluation,
      summary: 'Whether a subject may do something to a resource (AuthZEN)',
      body: evaluation,
      responses: { 200: { description: 'The decision', schema: decision }, ...FAILURES },
    },
    async ({ raw, reply }) => {
      const asked = readEvaluation(raw);
      return sendJson(reply, await evaluate(offer.decision, ask, asked));
    },
  );

  addRoute(
    app,
    {
      ...declared,
      path: AUTHZEN_PATHS.evaluations,
      summary: 'Several evaluations at once (AuthZEN)',
      description:
        'The members of the request are the defaults of its evaluations. Without evaluations it is answered as one evaluation.',
      body: z.looseObject({
        ...evaluation.partial().shape,
        evaluations: z.array(evaluation.partial()).max(offer.maxEvaluations).optional(),
        options: z
          .looseObject({
            evaluations_semantic: z.enum(['execute_all', 'deny_on_first_deny', 'permit_on_first_permit']).optional(),
          })
          .optional(),
      }),
      responses: {
        200: {
          description: 'The decisions in the order of the evaluations, or the one decision',
          schema: z.union([z.object({ evaluations: z.array(decision) }), decision]),
        },
        ...FAILURES,
      },
    },
    async ({ raw, request, caller, reply }) => {
      const limits = { maxEvaluations: offer.maxEvaluations, maxTotalLength: MAX_TOTAL_LENGTH };
      const asked = readEvaluations(raw, limits);
      const one = (item: Evaluation): Promise<AuthzenDecision> => evaluate(offer.decision, ask, item);
      if ('single' in asked) return sendJson(reply, await one(asked.single));
      const evaluations = await whileCallerWaits(request, caller, (gone) => evaluateAll(asked, one, gone));
      return sendJson(reply, { evaluations });
    },
  );

  for (const [kind, rules] of offer.searches) {
    addRoute(
      app,
      {
        ...declared,
        path: AUTHZEN_PATHS.search[kind],
        summary: `The ${kind}s that are permitted (AuthZEN)`,
        body: SEARCH_BODIES[kind],
        responses: { 200: { description: `The ${kind}s, or a page of them`, schema: found }, ...FAILURES },
      },
      async ({ raw, reply }) => {
        const asked = readSearch(raw, kind);
        const part = partOf(kind, asked);
        const { subject, resource } = asked;
        const path = pathOf(rules, {
          subjectType: subject.kind,
          action: asked.action?.kind,
          resourceType: resource.kind,
        });
        const value = await ask(path, inputOf(asked));
        const all = foundOf(path, value, { kind, type: kind === 'resource' ? resource.kind : subject.kind });
        return sendJson(reply, pageOf({ kind, part, maxResults: offer.maxResults }, asked, all));
      },
    );
  }

  addRoute(
    app,
    {
      method: 'GET',
      path: AUTHZEN_PATHS.configuration,
      access: 'everyone',
      strangers: 'all',
      tag: 'AuthZEN',
      summary: 'The AuthZEN endpoints that are offered',
      description: 'Their address is SYNC_AUTHZEN_URL, or the one by which this was asked for.',
      responses: { 200: { description: 'The configuration', schema: authzenConfiguration } },
    },
    ({ request, reply }) => {
      const caching = offer.url === undefined ? 'no-store' : `max-age=${CONFIGURATION_MAX_AGE_SECONDS}`;
      reply.header('cache-control', caching);
      return sendJson(reply, configurationOf(offer.url ?? addressOf(request), offer));
    },
  );
}

/** The address by which a request came. */
function addressOf({ protocol, host }: FastifyRequest): string {
  if (/^[\w.:[\]-]+$/.test(host)) return `${protocol}://${host}`;
  throw badRequest('Host must be the name by which this is asked for');
}

/**
 * A request says that it is JSON (section 10.1). Web pages cannot send that without asking first.
 */
function assertJson({ headers }: FastifyRequest): void {
  const type = headers['content-type'];
  if (type !== undefined && JSON_TYPE.test(type)) return;
  const given = type === undefined ? 'missing' : JSON.stringify(type.slice(0, 100));
  throw badRequest(`Content-Type must be application/json, and is ${given}`);
}

/**
 * Section 10.1.3: the response to a request with an identifier has the same one, whatever it says.
 */
function echoRequestId(
  { headers, url }: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: null, payload: unknown) => void,
): void {
  const id = headers['x-request-id'];
  if (typeof id === 'string' && isAuthzen(url)) reply.header('x-request-id', id);
  done(null, payload);
}

function isAuthzen(url: string): boolean {
  return url.startsWith('/access/v1/') || url.startsWith(AUTHZEN_PATHS.configuration);
}

/**
 * Sends a value with its texts as they were written, as bytes: a text would get a charset, which
 * the specification does not have.
 */
function sendJson(reply: FastifyReply, value: unknown): FastifyReply {
  return reply.type('application/json').send(Buffer.from(printJson(value)));
}

/** Default paths of the endpoints (section 10.1). */
const AUTHZEN_PATHS = {
  configuration: '/.well-known/authzen-configuration',
  evaluation: '/access/v1/evaluation',
  evaluations: '/access/v1/evaluations',
  search: {
    subject: '/access/v1/search/subject',
    resource: '/access/v1/search/resource',
    action: '/access/v1/search/action',
  },
} as const;

/** `GET /.well-known/authzen-configuration` (section 9). */
const authzenConfiguration = z.object({
  policy_decision_point: z.string(),
  access_evaluation_endpoint: z.string(),
  access_evaluations_endpoint: z.string(),
  search_subject_endpoint: z.string().optional(),
  search_resource_endpoint: z.string().optional(),
  search_action_endpoint: z.string().optional(),
});

/** The configuration document at an address: an endpoint that it does not name is not offered. */
function configurationOf(
  base: string,
  { searches }: Pick<AuthzenOffer, 'searches'>,
): z.infer<typeof authzenConfiguration> {
  const { search } = AUTHZEN_PATHS;
  return {
    policy_decision_point: base,
    access_evaluation_endpoint: `${base}${AUTHZEN_PATHS.evaluation}`,
    access_evaluations_endpoint: `${base}${AUTHZEN_PATHS.evaluations}`,
    ...(searches.has('subject') && { search_subject_endpoint: `${base}${search.subject}` }),
    ...(searches.has('resource') && { search_resource_endpoint: `${base}${search.resource}` }),
    ...(searches.has('action') && { search_action_endpoint: `${base}${search.action}` }),
  };
}
