import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Answer, field, postJson, request } from '../support/http.js';
import { type StartedServer, startServer } from '../support/start-server.js';

const OURS = { 'x-sync-protocol': '1' };

function entry(dst_path: string, fields: object = {}) {
  return { url: `http://data.example${dst_path}`, topics: ['policy_data'], dst_path, ...fields };
}

function publish(server: StartedServer, entries: object[], more: object = {}, headers: Record<string, string> = {}) {
  return postJson(`${server.url}/data/config`, { entries, ...more }, headers);
}

function rows(answer: Answer, list = 'updates'): { seq: number; entries: { dst_path: string }[] }[] {
  assert.equal(answer.status, 200, answer.text);
  return field(answer.json, list) as { seq: number; entries: { dst_path: string }[] }[];
}

function seqs(answer: Answer): number[] {
  return rows(answer).map(({ seq }) => seq);
}

function paths(answer: Answer): unknown[] {
  return rows(answer, 'entries').map((item) => field(item, 'dst_path'));
}

test('an Idempotency-Key makes a retried publish harmless; another body under it is a conflict', async () => {
  await using server = await startServer();
  const key = { 'idempotency-key': 'order 1' };
  const first = await publish(server, [entry('/a')], {}, key);
  assert.deepEqual([first.status, first.headers.get('idempotency-replayed')], [200, null]);
  const again = await publish(server, [entry('/a')], {}, key);
  assert.deepEqual([again.status, again.headers.get('idempotency-replayed')], [200, 'true']);
  for (const name of ['id', 'seq', 'epoch', 'status']) {
    assert.deepEqual(field(again.json, name), field(first.json, name), name);
  }
  const other = await publish(server, [entry('/b')], {}, key);
  assert.deepEqual([other.status, other.headers.get('x-sync-error')], [409, 'idempotency_conflict']);
  assert.equal((await publish(server, [entry('/b')], {}, { 'idempotency-key': 'x'.repeat(300) })).status, 422);
  const sameId = [await publish(server, [entry('/a')], { id: 'u' }), await publish(server, [entry('/a')], { id: 'u' })];
  assert.deepEqual(
    sameId.map((answer) => field(answer.json, 'seq')),
    [2, 3],
    'a repeated id is correlation',
  );
});

test('GET /data/updates answers the tail after a position, page by page, and the fold where there is no position', async () => {
  await using server = await startServer({
    SYNC_DATA_CONFIG_SOURCES:
      '{"config":{"entries":[{"url":"http://base/","topics":["policy_data"],"dst_path":"/base"}]}}',
  });
  const url = `${server.url}/data/updates`;
  for (const path of ['/a', '/b', '/a', '/c']) await publish(server, [entry(path)], { reason: `for ${path}` });
  await publish(server, [entry('/n', { url: '', data: { n: 1 }, topics: ['other/sub'] })]);
  const fold = await request(url);
  assert.deepEqual([field(fold.json, 'from'), field(fold.json, 'more'), field(fold.json, 'head')], ['fold', false, 6]);
  assert.deepEqual(seqs(fold), [3, 4, 5, 6]);
  const epoch = String(field(fold.json, 'epoch'));
  const tail = await request(`${url}?epoch=${epoch}&after=1&limit=2`);
  assert.deepEqual([field(tail.json, 'from'), field(tail.json, 'more'), seqs(tail)], ['tail', true, [2, 3]]);
  assert.equal(field(tail.json, 'updates', 0, 'reason'), 'for /a');
  const rest = await request(`${url}?epoch=${epoch}&after=3`);
  assert.deepEqual([field(rest.json, 'more'), seqs(rest)], [false, [4, 5, 6]]);
  const topical = await request(`${url}?epoch=${epoch}&after=1&topics=other,nothing`);
  assert.deepEqual(seqs(topical), [6]);
  assert.deepEqual(field(topical.json, 'heads'), { other: 6, nothing: 0 });
  assert.deepEqual(seqs(await request(`${url}?epoch=another&after=5`)), [3, 4, 5, 6]);
  const ahead = await request(`${url}?epoch=${epoch}&after=99`);
  assert.deepEqual([field(ahead.json, 'from'), seqs(ahead)], ['fold', [3, 4, 5, 6]]);
  const paged = await request(`${url}?limit=3`);
  assert.deepEqual([field(paged.json, 'more'), seqs(paged)], [true, [3, 4, 5]]);
  assert.equal((await request(`${url}?after=x`)).status, 422);
});

test('base entries and updates are read apart, and by topic', async () => {
  const base = [
    { url: 'http://base/', topics: ['policy_data'], dst_path: '/base' },
    { url: 'http://other/', topics: ['other'], dst_path: '/other' },
  ];
  await using server = await startServer({ SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries: base } }) });
  await publish(server, [entry('/a')]);
  await publish(server, [{ ...base[1] }], { retain: 3600 });
  const url = `${server.url}/data/config`;
  assert.deepEqual(paths(await request(url)), ['/base', '/other', '/a'], 'what equals a base entry is not repeated');
  assert.deepEqual(paths(await request(`${url}?origin=base`, { headers: OURS })), ['/base', '/other']);
  assert.deepEqual(paths(await request(`${url}?origin=update`)), ['/a']);
  assert.deepEqual(paths(await request(`${url}?topics=other`)), ['/other']);
  assert.deepEqual(rows(await request(`${server.url}/data/updates`)).length, 1);
});

