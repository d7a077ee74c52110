import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Redis } from 'ioredis';
import { backboneOffer } from '../support/backbone-servers.js';
import { field, postJson, request } from '../support/http.js';
import { startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const WITHIN = { withinMs: 30_000 };
const offer = await backboneOffer('Redis');

test('a backbone that takes no more: every instance says so, also one at which nobody publishes; clients go on; then all is well by itself', {
  skip: offer.missing ?? false,
}, async () => {
  await using backbone = await offer.start();
  const env = { SYNC_BROADCAST_URI: backbone.uri, SYNC_HEARTBEAT_INTERVAL: '1' };
  await using one = await startServer(env);
  await using idle = await startServer(env);
  await using client = await startClient({ serverUrl: idle.url, env: { SYNC_POLICY_UPDATER_ENABLED: 'false' } });
  const publish = (data: number) =>
    postJson(`${one.url}/data/config`, { entries: [{ url: '', topics: ['policy_data'], dst_path: '/a', data }] });
  const health = async (url: string): Promise<unknown> => (await request(`${url}/healthcheck`)).json;
  assert.equal((await publish(1)).status, 200);
  await client.holds('/a', 1);
  const admin = new Redis(backbone.uri);
  try {
    await admin.config('SET', 'maxmemory', '1');
    assert.equal((await publish(2)).status, 507);
    for (const { url } of [one, idle]) {
      const found = await until(
        async () => {
          const state = await health(url);
          return field(state, 'status') === 'degraded' && state;
        },
        { ...WITHIN, what: `${url === one.url ? 'it' : 'the other one'} is degraded` },
      );
      assert.match(String(field(found, 'update_log', 'refuses', 'reason')), /OOM/);
      assert.deepEqual(field(found, 'update_log', 'backbone'), { up: true });
      assert.equal((await request(`${url}/ready`)).status, 200);
      assert.equal((await request(`${url}/data/config`)).status, 200);
    }
    await client.holds('/a', 1);
    await admin.config('SET', 'maxmemory', '0');
    for (const { url } of [one, idle]) {
      await until(async () => field(await health(url), 'status') === 'ok', { ...WITHIN, what: 'it is well by itself' });
    }
  } finally {
    admin.disconnect();
  }
  assert.equal((await publish(3)).status, 200);
  await client.holds('/a', 3);
});
