import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { field, postJson, request } from '../support/http.js';
import { notifiedData, startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';

const OURS = { 'x-sync-protocol': '1' };

function update(id: string, topic = 'policy_data') {
  return { id, entries: [{ url: '', topics: [topic], dst_path: `/${id}`, data: { id } }] };
}

test('an update reaches its subscribers, each in the form that it asked for, and the answer counts them', async () => {
  await using server = await startServer();
  await using opal = await startPeer(server.url);
  await using ours = await startPeer(server.url, OURS);
  await using other = await startPeer(server.url);
  assert.equal(await opal.call('subscribe', { topics: ['a'] }), true);
  assert.equal(await ours.call('subscribe', { topics: ['a/b', 'a'] }), true);
  assert.equal(await other.call('subscribe', { topics: ['b'] }), true);
  const entry = { url: '', topics: ['a/b'], dst_path: '/x/y', save_method: 'DELETE' };
  const answer = await postJson(`${server.url}/data/config`, { entries: [entry], id: 'u1' });
  assert.equal(field(answer.json, 'subscribers'), 2);

  const [opalData] = await opal.notified(1);
  assert.deepEqual(opalData, {
    id: 'u1',
    entries: [
      {
        url: '',
        config: null,
        topics: ['a', 'a/b'],
        // Nothing is left there: what is above it goes, too.
        dst_path: '/',
        save_method: 'PATCH',
        data: [{ op: 'remove', path: '/x' }],
      },
    ],
    reason: null,
    callback: { callbacks: [] },
  });
  const [oursData] = await ours.notified(1);
  assert.deepEqual([field(oursData, 'seq'), field(oursData, 'epoch')], [1, field(answer.json, 'epoch')]);
  assert.equal(field(oursData, 'entries', 0, 'save_method'), 'DELETE');
  assert.equal(await other.call('ping', {}), 'pong');
  assert.equal(other.frames.map(notifiedData).filter((data) => data !== undefined).length, 0);
});

test('who hears of an update finds it in the configuration already', async () => {
  await using server = await startServer();
  await using peer = await startPeer(server.url);
  await peer.call('subscribe', { topics: ['policy_data'] });
  const answered = postJson(`${server.url}/data/config`, update('u1'));
  await peer.notified(1);
  const { text } = await request(`${server.url}/data/config`);
  assert.match(text, /"dst_path":"\/u1"/);
  assert.equal((await answered).status, 200);
});

test('updates arrive in the order of their positions, however many are published at once', async () => {
  await using server = await startServer();
  await using peer = await startPeer(server.url, OURS);
  await peer.call('subscribe', { topics: ['policy_data'] });
  await Promise.all(Array.from({ length: 40 }, (_, n) => postJson(`${server.url}/data/config`, update(`u${n}`))));
  const seqs = (await peer.notified(40)).map((data) => field(data, 'seq'));
  assert.deepEqual(
    seqs,
    Array.from({ length: 40 }, (_, n) => n + 1),
  );
});

test('what a socket publishes on a data topic is a data update: recorded, delivered, and refused where it is none', async () => {
  await using server = await startServer();
  await using publisher = await startPeer(server.url);
  await using subscriber = await startPeer(server.url);
  await subscriber.call('subscribe', { topics: ['policy_data'] });
  assert.equal(await publisher.call('publish', { topics: ['policy_data'], data: update('u1') }), true);
  const [data] = await subscriber.notified(1);
  assert.equal(field(data, 'id'), 'u1');
  assert.match((await request(`${server.url}/data/config`)).text, /"dst_path":"\/u1"/);

  for (const [topics, bad] of [
    [['policy_data'], { entries: [{ url: 5 }] }],
    [['policy_data'], 'text'],
    [['policy_data'], undefined],
    [['elsewhere'], update('u2')],
  ] as const) {
    assert.equal(await publisher.call('publish', { topics, data: bad }), false);
  }
  assert.equal(field((await request(`${server.url}/healthcheck`)).json, 'update_log', 'head'), 1);
});

test('a stop ends the sockets with 1012 and does not wait for peers', async () => {
  await using server = await startServer();
  await using peer = await startPeer(server.url);
  const closed = once(peer.socket, 'close');
  const startedMs = performance.now();
  await server.stop();
  const [code] = await closed;
  assert.equal(code, 1012);
  assert(performance.now() - startedMs < 2000);
});
