import assert from 'node:assert/strict';
import { test } from 'node:test';
import { byWebhook } from '../support/announced.js';
import { startFakeSessionServer } from '../support/fake-session-server.js';
import { gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { startOpa } from '../support/opa.js';
import { type StartedClient, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';

const DRIFT = { SYNC_DRIFT_CHECK_INTERVAL: '0.1' };
const ENV = { SYNC_POLICY_UPDATER_ENABLED: 'false', ...DRIFT };

function drift(health: unknown, name: string): unknown {
  return field(health, 'data', 'drift', name);
}

/** Waits until a whole comparison has begun after now and ended. */
async function compared(client: StartedClient): Promise<unknown> {
  for (let round = 0; round < 2; round++) {
    const before = drift((await client.health()).json, 'checked_at');
    await client.tells('documents were compared', (health) => drift(health, 'checked_at') !== before);
  }
  return (await client.health()).json;
}

test('a document that somebody else changes, adds to or removes in the engine is written again and counted', async () => {
  await using server = await startFakeSessionServer();
  await using opa = await startOpa();
  await using client = await startClient({ serverUrl: server.url, engineUrl: opa.url, env: ENV });
  server.publish([
    { dst_path: '/a', data: { n: 12, x: [1.5] } },
    { dst_path: '/b/c', data: 1 },
  ]);
  await client.holds('/b/c', 1);
  assert.equal(drift(await compared(client), 'documents'), 2);

  const write = async (method: string, path: string, body?: string): Promise<void> => {
    const answer = await fetch(`${opa.url}/v1/data${path}`, { method, ...(body === undefined ? {} : { body }) });
    assert.equal(answer.status, 204);
  };
  await write('PUT', '/a/n', '13');
  await client.holds('/a', { n: 12, x: [1.5] });
  await write('PUT', '/a/stranger', 'true');
  await client.holds('/a', { n: 12, x: [1.5] });
  await write('DELETE', '/b/c');
  await client.holds('/b/c', 1);
  // Nobody told us of this path: it is not ours.
  await write('PUT', '/foreign', '1');
  const health = await compared(client);
  assert.equal(drift(health, 'repaired'), 3);
  assert.equal(await client.data('/foreign'), 1);
});

test('what the client itself writes is no drift, however often it changes, in an inline and an embedded engine', async () => {
  await using server = await startFakeSessionServer();
  await using inline = await startClient({ serverUrl: server.url, env: ENV });
  await using embedded = await startClient({ serverUrl: server.url, engine: 'embedded', env: ENV });
  const both = [inline, embedded];
  for (const client of both) await client.healthy();
  for (let n = 1; n <= 60; n++) {
    server.publish([{ dst_path: '/a', data: { n } }]);
    server.publish([{ dst_path: `/a/below${n % 3}`, data: 12345678901 + n }]);
    if (n % 10 === 0) server.publish([{ dst_path: '/a', save_method: 'DELETE' }]);
    for (const client of both) await client.data('/a');
  }
  server.publish([{ dst_path: '/a', data: { last: 1.0 } }]);
  for (const client of both) {
    await client.holds('/a', { last: 1 });
    const health = await compared(client);
    assert.deepEqual([drift(health, 'repaired'), drift(health, 'documents')], [0, 1]);
    assert.equal(drift(health, 'error'), null);
  }
});

test('members of a root data.json are compared, in an inline and an external engine', async () => {
  await using repo = await gitRepo();
  await repo.commit({
    'data.json': '{"limits":{"max":3},"app":{"names":["a"],"rbac":{"roles":1}}}',
    'app/rbac.rego': 'package app.rbac\n\nallow := true\n',
  });
  await using server = await startServer(byWebhook(repo));
  await using opa = await startOpa();
  const env = { ...DRIFT, SYNC_INLINE_ENGINE_OPEN: 'true' };
  await using inline = await startClient({ serverUrl: server.url, env });
  await using external = await startClient({ serverUrl: server.url, engineUrl: opa.url, env });
  for (const client of [inline, external]) {
    await client.healthy();
    await client.holds('/limits', { max: 3 });
    assert.equal(drift(await compared(client), 'documents'), 2);
    for (const [path, body, held] of [
      ['/limits/max', '1000', { max: 3 }],
      ['/app/names', '["a","b"]', ['a']],
    ] as const) {
      const answer = await fetch(`${client.engineUrl}/v1/data${path}`, { method: 'PUT', body });
      assert.equal(answer.status, 204, path);
      await client.holds(path.startsWith('/limits') ? '/limits' : path, held);
    }
    assert.equal(drift(await compared(client), 'repaired'), 2);
    await client.answers('/app/rbac/allow', {}, true);
  }
});
