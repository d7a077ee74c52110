import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFakeSessionServer } from '../support/fake-session-server.js';
import { field, request } from '../support/http.js';
import { startOpa } from '../support/opa.js';
import { startClient } from '../support/start-client.js';

/** What `GET /position?at-least=` says while the engine is away, or empty: it speaks of the engine, not of the client. */

test('at-least does not say applied while the engine is away, and not before it has everything again', async () => {
  await using server = await startFakeSessionServer();
  const first = await startOpa();
  await using client = await startClient({
    serverUrl: server.url,
    engineUrl: first.url,
    env: { SYNC_POLICY_UPDATER_ENABLED: 'false' },
  });
  const seq = server.publish([{ dst_path: '/a', data: { a: 1 } }]);
  await client.healthy();
  const asked = (timeout: string): ReturnType<typeof request> =>
    request(`${client.url}/position?at-least=${seq}&timeout=${timeout}`);
  assert.equal((await asked('2s')).status, 200);

  await first.kill();
  await client.tells('the engine is away', (health) => field(health, 'engine', 'online') === false);
  const away = await asked('50ms');
  assert.deepEqual([away.status, field(away.json, 'status')], [202, 'pending']);

  const waiting = asked('20s');
  await using second = await startOpa({ port: first.port });
  assert.equal((await waiting).status, 200);
  const held = await request(`${second.url}/v1/data/a`);
  assert.deepEqual(field(held.json, 'result'), { a: 1 });
});
