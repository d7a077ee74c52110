import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { WebSocket } from 'ws';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { field, postJson, request } from '../support/http.js';
import { baseEntries } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';

/** What a token lets its holder do with topics, on a real server. */

const DATASOURCE = { type: 'datasource' };

function update(topics: string[], path: string): object {
  return { entries: [{ url: '', topics, dst_path: path, data: { path } }] };
}

function paths(json: unknown): unknown {
  const entries = field(json, 'entries');
  return Array.isArray(entries) ? entries.map((entry) => field(entry, 'dst_path')).sort() : entries;
}

test('the socket takes any valid token and refuses every other with 401', async () => {
  await using server = await startServer(withKeys());
  for (const type of ['client', 'datasource', 'listener']) {
    await using peer = await startPeer(server.url, bearer(await tokenOf(server.url, { type })));
    assert.equal(await peer.call('subscribe', { topics: ['policy_data'] }), true);
  }
  const ws = new WebSocket(`${server.url.replace('http', 'ws')}/ws`, { headers: bearer('x.y.z') });
  ws.on('error', () => undefined); // the answer is what is looked at
  const [, response] = await once(ws, 'unexpected-response');
  assert.deepEqual([response.statusCode, response.headers['www-authenticate']], [401, 'Bearer']);
  let body = '';
  for await (const chunk of response) body += chunk;
  assert.deepEqual(JSON.parse(body), { detail: { error: 'Could not decode access token' } });
});

test('over the socket only datasource peers publish, and what they publish arrives', async () => {
  await using server = await startServer(withKeys());
  await using subscriber = await startPeer(server.url, bearer(await tokenOf(server.url)));
  await subscriber.call('subscribe', { topics: ['policy_data'] });
  const publish = { topics: ['policy_data'], data: update(['policy_data'], '/x') };
  for (const type of ['client', 'listener']) {
    await using peer = await startPeer(server.url, bearer(await tokenOf(server.url, { type })));
    assert.equal(await peer.call('publish', publish), false, type);
    assert.equal(await peer.call('publish', { topics: ['__opal_stats_x'], data: 1 }), true, `${type}, statistics`);
  }
  await using source = await startPeer(server.url, bearer(await tokenOf(server.url, DATASOURCE)));
  assert.equal(await source.call('publish', publish), true);
  const [data] = await subscriber.notified(1);
  assert.deepEqual(paths(data), ['/x']);
});

test('permitted_topics limit publishing, over HTTP and over the socket, also by the topics of the entries', async () => {
  await using server = await startServer(withKeys());
  const token = await tokenOf(server.url, { ...DATASOURCE, claims: { permitted_topics: ['a', 'a/b'] } });
  const refused = await postJson(`${server.url}/data/config`, update(['a', 'policy_data/users'], '/x'), bearer(token));
  assert.equal(refused.status, 401);
  assert.deepEqual(refused.json, { detail: { error: "Invalid 'topics' to publish {'policy_data/users'}" } });
  assert.equal((await postJson(`${server.url}/data/config`, update(['a/b'], '/ok'), bearer(token))).status, 200);

  await using peer = await startPeer(server.url, bearer(token));
  const data = { entries: ['a', 'c'].flatMap((topic) => (update([topic], `/${topic}`) as { entries: [] }).entries) };
  assert.equal(await peer.call('publish', { topics: ['a'], data }), false, 'an entry with another topic');
  assert.equal(await peer.call('publish', { topics: ['c'], data: update(['c'], '/c') }), false);
  assert.equal(await peer.call('publish', { topics: ['a'], data: update(['a'], '/a') }), true);
  const config = await request(`${server.url}/data/config`, { headers: bearer(token) });
  assert.deepEqual(paths(config.json), ['/a', '/ok']);
});

