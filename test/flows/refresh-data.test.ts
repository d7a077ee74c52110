import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { startDataSource } from '../support/data-source.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { baseEntries, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** `POST /data/refresh`: clients fetch again, and what is desired stays what it was. */

const DATA_ONLY = { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_DATA_TOPICS: 'policy_data,other' };
const OURS = { 'x-sync-protocol': '2' };

async function refresh(serverUrl: string, asked: object): Promise<Answer> {
  const answer = await postJson(`${serverUrl}/data/refresh`, asked);
  assert.equal(answer.status, 200, answer.text);
  return answer;
}

/** What the server has whoever comes now apply, in order: path, and URL or inline data. */
async function desired(serverUrl: string): Promise<unknown[]> {
  const { json } = await request(`${serverUrl}/data/config`, { headers: OURS });
  const entries = field(json, 'entries');
  assert(Array.isArray(entries));
  return entries.map((entry) => [field(entry, 'dst_path'), field(entry, 'data') ?? field(entry, 'url')]);
}

test('by path and by topic, the engines get what the sources say now, and nothing else is fetched', async () => {
  await using source = await startDataSource();
  const paths = ['/base', '/users', '/roles'];
  for (const path of paths) source.serve(path, { version: 1 });
  await using server = await startServer(baseEntries({ url: `${source.url}/base`, dst_path: '/base' }));
  await using client = await startClient({ serverUrl: server.url, env: DATA_ONLY });
  // What is published while it connects may be in its first reading, and be notified too.
  await client.healthy();
  await publish(server.url, { url: `${source.url}/users`, dst_path: '/users' });
  await publish(server.url, { dst_path: '/users/ann', data: 'inline' });
  await publish(server.url, { url: `${source.url}/roles`, dst_path: '/roles', topics: ['other'] });
  await client.holds('/roles', { version: 1 });
  await client.holds('/users', { version: 1, ann: 'inline' });
  await client.healthy();
  assert.deepEqual([source.count('/base'), source.count('/users'), source.count('/roles')], [1, 1, 1]);
  for (const path of paths) source.serve(path, { version: 2 });

  await refresh(server.url, { path: '/users' });
  await client.holds('/users', { version: 2, ann: 'inline' });
  assert.deepEqual([source.count('/base'), source.count('/users'), source.count('/roles')], [1, 2, 1]);

  await refresh(server.url, { topics: ['other'] });
  await client.holds('/roles', { version: 2 });
  assert.deepEqual([source.count('/base'), source.count('/users'), source.count('/roles')], [1, 2, 2]);

  await refresh(server.url, { path: '/base/below' });
  await client.holds('/base', { version: 2 });
  assert.deepEqual([source.count('/base'), source.count('/users'), source.count('/roles')], [2, 2, 2]);
  await client.healthy();
});

test('an update that is kept for a time is kept no longer for being refreshed', async () => {
  await using server = await startServer();
  await publish(server.url, { url: 'http://source.example/permanent', dst_path: '/a' });
  const limited = { url: 'http://source.example/limited', topics: ['policy_data'], dst_path: '/a' };
  const inline = { url: '', topics: ['policy_data'], dst_path: '/a/b', data: 'permanent' };
  for (const update of [{ entries: [limited], retain: 2 }, { entries: [inline] }]) {
    assert.equal((await postJson(`${server.url}/data/config`, update)).status, 200);
  }
  const before = await desired(server.url);
  assert.equal(before.length, 3);
  await refresh(server.url, { path: '/' });
  assert.deepEqual(await desired(server.url), before);
  const after = [
    ['/a', 'http://source.example/permanent'],
    ['/a/b', 'permanent'],
  ];
  await until(async () => (await desired(server.url)).length < 3, { withinMs: 20_000, what: 'the time of one is up' });
  assert.deepEqual(await desired(server.url), after);
});

