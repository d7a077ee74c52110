import assert from 'node:assert/strict';
import { test } from 'node:test';
import { enginelessFleet } from '../support/engineless-client.js';
import { silentLogger } from '../support/library.js';
import { publish } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

test('one update on several topics of a client is one write of its engine, at once and after a reconnect', async () => {
  await using first = await startServer();
  await using fleet = await enginelessFleet(first.url, ['a/b,a,c'], { log: silentLogger });
  const [client] = fleet.clients;
  assert(client !== undefined);
  const applied = async (seq: number): Promise<void> => {
    const done = (): boolean => client.data.applyStatus(seq) === 'applied';
    await until(done, { withinMs: 15_000, what: `update ${seq} is applied` });
  };
  await applied(await publish(first.url, { dst_path: '/start', data: 1, topics: ['c'] }));
  const before = client.writes;
  await applied(await publish(first.url, { dst_path: '/one', data: 1, topics: ['a/b', 'c'] }));
  assert.equal(client.writes, before + 1);

  await first.stop();
  await using second = await startServer({ SYNC_SERVER_BIND_PORT: String(first.port) }, { stateDir: first.stateDir });
  await applied(await publish(second.url, { dst_path: '/two', data: 1, topics: ['a/b', 'c'] }));
  assert.equal(client.writes, before + 2);
  assert.equal(client.text('/two'), '1');
});