test('permitted_topics limit subscriptions, policy topics too, and the data configuration', async () => {
  await using server = await startServer({
    ...withKeys(),
    ...baseEntries(
      { url: 'http://x/a', topics: ['a'], dst_path: '/base-a' },
      { url: 'http://x/b', topics: ['b'], dst_path: '/base-b' },
    ),
  });
  const source = bearer(await tokenOf(server.url, DATASOURCE));
  for (const topic of ['a/deep', 'b']) {
    assert.equal((await postJson(`${server.url}/data/config`, update([topic], `/${topic}`), source)).status, 200);
  }
  const limited = async (...topics: string[]) =>
    bearer(await tokenOf(server.url, { claims: { permitted_topics: topics } }));
  await using peer = await startPeer(server.url, await limited('a'));
  for (const topics of [['b'], ['a', 'b'], ['default:policy:.'], ['__EventNotifier_ALL_TOPICS__']]) {
    assert.equal(await peer.call('subscribe', { topics }), false, topics.join());
  }
  assert.equal(await peer.call('subscribe', { topics: ['a'] }), true);

  const config = async (headers: Record<string, string>) =>
    paths((await request(`${server.url}/data/config`, { headers })).json);
  for (const form of [{}, { 'x-sync-protocol': '1' }]) {
    const answer = await request(`${server.url}/data/config`, { headers: { ...(await limited('a')), ...form } });
    assert.equal(field(answer.json, 'epoch') !== undefined, 'x-sync-protocol' in form, 'each form is kept by itself');
    assert.deepEqual(await config({ ...(await limited('a')), ...form }), ['/a/deep', '/base-a']);
    assert.deepEqual(await config({ ...(await limited('b')), ...form }), ['/b', '/base-b']);
    assert.deepEqual(await config({ ...(await limited()), ...form }), []);
    assert.deepEqual(await config({ ...bearer(await tokenOf(server.url)), ...form }), [
      '/a/deep',
      '/b',
      '/base-a',
      '/base-b',
    ]);
  }
  await postJson(`${server.url}/data/config`, update(['a'], '/later'), source);
  assert.deepEqual(await config(await limited('a')), ['/a/deep', '/base-a', '/later'], 'not what was answered before');
});

test('a subscriber that is limited to topics sees only their entries of an update that has others too', async () => {
  await using server = await startServer(withKeys());
  const source = bearer(await tokenOf(server.url, DATASOURCE));
  const peerOf = async (claims: object) => startPeer(server.url, bearer(await tokenOf(server.url, { claims })));
  await using limited = await peerOf({ permitted_topics: ['a'] });
  await using free = await peerOf({});
  for (const peer of [limited, free]) assert.equal(await peer.call('subscribe', { topics: ['a'] }), true);
  const entries = ['a/deep', 'b'].map((topic) => ({
    url: '',
    topics: [topic],
    dst_path: `/${topic}`,
    data: { topic },
  }));
  const answer = await postJson(`${server.url}/data/config`, { entries }, source);
  assert.equal(field(answer.json, 'subscribers'), 2);
  assert.deepEqual((await limited.notified(1)).map(paths), [['/a/deep']]);
  assert.deepEqual((await free.notified(1)).map(paths), [['/a/deep', '/b']]);
});

test('a socket ends when its token does, with 1008', async () => {
  await using server = await startServer(withKeys());
  await using peer = await startPeer(server.url, bearer(await tokenOf(server.url, { ttl: 2 })));
  assert.equal(await peer.call('subscribe', { topics: ['a'] }), true);
  const [code, reason] = await once(peer.socket, 'close');
  assert.deepEqual([code, String(reason)], [1008, 'the token has expired']);
});

test('the external data source is https, or loopback, or allowed by a setting; a token goes along, and none is 401', async () => {
  const source = (url: string) => ({ SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ external_source_url: url }) });
  for (const url of ['http://data.example/x?key=hush', 'http://localhost.example/x', 'http://127.0.0.1.example/x']) {
    await assert.rejects(startServer(source(url)), (error: Error & { code?: string }) => {
      assert.equal(error.code, 'config_invalid');
      assert.match(error.message, /external_source_url must be https/);
      return !error.message.includes('hush');
    });
  }
  for (const env of [
    source('https://data.example/x'),
    source('http://127.0.0.1:9/x'),
    source('http://[::1]:9/x'),
    { ...source('http://data.example/x'), SYNC_ALLOW_INSECURE_EXTERNAL_SOURCE: 'true' },
  ]) {
    await using server = await startServer({ ...withKeys(), ...env });
    const token = await tokenOf(server.url);
    const answer = await request(`${server.url}/data/config`, { headers: bearer(token) });
    assert.equal(answer.status, 307);
    assert.equal(new URL(answer.headers.get('location') ?? '').searchParams.get('token'), token);
    const without = await request(`${server.url}/data/config`);
    assert.deepEqual([without.status, without.json], [401, { detail: { error: 'access token was not provided' } }]);
  }
});
