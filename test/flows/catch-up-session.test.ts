import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { startDataSource } from '../support/data-source.js';
import { type FakeSessionServer, startFakeSessionServer } from '../support/fake-session-server.js';
import { field, request } from '../support/http.js';
import { failing, type StartedClient, startClient } from '../support/start-client.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** The client's side of sessions, against a server that loses and forgets what a test says. */

const DATA_ONLY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };
const WITHIN = { withinMs: 20_000 };

function start(server: { url: string }, env: Record<string, string> = {}): Promise<StartedClient> {
  return startClient({ serverUrl: server.url, env: { ...DATA_ONLY, ...env } });
}

function pulls(server: FakeSessionServer): string[] {
  return server.requests.filter((path) => path.startsWith('/data/updates'));
}

async function subscribed(server: FakeSessionServer, times: number): Promise<void> {
  await until(() => server.subscriptions.length >= times, { ...WITHIN, what: `${times} subscriptions` });
}

function orphaned(health: unknown): string[] {
  const found = field(health, 'data', 'orphaned');
  return Array.isArray(found) ? found.map(String) : [];
}

async function position(client: StartedClient, query = ''): Promise<{ status: number; json: unknown }> {
  const { status, json } = await request(`${client.url}/position${query}`);
  return { status, json };
}

test('after a short absence a client asks for the tail alone, and for nothing where it missed nothing', async () => {
  await using server = await startFakeSessionServer();
  server.publish([{ dst_path: '/a', data: 1 }]);
  await using client = await start(server);
  await client.holds('/a', 1);
  await client.healthy();
  server.publish([{ dst_path: '/b', data: 1 }]);
  await client.holds('/b', 1);
  assert.deepEqual(pulls(server), ['/data/updates?after=0&topics=policy_data&limit=1000']);

  server.drop();
  server.publish([{ dst_path: '/c', data: 1 }]);
  server.publish([{ dst_path: '/a', save_method: 'DELETE' }]);
  await subscribed(server, 2);
  await client.holds('/c', 1);
  await client.holds('/a', undefined);
  assert.deepEqual(pulls(server).slice(1), ['/data/updates?after=2&topics=policy_data&limit=1000&epoch=one']);
  assert.deepEqual(field(server.subscriptions[1], 'position'), {
    epoch: 'one',
    applied_through: 2,
    applied_beyond: [],
    unresolved: [],
  });

  server.drop();
  await subscribed(server, 3);
  const configs = (): number => server.requests.filter((path) => path.startsWith('/data/config')).length;
  await until(() => configs() === 3, { ...WITHIN, what: 'base entries are read again' });
  await client.healthy();
  assert.equal(pulls(server).length, 2);
});

test('an update that arrives before the answer to the first subscription keeps its place', async () => {
  await using server = await startFakeSessionServer();
  server.publish([{ dst_path: '/a', data: { x: 'old', y: 1 } }]);
  server.beforeAnswer = () => {
    server.beforeAnswer = undefined;
    server.publish([{ dst_path: '/a/x', data: 'new' }]);
  };
  let readOn = (): void => undefined;
  server.updatesAfter = new Promise((resolve) => {
    readOn = () => resolve(undefined);
  });
  await using client = await start(server);
  await client.holds('/a', { x: 'new' });
  readOn();
  await client.holds('/a', { x: 'new', y: 1 });
  await client.healthy();
  assert.deepEqual(await client.data('/a'), { x: 'new', y: 1 });
  await until(async () => field((await position(client)).json, 'applied_through') === 2, {
    withinMs: 20_000,
    what: 'both updates are in',
  });
});

test('a lost notice is noticed by the next one, and the last one by a heartbeat', async () => {
  await using server = await startFakeSessionServer();
  await using client = await start(server);
  await client.healthy();
  server.publish([{ dst_path: '/lost', data: 1 }], { lost: true });
  server.publish([{ dst_path: '/next', data: 1 }]);
  await client.holds('/next', 1);
  await client.holds('/lost', 1);

  server.heartbeatSeconds = 0.2;
  server.drop();
  await subscribed(server, 2);
  server.publish([{ dst_path: '/last', data: 1 }], { lost: true });
  await client.holds('/last', 1);
  assert.equal(client.log.filter(({ msg }) => msg === 'data update received').length, 3);
});

