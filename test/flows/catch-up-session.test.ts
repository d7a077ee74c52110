import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { FAREWELL_CODES } from '../../src/pubsub/close-reason.js';
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

test('a client that stops before its subscription is answered says goodbye: the server may list it already', async () => {
  await using server = await startFakeSessionServer();
  await using client = await start(server);
  await client.healthy();
  let stopped: Promise<void> | undefined;
  server.beforeAnswer = () => {
    stopped = client.stop();
  };
  server.drop();
  await subscribed(server, 2);
  await stopped;
  await until(() => server.closes.length === 2, { ...WITHIN, what: 'both connections are closed' });
  assert.equal(server.closes[1], FAREWELL_CODES.goodbye);
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

test('a log that has gone back behind the position is another log: nothing goes, and what it says, page by page, counts', async () => {
  await using server = await startFakeSessionServer();
  server.pageLimit = 1;
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
  assert.deepEqual([await client.data('/n1'), await client.data('/n2')], [1, 2]);
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
