import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as z from 'zod';
import { ANONYMOUS, type Audience, type Authenticator, type PeerType } from '../auth/caller.js';
import { SyncError } from '../lib/errors.js';
import { silentLogger } from '../lib/observe/log.js';
import { createHttpApp } from './app.js';
import { createHostCheck } from './request-guards.js';
import { addRoute } from './route.js';

const refused = (error: unknown): boolean =>
  error instanceof SyncError && error.code === 'host_refused' && error.status === 421;

test('on loopback only loopback names and configured ones are taken', () => {
  for (const host of ['127.0.0.1', 'localhost', '::1', '127.0.0.53']) {
    const check = createHostCheck({ host, names: ['policies.example', '.team.example', '10.0.0.5'] });
    for (const name of [
      ...[
        'localhost',
        'LOCALHOST:7002',
        'localhost.',
        'a.localhost:1',
        '127.0.0.1',
        '127.1.2.3:80',
        '[::1]',
        '[::1]:7002',
      ],
      ...['[::ffff:127.0.0.1]:7002', 'policies.example', 'Policies.Example:443', 'a.team.example', '10.0.0.5:7002'],
    ]) {
      check({ headers: { host: name }, url: '/' });
    }
    for (const name of [
      ...[
        'evil.example',
        'evil.example:7002',
        'localhost.evil.example',
        '127.0.0.1.evil.example',
        'xlocalhost',
        'team.example',
      ],
      ...['10.0.0.6', '0.0.0.0', '[::]', '[fe80::1]', '', '127.0.0.1:7002@evil.example', 'evil.example:7002:127.0.0.1'],
    ]) {
      assert.throws(() => check({ headers: { host: name }, url: '/' }), refused, `${host} ${name}`);
    }
    check({ headers: {}, url: '/' });
    check({ headers: { host: 'localhost' }, url: 'http://user:x@localhost/data' });
    assert.throws(() => check({ headers: { host: 'localhost' }, url: 'http://evil.example/data' }), refused);
  }
});

test('elsewhere every name is taken, unless some are configured', () => {
  const open = createHostCheck({ host: '0.0.0.0', names: [] });
  open({ headers: { host: 'sync-server:7002' }, url: '/' });
  const named = createHostCheck({ host: '0.0.0.0', names: ['sync-server'] });
  named({ headers: { host: 'sync-server:7002' }, url: '/' });
  named({ headers: { host: 'localhost:7002' }, url: '/' });
  assert.throws(() => named({ headers: { host: 'evil.example' }, url: '/' }), refused);
});

test('a name counts as the address that it leads to', () => {
  for (const host of ['sync-server', '127.1', '2130706433']) {
    const check = createHostCheck({ host, names: [] });
    const ask = (name: string, localAddress: string) =>
      check({ headers: { host: name }, url: '/', socket: { localAddress } });
    ask('evil.example', '10.0.0.5');
    for (const address of ['127.0.0.1', '::1', '::ffff:127.0.0.1']) {
      ask('localhost:7002', address);
      assert.throws(() => ask('evil.example', address), refused, `${host} ${address}`);
    }
  }
});

/** Takes `Bearer <peer type>` as proof; anything else is refused. */
const byName: Authenticator = {
  enabled: true,
  authenticate: async (authorization) => {
    const name = authorization?.replace('Bearer ', '') ?? '';
    if (name === '') throw new SyncError('unauthorized', 'no token');
    const peerType = name === 'other' ? undefined : (name as PeerType);
    return { ...ANONYMOUS, subject: 'someone', peerType };
  },
};

function appWith(access: Audience['access'], authenticator?: Authenticator) {
  const app = createHttpApp(
    { bodyLimitBytes: 1024, ...(authenticator === undefined ? {} : { authenticator }) },
    { log: silentLogger() },
  );
  const audience: Audience = access === 'everyone' ? { access, strangers: 'all' } : { access, limited: 'own' };
  const declaration = { method: 'POST', path: '/x', tag: 'Test', summary: 'x' } as const;
  addRoute(app, { ...declaration, ...audience, body: z.object({ a: z.string() }) }, ({ caller }) => ({
    subject: caller.subject,
  }));
  return app;
}

async function statusOf(
  access: Audience['access'],
  token: string | undefined,
  authenticator?: Authenticator,
): Promise<number> {
  const app = appWith(access, authenticator);
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const answer = await app.inject({ method: 'POST', url: '/x', headers, payload: { a: 'b' } });
  await app.close();
  return answer.statusCode;
}

test('a route lets in exactly those whom it names', async () => {
  const rows: [Audience['access'], string | undefined, number][] = [
    ['everyone', undefined, 200],
    ['token', undefined, 401],
    ['token', 'other', 200],
    ['token', 'client', 200],
    [['datasource'], 'datasource', 200],
    [['datasource'], 'client', 401],
    [['datasource'], 'other', 401],
    [['datasource', 'listener'], 'listener', 200],
    [['datasource', 'listener'], 'client', 401],
  ];
  for (const [access, token, status] of rows) {
    assert.equal(await statusOf(access, token, byName), status, `${String(access)} for ${token}`);
  }
});

test('with authentication off every route is open', async () => {
  for (const access of ['everyone', 'token', ['datasource'], ['listener']] as const) {
    assert.equal(await statusOf(access, undefined), 200);
  }
});

test('a caller is let in before its body is looked at, and then a wrong body is a 422', async () => {
  const app = appWith(['datasource'], byName);
  const refused = await app.inject({ method: 'POST', url: '/x', payload: '{' });
  assert.equal(refused.statusCode, 401);
  assert.equal(refused.headers['www-authenticate'], 'Bearer');
  const headers = { authorization: 'Bearer datasource' };
  const wrong = await app.inject({ method: 'POST', url: '/x', headers, payload: { a: 1 } });
  assert.equal(wrong.statusCode, 422);
  assert.deepEqual(wrong.json().detail[0].loc, ['body', 'a']);
  await app.close();
});

test('a route that does not say who may call it cannot be added', () => {
  const app = createHttpApp({ bodyLimitBytes: 1024 }, { log: silentLogger() });
  assert.throws(() => app.get('/open', async () => 'x'), /does not say who may call it/);
});