test('a server that comes back with an empty log empties nothing: the paths are orphaned until somebody prunes them', async () => {
  await using server = await startFakeSessionServer();
  server.publish([
    { dst_path: '/kept', data: 1 },
    { dst_path: '/deep/er', data: 2 },
  ]);
  await using client = await start(server);
  await client.holds('/kept', 1);
  server.forget();
  server.epoch = 'two';
  server.tailFrom = Number.MAX_SAFE_INTEGER;
  server.drop();
  await subscribed(server, 2);
  server.publish([{ dst_path: '/new', data: 1 }]);
  await client.holds('/new', 1);
  const health = await client.tells('it follows the other log', (json) => field(json, 'data', 'epoch') === 'two');
  assert.deepEqual(field(health.json, 'data', 'orphaned'), ['/kept', '/deep/er']);
  assert.deepEqual([await client.data('/kept'), await client.data('/deep/er')], [1, 2]);
  await client.healthy();

  server.publish([{ dst_path: '/kept', data: 3 }]);
  await client.holds('/kept', 3);
  const answer = await request(`${client.url}/orphans/prune`, { method: 'POST' });
  assert.deepEqual([answer.status, answer.json], [200, { pruned: ['/deep/er'] }]);
  assert.equal(await client.data('/deep/er'), undefined);
  assert.equal(await client.data('/kept'), 3);
  const after = await client.health();
  assert.deepEqual(field(after.json, 'data', 'orphaned'), []);
});

test('a log that has gone back behind the position is another log: nothing goes, and what it says counts', async () => {
  await using server = await startFakeSessionServer();
  await using client = await start(server);
  for (let n = 1; n <= 5; n++) server.publish([{ dst_path: `/n${n}`, data: n }]);
  await client.holds('/n5', 5);
  server.forget(2);
  server.drop();
  await subscribed(server, 2);
  server.publish([{ dst_path: '/n4', data: 'new' }]);
  await client.holds('/n4', 'new');
  assert.deepEqual([await client.data('/n3'), await client.data('/n5')], [3, 5]);
  const health = await client.tells('it names them', (json) => orphaned(json).length === 2);
  assert.deepEqual(orphaned(health.json), ['/n3', '/n5']);
});

/** A client that is at 5, of a server whose log goes back to 2. What `publish` brings then has other places. */
async function goneBack(client: StartedClient, server: FakeSessionServer, publish: () => void): Promise<void> {
  server.publish([{ dst_path: '/first', data: 1 }]);
  server.publish([{ dst_path: '/second', data: 2 }]);
  server.publish([{ dst_path: '/a', data: { k: 1 } }]);
  server.publish([{ dst_path: '/a/k', data: 'old' }]);
  server.publish([{ dst_path: '/a/more', data: 'old' }]);
  await client.holds('/a', { k: 'old', more: 'old' });
  server.forget(2);
  server.beforeAnswer = () => {
    server.beforeAnswer = undefined;
    publish();
  };
  server.drop();
  await subscribed(server, 2);
}

for (const [what, data] of [
  ['another update', 'new'],
  ['the very same update as before', { k: 1 }],
] as const) {
  test(`a log that has gone back may tell of ${what} before it answers the subscription: it has its place in what the log is now`, async () => {
    await using server = await startFakeSessionServer();
    await using client = await start(server);
    await goneBack(client, server, () => server.publish([{ dst_path: '/a', data }]));
    await client.holds('/a', data);
    server.publish([{ dst_path: '/last', data: 1 }]);
    await client.holds('/last', 1);
    assert.deepEqual(
      [await client.data('/a'), await client.data('/first'), await client.data('/second')],
      [data, 1, 2],
    );
    assert.equal(field((await position(client)).json, 'applied_through'), 4);
    assert.deepEqual(orphaned((await client.health()).json), []);
  });
}

