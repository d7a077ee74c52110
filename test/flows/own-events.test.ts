import assert from 'node:assert/strict';
import { test } from 'node:test';
import { field } from '../support/http.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';

async function publish(peer: StartedPeer, path: string, more: object = {}): Promise<void> {
  const data = { entries: [{ url: '', topics: ['t'], dst_path: path, data: {} }] };
  assert.equal(await peer.call('publish', { topics: ['t'], data, ...more }), true);
}

const paths = async (peer: StartedPeer, count: number): Promise<unknown[]> =>
  (await peer.notified(count)).map((data) => field(data, 'entries', 0, 'dst_path'));

test('a peer without our header is not notified of what it publishes, unless it says that somebody else notifies', async () => {
  await using server = await startServer();
  await using publisher = await startPeer(server.url);
  await using other = await startPeer(server.url);
  for (const peer of [publisher, other]) assert.equal(await peer.call('subscribe', { topics: ['t'] }), true);
  await publish(publisher, '/own');
  await publish(other, '/of-the-other');
  await publish(publisher, '/for-itself', { notifier_id: 'somebody' });
  assert.deepEqual(await paths(publisher, 2), ['/of-the-other', '/for-itself']);
  assert.deepEqual(await paths(other, 2), ['/own', '/for-itself']);
});

test('a peer with our header is notified of what it publishes: it counts the updates of its topics', async () => {
  await using server = await startServer();
  await using publisher = await startPeer(server.url, { 'x-sync-protocol': '2' });
  assert.equal(await publisher.call('subscribe', { topics: ['t'] }), true);
  await publish(publisher, '/own');
  assert.deepEqual(await paths(publisher, 1), ['/own']);
});
