import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { baseEntries, startClient } from '../support/start-client.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** What a token that is limited to topics shows of the update log: everything of its topics, nothing of others. */

const OURS = { 'x-sync-protocol': '2' };

/** Everything that is of topic `b` alone has one of these words in it. */
const OF_B = /hidden|"b"/;

interface Stage extends AsyncDisposable {
  readonly server: StartedServer;
  /** Of a caller that may see all, of one that may see `a`, and of one that may see nothing. */
  readonly free: Record<string, string>;
  readonly limited: Record<string, string>;
  readonly none: Record<string, string>;
  /** Seqs of the update of `a`, of `b`, and of both. */
  readonly seqs: { readonly a: number; readonly b: number; readonly both: number };
}

/** A server with base entries and updates of the topics `a` and `b`; the update of both has one entry of each. */
async function stage(): Promise<Stage> {
  const server = await startServer({
    ...withKeys(),
    ...baseEntries(
      { url: 'http://source.example/base', topics: ['a'], dst_path: '/base-a' },
      { url: 'http://source.example/hidden-base', topics: ['b'], dst_path: '/base-hidden' },
    ),
  });
  const headers = async (claims: object): Promise<Record<string, string>> => ({
    ...OURS,
    ...bearer(await tokenOf(server.url, { type: 'datasource', claims })),
  });
  const free = await headers({});
  const shown = { url: '', topics: ['a'], dst_path: '/shown', data: { of: 'a' } };
  const hidden = { url: '', topics: ['b'], dst_path: '/hidden', data: { of: 'hidden' } };
  const publish = async (...entries: object[]): Promise<number> => {
    const answer = await postJson(`${server.url}/data/config`, { entries }, free);
    assert.equal(answer.status, 200, answer.text);
    return Number(field(answer.json, 'seq'));
  };
  return {
    server,
    free,
    limited: await headers({ permitted_topics: ['a'] }),
    none: await headers({ permitted_topics: [] }),
    seqs: {
      a: await publish(shown),
      b: await publish(hidden),
      both: await publish({ ...shown, dst_path: '/shown-2' }, { ...hidden, dst_path: '/hidden-2' }),
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

function ended(peer: StartedPeer): PromiseLike<void> {
  return peer[Symbol.asyncDispose]();
}

function list(answer: Answer, name: 'updates' | 'entries'): unknown[] {
  assert.equal(answer.status, 200, answer.text);
  const found = field(answer.json, name);
  assert(Array.isArray(found), answer.text);
  return found;
}

function paths(answer: Answer): unknown[] {
  return list(answer, 'updates')
    .flatMap((update) => field(update, 'entries'))
    .map((entry) => field(entry, 'dst_path'))
    .sort();
}

function seqs(answer: Answer): unknown[] {
  return list(answer, 'updates').map((update) => field(update, 'seq'));
}

describe('a token that is limited to topics', () => {
  let world: Stage;
  before(async () => {
    world = await stage();
  });
  after(() => world[Symbol.asyncDispose]());

  it('GET /data/config: whatever origin or topics are asked for', async () => {
    const config = (query: string, headers: Record<string, string>) =>
      request(`${world.server.url}/data/config${query}`, { headers });
    for (const [query, expected] of [
      ['', ['/base-a', '/shown', '/shown-2']],
      ['?origin=base', ['/base-a']],
      ['?origin=update', ['/shown', '/shown-2']],
      ['?topics=a,b', ['/base-a', '/shown', '/shown-2']],
      ['?topics=b', []],
      ['?origin=update&topics=b', []],
    ] as const) {
      const answer = await config(query, world.limited);
      assert.deepEqual(
        list(answer, 'entries')
          .map((entry) => field(entry, 'dst_path'))
          .sort(),
        expected,
        query,
      );
      assert.doesNotMatch(answer.text, OF_B, query);
      assert.deepEqual(list(await config(query, world.none), 'entries'), [], query);
    }
    assert.equal(list(await config('', world.free), 'entries').length, 6);
  });

  it('GET /data/updates: entries, heads and what was before, of tail and fold, whatever topics are asked for', async () => {
    const updates = (query: string, headers: Record<string, string>) =>
      request(`${world.server.url}/data/updates${query}`, { headers });
    const epoch = String(field((await updates('', world.free)).json, 'epoch'));
    for (const [from, start] of [
      ['fold', '?after=0'],
      ['tail', `?epoch=${epoch}&after=${world.seqs.a - 1}`],
    ] as const) {
      for (const topics of ['', '&topics=a', '&topics=a,b']) {
        const answer = await updates(start + topics, world.limited);
        assert.equal(field(answer.json, 'from'), from);
        assert.deepEqual(paths(answer), ['/shown', '/shown-2'], start + topics);
        assert.deepEqual(seqs(answer), [world.seqs.a, world.seqs.both]);
        assert.deepEqual(field(answer.json, 'heads'), { a: world.seqs.both });
        assert.doesNotMatch(answer.text, OF_B);
      }
      const others = await updates(`${start}&topics=b`, world.limited);
      assert.deepEqual([seqs(others), field(others.json, 'heads')], [[], {}]);
      assert.deepEqual(seqs(await updates(start, world.none)), []);
      assert.equal(paths(await updates(start, world.free)).length, 4);
    }
  });

  it('GET /data/log: entries of other topics are left out, also with secrets, and so is who published them alone', async () => {
    const log = (query: string, headers: Record<string, string>) =>
      request(`${world.server.url}/data/log${query}`, { headers });
    for (const query of ['', '?include=secrets', '?path=/']) {
      const answer = await log(query, world.limited);
      assert.deepEqual(seqs(answer), [world.seqs.both, world.seqs.a], query);
      assert.deepEqual(paths(answer), ['/shown', '/shown-2'], query);
      assert.doesNotMatch(answer.text, OF_B, query);
      assert.deepEqual(seqs(await log(query, world.none)), [], query);
    }
    for (const query of ['?topic=b', '?path=/hidden', '?topic=b&include=secrets']) {
      assert.deepEqual(seqs(await log(query, world.limited)), [], query);
    }
    assert.equal(paths(await log('', world.free)).length, 4);
  });

  it('the session on the socket: heads of its own topics alone, at the subscription and with each heartbeat', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_HEARTBEAT_INTERVAL: '0.2' });
    const free = bearer(await tokenOf(server.url, { type: 'datasource' }));
    const entries = ['a', 'b'].map((topic) => ({ url: '', topics: [topic], dst_path: `/${topic}`, data: 1 }));
    assert.equal((await postJson(`${server.url}/data/config`, { entries }, free)).status, 200);
    const token = await tokenOf(server.url, { claims: { permitted_topics: ['a'] } });
    await using peer: StartedPeer = await startPeer(server.url, { ...OURS, ...bearer(token) });
    const refused = await peer.call('subscribe', { topics: ['a', 'b'], client_id: 'c' });
    assert.equal(field(refused, 'accepted'), false, JSON.stringify(refused));
    assert.equal(field(refused, 'heads'), undefined);
    const answer = await peer.call('subscribe', { topics: ['a'], client_id: 'c' });
    assert.deepEqual(field(answer, 'heads'), { a: 1 });
    const beat = await until(() => peer.frames.find((frame) => field(frame, 'request', 'method') === 'heartbeat'), {
      withinMs: 20_000,
      what: 'a heartbeat',
    });
    assert.deepEqual(field(beat, 'request', 'arguments', 'heads'), { a: 1 });
  });

  it('GET /clients: clients of its topics alone, without their other topics and what may fail of those', async () => {
    const failing = [{ path: '/hidden', error: 'hidden source is away', kind: 'source' }];
    const kinds = [{ path: '/hidden', error: 'its data source does not give it', kind: 'source' }];
    const peers: StartedPeer[] = [];
    await using _ = { [Symbol.asyncDispose]: async () => void (await Promise.all(peers.map(ended))) };
    for (const [client_id, topics] of [
      ['of-a', ['a', 'default:policy:.']],
      ['of-both', ['a', 'b']],
      ['of-hidden', ['b']],
    ] as const) {
      const peer = await startPeer(world.server.url, world.free);
      peers.push(peer);
      assert.equal(field(await peer.call('subscribe', { topics, client_id }), 'accepted'), true);
      const engine = { kind: 'opa', version: null, online: true };
      const state = { position: null, policy_hash: null, ready: true, healthy: false, engine, since: 0 };
      assert.equal(await peer.call('report', { client_id, ...state, failing }), true);
    }
    const view = async (headers: Record<string, string>, query = ''): Promise<unknown[]> => {
      const answer = await request(`${world.server.url}/clients${query}`, { headers });
      const clients = field(answer.json, 'clients');
      assert(Array.isArray(clients), answer.text);
      const shown = ['client_id', 'topics', 'failing', 'last_error'];
      return clients.map((client) => shown.map((name) => field(client, name)).concat(field(client, 'data', 'wanted')));
    };
    assert.equal((await view(world.free)).length, 3);
    const [ofA, ofBoth, ...others] = await view(world.limited);
    assert.deepEqual(others, []);
    assert(Array.isArray(ofA));
    assert.deepEqual([ofA[0], ofA[1], ofA[2], ofA[4]], ['of-a', ['a'], kinds, { a: world.seqs.both }]);
    assert.deepEqual(ofBoth, ['of-both', ['a'], [], null, { a: world.seqs.both }]);
    assert.deepEqual(await view(world.limited, '?id=of-hidden'), []);
    assert.deepEqual(await view(world.none), []);
  });

  it('a client of ours whose token is limited to topics starts with what it may see, and catches up with that', async () => {
    const token = await tokenOf(world.server.url, { type: 'client', claims: { permitted_topics: ['a'] } });
    await using client = await startClient({
      serverUrl: world.server.url,
      env: { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_DATA_TOPICS: 'a', SYNC_CLIENT_TOKEN: token },
    });
    await client.holds('/shown-2', { of: 'a' });
    await client.holds('/shown', { of: 'a' });
    const entries = ['a', 'b'].map((topic) => ({ url: '', topics: [topic], dst_path: `/${topic}`, data: topic }));
    const published = await postJson(`${world.server.url}/data/config?wait=applied`, { entries }, world.free);
    assert.deepEqual([published.status, field(published.json, 'applied')], [200, 1], published.text);
    await client.holds('/a', 'a');
    for (const path of ['/hidden', '/hidden-2', '/b', '/base-hidden']) assert.equal(await client.data(path), undefined);
  });
});
