import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from '../../src/wire/frames.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { startServer } from '../support/start-server.js';

const ENTRY = { url: 'http://data.example/users', topics: ['policy_data'], dst_path: '/users' };
const OURS = { [PROTOCOL_HEADER]: String(PROTOCOL_VERSION) };

/** Where and why a 422 answer complains: `body.entries.0.url`. */
function places(answer: Answer): string[] {
  const detail = field(answer.json, 'detail');
  assert(Array.isArray(detail), answer.text);
  return detail.map((problem: { loc: unknown[] }) => problem.loc.join('.'));
}

function entryPaths(answer: Answer): unknown {
  const entries = field(answer.json, 'entries');
  assert(Array.isArray(entries), answer.text);
  return entries.map((entry: { dst_path: string }) => entry.dst_path);
}

test('a data update of the wrong shape is refused with 422 that names the field, and changes nothing', async () => {
  await using server = await startServer();
  const patch = (data: unknown) => ({ entries: [{ ...ENTRY, save_method: 'PATCH', data }] });
  const table: [string, unknown, string[]][] = [
    ['a number as URL', { entries: [{ ...ENTRY, url: 5 }] }, ['body.entries.0.url']],
    ['a number as path', { entries: [{ ...ENTRY, dst_path: 7 }] }, ['body.entries.0.dst_path']],
    ['a number as topic', { entries: [{ ...ENTRY, topics: ['a', 1] }] }, ['body.entries.0.topics.1']],
    ['a number as reason', { entries: [ENTRY], reason: 1 }, ['body.reason']],
    ['a number as id', { entries: [ENTRY], id: 1 }, ['body.id']],
    [
      'a number as header',
      { entries: [{ ...ENTRY, config: { headers: { a: 1 } } }] },
      ['body.entries.0.config.headers.a'],
    ],
    ['a number as method', { entries: [{ ...ENTRY, save_method: 1 }] }, ['body.entries.0.save_method']],
    ['an unknown method', { entries: [{ ...ENTRY, save_method: 'POST' }] }, ['body.entries.0.save_method']],
    ['text as inline_data', { entries: [{ ...ENTRY, inline_data: 'true' }] }, ['body.entries.0.inline_data']],
    ['text as topics', { entries: [{ ...ENTRY, topics: 'a' }] }, ['body.entries.0.topics']],
    ['an empty topic', { entries: [{ ...ENTRY, topics: ['a', ''] }] }, ['body.entries.0.topics.1']],
    ['an empty id', { entries: [ENTRY], id: '' }, ['body.id']],
    ['no topics', { entries: [{ ...ENTRY, topics: [] }] }, ['body.entries.0.topics']],
    ['topics left out', { entries: [{ url: 'http://x', dst_path: '/a' }] }, ['body.entries.0.topics']],
    ['path left out', { entries: [{ url: 'http://x', topics: ['a'] }] }, ['body.entries.0.dst_path']],
    ['a path that leads out', { entries: [{ ...ENTRY, dst_path: '/a/../b' }] }, ['body.entries.0.dst_path']],
    ['URL left out', { entries: [{ topics: ['a'], dst_path: '/a' }] }, ['body.entries.0.url']],
    ['neither URL nor data', { entries: [{ ...ENTRY, url: '' }] }, ['body.entries.0.url']],
    ['a URL that is none', { entries: [{ ...ENTRY, url: 'users.json' }] }, ['body.entries.0.url']],
    ['a patch that is no list', patch({ op: 'add' }), ['body.entries.0.data']],
    ['a patch with an unknown operation', patch([{ op: 'merge', path: '/a' }]), ['body.entries.0.data.0.op']],
    ['a patch without value', patch([{ op: 'add', path: '/a' }]), ['body.entries.0.data.0.value']],
    ['a patch with a bad pointer', patch([{ op: 'remove', path: 'a' }]), ['body.entries.0.data.0.path']],
    ['DELETE with data', { entries: [{ ...ENTRY, save_method: 'DELETE', data: {} }] }, ['body.entries.0.data']],
    ['no entries', { entries: [] }, ['body.entries']],
    ['entries left out', {}, ['body.entries']],
    ['a list', [], ['body']],
    ['null as callback', { entries: [ENTRY], callback: null }, ['body.callback']],
    ['no body', '', ['body']],
    [
      'two problems',
      {
        entries: [
          { ...ENTRY, url: 5 },
          { ...ENTRY, dst_path: 1 },
        ],
      },
      ['body.entries.0.url', 'body.entries.1.dst_path'],
    ],
  ];
  for (const [what, body, expected] of table) {
    const answer = await postJson(`${server.url}/data/config`, body);
    assert.equal(answer.status, 422, `${what}: ${answer.text}`);
    assert.deepEqual(places(answer), expected, what);
  }
  assert.deepEqual((await request(`${server.url}/data/config`)).json, { entries: [] });
  assert.equal(field((await request(`${server.url}/healthcheck`)).json, 'update_log', 'head'), 0);
});

