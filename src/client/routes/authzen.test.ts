import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ANONYMOUS, type Authenticator } from '../../auth/caller.js';
import { createHttpApp } from '../../http/app.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import { readSettings } from '../../lib/settings/options.js';
import type { AskPolicy } from '../authzen/evaluate.js';
import { authzenOffer } from '../authzen/settings.js';
import { CLIENT_SETTINGS } from '../options.js';
import { authzenRoutes } from './authzen.js';

const REQUEST = {
  subject: { type: 'user', id: 'ann' },
  action: { name: 'read' },
  resource: { type: 'todo', id: '1' },
};

function offerOf(env: Record<string, string>) {
  return authzenOffer(readSettings(CLIENT_SETTINGS, { env }).values);
}

function appWith(ask: AskPolicy, env: Record<string, string> = {}, authenticator?: Authenticator) {
  const app = createHttpApp(
    { bodyLimitBytes: 1024 * 1024, ...(authenticator !== undefined && { authenticator }) },
    { log: silentLogger() },
  );
  const offer = offerOf({ SYNC_AUTHZEN_DECISION: 'authzen/allow', ...env });
  assert(offer !== undefined);
  authzenRoutes(app, offer, { ask });
  return app;
}

const allow: AskPolicy = async () => 'true';

async function post(app: ReturnType<typeof appWith>, url: string, body: unknown, headers: Record<string, string> = {}) {
  const payload = typeof body === 'string' ? body : JSON.stringify(body);
  const answer = await app.inject({
    method: 'POST',
    url,
    payload,
    headers: { 'content-type': 'application/json', ...headers },
  });
  return { status: answer.statusCode, text: answer.body, headers: answer.headers };
}

describe('AuthZEN settings', () => {
  it('turn it on by the rule that decides, and each search by its own', () => {
    assert.equal(offerOf({}), undefined);
    const offer = offerOf({ SYNC_AUTHZEN_DECISION: 'a/b', SYNC_AUTHZEN_SEARCH_ACTION: 'a/actions' });
    assert.deepEqual([...(offer?.searches.keys() ?? [])], ['action']);
  });

  it('must fit together', () => {
    assert.throws(() => offerOf({ SYNC_AUTHZEN_SEARCH_RESOURCE: 'a/b' }), {
      code: 'config_invalid',
      message: /SYNC_AUTHZEN_SEARCH_RESOURCE is set without SYNC_AUTHZEN_DECISION/,
    });
    for (const url of ['ws://x', 'https://u:p@x', 'https://x/?a=1', 'https://x/#a']) {
      assert.throws(() => offerOf({ SYNC_AUTHZEN_DECISION: 'a/b', SYNC_AUTHZEN_URL: url }), /SYNC_AUTHZEN_URL/, url);
    }
  });
});

