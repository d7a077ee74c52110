import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Answer, field, postJson } from '../support/http.js';
import { type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';

/** JSON patches that append to a list, and what other operations do where nothing, or something else, is there. */

function publish(server: StartedServer, entries: object[], headers: Record<string, string> = {}): Promise<Answer> {
  const whole = entries.map((entry) => ({ url: '', topics: ['policy_data'], ...entry }));
  return postJson(`${server.url}/data/config`, { entries: whole }, headers);
}

async function taken(answer: Promise<Answer>): Promise<void> {
  const { status, text } = await answer;
  assert.equal(status, 200, text);
}

function patch(dst_path: string, ...data: object[]): object {
  return { dst_path, save_method: 'PATCH', data };
}

/** The servers here have no policy source. */
const NO_POLICY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

const append = (value: unknown): object => patch('/team', { op: 'add', path: '/members/-', value });

test('what is appended is there once, for those who were there, who were away, who come later and after restarts', async () => {
  await using dir = await tempDir();
  const stateDir = dir.path;
  const offline = {
    ...NO_POLICY,
    SYNC_OFFLINE_MODE_ENABLED: 'true',
    SYNC_STORE_BACKUP_PATH: `${dir.path}/backup.json`,
  };
  let server = await startServer({}, { stateDir });
  const { port } = server;
  await using there = await startClient({ serverUrl: server.url, env: NO_POLICY });
  let away = await startClient({ serverUrl: server.url, env: offline });
  try {
    await taken(publish(server, [{ dst_path: '/team', data: { members: ['ann'] } }]));
    for (const each of [there, away]) await each.holds('/team/members', ['ann']);
    await taken(publish(server, [append('bob')]));
    await there.holds('/team/members', ['ann', 'bob']);
    await away.stop();
    await taken(publish(server, [append('cid'), append('dan')]));
    const all = ['ann', 'bob', 'cid', 'dan'];
    await using late = await startClient({ serverUrl: server.url, env: NO_POLICY });
    away = await startClient({ serverUrl: server.url, env: offline });
    const each: StartedClient[] = [there, away, late];
    for (const client of each) await client.holds('/team/members', all);

    await server.stop();
    server = await startServer({ SYNC_SERVER_BIND_PORT: String(port) }, { stateDir });
    await taken(publish(server, [append('eve')]));
    for (const client of each) await client.holds('/team/members', [...all, 'eve']);
    await using last = await startClient({ serverUrl: server.url, env: NO_POLICY });
    await last.holds('/team/members', [...all, 'eve']);
  } finally {
    await away.stop();
    await server.stop();
  }
});

test('over a document that comes from a URL it is 422, and says what to do; nothing is recorded', async () => {
  const url = 'http://source.example/team';
  await using server = await startServer();
  for (const [entries, index] of [
    [[append('x')], 0],
    [[{ dst_path: '/team', url }, append('x')], 1],
  ] as const) {
    const refused = await publish(server, [...entries]);
    assert.equal(refused.status, 422, refused.text);
    assert.deepEqual(field(refused.json, 'detail', 0, 'loc'), ['body', 'entries', index, 'data']);
    assert.match(
      refused.text,
      /publish the document with inline data first, retained and on the same topics, or use the path/,
    );
  }
  await taken(publish(server, [{ dst_path: '/team', url }]));
  assert.equal((await publish(server, [append('x')])).status, 422);
  const next = await publish(server, [patch('/team', { op: 'add', path: '/members', value: ['x'] })]);
  assert.equal(field(next.json, 'seq'), 2, 'the refused ones are not in the log');
});

test('an append that is repeated under its key is recorded once, also when the document has changed meanwhile', async () => {
  await using server = await startServer();
  await taken(publish(server, [{ dst_path: '/team', data: { members: [] } }]));
  const key = { 'idempotency-key': 'ann joins' };
  const first = await publish(server, [append('ann')], key);
  assert.equal(first.status, 200, first.text);
  for (const between of [undefined, { dst_path: '/team', url: 'http://source.example/team' }]) {
    if (between !== undefined) await taken(publish(server, [between]));
    const again = await publish(server, [append('ann')], key);
    assert.deepEqual([again.status, again.headers.get('idempotency-replayed')], [200, 'true'], again.text);
    assert.equal(field(again.json, 'seq'), field(first.json, 'seq'));
    const other = await publish(server, [append('bob')], key);
    assert.deepEqual([other.status, other.headers.get('x-sync-error')], [409, 'idempotency_conflict'], other.text);
  }
});

test('what patches do where nothing or something else is there is the same for those who are there and who come later', async () => {
  await using server = await startServer();
  await using there = await startClient({ serverUrl: server.url, env: NO_POLICY });
  const cases: [path: string, before: unknown, op: object, after: unknown][] = [
    ['/c/missing', { a: 1 }, { op: 'replace', path: '/b', value: 2 }, { a: 1, b: 2 }],
    ['/c/parents', {}, { op: 'add', path: '/a/b', value: 1 }, { a: { b: 1 } }],
    ['/c/scalar', { a: 7 }, { op: 'add', path: '/a/b', value: 1 }, { a: { b: 1 } }],
    ['/c/gone', { a: 1 }, { op: 'remove', path: '/b' }, { a: 1 }],
    ['/c/insert', { l: [1, 3] }, { op: 'add', path: '/l/1', value: 2 }, { l: [1, 2, 3] }],
    ['/c/element', { l: [1, 3] }, { op: 'replace', path: '/l/1', value: 2 }, { l: [1, 2] }],
    ['/c/removed', { l: [1, 2] }, { op: 'remove', path: '/l/0' }, { l: [2] }],
    ['/c/behind', { l: [1] }, { op: 'remove', path: '/l/5' }, { l: [1] }],
    ['/c/outside', { l: [1] }, { op: 'add', path: '/l/5', value: 1 }, { l: [1] }],
    ['/c/name', { '0': 1 }, { op: 'add', path: '/0', value: 2 }, { '0': 2 }],
  ];
  for (const [dst_path, data, op] of cases) {
    await taken(publish(server, [{ dst_path, data }]));
    await taken(publish(server, [patch(dst_path, op)]));
  }
  await using late = await startClient({ serverUrl: server.url, env: NO_POLICY });
  for (const client of [there, late]) for (const [path, , , after] of cases) await client.holds(path, after);
});