test('a patch that a log which has gone back tells of before its answer is applied once', async () => {
  await using server = await startFakeSessionServer();
  server.base = [{ url: '', dst_path: '/p', data: { was: 1 } }];
  await using client = await start(server);
  const move = [{ op: 'move', from: '/was', path: '/is' }];
  await goneBack(client, server, () => server.publish([{ dst_path: '/p', save_method: 'PATCH', data: move }]));
  await client.holds('/p', { is: 1 });
  await client.tells('all is in', (health) => field(health, 'data', 'epoch') === 'one');
  server.publish([{ dst_path: '/last', data: 1 }]);
  await client.holds('/last', 1);
  await client.healthy();
});

test('a log that the client comes back to wins over what another one said between', async () => {
  await using server = await startFakeSessionServer();
  server.publish([{ dst_path: '/a', data: { k: 'one' } }]);
  await using client = await start(server);
  await client.holds('/a', { k: 'one' });
  server.forget();
  server.epoch = 'two';
  server.drop();
  await subscribed(server, 2);
  server.publish([{ dst_path: '/a/k', data: 'two' }]);
  await client.holds('/a', { k: 'two' });
  server.forget();
  server.epoch = 'one';
  server.publish([{ dst_path: '/a', data: { k: 'one' } }], { lost: true });
  server.drop();
  await client.holds('/a', { k: 'one' });
});

test('a client that has a new topic compares with a complete fold of its log: what that has no more goes', async () => {
  await using folder = await tempDir();
  const offline = { SYNC_OFFLINE_MODE_ENABLED: 'true', SYNC_STORE_BACKUP_PATH: join(folder.path, 'backup.json') };
  await using server = await startFakeSessionServer();
  server.publish([{ dst_path: '/gone', data: 1 }]);
  server.publish([{ dst_path: '/stays', data: 1 }]);
  server.publish([{ dst_path: '/other', data: 1, topics: ['other'] }]);
  {
    await using first = await start(server, offline);
    await first.holds('/stays', 1);
    await first.healthy();
  }
  // An operator has taken it out of the log.
  server.drop();
  server.remove(1);
  server.tailFrom = Number.MAX_SAFE_INTEGER;
  await using second = await start(server, { ...offline, SYNC_DATA_TOPICS: 'policy_data,other' });
  await second.holds('/other', 1);
  await second.holds('/gone', undefined);
  assert.equal(await second.data('/stays'), 1);
});

test('a client that is restarted goes on from its backup: the tail alone, and what was not resolved then', async () => {
  await using folder = await tempDir();
  await using source = await startDataSource();
  const offline = { SYNC_OFFLINE_MODE_ENABLED: 'true', SYNC_STORE_BACKUP_PATH: join(folder.path, 'backup.json') };
  await using server = await startFakeSessionServer();
  server.publish([{ dst_path: '/a', data: 1 }]);
  const open = server.publish([{ url: `${source.url}/open`, dst_path: '/open' }]);
  server.publish([{ dst_path: '/b', data: 1 }]);
  {
    await using first = await start(server, offline);
    await first.holds('/b', 1);
    server.publish([{ dst_path: '/c', data: 1 }]);
    await first.holds('/c', 1);
    await first.tells('one fails', (health) => failing(health).length === 1);
  }
  server.publish([{ dst_path: '/missed', data: 1 }]);
  source.serve('/open', { open: 1 });
  await using second = await start(server, offline);
  await second.holds('/missed', 1);
  await second.holds('/open', { open: 1 });
  assert.deepEqual([await second.data('/a'), await second.data('/b'), await second.data('/c')], [1, 1, 1]);
  assert.equal(pulls(server).at(-1), `/data/updates?after=${open - 1}&topics=policy_data&limit=1000&epoch=one`);
});

test('many pages are one catch-up, and a base that cannot be read holds up no update', async () => {
  await using server = await startFakeSessionServer();
  server.base = undefined;
  server.pageLimit = 7;
  for (let n = 1; n <= 30; n++) server.publish([{ dst_path: `/n/k${n}`, data: n }]);
  await using client = await start(server);
  await client.holds('/n/k30', 30);
  assert.equal(Object.keys((await client.data('/n')) as object).length, 30);
  assert.equal((await client.ready()).status, 503);
  server.base = [];
  await until(async () => (await client.ready()).status === 200, { ...WITHIN, what: 'it is ready' });
  await client.healthy();
});

