import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { pino } from 'pino';
import { tokenOf, withKeys } from '../support/auth.js';
import { startCallbackReceiver } from '../support/callback-receiver.js';
import { startDataSource } from '../support/data-source.js';
import { field, postJson, request } from '../support/http.js';
import { type ListeningServer, listening } from '../support/http-server.js';
import { startOpa } from '../support/opa.js';
import { recorder } from '../support/recorder.js';
import { startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** The specification "Client data-update sequence", from the publisher to the callbacks, with real parts. */

const DATA_ONLY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };
const USERS = '{"ann" : {"role":"admin"}}';

/** A data source that answers those only who send its key. */
function guardedSource(key: string): Promise<ListeningServer> {
  const server = createServer(({ headers }, response) => {
    if (headers.authorization === `Bearer ${key}`) response.setHeader('content-type', 'application/json').end(USERS);
    else response.writeHead(401).end('who are you?');
  });
  return listening(server);
}

test('a data update step by step: logged, fetched with its config, saved with 204, recorded, written to the health document, reported', async () => {
  await using source = await guardedSource('k3y');
  await using receiver = await startCallbackReceiver();
  const serverLog: Record<string, unknown>[] = [];
  const log = pino({ base: null }, { write: (line) => void serverLog.push(JSON.parse(line)) });
  await using server = await startServer({}, { log });
  await using opa = await startOpa();
  await using engine = await recorder(opa.url);
  await using client = await startClient({
    serverUrl: server.url,
    engineUrl: engine.url,
    env: {
      ...DATA_ONLY,
      SYNC_ENGINE_HEALTH_CHECK_POLICY_ENABLED: 'true',
      SYNC_SHOULD_REPORT_ON_DATA_UPDATES: 'true',
      SYNC_DEFAULT_UPDATE_CALLBACKS: JSON.stringify({ callbacks: [`${receiver.url}/always`] }),
    },
  });
  await client.healthy();

  const entry = { url: `${source.url}/users`, topics: ['policy_data'], dst_path: '/acl/acme' };
  const config = { headers: { Authorization: 'Bearer k3y' } };
  const publish = async (reason: string): Promise<string> => {
    const callback = { callbacks: [`${receiver.url}/once`] };
    const answer = await postJson(`${server.url}/data/config`, { entries: [{ ...entry, config }], reason, callback });
    assert.equal(answer.status, 200, answer.text);
    return String(field(answer.json, 'id'));
  };
  const id = await publish('a role has changed');
  await client.holds('/acl/acme', { ann: { role: 'admin' } });
  const reports = await until(
    () => {
      const all = ['/always', '/once'].map((path) =>
        receiver.at(path).find(({ json }) => field(json, 'update_id') === id),
      );
      return all.every((call) => call !== undefined) && all;
    },
    { withinMs: 20_000, what: 'both callbacks hear of it' },
  );

  const published = serverLog.find(({ msg }) => msg === 'data update published');
  assert.equal(published?.reason, 'a role has changed');
  const { url, topics, dst_path: path } = entry;
  assert.deepEqual(published?.entries, [{ url, method: 'PUT', path, inline_data: false, topics }]);

  const received = client.log.find(({ msg }) => msg === 'data update received');
  assert.deepEqual([received?.reason, received?.update_id], ['a role has changed', id]);

  const writes = engine.seen.filter((each) => each.path === '/v1/data/acl/acme' && each.method !== 'GET');
  assert.deepEqual(writes, [{ method: 'PUT', path: '/v1/data/acl/acme', status: 204 }]);
  assert.deepEqual((await request(`${opa.url}/v1/data/acl/acme`)).json, { result: { ann: { role: 'admin' } } });

  const transaction = { actions: ['set_policy_data'], error: '', id, success: true };
  const last = field((await client.health()).json, 'data', 'last_transaction');
  assert.deepEqual([field(last, 'id'), field(last, 'success')], [id, true]);
  await until(
    async () => {
      const document = (await request(`${opa.url}/v1/data/system/sync`)).json;
      return JSON.stringify(field(document, 'result', 'last_data_transaction')) === JSON.stringify(transaction);
    },
    { withinMs: 20_000, what: 'the health document has the transaction' },
  );

  for (const report of reports) {
    assert.deepEqual([report?.method, report?.headers['content-type']], ['POST', 'application/json']);
    const outcome = field(report?.json, 'reports', 0);
    assert.deepEqual([field(outcome, 'fetched'), field(outcome, 'saved')], [true, true]);
    assert.equal(field(outcome, 'hash'), createHash('sha256').update(USERS).digest('hex'));
  }

  // The same entry again is another update.
  const again = await publish('');
  assert.match(again, /^[0-9a-f]{32}$/);
  assert.notEqual(again, id);
  await until(() => receiver.updates('/always').includes(again), { withinMs: 20_000, what: 'the second report' });
  assert(!JSON.stringify([serverLog, client.log, receiver.calls]).includes('k3y'));
});

test('numbers in text fields: refused from people, read from the external data source', async () => {
  await using source = await startDataSource();
  await using server = await startServer({
    ...withKeys(),
    SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ external_source_url: `${source.url}/config` }),
  });
  const [token, publisher] = [await tokenOf(server.url), await tokenOf(server.url, { type: 'datasource' })];
  const entry = { url: `${source.url}/n`, topics: ['policy_data'], dst_path: 7 };
  source.serve('/n', { n: 1 });
  source.serve(`/config?token=${token}`, { entries: [entry] });
  await using client = await startClient({ serverUrl: server.url, env: { ...DATA_ONLY, SYNC_CLIENT_TOKEN: token } });
  // Not asked for by its path: once there is a rule anywhere, OPA takes a number there for an index into all data.
  await client.holds('', { 7: { n: 1 } });
  await client.healthy();
  const headers = { authorization: `Bearer ${publisher}` };
  const refused = await postJson(`${server.url}/data/config`, { entries: [entry] }, headers);
  assert.equal(refused.status, 422);
  assert.deepEqual(field(refused.json, 'detail', 0, 'loc'), ['body', 'entries', 0, 'dst_path']);
});

test('an update with more entries than allowed is refused whole', async () => {
  await using server = await startServer();
  const entries = Array.from({ length: 10_001 }, (_, n) => ({ url: '', topics: ['t'], dst_path: `/n${n}`, data: n }));
  const refused = await postJson(`${server.url}/data/config`, { entries });
  assert.equal(refused.status, 422);
  assert.deepEqual(field(refused.json, 'detail', 0, 'loc'), ['body', 'entries']);
  assert.deepEqual((await request(`${server.url}/data/config`)).json, { entries: [] });
  assert.equal((await postJson(`${server.url}/data/config`, { entries: entries.slice(1) })).status, 200);
});
