import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { ANONYMOUS, type Authenticator, type PeerType } from '../../auth/caller.js';
import { createHttpApp } from '../../http/app.js';
import { SyncError } from '../../lib/errors.js';
import { Secret, silentLogger } from '../../lib/observe/log.js';
import { WEBHOOK_PRESETS } from '../policy/webhook/params.js';
import { createRefusalLog, type WebhookRouteOptions, webhookRoutes } from './webhook.js';

/** Believes whoever names a peer type in place of a token. */
const authenticator: Authenticator = {
  enabled: true,
  authenticate: async (authorization) => {
    if (authorization === undefined) throw new SyncError('unauthorized', 'no token');
    const peerType = authorization.replace('Bearer ', '') as PeerType;
    return { ...ANONYMOUS, subject: 's', peerType };
  },
};

const REFUSED = { commit: 'c', error: 'a.rego:3: it does not compile', problems: [] };

async function start(
  options: Partial<WebhookRouteOptions>,
  refused?: typeof REFUSED,
): Promise<{ app: FastifyInstance; looks: () => number }> {
  const app = createHttpApp({ bodyLimitBytes: 100_000, authenticator }, { log: silentLogger() });
  let looks = 0;
  await webhookRoutes(
    app,
    {
      sourceType: 'GIT',
      sourceUrl: 'https://bot:pass@git.example.com/org/repo?key=pass',
      branch: 'master',
      secret: new Secret('secret'),
      params: undefined,
      enforceBranch: false,
      ...options,
    },
    {
      requestRefresh: () => void looks++,
      refreshWithin: async () => undefined,
      defaultBranch: () => undefined,
      head: () => undefined,
      refused: () => refused,
      log: silentLogger(),
    },
  );
  return { app, looks: () => looks };
}

test('an API source takes a datasource token in place of a secret, and any body or none', async () => {
  const { app, looks } = await start({ sourceType: 'API' });
  const send = async (headers: Record<string, string>, payload?: string) => {
    const answer = await app.inject({ method: 'POST', url: '/webhook', headers, ...(payload && { payload }) });
    return [answer.statusCode, answer.json<unknown>()];
  };
  const taken = { status: 'ok', event: 'webhook_trigger', repo_url: 'https://***@git.example.com/org/repo?***' };
  const datasource = { authorization: 'Bearer datasource' };
  assert.deepEqual(await send(datasource), [200, taken]);
  assert.deepEqual(await send({ ...datasource, 'content-type': 'text/plain' }, '{"not":'), [200, taken]);
  assert.equal(looks(), 2);
  assert.equal((await send({}))[0], 401);
  assert.equal((await send({ authorization: 'Bearer client' }))[0], 401);
  assert.equal((await send({ authorization: 'Bearer listener', 'x-hub-signature-256': 'secret' }))[0], 401);
  assert.equal(looks(), 2);
});

test('an API source without an address ignores webhooks', async () => {
  const { app, looks } = await start({ sourceType: 'API', sourceUrl: undefined });
  const headers = { authorization: 'Bearer datasource' };
  const answer = await app.inject({ method: 'POST', url: '/webhook', headers });
  assert.deepEqual([answer.statusCode, answer.json()], [200, { status: 'ignored', event: 'webhook_trigger' }]);
  assert.equal(looks(), 0);
});

test('a git source asks for no token, and a token does not stand in for the secret', async () => {
  const { app, looks } = await start({});
  for (const headers of [{}, { authorization: 'Bearer datasource' }]) {
    const answer = await app.inject({ method: 'POST', url: '/webhook', headers, payload: {} });
    assert.deepEqual([answer.statusCode, answer.json()], [401, { detail: 'No secret was provided!' }]);
    assert.equal(answer.headers['x-sync-error'], 'webhook_refused');
  }
  assert.equal(looks(), 0);
});

test('where the source is, and why its commit is refused, is for who has the secret or a token: without keys for everybody', async () => {
  const payload = { repository: { full_name: 'org/repo' } };
  const ask = async (secret: Secret | undefined, headers: Record<string, string>): Promise<unknown> => {
    const params = { ...WEBHOOK_PRESETS.gitlab, push_event_value: 'push' };
    const { app } = await start({ secret, params }, REFUSED);
    const all = { 'x-gitlab-event': 'ping', ...headers };
    return (await app.inject({ method: 'POST', url: '/webhook', headers: all, payload })).json<unknown>();
  };
  const told = { status: 'ok', event: 'ping', repo_url: 'https://***@git.example.com/org/repo?***', refused: REFUSED };
  assert.deepEqual(await ask(undefined, {}), { status: 'ok', event: 'ping' });
  assert.deepEqual(await ask(undefined, { authorization: 'Bearer client' }), { status: 'ok', event: 'ping' });
  assert.deepEqual(await ask(undefined, { authorization: 'Bearer listener' }), told);
  assert.deepEqual(await ask(new Secret('secret'), { 'x-gitlab-token': 'secret' }), told);
});

test('what is refused is logged with code and remedy, and never more than once a second', () => {
  const lines: { error?: string; code?: string; left_out?: number; remedy?: string }[] = [];
  let nowMs = 5_000;
  const warn = (fields: object | string): void => {
    if (typeof fields === 'object') lines.push(fields);
  };
  const refused = createRefusalLog({ warn }, () => nowMs);
  const error = new SyncError('webhook_refused', 'No secret was provided!');
  for (let call = 0; call < 1_000; call++) refused(error);
  nowMs += 1_000;
  refused(error);
  assert.deepEqual(
    lines.map(({ error: text, code, left_out }) => [text, code, left_out]),
    [
      ['No secret was provided!', 'webhook_refused', undefined],
      ['No secret was provided!', 'webhook_refused', 999],
    ],
  );
  assert.match(lines[0]?.remedy ?? '', /SYNC_POLICY_REPO_WEBHOOK_SECRET/);
});