test('at-least answers when the update and what overlaps it is in the engine, and says so when the time is up', async () => {
  await using server = await startFakeSessionServer();
  await using source = await startDataSource();
  await using client = await start(server);
  await client.healthy();
  const seq = server.publish([{ dst_path: '/inline', data: 1 }]);
  assert.deepEqual((await position(client, `?at-least=${seq}`)).status, 200);
  assert.equal(await client.data('/inline'), 1);

  const slow = server.publish([{ url: `${source.url}/slow`, dst_path: '/slow' }]);
  const below = server.publish([{ dst_path: '/slow/below', data: 1 }]);
  const other = server.publish([{ dst_path: '/other', data: 1 }]);
  assert.equal((await position(client, `?at-least=${other}`)).status, 200);
  const late = await position(client, `?at-least=${below}&timeout=50ms`);
  assert.deepEqual([late.status, field(late.json, 'status')], [202, 'pending']);
  assert.deepEqual(field((await position(client)).json, 'unresolved'), [slow]);
  const waiting = position(client, `?at-least=${below}&timeout=10s`);
  source.serve('/slow', { slow: true });
  assert.equal((await waiting).status, 200);
  assert.deepEqual(await client.data('/slow'), { slow: true, below: 1 });
  assert.deepEqual(field((await position(client)).json, 'unresolved'), []);

  // Nobody told the client of this one.
  const lost = server.publish([{ dst_path: '/lost', data: 1 }], { lost: true });
  assert.equal((await position(client, `?at-least=${lost}`)).status, 200);
  assert.equal((await position(client, `?at-least=${lost}&epoch=other`)).status, 409);
  assert.equal((await position(client, `?at-least=${lost + 1}&timeout=50ms`)).status, 202);
  assert.equal((await position(client, '?at-least=x')).status, 422);
});

test('an update whose source fails is obsolete once a newer one replaces it, and counts as applied with that', async () => {
  await using server = await startFakeSessionServer();
  await using source = await startDataSource();
  await using client = await start(server);
  await client.healthy();
  const first = server.publish([{ url: `${source.url}/never`, dst_path: '/a' }]);
  await client.tells('it fails', (health) => failing(health).length === 1);
  server.publish([{ dst_path: '/a', data: 2 }]);
  await client.holds('/a', 2);
  await client.healthy();
  assert.equal((await position(client, `?at-least=${first}`)).status, 200);
});

test('the client reports what it holds when that changes, and with every heartbeat', async () => {
  await using server = await startFakeSessionServer();
  server.heartbeatSeconds = 0.3;
  await using client = await start(server, { SYNC_CLIENT_ID: 'client-1' });
  await client.healthy();
  const seq = server.publish([{ dst_path: '/a', data: 1 }]);
  const report = await until(
    () =>
      server.reports.find(
        (each) => field(each, 'position', 'applied_through') === seq && field(each, 'ready') === true,
      ),
    { ...WITHIN, what: 'a report of the update' },
  );
  assert.deepEqual(
    ['client_id', 'policy_hash', 'healthy', 'failing', 'blocked'].map((name) => field(report, name)),
    ['client-1', null, true, [], []],
  );
  assert.equal(field(report, 'engine', 'online'), true);
  const count = server.reports.length;
  await until(() => server.reports.length > count, { ...WITHIN, what: 'a report without a change' });
});

test('clients that come back together spread their questions over the time that the server asks for', async () => {
  await using server = await startFakeSessionServer();
  await using source = await startDataSource();
  source.serve('/base', { n: 1 });
  server.base = [{ url: `${source.url}/base`, dst_path: '/base' }];
  await using client = await start(server);
  await client.holds('/base', { n: 1 });
  await client.healthy();
  server.spreadMs = 60_000;
  server.drop();
  await subscribed(server, 2);
  server.publish([{ dst_path: '/live', data: 1 }]);
  await client.holds('/live', 1);
  assert.equal(source.count('/base'), 1);
});