test('a body that is not JSON, not readable or too large is refused, and the server goes on', async () => {
  await using server = await startServer({ SYNC_BODY_LIMIT_BYTES: '2048' });
  const url = `${server.url}/data/config`;
  const broken = await postJson(url, '{"entries":[');
  assert.equal(broken.status, 422);
  assert.equal(field(broken.json, 'detail', 0, 'type'), 'json_invalid');
  const text = await postJson(url, { entries: [ENTRY] }, { 'content-type': 'text/plain' });
  assert.deepEqual([text.status, places(text)], [422, ['body']]);
  const large = await postJson(url, { entries: [{ ...ENTRY, data: ['x'.repeat(4096)] }] });
  assert.deepEqual([large.status, large.headers.get('x-sync-error')], [413, 'body_too_large']);
  assert.equal((await postJson(url, { entries: [ENTRY] })).status, 200);
});

test('answers unknown paths and methods as OPAL does', async () => {
  await using server = await startServer();
  const unknown = await request(`${server.url}/nothing`);
  assert.deepEqual([unknown.status, unknown.json], [404, { detail: 'Not Found' }]);
  const wrong = await request(`${server.url}/data/config`, { method: 'DELETE' });
  assert.deepEqual([wrong.status, wrong.json], [405, { detail: 'Method Not Allowed' }]);
  assert.equal(wrong.headers.get('allow'), 'GET, HEAD, POST');
});

test('says that it is alive, and where its log stands', async () => {
  await using server = await startServer();
  assert.deepEqual((await request(server.url)).json, { status: 'ok' });
  await postJson(`${server.url}/data/config`, { entries: [ENTRY] });
  const health = await request(`${server.url}/healthcheck`);
  assert.deepEqual([health.status, field(health.json, 'status')], [200, 'ok']);
  assert.deepEqual(field(health.json, 'policy'), { state: 'none' });
  assert.equal(field(health.json, 'update_log', 'head'), 1);
  assert.deepEqual((await request(`${server.url}/policy-data`)).json, {});
});

test('answers base entries and published updates in order; numbers survive as written', async () => {
  const base = '{"config":{"entries":[{"url":"http://base/","topics":["policy_data"],"dst_path":"/base"}]}}';
  await using server = await startServer({ SYNC_DATA_CONFIG_SOURCES: base });
  const url = `${server.url}/data/config`;
  const inline =
    '{"entries":[{"url":"","topics":["a/b"],"dst_path":"/n","data":{"n":12345678901234567890,"f":1.0}}],"id":"u1"}';
  const first = await postJson(url, inline);
  assert.deepEqual([first.status, field(first.json, 'status'), field(first.json, 'id')], [200, 'ok', 'u1']);
  assert.deepEqual([field(first.json, 'seq'), field(first.json, 'subscribers')], [2, 0]);
  await postJson(url, { entries: [{ url: '', topics: ['policy_data'], dst_path: '/n/f', save_method: 'DELETE' }] });

  const opal = await request(url);
  assert.equal(
    opal.text,
    '{"entries":[' +
      '{"url":"http://base/","config":null,"topics":["policy_data"],"dst_path":"/base","save_method":"PUT","data":null,"periodic_update_interval":null},' +
      '{"url":"","config":null,"topics":["a","a/b"],"dst_path":"/n","save_method":"PUT","data":{"n":12345678901234567890,"f":1.0},"periodic_update_interval":null},' +
      '{"url":"","config":null,"topics":["policy_data"],"dst_path":"/n","save_method":"PATCH","data":[{"op":"remove","path":"/f"}],"periodic_update_interval":null}]}',
  );
  const ours = await request(url, { headers: OURS });
  assert.equal(ours.headers.get(PROTOCOL_HEADER), String(PROTOCOL_VERSION));
  assert.deepEqual([field(ours.json, 'epoch'), field(ours.json, 'head')], [field(first.json, 'epoch'), 3]);
  assert.deepEqual(
    [0, 1, 2].map((index) => field(ours.json, 'entries', index, 'seq')),
    [1, 2, 3],
  );
  assert.equal(field(ours.json, 'entries', 2, 'save_method'), 'DELETE');
  assert.equal(field(ours.json, 'base_set'), true);
});