test('what patches have made of a document is there again, whatever kind of patch', async () => {
  await using source = await startDataSource();
  source.serve('/doc', { kind: 'x', version: 1 });
  await using server = await startServer();
  await using client = await startClient({ serverUrl: server.url, env: DATA_ONLY });
  await publish(server.url, { url: `${source.url}/doc`, dst_path: '/doc' });
  const patches = [
    [{ op: 'add', path: '/plain', value: 1 }],
    [
      { op: 'test', path: '/kind', value: 'x' },
      { op: 'copy', from: '/kind', path: '/copied' },
    ],
  ];
  for (const data of patches) await publish(server.url, { dst_path: '/doc', save_method: 'PATCH', data });
  await client.holds('/doc', { kind: 'x', version: 1, plain: 1, copied: 'x' });
  source.serve('/doc', { kind: 'x', version: 2 });
  await refresh(server.url, { path: '/doc' });
  const after = { kind: 'x', version: 2, plain: 1, copied: 'x' };
  await client.holds('/doc', after);
  await using late = await startClient({ serverUrl: server.url, env: DATA_ONLY });
  await late.holds('/doc', after);
});

test('what a newer PUT covers does not come back', async () => {
  await using server = await startServer(
    baseEntries({ url: 'http://source.example/base', dst_path: '/base' }, { url: 'http://x/', dst_path: '/other' }),
  );
  await publish(server.url, { url: 'http://source.example/old', dst_path: '/a/b' });
  await publish(server.url, { dst_path: '/a', data: 'newer' });
  await publish(server.url, { dst_path: '/base', data: 'newer' });
  const before = await desired(server.url);
  for (const asked of [{ path: '/a' }, { path: '/a/b' }, { path: '/base' }]) {
    assert.equal(field((await refresh(server.url, asked)).json, 'entries'), 0);
  }
  await refresh(server.url, { topics: ['policy_data'] });
  assert.deepEqual((await desired(server.url)).sort(), before.sort());
});

test('a refresh and a newer PUT in the same moment: what was answered 200 holds', async () => {
  await using server = await startServer();
  for (let round = 1; round <= 20; round++) {
    const path = `/doc${round}`;
    await publish(server.url, { url: `http://source.example${path}`, dst_path: path });
    const newer = { url: '', topics: ['policy_data'], dst_path: path, data: 'newer' };
    const [put, ...others] = await Promise.all([
      postJson(`${server.url}/data/config`, { entries: [newer] }),
      postJson(`${server.url}/data/refresh`, { path }),
      postJson(`${server.url}/data/refresh`, { path }),
    ]);
    assert.deepEqual([put.status, ...others.map(({ status }) => status)], [200, 200, 200]);
    const now = await desired(server.url);
    assert.deepEqual(
      now.filter((item) => Array.isArray(item) && item[0] === path),
      [[path, 'newer']],
      `round ${round}`,
    );
  }
});

test('a caller that is limited to topics refreshes nothing of others, unless it lies over what it refreshes', async () => {
  await using server = await startServer(withKeys());
  const source = bearer(await tokenOf(server.url, { type: 'datasource' }));
  const claims = { permitted_topics: ['a'] };
  const limited = bearer(await tokenOf(server.url, { type: 'datasource', claims }));
  for (const topic of ['a', 'b']) {
    const entry = { url: `http://source.example/${topic}`, topics: [topic], dst_path: `/${topic}` };
    assert.equal((await postJson(`${server.url}/data/config`, { entries: [entry] }, source)).status, 200);
  }
  const refused = await postJson(`${server.url}/data/refresh`, { topics: ['a', 'b'] }, limited);
  assert.equal(refused.status, 401, refused.text);
  const notPermitted = await postJson(`${server.url}/data/refresh`, { path: '/b' }, limited);
  assert.deepEqual([notPermitted.status, field(notPermitted.json, 'entries')], [200, 0]);
  const all = await postJson(`${server.url}/data/refresh`, { path: '/' }, limited);
  assert.equal(field(all.json, 'entries'), 1);
  for (const type of ['client', 'listener']) {
    const other = bearer(await tokenOf(server.url, { type }));
    assert.equal((await postJson(`${server.url}/data/refresh`, { path: '/' }, other)).status, 401, type);
  }
});
