import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { runHere } from '../support/run-here.js';
import { publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** What `GET /clients` says of those that are not well, and how much at a time. */

const TOPIC = 'policy_data';
const OURS = { 'x-sync-protocol': '2' };
const WITHIN = { withinMs: 20_000 };

async function page(url: string, query = ''): Promise<{ ids: string[]; next: unknown; total: unknown; bytes: number }> {
  const { json, text } = await request(`${url}/clients${query}`);
  const clients = field(json, 'clients');
  assert(Array.isArray(clients), text);
  const ids = clients.map((client) => String(field(client, 'client_id')));
  return { ids, next: field(json, 'next'), total: field(json, 'total'), bytes: text.length };
}

/** The ids on all pages. */
async function allPages(url: string, query: string): Promise<string[]> {
  const ids: string[] = [];
  for (let after = ''; ; ) {
    const { ids: some, next } = await page(url, `?${query}${after}`);
    ids.push(...some);
    if (next === null) return ids;
    assert.equal(next, some.at(-1));
    after = `&after=${encodeURIComponent(String(next))}`;
  }
}

describe('pages of GET /clients', () => {
  it('are of the asked size, have everyone once, and go on where the last one ended, whoever comes and goes', async () => {
    await using server = await startServer();
    const peers: StartedPeer[] = [];
    try {
      const ids = Array.from({ length: 25 }, (_, index) => `client ${String(index).padStart(2, '0')} é/&`);
      for (const client_id of ids.toReversed()) {
        const peer = await startPeer(server.url, OURS);
        peers.push(peer);
        await peer.call('subscribe', { topics: [TOPIC], client_id });
      }
      assert.deepEqual(await allPages(server.url, 'limit=10'), ids);
      assert.deepEqual(await page(server.url).then(({ ids: all, next, total }) => [all.length, next, total]), [
        25,
        null,
        25,
      ]);
      const first = await page(server.url, '?limit=10');
      assert.deepEqual([first.ids.length, first.total], [10, 25]);
      // The client that the page ended with has left when the next one is asked for.
      await peers[25 - 10]?.[Symbol.asyncDispose]();
      const second = await page(server.url, `?limit=10&after=${encodeURIComponent(String(first.next))}`);
      assert.deepEqual(second.ids, ids.slice(10, 20));
      assert.equal((await request(`${server.url}/clients?limit=1001`)).status, 422);
      assert.equal((await request(`${server.url}/clients?limit=0`)).status, 422);
      const table = await runHere('policysync', ['status', '--server-url', server.url, '--json']);
      assert.equal((field(JSON.parse(table.stdout), 'clients') as unknown[]).length, 25);
    } finally {
      await Promise.all(peers.map((peer) => peer[Symbol.asyncDispose]()));
    }
  });

  it('are bounded however much clients say of themselves, also when they are away', async () => {
    await using server = await startServer();
    const peers: StartedPeer[] = [];
    const topics = Array.from({ length: 500 }, (_, index) => `${index}`.padEnd(500, 't'));
    const text = 'e'.repeat(500);
    const failing = Array.from({ length: 50 }, () => ({ path: `/${text}`, error: text }));
    try {
      for (let index = 0; index < 40; index++) {
        const peer = await startPeer(server.url, OURS);
        peers.push(peer);
        const client_id = `${index}`.padEnd(250, 'c');
        assert.equal(field(await peer.call('subscribe', { topics, client_id }), 'accepted'), true);
        const engine = { kind: text, version: text, online: false, error: text };
        const state = {
          client_id,
          position: null,
          policy_hash: null,
          ready: false,
          healthy: false,
          engine,
          failing,
          since: 1,
        };
        assert.equal(await peer.call('report', state), true);
      }
      const { bytes, ids } = await page(server.url);
      assert(bytes < 2 * 1024 * 1024 && ids.length < 40, `${bytes} bytes, ${ids.length} clients`);
      assert.equal((await allPages(server.url, 'limit=1000')).length, 40, 'and all of them are there');
      const refused = await startPeer(server.url, OURS);
      peers.push(refused);
      const tooLong = { topics: ['t'.repeat(2000)], client_id: 'x' };
      assert.equal(field(await refused.call('subscribe', tooLong), 'accepted'), false);
    } finally {
      await Promise.all(peers.map((peer) => peer[Symbol.asyncDispose]()));
    }
    await until(async () => (await page(server.url)).ids.length === 40, {
      ...WITHIN,
      what: 'away, they fit on one page',
    });
    const { bytes } = await page(server.url);
    assert(bytes < 40 * 10_000, `${bytes} bytes`);
  });
});

describe('a client of OPAL', () => {
  const ANNOUNCE = '__opal_stats_add';

  it('is one client with its two connections, whether it announces itself for statistics or not', async () => {
    await using server = await startServer();
    await using policy = await startPeer(server.url);
    await using data = await startPeer(server.url);
    for (const [peer, topics] of [
      [policy, ['policy:.']],
      [data, [TOPIC]],
    ] as const) {
      assert.equal(await peer.call('subscribe', { topics }), true);
    }
    const listed = async (): Promise<unknown[][]> => {
      const clients = field((await request(`${server.url}/clients`)).json, 'clients');
      assert(Array.isArray(clients));
      return clients.map((client) => [field(client, 'client_id'), field(client, 'topics')]);
    };
    const [[address, topics] = [], ...others] = await listed();
    assert.deepEqual([topics, others], [['policy:.', TOPIC], []]);
    assert.match(String(address), /^127\.0\.0\.1:\d+$/);
    assert.match((await request(`${server.url}/metrics`)).text, /^policysync_clients\{state="plain"\} 1$/m);
    for (const peer of [policy, data]) {
      const announced = { client_id: 'CLIENT_a', rpc_id: 'x', topics: [] };
      await peer.call('publish', { topics: [ANNOUNCE], data: announced });
    }
    assert.deepEqual(await listed(), [['CLIENT_a', ['policy:.', TOPIC]]]);
  });
});

describe('a client with an engine', () => {
  let repo: GitRepo;
  let server: StartedServer;
  let client: StartedClient;
  before(async () => {
    repo = await gitRepo();
    await repo.commit({ 'a.rego': 'package a\n' });
    server = await startServer({ SYNC_POLICY_REPO_URL: repo.url });
    client = await startClient({ serverUrl: server.url, env: { SYNC_CLIENT_ID: 'c' } });
    await client.healthy();
  });
  after(async () => {
    for (const part of [client, server, repo]) await part?.[Symbol.asyncDispose]();
  });

  /** Commits, and has the server look. */
  async function commit(files: Readonly<Record<string, string>>): Promise<string> {
    const hash = await repo.commit(files);
    assert.equal((await postJson(`${server.url}/policy/refresh`, {})).status, 200);
    return hash;
  }

  it('is never ahead of what there is: commits and updates on other topics count in no figure of its data', async () => {
    const seq = await publish(server.url, { dst_path: '/users', data: 1 });
    await client.holds('/users', 1);
    await publish(server.url, { dst_path: '/b', data: 1, topics: ['another'] });
    const head = await commit({ 'a.rego': 'package a\n\nx := 1\n' });
    await client.tells('the commit', (health) => field(health, 'policy', 'hash') === head);
    const data = await until(
      async () => {
        const found = field((await request(`${server.url}/clients?id=c`)).json, 'clients', 0);
        return field(found, 'policy', 'held') === head && field(found, 'data');
      },
      { ...WITHIN, what: 'it is reported' },
    );
    assert.deepEqual(
      ['newest', 'applied', 'lag_updates'].map((name) => field(data, name)),
      [seq, seq, 0],
      JSON.stringify(data),
    );
    const table = await runHere('policysync', ['status', '--server-url', server.url]);
    assert.match(table.stdout, new RegExp(`^c +healthy.* ${seq} of ${seq}( |$)`, 'm'));
  });

  it('that is not well is shown with what is refused and fails, file and line, since when, wanted and held commit, and so is the source', async () => {
    const good = await commit({ 'app/main.rego': 'package app\n\nallow := true\n' });
    await client.tells('the commit', (health) => field(health, 'policy', 'hash') === good);
    const startMs = Date.now();
    const view = async (): Promise<unknown> => (await request(`${server.url}/clients?id=c`)).json;
    const bad = await commit({ 'app/main.rego': 'package app\n\nallow := = 1\n' });
    await publish(server.url, { url: 'http://127.0.0.1:9/nothing', dst_path: '/broken' });
    const shown = await until(
      async () => {
        const json = await view();
        const one = field(json, 'clients', 0);
        return field(one, 'policy', 'error') != null && field(one, 'failing', 0) !== undefined && one;
      },
      { ...WITHIN, what: 'it is told' },
    );
    assert.deepEqual([field(shown, 'policy', 'wanted'), field(shown, 'policy', 'held')], [bad, good]);
    assert.equal(field(shown, 'policy', 'current'), false);
    assert.deepEqual(
      [field(shown, 'policy', 'error', 'file'), field(shown, 'policy', 'error', 'line')],
      ['app/main.rego', 3],
      JSON.stringify(field(shown, 'policy')),
    );
    assert.deepEqual(
      [field(shown, 'failing', 0, 'path'), field(shown, 'failing', 0, 'kind'), field(shown, 'failing_total')],
      ['/broken', 'source', 1],
    );
    for (const since of [field(shown, 'policy', 'since'), field(shown, 'failing', 0, 'since')]) {
      assert(Number(since) >= startMs && Number(since) <= Date.now(), String(since));
    }
    assert.equal(field(await view(), 'policy_source', 'state'), 'following');

    await commit({ 'data.json': 'this is no JSON' });
    const source = await until(
      async () => {
        const found = field(await view(), 'policy_source');
        return field(found, 'error') != null && found;
      },
      { ...WITHIN, what: 'the source is refused' },
    );
    assert.match(String(field(source, 'error')), /data\.json/);
    assert(Date.parse(String(field(source, 'failing_since'))) >= startMs, JSON.stringify(source));
  });
});
