import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Authenticator, PeerType } from '../../auth/caller.js';
import { createHttpApp } from '../../http/app.js';
import { SyncError } from '../../lib/errors.js';
import { Secret, silentLogger } from '../../lib/log.js';
import { type StoreConfigOptions, storeConfigRoute } from './store-config.js';
import { type TriggerDeps, triggerRoutes } from './triggers.js';

/** Takes `Bearer <peer type>` as proof. */
const byName: Authenticator = {
  enabled: true,
  authenticate: async (authorization) => {
    if (authorization === undefined) throw new SyncError('unauthorized', 'no token');
    const peerType = authorization.replace('Bearer ', '') as PeerType;
    return {
      subject: 'someone',
      peerType,
      permittedTopics: undefined,
      permittedPaths: undefined,
      claims: {},
      token: undefined,
    };
  },
};

type App = ReturnType<typeof createHttpApp>;

function appWith(add: (app: App) => void, authenticator?: Authenticator): App {
  const options = { bodyLimitBytes: 1024, ...(authenticator === undefined ? {} : { authenticator }) };
  const app = createHttpApp(options, { log: silentLogger() });
  add(app);
  return app;
}

function triggers(deps: Partial<TriggerDeps>): App {
  const all = { refetchPolicy: () => undefined, refreshData: async () => undefined, following: () => true, ...deps };
  return appWith((app) => triggerRoutes(app, all));
}

async function post(app: App, url: string): Promise<[number, unknown]> {
  const answer = await app.inject({ method: 'POST', url });
  return [answer.statusCode, answer.json()];
}

test('a policy trigger answers at once; a data trigger when the configuration was read', async () => {
  let [policies, data] = [0, 0];
  const app = triggers({
    refetchPolicy: () => void policies++,
    refreshData: async () => void data++,
  });
  assert.deepEqual(await post(app, '/policy-updater/trigger'), [200, { status: 'ok' }]);
  assert.deepEqual(await post(app, '/data-updater/trigger'), [200, { status: 'ok' }]);
  assert.deepEqual([policies, data], [1, 1]);
});

test('a trigger of an updater that is disabled or disconnected is 503, never 500', async () => {
  const disabled = triggers({ refetchPolicy: undefined, refreshData: undefined });
  assert.deepEqual(await post(disabled, '/policy-updater/trigger'), [
    503,
    { detail: 'Policy Updater is currently disabled. Policy updates are not available.' },
  ]);
  assert.deepEqual(await post(disabled, '/data-updater/trigger'), [
    503,
    { detail: 'Data Updater is currently disabled. Dynamic data updates are not available.' },
  ]);
  const away = triggers({ following: () => false });
  for (const path of ['/policy-updater/trigger', '/data-updater/trigger']) {
    assert.deepEqual(await post(away, path), [503, { detail: 'The client is disconnected from the sync server.' }]);
  }
});

test('a data trigger answers 503 or 502 when the server does not answer or refuses', async () => {
  const failing = (error: Error): App => triggers({ refreshData: () => Promise.reject(error) });
  const unreachable = new SyncError('server_unreachable', 'it does not answer', { retryable: true });
  assert.deepEqual(await post(failing(unreachable), '/data-updater/trigger'), [503, { detail: 'it does not answer' }]);
  const refused = new SyncError('server_refused', 'it answered 500', { retryable: true });
  assert.deepEqual(await post(failing(refused), '/data-updater/trigger'), [502, { detail: 'it answered 500' }]);
});

const STORE: StoreConfigOptions = {
  url: 'http://me:secret-url@opa:8181',
  auth: {
    type: 'oauth',
    token: new Secret('secret-token'),
    oauthServer: 'https://oauth/token',
    oauthClientId: 'me',
    oauthClientSecret: new Secret('secret-oauth'),
  },
  showsSecrets: true,
};

async function storeConfig(options: StoreConfigOptions): Promise<unknown> {
  const app = appWith((each) => storeConfigRoute(each, options));
  const answer = await app.inject({ method: 'GET', url: '/policy-store/config' });
  assert.equal(answer.statusCode, 200);
  return answer.json();
}

test('the store configuration has its members by OPAL names, and none without a value', async () => {
  assert.deepEqual(await storeConfig({ url: 'http://opa:8181', auth: { type: 'none' }, showsSecrets: true }), {
    type: 'OPA',
    url: 'http://opa:8181',
    auth_type: 'none',
  });
  assert.deepEqual(await storeConfig(STORE), {
    type: 'OPA',
    url: 'http://me:secret-url@opa:8181',
    token: 'secret-token',
    auth_type: 'oauth',
    oauth_client_id: 'me',
    oauth_client_secret: 'secret-oauth',
    oauth_server: 'https://oauth/token',
  });
});

test('a store configuration that keeps secrets back has none anywhere', async () => {
  const shown = await storeConfig({ ...STORE, showsSecrets: false });
  assert.doesNotMatch(JSON.stringify(shown), /secret-/);
  assert.deepEqual(Object.keys(shown as object), ['type', 'url', 'auth_type', 'oauth_client_id', 'oauth_server']);
});

test('triggers and store configuration are for listeners', async () => {
  const app = appWith((each) => {
    triggerRoutes(each, { refetchPolicy: () => undefined, refreshData: async () => undefined, following: () => true });
    storeConfigRoute(each, STORE);
  }, byName);
  const guarded = [
    ['POST', '/policy-updater/trigger'],
    ['POST', '/data-updater/trigger'],
    ['GET', '/policy-store/config'],
  ] as const;
  for (const [method, url] of guarded) {
    for (const [token, status] of [
      [undefined, 401],
      ['client', 401],
      ['datasource', 401],
      ['listener', 200],
    ] as const) {
      const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
      assert.equal((await app.inject({ method, url, headers })).statusCode, status, `${url} ${token}`);
    }
  }
});