test('the audit shows who published what, newest first, by page and filter; secrets only when asked for', async () => {
  await using server = await startServer();
  const secret = { config: { headers: { authorization: 'Bearer hush' } } };
  await publish(server, [entry('/users/a', { ...secret, url: 'http://me:pw@data.example/?token=t1' })], {
    reason: 'why',
  });
  await publish(server, [entry('/users/b', { url: '', data: { password: 'hush' } }), entry('/roles')]);
  await publish(server, [entry('/users/a', { topics: ['other'] })], { callback: { callbacks: ['http://cb/?key=k1'] } });
  const url = `${server.url}/data/log`;
  const all = await request(url);
  assert.deepEqual(seqs(all), [3, 2, 1]);
  assert.doesNotMatch(all.text, /hush|pw@|t1|k1/);
  assert.deepEqual(
    [field(all.json, 'updates', 2, 'reason'), field(all.json, 'updates', 2, 'publisher'), field(all.json, 'next')],
    ['why', null, null],
  );
  assert.match((await request(`${url}?include=secrets`)).text, /Bearer hush.*|"password":"hush"/);
  const page = await request(`${url}?limit=2`);
  assert.deepEqual([seqs(page), field(page.json, 'next')], [[3, 2], 2]);
  assert.deepEqual(seqs(await request(`${url}?limit=2&before=2`)), [1]);
  assert.deepEqual(seqs(await request(`${url}?topic=other`)), [3]);
  const users = await request(`${url}?path=/users`);
  assert.deepEqual(
    rows(users).map(({ seq, entries }) => [seq, entries.map(({ dst_path }) => dst_path)]),
    [
      [3, ['/users/a']],
      [2, ['/users/b']],
      [1, ['/users/a']],
    ],
  );
  assert.deepEqual(seqs(await request(`${url}?publisher=nobody`)), []);
  assert.deepEqual(seqs(await request(`${url}?since=2999-01-01`)), []);
  assert.deepEqual(seqs(await request(`${url}?until=${Date.now() + 1000}`)), [3, 2, 1]);
  assert.equal((await request(`${url}?since=yesterday`)).status, 422);
});

test('a refresh publishes the URL entries concerned again, and what lies over them, so that the state stays the same', async () => {
  const base = { url: 'http://base/', topics: ['policy_data'], dst_path: '/base' };
  await using server = await startServer({ SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries: [base] } }) });
  const url = `${server.url}/data/refresh`;
  await publish(server, [entry('/users')]);
  await publish(server, [entry('/users/x', { url: '', data: { inline: true } })]);
  await publish(server, [entry('/base/deep', { topics: ['other'] })]);
  const nothing = await postJson(url, { path: '/nothing' });
  assert.deepEqual([nothing.status, field(nothing.json, 'entries')], [200, 0]);
  const users = await postJson(url, { path: '/users', reason: 'rebuilt' });
  assert.deepEqual([field(users.json, 'entries'), field(users.json, 'seq')], [2, 5]);
  assert.deepEqual(paths(await request(`${server.url}/data/config`)), ['/base', '/base/deep', '/users', '/users/x']);
  const topical = await postJson(url, { topics: ['other'] });
  assert.deepEqual([field(topical.json, 'entries'), field(topical.json, 'seq')], [1, 6]);
  const all = await postJson(url, { path: '/' });
  assert.equal(field(all.json, 'entries'), 4);
  const config = await request(`${server.url}/data/config`, { headers: OURS });
  assert.deepEqual(
    rows(config, 'entries').map((item) => [field(item, 'dst_path'), field(item, 'origin')]),
    [
      ['/base', 'base'],
      ['/users', 'update'],
      ['/users/x', 'update'],
      ['/base/deep', 'update'],
    ],
  );
  assert.equal((await postJson(url, { topics: [] })).status, 422);
  assert.equal((await postJson(url, {})).status, 422);
});

test('an update that is not retained is not in the answers for those who come later', async () => {
  await using server = await startServer({ SYNC_DATA_UPDATES_RETAIN_DEFAULT: 'false' });
  await publish(server, [entry('/a')]);
  await publish(server, [entry('/b')], { retain: true });
  assert.deepEqual(paths(await request(`${server.url}/data/config`)), ['/b']);
  assert.deepEqual(seqs(await request(`${server.url}/data/log`)), [2, 1]);
  assert.equal((await publish(server, [entry('/c')], { retain: 'yes' })).status, 422);
});

test('inline data beyond the limit, and too many patches of a path, are refused', async () => {
  await using server = await startServer({ SYNC_INLINE_DATA_LIMIT_BYTES: '100', SYNC_PATCHES_PER_PATH_LIMIT: '2' });
  const large = await publish(server, [entry('/a', { url: '', data: ['x'.repeat(100)] })]);
  assert.deepEqual([large.status, large.headers.get('x-sync-error')], [413, 'inline_data_too_large']);
  const patch = (path: string) =>
    publish(server, [entry('/a', { url: '', save_method: 'PATCH', data: [{ op: 'add', path, value: 1 }] })]);
  assert.deepEqual(
    [(await patch('/k1')).status, (await patch('/k2')).status, (await patch('/k1')).status],
    [200, 200, 200],
  );
  const third = await patch('/k3');
  assert.deepEqual([third.status, third.headers.get('x-sync-error')], [409, 'too_many_patches']);
});
