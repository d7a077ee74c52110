import assert from 'node:assert/strict';
import { after, before, describe, it, test } from 'node:test';
import { byWebhook } from '../support/announced.js';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { enginelessFleet } from '../support/engineless-client.js';
import { gitRepo } from '../support/git-repo.js';
import { silentLogger } from '../support/library.js';
import { failing, publish, publishText, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const DATA_ONLY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

describe('data updates', () => {
  let source: DataSource;
  let server: StartedServer;
  let client: StartedClient;
  before(async () => {
    source = await startDataSource();
    server = await startServer();
    client = await startClient({ serverUrl: server.url, env: DATA_ONLY });
    await client.healthy();
  });
  after(async () => {
    for (const part of [client, server, source]) await part[Symbol.asyncDispose]();
  });

  it('updates by URL, inline, by patch and by deletion reach the engine in order', async () => {
    source.serve('/users', { ann: { role: 'admin' } });
    await publish(server.url, { url: `${source.url}/users`, dst_path: '/users' });
    await client.holds('/users', { ann: { role: 'admin' } });
    await publish(server.url, { dst_path: 'users/bob', data: { role: 'guest' } });
    await client.holds('/users', { ann: { role: 'admin' }, bob: { role: 'guest' } });
    const patch = [
      { op: 'replace', path: '/ann/role', value: 'owner' },
      { op: 'add', path: '/eve', value: [1, 2] },
      { op: 'remove', path: '/bob' },
    ];
    await publish(server.url, { dst_path: '/users', save_method: 'PATCH', data: patch });
    await client.holds('/users', { ann: { role: 'owner' }, eve: [1, 2] });
    await publish(
      server.url,
      { dst_path: '/users/eve', save_method: 'DELETE' },
      { dst_path: '/a b/c%2Fd', data: 'text' },
    );
    await client.holds('/users', { ann: { role: 'owner' } });
    await client.holds('/a%20b', { 'c/d': 'text' });
    await publish(server.url, { dst_path: '/users', save_method: 'DELETE' });
    await client.holds('/users', undefined);
    await client.healthy();
    assert.equal(source.count('/users'), 1);
  });

  it('the same source is read again when it is published again', async () => {
    for (const round of [1, 2, 3]) {
      source.serve('/again', { round });
      await publish(server.url, { url: `${source.url}/again`, dst_path: '/again' });
      await client.holds('/again', { round });
    }
    assert.equal(source.count('/again'), 3);
  });

  it('a dead source holds up nothing else, and is applied around what came later when it heals', async () => {
    const env = { ...DATA_ONLY, SYNC_HTTP_FETCHER_TIMEOUT: '0.2', SYNC_FETCHING_WORKER_COUNT: '2' };
    await using client = await startClient({ serverUrl: server.url, env });
    await client.healthy();
    const dead = ['/d1', '/d2', '/d3'];
    for (const path of dead) source.answer(path, { fault: 'silent' });
    for (const path of dead) await publish(server.url, { url: source.url + path, dst_path: `/dead${path}` });
    await client.tells('all dead sources', (health) => failing(health).length === 3);

    await using living = await startDataSource();
    living.serve('/x', { from: 'living' });
    await publish(server.url, { url: `${living.url}/x`, dst_path: '/living' });
    await publish(server.url, { dst_path: '/dead/d1/inner', data: 'later' });
    await client.holds('/living', { from: 'living' });
    await client.holds('/dead', { d1: { inner: 'later' } });
    assert.equal((await client.health()).status, 503);

    for (const path of dead) source.serve(path, { inner: 'old', path });
    await client.holds('/dead', {
      d1: { inner: 'later', path: '/d1' },
      d2: { inner: 'old', path: '/d2' },
      d3: { inner: 'old', path: '/d3' },
    });
    await client.healthy();
  });
});

test('numbers and nulls arrive as they were written, on every way into the engine', async () => {
  const text = '{"big":12345678901234567890,"list":[1.0,null],"none":null,"one":1.0}';
  await using repo = await gitRepo();
  // The package makes its documents go in together with the policy; the folder beside it goes in by itself.
  await repo.commit({
    'app/a.rego': 'package app.rules\n\nimport rego.v1\n\nx := 1\n',
    'app/rules/n/data.json': text,
    'plain/data.json': text,
  });
  await using source = await startDataSource();
  source.answer('/n', { text });
  source.answer('/large', { text: `{"pad":"${'x'.repeat(100_000)}","value":${text}}` });
  await using server = await startServer(byWebhook(repo));
  await using client = await startClient({ serverUrl: server.url });
  await client.healthy();

  const entry = (path: string, rest: string): string =>
    `{"url":"","topics":["policy_data"],"dst_path":"${path}",${rest}}`;
  const body = (...entries: string[]): string => `{"entries":[${entries.join(',')}]}`;
  await publish(server.url, { url: `${source.url}/n`, dst_path: '/url' });
  await publish(server.url, { url: `${source.url}/large`, dst_path: '/large' });
  await publishText(server.url, body(entry('/inline', `"data":${text}`)));
  await publishText(server.url, body(entry('/pair/a', `"data":${text}`), entry('/pair/b', `"data":${text}`)));
  await publishText(
    server.url,
    body(entry('/patched', `"save_method":"PATCH","data":[{"op":"add","path":"/value","value":${text}}]`)),
  );
  await publishText(server.url, body(entry('/app/rules/m', `"data":${text}`)));
  await publishText(server.url, body(entry('/around', `"data":{"inner":0,"value":${text}}`)));
  await publishText(server.url, body(entry('/around/inner', '"data":1.0')));
  await client.holds('/around/inner', 1);

  const places = ['/url', '/large/value', '/inline', '/pair/a', '/pair/b', '/patched/value', '/around/value'];
  for (const path of [...places, '/app/rules/n', '/app/rules/m', '/plain']) {
    await client.holds(path, JSON.parse(text));
    assert.equal((await client.text(path)).trim(), `{"result":${text}}`, path);
  }
  assert.equal((await client.text('/around/inner')).trim(), '{"result":1.0}');
});

test('one update on several topics of a client is one write of its engine, at once and after a reconnect', async () => {
  await using source = await startDataSource();
  source.serve('/one', { ann: 1 });
  await using first = await startServer();
  await using fleet = await enginelessFleet(first.url, ['a/b,a,c'], { log: silentLogger });
  const [client] = fleet.clients;
  assert(client !== undefined);
  const applied = async (seq: number): Promise<void> => {
    const done = (): boolean => client.data.applyStatus(seq) === 'applied';
    await until(done, { withinMs: 15_000, what: `update ${seq} is applied` });
  };
  await applied(await publish(first.url, { dst_path: '/start', data: 1, topics: ['c'] }));
  const before = client.writes;
  await applied(await publish(first.url, { url: `${source.url}/one`, dst_path: '/one', topics: ['a/b', 'c'] }));
  assert.deepEqual([client.text('/one'), client.writes, source.count('/one')], ['{"ann":1}', before + 1, 1]);
  // What is for a topic below one of its own is for it, too; what is for others is not.
  await publish(first.url, { dst_path: '/elsewhere', data: 1, topics: ['d'] });
  await applied(await publish(first.url, { dst_path: '/below', data: 1, topics: ['a/x'] }));
  assert.deepEqual([client.text('/below'), client.text('/elsewhere'), client.writes], ['1', undefined, before + 2]);

  await first.stop();
  await using second = await startServer({ SYNC_SERVER_BIND_PORT: String(first.port) }, { stateDir: first.stateDir });
  await applied(await publish(second.url, { dst_path: '/two', data: 1, topics: ['a/b', 'c'] }));
  assert.equal(client.writes, before + 3);
  assert.equal(client.text('/two'), '1');
});
