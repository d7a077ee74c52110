import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { cutCable } from '../support/cut-cable.js';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { field, postJson, request } from '../support/http.js';
import { startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';

/** A server that leads to an external data source for base entries still keeps what is published (design D19). */

const OURS = { 'x-sync-protocol': '2' };

interface Stage {
  readonly server: StartedServer;
  readonly source: DataSource;
  /** Of a client. */
  readonly token: string;
  publish(...entries: object[]): Promise<number>;
}

/** The API lists one entry, whose document is `{ from: 'api' }`. */
async function stage(source: DataSource): Promise<Stage & AsyncDisposable> {
  const env = { SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ external_source_url: `${source.url}/api` }) };
  const server = await startServer({ ...withKeys(), ...env });
  const token = await tokenOf(server.url, { type: 'client' });
  const entry = { url: `${source.url}/doc`, topics: ['policy_data'], dst_path: '/doc' };
  source.serve(`/api?token=${token}`, { entries: [entry] });
  source.serve('/doc', { from: 'api' });
  const publisher = bearer(await tokenOf(server.url, { type: 'datasource' }));
  return {
    server,
    source,
    token,
    publish: async (...given) => {
      const entries = given.map((each) => ({ url: '', topics: ['policy_data'], ...each }));
      const answer = await postJson(`${server.url}/data/config`, { entries }, publisher);
      assert.equal(answer.status, 200, answer.text);
      return Number(field(answer.json, 'seq'));
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

test('GET /data/updates, and GET /data/config of updates alone, answer what was published; the rest leads to the API', async () => {
  await using source = await startDataSource();
  await using it = await stage(source);
  await it.publish({ dst_path: '/a', data: 1 });
  const seq = await it.publish({ dst_path: '/b', data: 2 });
  const headers = { ...OURS, ...bearer(it.token) };
  const updates = await request(`${it.server.url}/data/updates`, { headers });
  assert.deepEqual(
    [updates.status, field(updates.json, 'updates', 1, 'seq'), field(updates.json, 'updates', 1, 'entries', 0, 'data')],
    [200, seq, 2],
    updates.text,
  );
  const own = await request(`${it.server.url}/data/config?origin=update`, { headers });
  assert.deepEqual(
    [own.status, field(own.json, 'entries', 0, 'dst_path'), field(own.json, 'entries', 1, 'dst_path')],
    [200, '/a', '/b'],
    own.text,
  );
  for (const query of ['', '?origin=base', '?topics=policy_data']) {
    assert.equal((await request(`${it.server.url}/data/config${query}`, { headers })).status, 307, query);
  }
});

test('a client that starts, or was away, has what the API lists and what was published; what was published ranks above', async () => {
  await using source = await startDataSource();
  await using it = await stage(source);
  await it.publish({ dst_path: '/before', data: 1 }, { dst_path: '/doc/inner', data: 'published' });
  await using cable = await cutCable(it.server.url);
  await using client = await startClient({
    serverUrl: cable.url,
    env: { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_CLIENT_TOKEN: it.token },
  });
  await client.holds('/before', 1);
  await client.holds('/doc', { from: 'api', inner: 'published' });
  await client.healthy();

  cable.cut();
  await client.tells('it is cut off', (health) => field(health, 'server', 'connected') === false);
  await it.publish({ dst_path: '/missed', data: 2 });
  source.serve('/doc', { from: 'api', version: 2 });
  cable.mend();
  await client.holds('/missed', 2);
  await client.holds('/doc', { from: 'api', version: 2, inner: 'published' });
  assert.equal(await client.data('/before'), 1);
  await client.healthy();
});

test('an API that is away holds up nothing that is published', async () => {
  await using source = await startDataSource();
  await using it = await stage(source);
  source.answer(`/api?token=${it.token}`, { status: 503, text: 'not now' });
  await it.publish({ dst_path: '/before', data: 1 });
  await using client = await startClient({
    serverUrl: it.server.url,
    env: { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_CLIENT_TOKEN: it.token },
  });
  await client.holds('/before', 1);
  await it.publish({ dst_path: '/after', data: 2 });
  await client.holds('/after', 2);
  source.serve(`/api?token=${it.token}`, {
    entries: [{ url: `${source.url}/doc`, topics: ['policy_data'], dst_path: '/doc' }],
  });
  await client.holds('/doc', { from: 'api' });
  await client.healthy();
});
