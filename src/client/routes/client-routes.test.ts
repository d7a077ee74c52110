import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ANONYMOUS, type Authenticator, type PeerType } from '../../auth/caller.js';
import { createHttpApp } from '../../http/app.js';
import { SyncError } from '../../lib/errors.js';
import { Secret, silentLogger } from '../../lib/observe/log.js';
import { storeConfigRoute } from '../http.js';
import type { EngineAuthSettings } from '../options.js';
import { type TriggerDeps, triggerRoutes } from './triggers.js';

/** Takes `Bearer <peer type>` as proof. */
const byName: Authenticator = {
  enabled: true,
  authenticate: async (authorization) => {
    if (authorization === undefined) throw new SyncError('unauthorized', 'no token');
    const peerType = authorization.replace('Bearer ', '') as PeerType;
    return { ...ANONYMOUS, subject: 'someone', peerType };
  },
};

type App = ReturnType<typeof createHttpApp>;

function appWith(add: (app: App) => void, authenticator?: Authenticator): App {
  const options = { bodyLimitBytes: 1024, ...(authenticator === undefined ? {} : { authenticator }) };
  const app = createHttpApp(options, { log: silentLogger() });
  add(app);
  return app;
}

const ENABLED = { policyUpdaterEnabled: true, dataUpdaterEnabled: true };
const PARTS: TriggerDeps = {
  policy: { refetch: () => undefined },
  data: { refresh: async () => undefined },
  follower: { following: true },
};

function triggers(parts: Partial<TriggerDeps>, enabled = ENABLED): App {
  return appWith((app) => triggerRoutes(app, enabled, { ...PARTS, ...parts }));
}

async function post(app: App, url: string): Promise<[number, unknown]> {
  const answer = await app.inject({ method: 'POST', url });
  return [answer.statusCode, answer.json()];
}

test('a policy trigger answers at once; a data trigger when the configuration was read', async () => {
  let [policies, data] = [0, 0];
  const app = triggers({
    policy: { refetch: () => void policies++ },
    data: { refresh: async () => void data++ },
  });
  assert.deepEqual(await post(app, '/policy-updater/trigger'), [200, { status: 'ok' }]);
  assert.deepEqual(await post(app, '/data-updater/trigger'), [200, { status: 'ok' }]);
  assert.deepEqual([policies, data], [1, 1]);
});

test('a trigger of an updater that is disabled or disconnected is 503, never 500', async () => {
  const disabled = triggers({}, { policyUpdaterEnabled: false, dataUpdaterEnabled: false });
  assert.deepEqual(await post(disabled, '/policy-updater/trigger'), [
    503,
    { detail: 'Policy Updater is currently disabled. Policy updates are not available.' },
  ]);
  assert.deepEqual(await post(disabled, '/data-updater/trigger'), [
    503,
    { detail: 'Data Updater is currently disabled. Dynamic data updates are not available.' },
  ]);
  const away = triggers({ follower: { following: false } });
  for (const path of ['/policy-updater/trigger', '/data-updater/trigger']) {
    assert.deepEqual(await post(away, path), [503, { detail: 'The client is disconnected from the sync server.' }]);
  }
});

test('a data trigger answers 503 or 502 when the server does not answer or refuses', async () => {
  const failing = (error: Error): App => triggers({ data: { refresh: () => Promise.reject(error) } });
  const unreachable = new SyncError('server_unreachable', 'it does not answer', { retryable: true });
  assert.deepEqual(await post(failing(unreachable), '/data-updater/trigger'), [503, { detail: 'it does not answer' }]);
  const refused = new SyncError('server_refused', 'it answered 500', { retryable: true });
  assert.deepEqual(await post(failing(refused), '/data-updater/trigger'), [502, { detail: 'it answered 500' }]);
});

const STORE: EngineAuthSettings = {
  engineUrl: 'http://me:secret-url@opa:8181',
  engineAuthType: 'oauth',
  engineAuthToken: new Secret('secret-token'),
  engineOauthServer: 'https://oauth/token',
  engineOauthClientId: 'me',
  engineOauthClientSecret: new Secret('secret-oauth'),
};
const OPEN_STORE: EngineAuthSettings = {
  engineUrl: 'http://opa:8181',
  engineAuthType: 'none',
  engineAuthToken: undefined,
  engineOauthServer: undefined,
  engineOauthClientId: undefined,
  engineOauthClientSecret: undefined,
};

async function storeConfig(settings: EngineAuthSettings, showsSecrets: boolean): Promise<unknown> {
  const app = appWith((each) => storeConfigRoute(each, settings, showsSecrets));
  const answer = await app.inject({ method: 'GET', url: '/policy-store/config' });
  assert.equal(answer.statusCode, 200);
  return answer.json();
}

test('the store configuration has its members by OPAL names, and none without a value', async () => {
  assert.deepEqual(await storeConfig(OPEN_STORE, true), {
    type: 'OPA',
    url: 'http://opa:8181',
    auth_type: 'none',
  });
  assert.deepEqual(await storeConfig(STORE, true), {
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
  const shown = await storeConfig(STORE, false);
  assert.doesNotMatch(JSON.stringify(shown), /secret-/);
  assert.deepEqual(Object.keys(shown as object), ['type', 'url', 'auth_type', 'oauth_client_id', 'oauth_server']);
});

test('triggers and store configuration are for listeners', async () => {
  const app = appWith((each) => {
    triggerRoutes(each, ENABLED, PARTS);
    storeConfigRoute(each, STORE, true);
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
