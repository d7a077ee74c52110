import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startCallbackReceiver } from '../support/callback-receiver.js';
import { startFakeOpal } from '../support/fake-opal.js';
import { field } from '../support/http.js';
import { publishText, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const REPORTING = { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true' };

function to(...callbacks: unknown[]): Record<string, string> {
  return { ...REPORTING, SYNC_DEFAULT_UPDATE_CALLBACKS: JSON.stringify({ callbacks }) };
}

function publishAs(serverUrl: string, id: string, path: string, data: unknown): Promise<number> {
  const entries = [{ url: '', topics: ['policy_data'], dst_path: path, data }];
  return publishText(serverUrl, JSON.stringify({ id, entries }));
}

test('a report is delivered although its receiver fails twice', async () => {
  await using receiver = await startCallbackReceiver();
  await using server = await startServer();
  await using client = await startClient({ serverUrl: server.url, env: to(`${receiver.url}/cb`) });
  await client.healthy();
  receiver.answer('/cb', 503, 503, 200);
  await publishAs(server.url, 'u1', '/x', 1);
  await client.tells('it is delivered', (health) => field(health, 'reports', 'delivered') === 1);
  assert.deepEqual(receiver.updates('/cb'), ['u1', 'u1', 'u1']);
  assert.equal((await client.health()).status, 200);
});

test('a report that nobody takes is counted and told, and the client stays healthy', async () => {
  await using receiver = await startCallbackReceiver();
  await using server = await startServer();
  const url = `${receiver.url}/cb?key=s3cret`;
  const pair = [url, { headers: { 'x-key': 'h3ader' } }];
  await using client = await startClient({ serverUrl: server.url, env: to(pair) });
  await client.healthy();
  receiver.answer('/cb?key=s3cret', 400);
  await publishAs(server.url, 'u1', '/x', 1);
  const { json, status, text } = await client.tells(
    'it is given up',
    (health) => field(health, 'reports', 'failed') === 1,
  );
  assert.equal(status, 200);
  assert.equal(field(json, 'reports', 'last_error'), `POST ${receiver.url}/cb?***: answered 400`);
  assert.equal(receiver.calls.length, 1);
  const line = client.log.find(({ msg }) => msg === 'a report was not delivered');
  assert.equal(line?.update_id, 'u1');
  for (const secret of ['s3cret', 'h3ader']) assert(!(JSON.stringify(client.log) + text).includes(secret), secret);
});

test('a receiver that never answers holds up no update, no other receiver, and not the end of the client', async () => {
  await using silent = await startCallbackReceiver();
  await using receiver = await startCallbackReceiver();
  await using server = await startServer();
  silent.answer('/cb', 'silent');
  const env = { ...to(`${silent.url}/cb`, `${receiver.url}/cb`), SYNC_HTTP_FETCHER_TIMEOUT: '3600' };
  await using client = await startClient({ serverUrl: server.url, env });
  await client.healthy();
  const ids = Array.from({ length: 20 }, (_, at) => `u${at}`);
  for (const [at, id] of ids.entries()) {
    await publishAs(server.url, id, `/x/${at}`, at);
    await client.holds(`/x/${at}`, at);
  }
  await until(() => receiver.updates('/cb').length === ids.length, { withinMs: 20_000, what: 'the other one has all' });
  assert.deepEqual(receiver.updates('/cb').sort(), [...ids].sort());
  assert(silent.calls.length >= 1, 'the silent one was asked');
  const { json } = await client.health();
  assert.deepEqual([field(json, 'healthy'), field(json, 'reports', 'queued')], [true, ids.length]);
  await client.stop();
});

test('updates of an OPAL server are reported with its ids; a callback that cannot be called costs nothing', async () => {
  await using receiver = await startCallbackReceiver();
  await using opal = await startFakeOpal();
  await using client = await startClient({ serverUrl: opal.url, env: to(`${receiver.url}/cb`) });
  await until(() => opal.topics().includes('policy_data'), { withinMs: 20_000, what: 'the client has subscribed' });
  // As pydantic prints it, with a pair whose method nobody chose and one that makes no sense.
  const config = { fetcher: null, headers: { a: 'b' }, is_json: true, process_data: true, method: 'get', data: null };
  const callbacks = [`${receiver.url}/once`, [`${receiver.url}/pair`, config], 'nonsense', [`${receiver.url}/x`, 7]];
  const entry = { url: '', config: null, topics: ['policy_data'], dst_path: '/x', save_method: 'PUT', data: { a: 1 } };
  await opal.notify(['policy_data'], { id: 'from-opal', entries: [entry], reason: 'r', callback: { callbacks } });
  await client.holds('/x', { a: 1 });
  for (const path of ['/cb', '/once', '/pair']) {
    await until(() => receiver.updates(path).includes('from-opal'), { withinMs: 20_000, what: `a report at ${path}` });
  }
  assert.equal(receiver.at('/pair')[0]?.method, 'GET');
  assert.equal(client.log.filter(({ msg }) => msg.startsWith('a callback of an update cannot be called')).length, 2);
});
