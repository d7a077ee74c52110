import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFakeSessionServer } from '../support/fake-session-server.js';
import { request } from '../support/http.js';
import { killProcess } from '../support/kill.js';
import { startOpa } from '../support/opa.js';
import { startClient } from '../support/start-client.js';
import { until } from '../support/until.js';

const DATA_ONLY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

test('a deletion that was published while a client was not running reaches an engine that went on', async () => {
  await using server = await startFakeSessionServer();
  await using opa = await startOpa();
  server.publish([{ dst_path: '/gone', data: 1 }]);
  server.publish([{ dst_path: '/tree', data: { kept: 1, gone: 1 } }]);
  {
    await using client = await startClient({ serverUrl: server.url, engineUrl: opa.url, env: DATA_ONLY });
    await client.holds('/tree', { kept: 1, gone: 1 });
    await client.healthy();
  }
  server.publish([{ dst_path: '/gone', save_method: 'DELETE' }]);
  server.publish([{ dst_path: '/tree', save_method: 'DELETE' }]);
  server.publish([{ dst_path: '/tree/kept', data: 2 }]);
  await using client = await startClient({ serverUrl: server.url, engineUrl: opa.url, env: DATA_ONLY });
  await client.holds('/tree/kept', 2);
  await client.healthy();
  assert.equal(await client.data('/gone'), undefined);
  assert.deepEqual(await client.data('/tree'), { kept: 2 });
});

const NO_ANSWER = Symbol('the engine does not answer');

test('a client does not say that an update is applied while its engine starts again', async () => {
  await using server = await startFakeSessionServer();
  await using client = await startClient({ serverUrl: server.url, env: DATA_ONLY });
  const seq = server.publish(Array.from({ length: 300 }, (_, n) => ({ dst_path: `/d/n${n}`, data: { n } })));
  await client.holds('/d/n299', { n: 299 });
  const ask = async (timeout: string) =>
    (await request(`${client.url}/position?at-least=${seq}&timeout=${timeout}`)).status;
  assert.equal(await ask('2s'), 200);
  const before = client.enginePid();
  killProcess(before);
  await until(
    async () =>
      !(await request(`${client.engineUrl}/v1/data/d`).then(
        () => true,
        () => false,
      )),
    {
      withinMs: 20_000,
      what: 'the engine is gone',
    },
  );
  const early: string[] = [];
  for (let status = await ask('0s'); ; status = await ask('0s')) {
    // The client hears of the end of its engine a moment after others do: what counts is an engine that answers.
    const held = await client.data('/d/n299').catch(() => NO_ANSWER);
    if (held === NO_ANSWER) continue;
    if (status === 200 && JSON.stringify(held) !== '{"n":299}') early.push(JSON.stringify(held ?? null));
    if (status === 200 && JSON.stringify(held) === '{"n":299}') break;
  }
  assert.deepEqual([...new Set(early)], []);
});
