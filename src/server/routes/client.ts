import type { FastifyInstance } from 'fastify';
import * as z from 'zod';
import { type Caller, isDatasource, limitsOf } from '../../auth/caller.js';
import { invalidRequest } from '../../http/json-body.js';
import { addRoute } from '../../http/route.js';
import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { type ActionBody, actionBody } from '../../wire/client-actions.js';
import type { AskRequest } from '../../wire/client-ask.js';
import type { ClientAnswers, ClientQuery } from '../changes/client-answer.js';

const params = z.object({ id: z.string() });

/** `GET /clients/{id}`, `POST /clients/{id}/actions`: one client in full, and what it shall do. */
export function clientRoutes(app: FastifyInstance, { answers, log }: { answers: ClientAnswers; log: Logger }): void {
  const unknown = { description: 'No such client is known, or the token does not permit to see it' };

  addRoute(
    app,
    {
      method: 'GET',
      path: '/clients/:id',
      access: ['datasource', 'listener'],
      limited: 'own',
      tag: 'Statistics',
      summary: 'One client in full',
      description:
        'By its name in GET /clients. Asks the client for details if it is connected, which takes at most a few seconds; ' +
        '`details_missing` says why there are none.',
      responses: {
        200: {
          description: 'The client',
          schema: async () => (await import('../../wire/client-details.js')).clientAnswer,
        },
        404: unknown,
      },
    },
    async ({ caller, request }) => await answers.view(queryOf(caller, request.params)),
  );
  addRoute(
    app,
    {
      method: 'POST',
      path: '/clients/:id/actions',
      access: ['datasource'],
      limited: 'own',
      tag: 'Statistics',
      summary: 'Ask a connected client to act',
      description:
        'refresh: fetch policy and data again. prune: remove documents that no log and no configuration has. drift_check: compare ' +
        'the engine with what was written to it. log_level: log with `level` until the next start. `done` is false if the client ' +
        'could not do it; `text` says what happened. A token that is limited may ask only clients all of whose topics it permits, and never to prune.',
      body: actionBody,
      responses: {
        200: {
          description: 'What the client says',
          schema: async () => (await import('../../wire/client-details.js')).actionAnswer,
        },
        404: unknown,
        409: {
          description: 'The client is away, or cannot be asked: one of OPAL, an older one, or its operator forbids it',
        },
        429: { description: 'The client is being asked for another one of this kind, or too many clients are' },
        504: { description: 'The client has not answered in time' },
      },
    },
    async ({ caller, body, request }) => {
      const query = queryOf(caller, request.params);
      const asked = requestOf(body);
      const about = { client_id: query.name, action: body.action, to: body.level ?? null, caller: caller.subject };
      try {
        const answer = await answers.act(query, asked);
        log.warn({ ...about, done: answer.done, text: answer.text }, 'a client was asked to act');
        return answer;
      } catch (error) {
        log.warn({ ...about, ...failureFields(error) }, 'a client could not be asked to act');
        throw error;
      }
    },
  );
}

function queryOf(caller: Caller, given: unknown): ClientQuery {
  return { name: params.parse(given).id, limits: limitsOf(caller), isDatasource: isDatasource(caller) };
}

function requestOf({ action, level }: ActionBody): AskRequest {
  if (action !== 'log_level') {
    if (level === undefined) return { kind: action };
    throw invalidRequest([{ loc: ['body', 'level'], msg: 'has a meaning with log_level only', type: 'value_error' }]);
  }
  if (level !== undefined) return { kind: action, level };
  throw invalidRequest([{ loc: ['body', 'level'], msg: 'is required with log_level', type: 'missing' }]);
}