describe('AuthZEN routes', () => {
  it('give the policy the request as it was written, by the rule of the mapping', async () => {
    const asked: string[] = [];
    const ask: AskPolicy = async (path, input) => {
      asked.push(`${path} ${input}`);
      return '{"decision":false,"context":{"reason":"n","n":1.0}}';
    };
    const rules = '[{"resource_type":"todo","path":"todo/allow"},{"path":"authzen/allow"}]';
    const app = appWith(ask, { SYNC_AUTHZEN_DECISION: rules });
    const answer = await post(
      app,
      '/access/v1/evaluation',
      '{"resource":{"type":"todo","id":"1"},"unknown":1,"subject":{"type":"user","id":"ann","properties":{"n":1.0}},"action":{"name":"read"}}',
    );
    assert.equal(answer.status, 200);
    assert.equal(answer.text, '{"decision":false,"context":{"reason":"n","n":1.0}}');
    assert.match(String(answer.headers['content-type']), /^application\/json/);
    assert.deepEqual(asked, [
      'todo/allow {"subject":{"type":"user","id":"ann","properties":{"n":1.0}},"action":{"name":"read"},"resource":{"type":"todo","id":"1"}}',
    ]);
  });

  it('refuse what is no JSON object with 400, whatever its type says', async () => {
    const app = appWith(allow);
    for (const url of ['/access/v1/evaluation', '/access/v1/evaluations']) {
      for (const type of [
        'text/plain',
        'application/x-www-form-urlencoded',
        'application',
        'application/jsonx',
        '*/*',
      ]) {
        const answer = await post(app, url, REQUEST, { 'content-type': type });
        assert.equal(answer.status, 400, type);
        assert.match(answer.text, /Content-Type must be application\/json/, type);
      }
      const none = await app.inject({
        method: 'POST',
        url,
        payload: Buffer.from(JSON.stringify(REQUEST)),
        headers: {},
      });
      assert.equal(none.statusCode, 400, none.body);
      for (const type of ['application/json; charset=utf-8', 'Application/JSON', 'application/json;charset="UTF-8"']) {
        assert.equal((await post(app, url, REQUEST, { 'content-type': type })).status, 200, type);
      }
      for (const body of ['', '{', 'nope', '[]', '"x"', '{}']) {
        const answer = await post(app, url, body);
        assert.equal(answer.status, 400, body);
        assert.equal(typeof (JSON.parse(answer.text) as { detail: unknown }).detail, 'string', answer.text);
      }
    }
  });

  it('repeat X-Request-ID in every response, also of an error and without a token', async () => {
    const denying: Authenticator = {
      enabled: true,
      authenticate: async (header) => {
        if (header === undefined) throw new SyncError('unauthorized', 'no token');
        return { ...ANONYMOUS, peerType: 'listener' };
      },
    };
    const app = appWith(allow, {}, denying);
    const id = 'bfe9eb29-ab87 "ü';
    const sent = { 'x-request-id': Buffer.from(id).toString('latin1'), authorization: 'Bearer x' };
    for (const [body, headers, status] of [
      [REQUEST, sent, 200],
      ['{', sent, 400],
      [REQUEST, { ...sent, 'content-type': 'text/plain' }, 400],
      [REQUEST, { 'x-request-id': sent['x-request-id'] }, 401],
    ] as const) {
      const answer = await post(app, '/access/v1/evaluation', body, headers);
      assert.deepEqual([answer.status, answer.headers['x-request-id']], [status, sent['x-request-id']]);
    }
    const without = await post(app, '/access/v1/evaluation', REQUEST, { authorization: 'Bearer x' });
    assert.equal(without.headers['x-request-id'], undefined);
  });

  it('answer with a decision only where the policy gave one', async () => {
    const failing = (error: SyncError) => appWith(async () => Promise.reject(error));
    for (const [error, status] of [
      [new SyncError('engine_unreachable', 'OPA does not respond', { retryAfterSeconds: 1 }), 503],
      [new SyncError('engine_unauthorized', 'OPA does not let us in'), 503],
    ] as const) {
      for (const [url, body] of [
        ['/access/v1/evaluation', REQUEST],
        ['/access/v1/evaluations', { ...REQUEST, evaluations: [{}, {}] }],
      ] as const) {
        const answer = await post(failing(error), url, body);
        assert.equal(answer.status, status, answer.text);
        assert.equal(answer.headers['x-sync-error'], error.code);
        assert.doesNotMatch(answer.text, /decision"/);
        assert.match(answer.text, /OPA does not/);
      }
    }
    const number = await post(
      appWith(async () => '7'),
      '/access/v1/evaluation',
      REQUEST,
    );
    assert.equal(number.status, 500);
    assert.match(number.text, /the rule authzen\/allow must have true, false, or .* as value, and has 7/);
  });

  it('evaluate several, with errors of one beside it', async () => {
    const app = appWith(async (_path, input) => (input.includes('"2"') ? '"?"' : 'true'));
    const body = {
      ...REQUEST,
      evaluations: [{}, { resource: { type: 'todo', id: '2' } }, { resource: { type: 'todo' } }, {}],
    };
    const answer = await post(app, '/access/v1/evaluations', body);
    assert.equal(answer.status, 200);
    assert.deepEqual(JSON.parse(answer.text), {
      evaluations: [
        { decision: true },
        {
          decision: false,
          context: {
            error: {
              status: 500,
              message:
                'the rule authzen/allow must have true, false, or {"decision": true or false, "context": {...}} as value, and has "?"',
            },
          },
        },
        { decision: false, context: { error: { status: 400, message: 'resource.id: is missing' } } },
        { decision: true },
      ],
    });
    assert.equal((await post(app, '/access/v1/evaluations', REQUEST)).text, '{"decision":true}');
    const tooMany = { ...REQUEST, evaluations: Array.from({ length: 1001 }, () => ({})) };
    assert.match((await post(app, '/access/v1/evaluations', tooMany)).text, /at most 1000 are allowed/);
  });

  it('search where a rule is set, and answer 404 elsewhere', async () => {
    const app = appWith(async () => '["read","write"]', { SYNC_AUTHZEN_SEARCH_ACTION: 'authzen/actions' });
    const body = { subject: REQUEST.subject, resource: REQUEST.resource };
    const all = await post(app, '/access/v1/search/action', body);
    assert.equal(all.text, '{"results":[{"name":"read"},{"name":"write"}]}');
    const first = await post(app, '/access/v1/search/action', { ...body, page: { limit: 1 } });
    const { page } = JSON.parse(first.text) as { page: { next_token: string } };
    const second = await post(app, '/access/v1/search/action', { ...body, page: { limit: 1, token: page.next_token } });
    assert.equal(second.text, '{"page":{"next_token":"","count":1,"total":2},"results":[{"name":"write"}]}');
    assert.equal((await post(app, '/access/v1/search/subject', REQUEST)).status, 404);
  });

  it('tell in the configuration what is offered, at the public address or the one that was asked', async () => {
    const read = async (env: Record<string, string>, headers: Record<string, string> = {}) => {
      const answer = await appWith(allow, env).inject({ url: '/.well-known/authzen-configuration', headers });
      return { status: answer.statusCode, caching: answer.headers['cache-control'], json: answer.json() as unknown };
    };
    assert.deepEqual(await read({ SYNC_AUTHZEN_URL: 'https://pdp.example.com/' }), {
      status: 200,
      caching: 'max-age=300',
      json: {
        policy_decision_point: 'https://pdp.example.com',
        access_evaluation_endpoint: 'https://pdp.example.com/access/v1/evaluation',
        access_evaluations_endpoint: 'https://pdp.example.com/access/v1/evaluations',
      },
    });
    const asked = await read({ SYNC_AUTHZEN_SEARCH_SUBJECT: 'a/b' }, { host: 'pdp.internal:7000' });
    assert.deepEqual(asked, {
      status: 200,
      caching: 'no-store',
      json: {
        policy_decision_point: 'http://pdp.internal:7000',
        access_evaluation_endpoint: 'http://pdp.internal:7000/access/v1/evaluation',
        access_evaluations_endpoint: 'http://pdp.internal:7000/access/v1/evaluations',
        search_subject_endpoint: 'http://pdp.internal:7000/access/v1/search/subject',
      },
    });
    assert.equal((await read({}, { host: 'a"b/c' })).status, 400);
  });
});
