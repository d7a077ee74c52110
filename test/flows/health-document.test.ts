import assert from 'node:assert/strict';
import { after, before, describe, it, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { announced, byWebhook } from '../support/announced.js';
import { cutCable } from '../support/cut-cable.js';
import { startDataSource } from '../support/data-source.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { killProcess } from '../support/kill.js';
import { freePort, startOpa } from '../support/opa.js';
import { baseEntries, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const ON = { SYNC_ENGINE_HEALTH_CHECK_POLICY_ENABLED: 'true' };
const GOOD = 'package app\n\nimport rego.v1\n\nx := 1\n';
const BROKEN = 'package app\n\nimport rego.v1\n\nx := nowhere_defined\n';
const NONE = { actions: [], error: '', id: '', success: false };

/** What the engine answers for `data.system.sync`. */
async function healthIn(client: { engineUrl: string }): Promise<unknown> {
  return field((await request(`${client.engineUrl}/v1/data/system/sync`)).json, 'result');
}

/** Waits until the health document in the engine fits, and answers it. */
async function documented(client: StartedClient, what: string, fits: (document: unknown) => boolean): Promise<unknown> {
  let last: unknown;
  try {
    return await until(
      async () => {
        last = await healthIn(client);
        return fits(last) ? last : undefined;
      },
      { withinMs: 15_000, what },
    );
  } catch (cause) {
    throw new Error(`${what}: was ${JSON.stringify(last)}`, { cause });
  }
}

function isState(ready: boolean, healthy: boolean): (document: unknown) => boolean {
  return (document) => isDeepStrictEqual([field(document, 'ready'), field(document, 'healthy')], [ready, healthy]);
}

describe('the health document of a client that follows', () => {
  let repo: GitRepo;
  let server: StartedServer;
  let client: StartedClient;
  before(async () => {
    repo = await gitRepo();
    await repo.commit({ 'app/a.rego': GOOD });
    server = await startServer(byWebhook(repo));
    client = await startClient({ serverUrl: server.url, env: { ...ON, SYNC_INLINE_ENGINE_LOG_FORMAT: 'http' } });
    await client.healthy();
  });
  after(async () => {
    for (const part of [client, server, repo]) await part[Symbol.asyncDispose]();
  });

  it('what was done is told by name', async () => {
    await client.healthy();
    const send = async (id: string, entry: object): Promise<unknown> => {
      const entries = [{ url: '', topics: ['policy_data'], ...entry }];
      assert.equal((await postJson(`${server.url}/data/config`, { id, entries })).status, 200);
      const document = await documented(client, id, (each) => field(each, 'last_data_transaction', 'id') === id);
      return field(document, 'last_data_transaction');
    };
    const told = (id: string, action: string): object => ({ actions: [action], error: '', id, success: true });
    assert.deepEqual(await send('put', { dst_path: '/d', data: {} }), told('put', 'set_policy_data'));
    const patch = { dst_path: '/d', save_method: 'PATCH', data: [{ op: 'add', path: '/n', value: 1 }] };
    assert.deepEqual(await send('patch', patch), told('patch', 'patch_policy_data'));
    assert.deepEqual(
      await send('delete', { dst_path: '/d', save_method: 'DELETE' }),
      told('delete', 'delete_policy_data'),
    );
  });

  it('the engine answers for it with POST, with input and without, and with GET', async () => {
    await documented(client, 'healthy', isState(true, true));
    const url = `${client.engineUrl}/v1/data/system/sync`;
    for (const name of ['ready', 'healthy']) {
      for (const init of [
        { method: 'GET' },
        { method: 'POST' },
        { method: 'POST', body: '{}' },
        { method: 'POST', body: '{"input":{"user":"ann"}}' },
      ]) {
        const answer = await request(`${url}/${name}`, init);
        assert.deepEqual(
          [answer.status, field(answer.json, 'result')],
          [200, true],
          `${init.method} ${init.body} ${name}`,
        );
      }
    }
    const whole = await request(url);
    assert.deepEqual(Object.keys(field(whole.json, 'result') as object).slice(0, 2), [
      'healthy',
      'last_data_transaction',
    ]);
    // It is no part of what queries over all data see.
    assert.equal(field((await request(`${client.engineUrl}/v1/data`)).json, 'result', 'system'), undefined);
    assert.equal((await request(`${client.engineUrl}/v1/data/system/opal`)).text.includes('ready'), false);
  });

  it('a failing data source and a partly failed update make it unhealthy at the first attempt; both heal by themselves', async () => {
    await using source = await startDataSource();
    source.serve('/good', 1);
    await documented(client, 'nothing fails', isState(true, true));

    const body = {
      id: 'u-1',
      entries: [
        { url: `${source.url}/good`, dst_path: '/good', topics: ['policy_data'] },
        { url: `${source.url}/late`, dst_path: '/late', topics: ['policy_data'] },
      ],
    };
    assert.equal((await postJson(`${server.url}/data/config`, body)).status, 200);
    const failed = await documented(client, 'unhealthy', isState(true, false));
    const transaction = field(failed, 'last_data_transaction');
    assert.deepEqual([field(transaction, 'id'), field(transaction, 'success')], ['u-1', false]);
    assert.match(String(field(transaction, 'error')), /404/);
    await client.holds('/good', 1);

    // A later update that goes well heals nothing while the other still fails.
    await publish(server.url, { dst_path: '/other', data: 1 });
    await client.holds('/other', 1);
    assert.equal(field(await healthIn(client), 'healthy'), false);

    source.serve('/late', 2);
    await documented(client, 'healthy again', isState(true, true));
    assert.equal(await client.data('/late'), 2);
  });

  it('many updates at once make few writes of it, and no policy is ever compiled for it', async () => {
    await documented(client, 'healthy', isState(true, true));
    const count = (text: string): number => client.log.filter(({ msg }) => msg.includes(text)).length;
    const compiled = (): number => client.log.filter(({ msg }) => /PUT \/v1\/policies|bundle loaded/i.test(msg)).length;
    const before = { writes: count('PUT /v1/data/system/sync'), compiled: compiled(), startedMs: performance.now() };
    const last = 40;
    const successful = async (): Promise<unknown> =>
      field(await healthIn(client), 'transaction_data_statistics', 'successful');
    const successfulBefore = Number(await successful());
    for (let n = 1; n <= last; n++) await publish(server.url, { dst_path: `/many/n${n}`, data: n });
    await client.holds(`/many/n${last}`, last);
    await until(async () => (await successful()) === successfulBefore + last, {
      withinMs: 20_000,
      what: 'the last update',
    });
    const writes = count('PUT /v1/data/system/sync') - before.writes;
    const mostWrites = (performance.now() - before.startedMs) / 50 + 2;
    assert(writes >= 1 && writes <= mostWrites, `${writes} writes, at most ${mostWrites}`);
    assert.equal(compiled(), before.compiled);
  });

  it('a data update for its place is withheld, and a root document leaves it alone', async () => {
    await announced(server, repo, { 'data.json': '{"from":"git","system":{"sync":{"ready":"from git"}}}' });
    await documented(client, 'healthy', isState(true, true));
    await client.holds('/from', 'git');
    await publish(server.url, {
      dst_path: '/',
      data: { from: 'update', system: { sync: { ready: 'from an update' } } },
    });
    await client.holds('/from', 'update');
    await documented(client, 'still there', isState(true, true));

    await publish(server.url, { dst_path: '/system/sync/ready', data: 'mine' });
    const document = await documented(client, 'the update failed', isState(true, false));
    assert.match(String(field(document, 'last_data_transaction', 'error')), /kept for the client's own documents/);
    await publish(server.url, { dst_path: '/system/sync/ready', save_method: 'DELETE' });
    assert.equal(typeof (await client.query('/system/sync/ready')), 'boolean');
  });
});

test('the health document tells start, first sync, a bad commit, and recovery with the next good one', async () => {
  await using repo = await gitRepo();
  const first = await repo.commit({ 'app/a.rego': GOOD });
  await using source = await startDataSource();
  source.serve('/users', { ann: 1 });
  await using server = await startServer({
    ...byWebhook(repo),
    ...baseEntries({ url: `${source.url}/users`, dst_path: '/users' }),
  });
  await using cable = await cutCable(server.url);
  cable.cut();
  await using client = await startClient({ serverUrl: cable.url, env: ON });

  // Before the first transaction it is there, whole.
  const empty = await documented(client, 'the first document', (document) => document !== undefined);
  assert.deepEqual(empty, {
    ready: false,
    healthy: false,
    last_policy_transaction: NONE,
    last_data_transaction: NONE,
    last_failed_policy_transaction: NONE,
    last_failed_data_transaction: NONE,
    transaction_policy_statistics: { successful: 0, failed: 0 },
    transaction_data_statistics: { successful: 0, failed: 0 },
  });

  cable.mend();
  const synced = await documented(client, 'ready and healthy', isState(true, true));
  assert.deepEqual(field(synced, 'last_policy_transaction'), {
    actions: ['set_policies'],
    error: '',
    id: first,
    success: true,
  });
  assert.deepEqual(field(synced, 'last_data_transaction'), {
    actions: ['set_policy_data'],
    error: '',
    id: 'initial-load',
    success: true,
  });

  const bad = await announced(server, repo, { 'app/a.rego': BROKEN });
  const failed = await documented(client, 'unhealthy after a bad commit', isState(true, false));
  const transaction = field(failed, 'last_policy_transaction');
  assert.deepEqual([field(transaction, 'id'), field(transaction, 'success')], [bad, false]);
  assert.match(String(field(transaction, 'error')), /app\/a\.rego.*nowhere_defined/);
  assert.equal(await client.query('/app/x'), 1, 'the last good policy keeps serving');

  const good = await announced(server, repo, { 'app/a.rego': GOOD });
  const mended = await documented(client, 'healthy again', isState(true, true));
  assert.equal(field(mended, 'last_policy_transaction', 'id'), good);
  assert.equal(field(mended, 'last_failed_policy_transaction', 'id'), bad);
});

test("OPAL's name of the setting adds system.opal, with the same content", async () => {
  await using server = await startServer();
  await using client = await startClient({
    serverUrl: server.url,
    env: { OPAL_OPA_HEALTH_CHECK_POLICY_ENABLED: 'true', SYNC_POLICY_UPDATER_ENABLED: 'false' },
  });
  await documented(client, 'healthy', isState(true, true));
  await until(async () => isDeepStrictEqual(await client.data('/system/opal'), await healthIn(client)), {
    withinMs: 20_000,
    what: 'the same at system.opal',
  });
  assert.equal(await client.query('/system/opal/ready'), true);
});

test('without the setting there is no document, and system.sync is free', async () => {
  await using server = await startServer();
  await using client = await startClient({ serverUrl: server.url, env: { SYNC_POLICY_UPDATER_ENABLED: 'false' } });
  await client.healthy();
  assert.equal(await healthIn(client), undefined);
  await publish(server.url, { dst_path: '/system/sync', data: { mine: 1 } });
  await client.holds('/system/sync', { mine: 1 });
});

test('an engine that starts anew, inline or external, has the document again by itself', async () => {
  await using repo = await gitRepo();
  const hash = await repo.commit({ 'app/a.rego': GOOD });
  await using server = await startServer(byWebhook(repo));
  const port = await freePort();
  const first = await startOpa({ port });
  await using external = await startClient({ serverUrl: server.url, engineUrl: first.url, env: ON });
  await using inline = await startClient({ serverUrl: server.url, env: ON });
  for (const client of [external, inline]) await documented(client, 'healthy', isState(true, true));

  await first.kill();
  await using second = await startOpa({ port });
  assert.equal(second.url, first.url);
  const pid = inline.enginePid();
  killProcess(pid);
  await until(() => inline.enginePid() !== pid, { withinMs: 20_000, what: 'another inline engine' });
  for (const client of [external, inline]) {
    const document = await documented(client, 'healthy again', isState(true, true));
    assert.equal(field(document, 'last_policy_transaction', 'id'), hash);
  }
});

test('a health document that cannot be written fails no transaction, and is shown until it can', async () => {
  await using server = await startServer();
  // An engine whose own bundle owns all of `system.sync`: it refuses the document for good.
  await using opa = await startOpa();
  const rule = 'package system\n\nimport rego.v1\n\nsync := 5\n';
  await request(`${opa.url}/v1/policies/theirs.rego`, { method: 'PUT', body: rule });
  await using client = await startClient({
    serverUrl: server.url,
    engineUrl: opa.url,
    env: { ...ON, SYNC_POLICY_UPDATER_ENABLED: 'false' },
  });
  await publish(server.url, { dst_path: '/n', data: 1 });
  await client.holds('/n', 1);
  await client.healthy();
  const shown = await client.tells(
    'the failed write is shown',
    (health) => field(health, 'health_document', 'error') !== null,
  );
  assert.equal(shown.status, 200);
  assert.equal(field(shown.json, 'health_document', 'written'), false);
  assert.match(String(field(shown.json, 'health_document', 'error')), /system\/sync/);
  assert.equal(field(shown.json, 'data', 'last_transaction', 'success'), true);

  await request(`${opa.url}/v1/policies/theirs.rego`, { method: 'DELETE' });
  await documented(client, 'written after all', isState(true, true));
  const well = await client.tells('it is told', (health) => field(health, 'health_document', 'error') === null);
  assert.deepEqual(field(well.json, 'health_document'), { written: true, error: null });
});
