import assert from 'node:assert/strict';
import { createServer, request as forward } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { type Cable, cutCable } from '../support/cut-cable.js';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { baseEntries, following, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const DATA_ONLY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

async function disconnected(client: StartedClient): Promise<void> {
  await client.tells('it is cut off', (health) => field(health, 'server', 'connected') === false);
}

async function connected(client: StartedClient): Promise<void> {
  await client.tells('it is connected', (health) => field(health, 'server', 'connected') === true);
}

interface WrittenTo extends AsyncDisposable {
  readonly url: string;
  readonly writes: readonly string[];
}

/** Stands in front of an OPA and notes every request that is not a GET. */
async function writesTo(opaUrl: string): Promise<WrittenTo> {
  const writes: string[] = [];
  const proxy = createServer((incoming, outgoing) => {
    const { method = 'GET', url = '/', headers } = incoming;
    if (method !== 'GET') writes.push(`${method} ${url}`);
    const onward = forward(opaUrl + url, { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on('error', () => outgoing.destroy());
    incoming.pipe(onward);
  });
  return { ...(await listening(proxy)), writes };
}

describe('a client whose connection breaks', () => {
  let repo: GitRepo;
  let source: DataSource;
  let server: StartedServer;
  let opa: TestOpa;
  let proxy: WrittenTo;
  let cable: Cable;
  let client: StartedClient;
  before(async () => {
    repo = await gitRepo();
    await repo.commit({ 'a.rego': 'package a\n\nx := 1\n', 's/data.json': '{"s":1}' });
    source = await startDataSource();
    source.serve('/one', { n: 1 });
    source.serve('/two', { n: 2, pad: 'x'.repeat(100_000) });
    server = await startServer({
      ...following(repo),
      ...baseEntries({ url: `${source.url}/one`, dst_path: '/one' }, { url: `${source.url}/two`, dst_path: '/two' }),
    });
    opa = await startOpa();
    proxy = await writesTo(opa.url);
    cable = await cutCable(server.url);
    client = await startClient({ serverUrl: cable.url, engineUrl: proxy.url });
    await client.healthy();
  });
  after(async () => {
    for (const part of [client, cable, proxy, opa, server, source, repo]) await part?.[Symbol.asyncDispose]();
  });

  it('after a reconnect, what the engine holds already is not written again', async () => {
    await publish(server.url, { dst_path: '/mark', data: { n: 3 } });
    await client.holds('/mark', { n: 3 });
    assert(proxy.writes.includes('PUT /v1/data/mark'), String(proxy.writes));

    for (const round of [2, 3]) {
      const before = proxy.writes.length;
      const [ones, twos] = [source.count('/one'), source.count('/two')];
      cable.cut();
      await disconnected(client);
      cable.mend();
      await connected(client);
      await until(() => source.count('/one') > ones && source.count('/two') > twos, {
        withinMs: 20_000,
        what: 'base data is read again',
      });
      await publish(server.url, { dst_path: `/round${round}`, data: round });
      await client.holds(`/round${round}`, round);
      await client.healthy();
      assert.deepEqual(proxy.writes.slice(before), [`PUT /v1/data/round${round}`]);
    }
    source.serve('/one', { n: 'new' });
    cable.cut();
    await disconnected(client);
    cable.mend();
    await client.holds('/one', { n: 'new' });
    assert.equal(proxy.writes.at(-1), 'PUT /v1/data/one');
  });

  it('a client that was cut off has every update that it missed', async () => {
    await publish(server.url, { dst_path: '/list', data: { a: 1, b: 2 } }, { dst_path: '/gone', data: { a: 1 } });
    await client.holds('/gone', { a: 1 });

    cable.cut();
    await disconnected(client);
    assert.equal((await client.health()).status, 200, 'what it holds is good');
    source.serve('/url', { from: 'url' });
    await publish(server.url, { url: `${source.url}/url`, dst_path: '/url' });
    await publish(server.url, { dst_path: '/inline', data: { n: 1 } });
    await publish(server.url, { dst_path: '/list', save_method: 'PATCH', data: [{ op: 'remove', path: '/a' }] });
    await publish(server.url, { dst_path: '/inline/m', data: 2 });
    await publish(server.url, { dst_path: '/gone', save_method: 'DELETE' });
    await repo.commit({ 'a.rego': 'package a\n\nx := 2\n' });

    cable.mend();
    await client.holds('/url', { from: 'url' });
    await client.holds('/inline', { n: 1, m: 2 });
    await client.holds('/list', { b: 2 });
    await client.holds('/gone', undefined);
    await client.answers('/a/x', {}, 2);
    await client.healthy();
    assert.equal(source.count('/url'), 1);
  });

  it('updates that were sent into a connection that had died unnoticed are not lost', async () => {
    await publish(server.url, { dst_path: '/n', data: 0 });
    await client.holds('/n', 0);
    cable.freeze();
    for (let n = 1; n <= 20; n++)
      await publish(server.url, { dst_path: `/n${n}`, data: n }, { dst_path: '/n', data: n });
    cable.cut();
    await disconnected(client);
    assert.equal(await client.data('/n'), 0);
    cable.mend();
    await client.holds('/n', 20);
    await client.holds('/n1', 1);
    await client.healthy();
  });

  it('updates that are published while the connection comes and goes are all there in the end, in order', async () => {
    const expected: Record<string, unknown> = {};
    for (let n = 1; n <= 80; n++) {
      const name = `k${n % 7}`;
      source.serve(`/${n}`, { n });
      const content = n % 3 === 0 ? { url: `${source.url}/${n}` } : { data: { n } };
      await publish(server.url, { dst_path: `/all/${name}`, ...content });
      expected[name] = { n };
      if (n % 8 === 3) cable.cut();
      if (n % 8 === 6) cable.mend();
    }
    cable.mend();
    await client.holds('/all', expected);
    await client.healthy();
  });
});

describe('a client of a server that is another one, or has other settings', () => {
  it('a server that is restarted on its state folder has lost nothing', async () => {
    await using folder = await tempDir();
    await using source = await startDataSource();
    source.serve('/base', { base: 1 });
    const env = baseEntries({ url: `${source.url}/base`, dst_path: '/base' });
    await using first = await startServer(env, { stateDir: folder.path });
    await using cable = await cutCable(first.url);
    await using early = await startClient({ serverUrl: cable.url, env: DATA_ONLY });
    await early.healthy();
    await publish(first.url, { dst_path: '/base/below', data: 1 });
    await early.holds('/base', { base: 1, below: 1 });
    cable.cut();
    await disconnected(early);
    await publish(first.url, { dst_path: '/missed', data: 1 });
    await first.stop();

    await using second = await startServer(env, { stateDir: folder.path });
    cable.connectTo(second.url);
    cable.mend();
    await early.holds('/missed', 1);
    await publish(second.url, { dst_path: '/after', data: 1 });
    await early.holds('/after', 1);
    await using late = await startClient({ serverUrl: second.url, env: DATA_ONLY });
    for (const client of [early, late]) {
      await client.healthy();
      await client.holds('/base', { base: 1, below: 1 });
      assert.deepEqual([await client.data('/missed'), await client.data('/after')], [1, 1]);
    }
  });

  it('a server that comes back with an empty log makes the client delete nothing', async () => {
    await using source = await startDataSource();
    source.serve('/base', { base: 1 });
    source.serve('/update', { update: 1 });
    await using repo = await gitRepo();
    await repo.commit({ 'a.rego': 'package a\n\nx := 1\n', 'static/data.json': '{"s":1}' });
    const base = baseEntries({ url: `${source.url}/base`, dst_path: '/base' });
    await using first = await startServer({ ...following(repo), ...base });
    await using cable = await cutCable(first.url);
    await using client = await startClient({ serverUrl: cable.url });
    await client.healthy();
    await publish(first.url, { url: `${source.url}/update`, dst_path: '/update' }, { dst_path: '/inline', data: 1 });
    await client.holds('/update', { update: 1 });
    cable.cut();
    await disconnected(client);
    await first.stop();

    // Neither what was published nor the base configuration is there any more.
    await using second = await startServer({ ...following(repo), ...baseEntries() });
    cable.connectTo(second.url);
    cable.mend();
    await publish(second.url, { dst_path: '/new', data: 1 });
    await client.holds('/new', 1);
    await client.healthy();
    assert.deepEqual(await client.data('/update'), { update: 1 });
    assert.deepEqual(await client.data('/base'), { base: 1 });
    assert.deepEqual([await client.data('/inline'), await client.query('/a/x')], [1, 1]);
    // A word of the new log about such a path counts.
    await publish(second.url, { dst_path: '/update', save_method: 'DELETE' }, { dst_path: '/inline', data: 2 });
    await client.holds('/update', undefined);
    await client.holds('/inline', 2);
  });

  it('with a server that retains nothing, what was published stays through reconnects all the same', async () => {
    await using source = await startDataSource();
    source.serve('/base', { base: 1 });
    await using server = await startServer({
      ...baseEntries({ url: `${source.url}/base`, dst_path: '/base' }),
      SYNC_DATA_UPDATES_RETAINED: 'false',
    });
    await using cable = await cutCable(server.url);
    await using client = await startClient({
      serverUrl: cable.url,
      env: { ...DATA_ONLY, SYNC_DATA_TOPICS: 'policy_data,a' },
    });
    await client.healthy();
    source.serve('/update', { n: 1 });
    await publish(server.url, { url: `${source.url}/update`, dst_path: '/update', topics: ['policy_data', 'a'] });
    await publish(server.url, { dst_path: '/inline', data: 1 });
    await client.holds('/update', { n: 1 });
    await client.holds('/inline', 1);
    cable.cut();
    await disconnected(client);
    cable.mend();
    await until(() => source.count('/base') === 2, { withinMs: 20_000, what: 'base data is read again' });
    await publish(server.url, { dst_path: '/mark', data: 1 });
    await client.holds('/mark', 1);
    await client.healthy();
    assert.deepEqual(await client.data('/update'), { n: 1 });
    assert.deepEqual([await client.data('/inline'), await client.data('/base')], [1, { base: 1 }]);
    assert.equal(source.count('/update'), 1);
  });

  it('a base entry that the operator removes goes, around what was published below it', async () => {
    await using folder = await tempDir();
    await using source = await startDataSource();
    for (const path of ['/kept', '/removed']) source.serve(path, { from: path });
    const kept = { url: `${source.url}/kept`, dst_path: '/kept' };
    const removed = { url: `${source.url}/removed`, dst_path: '/removed' };
    await using first = await startServer(baseEntries(kept, removed), { stateDir: folder.path });
    await using cable = await cutCable(first.url);
    await using client = await startClient({ serverUrl: cable.url, env: DATA_ONLY });
    await client.healthy();
    await publish(first.url, { dst_path: '/removed/below', data: 1 }, { dst_path: '/update', data: 1 });
    await client.holds('/removed', { from: '/removed', below: 1 });
    await first.stop();

    // Not configured at all: that says nothing, and so nothing is removed.
    await using unset = await startServer({}, { stateDir: folder.path });
    cable.connectTo(unset.url);
    await until(() => source.count('/removed') === 2, { withinMs: 20_000, what: 'the configuration is read again' });
    await publish(unset.url, { dst_path: '/mark', data: 1 });
    await client.holds('/mark', 1);
    await client.holds('/removed', { from: '/removed', below: 1 });
    await unset.stop();

    await using third = await startServer(baseEntries(kept), { stateDir: folder.path });
    cable.connectTo(third.url);
    await client.holds('/removed', { below: 1 });
    await client.holds('/kept', { from: '/kept' });
    await client.healthy();
    assert.equal(await client.data('/update'), 1);
    assert.equal(source.count('/removed'), 2);
  });

  it('many small entries go to a new engine in few writes', async () => {
    await using server = await startServer();
    const expected: Record<string, number> = {};
    for (let n = 0; n < 300; n++) expected[`n${n}`] = n;
    const entries = Object.entries(expected).map(([name, data]) => ({ dst_path: `/many/${name}`, data }));
    for (let n = 0; n < 300; n += 100) await publish(server.url, ...entries.slice(n, n + 100));
    await using opa = await startOpa();
    await using proxy = await writesTo(opa.url);
    await using client = await startClient({ serverUrl: server.url, engineUrl: proxy.url, env: DATA_ONLY });
    await client.holds('/many', expected);
    assert(proxy.writes.length < 10, `${proxy.writes.length} writes`);
  });
});

describe('a client that is stopped', () => {
  /** What the server lists of clients that are away: id and why. */
  async function away(server: StartedServer): Promise<unknown[][]> {
    const { json } = await request(`${server.url}/clients`);
    const clients = field(json, 'clients');
    assert(Array.isArray(clients));
    return clients
      .filter((client) => field(client, 'connected') === false)
      .map((client) => [field(client, 'client_id'), field(client, 'away_reason')]);
  }

  it('is away while its engine goes on deciding without it, and gone together with it', async () => {
    await using server = await startServer();
    await using opa = await startOpa();
    await using ended = await startOpa();
    const start = (id: string, engine: { engineUrl?: string; engine?: 'embedded' }): Promise<StartedClient> =>
      startClient({ serverUrl: server.url, ...engine, env: { ...DATA_ONLY, SYNC_CLIENT_ID: id } });
    await using left = await start('left', { engineUrl: opa.url });
    await using together = await start('with', { engineUrl: ended.url });
    await using own = await start('own', {});
    await using embedded = await start('embedded', { engine: 'embedded' });
    for (const client of [left, together, own, embedded]) await client.healthy();
    await ended[Symbol.asyncDispose]();
    for (const client of [together, own, embedded, left]) await client.stop();
    const listed = async (): Promise<boolean> => (await away(server)).length > 0;
    await until(listed, { withinMs: 20_000, what: 'one is away' });
    const waited = await postJson(`${server.url}/data/config?wait=applied&timeout=5s`, {
      entries: [{ url: '', topics: ['policy_data'], dst_path: '/revoked', data: 1 }],
      reason: 'test',
    });
    assert.deepEqual(await away(server), [['left', 'it was stopped, and its engine went on with what it has']]);
    assert.equal(field(waited.json, 'away_count'), 1, waited.text);
  });
});