test('an operator who keeps no updates answers base entries alone, and claims no complete fold', async () => {
  await using server = await startServer({ SYNC_DATA_UPDATES_RETAINED: 'false' });
  const url = `${server.url}/data/config`;
  assert.equal((await postJson(url, { entries: [ENTRY] })).status, 200);
  assert.deepEqual((await request(url)).json, { entries: [] });
  assert.deepEqual((await request(url, { headers: OURS })).json, { entries: [], base_set: false });
});

test('redirects to an external source with the token of the caller, and asks for one', async () => {
  const source = { external_source_url: 'https://api.example/config?team=a&token=old' };
  await using server = await startServer({ SYNC_DATA_CONFIG_SOURCES: JSON.stringify(source) });
  const url = `${server.url}/data/config`;
  const known = await request(url, { headers: { authorization: 'bearer my.jwt+x' } });
  assert.equal(known.status, 307);
  assert.equal(known.headers.get('location'), 'https://api.example/config?team=a&token=my.jwt%2Bx');
  const unknown = await request(url);
  assert.deepEqual([unknown.status, unknown.headers.get('www-authenticate')], [401, 'Bearer']);
});

test('takes update reports and logs no secret of them', async () => {
  const lines: string[] = [];
  const note = (fields: unknown, text?: string) => lines.push(JSON.stringify([fields, text]));
  const log = { debug: note, info: note, warn: note, error: note, child: () => log };
  await using server = await startServer({}, { log });
  const report = {
    update_id: 'u1',
    reports: [
      {
        entry: {
          ...ENTRY,
          url: 'http://me:pw@d/?key=k1',
          config: { headers: { authorization: 'hush' } },
          data: ['hush'],
        },
        fetched: true,
        saved: false,
        hash: 'ff',
      },
    ],
  };
  const answer = await postJson(`${server.url}/data/callback_report`, report);
  assert.deepEqual([answer.status, answer.json], [200, {}]);
  const logged = lines.find((line) => line.includes('update report'));
  assert.match(logged ?? '', /"u1".*"saved":false/);
  assert.doesNotMatch(lines.join('\n'), /hush|k1|pw@/);
  assert.equal((await postJson(`${server.url}/data/callback_report`, { reports: 1 })).status, 422);
});

test('updates are still there after a restart, under the same epoch, and positions go on', async () => {
  await using first = await startServer();
  await postJson(`${first.url}/data/config`, { entries: [ENTRY, { ...ENTRY, dst_path: '/groups' }] });
  const before = await request(`${first.url}/data/config`, { headers: OURS });
  await first.stop();
  await using second = await startServer({}, { stateDir: first.stateDir });
  const after = await request(`${second.url}/data/config`, { headers: OURS });
  assert.deepEqual(entryPaths(after), ['/users', '/groups']);
  assert.equal(after.text, before.text);
  const next = await postJson(`${second.url}/data/config`, { entries: [ENTRY] });
  assert.equal(field(next.json, 'seq'), 2);
});

test('many publications at once all get their own place', async () => {
  await using server = await startServer();
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, index) =>
      postJson(`${server.url}/data/config`, { entries: [{ ...ENTRY, dst_path: `/users/${index}` }] }),
    ),
  );
  const places = answers.map((answer) => Number(field(answer.json, 'seq'))).sort((a, b) => a - b);
  assert.deepEqual(
    places,
    Array.from({ length: 50 }, (_, index) => index + 1),
  );
  const fold = await request(`${server.url}/data/config`);
  assert.equal((field(fold.json, 'entries') as unknown[]).length, 50);
});

test('a second server on the same state folder is refused and harms nothing', async () => {
  await using server = await startServer();
  await assert.rejects(startServer({}, { stateDir: server.stateDir }), { code: 'state_dir_in_use' });
  assert.equal((await postJson(`${server.url}/data/config`, { entries: [ENTRY] })).status, 200);
});

test('a port in use is a clear error that leaves the state folder free', async () => {
  await using first = await startServer();
  await using second = await startServer();
  await second.stop();
  await assert.rejects(
    startServer({ SYNC_SERVER_BIND_PORT: String(first.port) }, { stateDir: second.stateDir }),
    (error: Error & { code: string }) => error.code === 'listen_failed' && error.message.includes(String(first.port)),
  );
  await using third = await startServer({}, { stateDir: second.stateDir });
  assert.equal((await request(third.url)).status, 200);
});

test('stopping twice is one stop, and a stopped server answers no more', async () => {
  await using server = await startServer();
  await Promise.all([server.stop(), server.stop()]);
  await assert.rejects(request(server.url));
});
