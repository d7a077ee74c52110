import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { bearer, keyPair, tokenOf, withKeys } from '../support/auth.js';
import { cutCable } from '../support/cut-cable.js';
import { startDataSource } from '../support/data-source.js';
import { startFakeOpal } from '../support/fake-opal.js';
import { type Answer, field, request } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { startOpa } from '../support/opa.js';
import { baseEntries, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const DATA_ONLY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

function trigger(url: string, which: 'policy' | 'data', token?: string): Promise<Answer> {
  const headers = token === undefined ? {} : bearer(token);
  return request(`${url}/${which}-updater/trigger`, { method: 'POST', headers });
}

test('a policy trigger fetches the complete policy, and tries a commit again that the engine had refused', async () => {
  await using opal = await startFakeOpal();
  // One and the same commit that the engine refuses at first, as where a server was set up wrong and then repaired.
  let rego = 'package app\n\nimport rego.v1\n\nx := nowhere_defined\n';
  opal.policy = () => ({
    manifest: ['a.rego'],
    hash: 'c1',
    old_hash: null,
    data_modules: [],
    policy_modules: [{ path: 'a.rego', package_name: 'app', rego }],
    deleted_files: null,
  });
  await using client = await startClient({ serverUrl: opal.url });
  await client.tells('it is refused', (health) => /nowhere_defined/.test(JSON.stringify(field(health, 'policy'))));
  rego = 'package app\n\nimport rego.v1\n\nx := 1\n';
  const first = await trigger(client.url, 'policy');
  assert.deepEqual([first.status, first.json], [200, { status: 'ok' }]);
  await client.answers('/app/x', {}, 1);
  await client.healthy();

  const complete = (): number => opal.requests.filter((each) => /^\/policy\?path=[^&]*$/.test(each)).length;
  const before = complete();
  assert.equal((await trigger(client.url, 'policy')).status, 200);
  await until(() => complete() === before + 1, { withinMs: 20_000, what: 'the complete policy is asked for' });
  await client.healthy();
});

test('a data trigger reads the configuration and its sources again before anything tells of a change', async () => {
  await using source = await startDataSource();
  source.serve('/users', { ann: 1 });
  await using server = await startServer(baseEntries({ url: `${source.url}/users`, dst_path: '/users' }));
  await using client = await startClient({ serverUrl: server.url, env: DATA_ONLY });
  await client.holds('/users', { ann: 1 });
  source.serve('/users', { ann: 2 });
  const answer = await trigger(client.url, 'data');
  assert.deepEqual([answer.status, answer.json], [200, { status: 'ok' }]);
  await client.holds('/users', { ann: 2 });
});

test('a data trigger while the server is away, or refuses, is 503 or 502 with the reason', async () => {
  await using opal = await startFakeOpal();
  await using cable = await cutCable(opal.url);
  await using client = await startClient({ serverUrl: cable.url, env: DATA_ONLY });
  await client.healthy();
  cable.cut();
  const away = await trigger(client.url, 'data');
  assert.equal(away.status, 503);
  assert.match(String(field(away.json, 'detail')), /does not answer/);
  cable.mend();
  await until(async () => (await trigger(client.url, 'data')).status === 200, { withinMs: 20_000, what: 'it is back' });
  await client.healthy();
});

test('a trigger of a disabled updater is 503 and says so', async () => {
  await using server = await startServer();
  const env = { ...DATA_ONLY, SYNC_DATA_UPDATER_ENABLED: 'false' };
  await using client = await startClient({ serverUrl: server.url, env });
  await client.healthy();
  for (const [which, text] of [
    ['policy', 'Policy Updater is currently disabled. Policy updates are not available.'],
    ['data', 'Data Updater is currently disabled. Dynamic data updates are not available.'],
  ] as const) {
    const answer = await trigger(client.url, which);
    assert.deepEqual([answer.status, answer.json], [503, { detail: text }]);
  }
});

test('with authentication on, triggers and store configuration take listeners only; health takes everyone', async () => {
  const keys = keyPair();
  await using server = await startServer(withKeys(keys));
  const listener = await tokenOf(server.url, { type: 'listener' });
  const other = await tokenOf(server.url, { type: 'client' });
  const env = { ...DATA_ONLY, SYNC_AUTH_PUBLIC_KEY: keys.publicKey, SYNC_CLIENT_TOKEN: other };
  await using client = await startClient({ serverUrl: server.url, env });
  await client.healthy();
  for (const path of ['/', '/healthy', '/healthcheck', '/ready']) {
    assert.equal((await request(`${client.url}${path}`)).status, 200, path);
  }
  const store = (token?: string): Promise<Answer> =>
    request(`${client.url}/policy-store/config`, { headers: token === undefined ? {} : bearer(token) });
  assert.deepEqual(
    [(await trigger(client.url, 'data')).status, (await trigger(client.url, 'data', other)).status],
    [401, 401],
  );
  assert.deepEqual([(await store()).status, (await store(other)).status], [401, 401]);
  assert.equal((await trigger(client.url, 'data', listener)).status, 200);
  const shown = await store(listener);
  assert.deepEqual(shown.json, { type: 'OPA', url: client.engineUrl, auth_type: 'none' });
});

test('the store configuration has secrets by setting alone, only for a listener while authentication is on', async () => {
  const keys = keyPair();
  await using server = await startServer(withKeys(keys));
  const listener = await tokenOf(server.url, { type: 'listener' });
  await using opa = await startOpa();
  const auth = { SYNC_POLICY_STORE_AUTH_TYPE: 'token', SYNC_POLICY_STORE_AUTH_TOKEN: 'engine-secret' };
  const on = { SYNC_AUTH_PUBLIC_KEY: keys.publicKey };
  const rows: [env: Record<string, string>, token: string | undefined][] = [
    [{ ...on, SYNC_EXCLUDE_POLICY_STORE_SECRETS: 'false' }, 'engine-secret'],
    [on, undefined],
    [{ SYNC_EXCLUDE_POLICY_STORE_SECRETS: 'false' }, undefined],
  ];
  for (const [env, token] of rows) {
    await using client = await startClient({
      serverUrl: server.url,
      engineUrl: opa.url,
      env: { ...DATA_ONLY, ...auth, ...env },
    });
    const shown = await request(`${client.url}/policy-store/config`, { headers: bearer(listener) });
    assert.deepEqual(shown.json, {
      type: 'OPA',
      url: opa.url,
      ...(token === undefined ? {} : { token }),
      auth_type: 'token',
    });
  }
});

test('SYNC_WAIT_ON_SERVER_LOAD: the server is asked until it answers 200, and nothing else before that', async () => {
  const asked: string[] = [];
  let allowed = false;
  const server = createServer((incoming, response) => {
    asked.push(incoming.url ?? '');
    if (allowed) response.writeHead(200, { 'content-type': 'application/json' }).end('null');
    else response.writeHead(429, { 'content-type': 'application/json' }).end('{"detail":"2 per 1 minute"}');
  });
  server.on('upgrade', (incoming, socket) => {
    asked.push(incoming.url ?? '');
    socket.destroy();
  });
  await using loaded = await listening(server);
  await using client = await startClient({
    serverUrl: loaded.url,
    env: { SYNC_WAIT_ON_SERVER_LOAD: 'true' },
  });
  const waiting = await client.tells('it waits', (health) => /429/.test(String(field(health, 'server', 'error'))));
  assert.equal(waiting.status, 503);
  await until(() => asked.length >= 2, { withinMs: 15_000, what: 'it is asked again' });
  assert.deepEqual([...new Set(asked)], ['/loadlimit']);
  allowed = true;
  await until(() => asked.includes('/ws'), { withinMs: 15_000, what: 'it follows' });
  assert.equal(
    asked.find((path) => path !== '/loadlimit'),
    '/ws',
  );
});

test('a client that waits for the load of a server stops at once', async () => {
  const server = createServer((_incoming, response) => void response.writeHead(429, { 'retry-after': '300' }).end());
  await using loaded = await listening(server);
  await using client = await startClient({
    serverUrl: loaded.url,
    env: { SYNC_WAIT_ON_SERVER_LOAD: 'true' },
  });
  await client.tells('it waits', (health) => /429/.test(String(field(health, 'server', 'error'))));
  const startedMs = performance.now();
  await client.stop();
  assert(performance.now() - startedMs < 3000, `took ${performance.now() - startedMs} ms`);
});

test('a server that limits starting clients lets each in, in its time', async () => {
  await using server = await startServer({ SYNC_CLIENT_LOAD_LIMIT_NOTATION: '1 per second' });
  const env = { ...DATA_ONLY, SYNC_WAIT_ON_SERVER_LOAD: 'true' };
  await using first = await startClient({ serverUrl: server.url, env });
  await using second = await startClient({ serverUrl: server.url, env });
  await first.healthy();
  await second.healthy();
});
