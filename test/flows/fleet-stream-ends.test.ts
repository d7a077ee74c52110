import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { backboneOffer } from '../support/backbone-servers.js';
import { fleetPeer } from '../support/fleet-peer.js';
import { fleetStream } from '../support/fleet-stream.js';
import { field, postJson, request } from '../support/http.js';
import { startInstance } from '../support/instance.js';
import { createServer, loadSettings, SERVER_SETTINGS, silentLogger } from '../support/library.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const WITHIN = { withinMs: 20_000 };
const redis = await backboneOffer('Redis');

function entry(path: string, topic: string): object {
  return { url: '', topics: [topic], dst_path: path, data: 1 };
}

describe('a stream of the fleet', () => {
  it('of a limited token has what that may see, in all its parts', async () => {
    await using server = await startServer(withKeys());
    const token = async (asked: object) => bearer(await tokenOf(server.url, asked));
    const client = { headers: await token({}) };
    await using acme = await fleetPeer(server.url, 'ours', { ...client, topics: ['acme', 'other'] });
    await using hidden = await fleetPeer(server.url, 'hidden', { ...client, topics: ['other'] });
    const publisher = await token({ type: 'datasource' });
    const publish = async (reason: string, ...entries: object[]) => {
      const answer = await postJson(`${server.url}/data/config`, { reason, entries }, publisher);
      assert.equal(answer.status, 200, answer.text);
      return Number(field(answer.json, 'seq'));
    };
    const both = await publish('to both', entry('/acme/x', 'acme'), entry('/elsewhere', 'other'));
    const apart = await publish('kept apart', entry('/secret', 'other'));
    const failing = [{ path: '/acme/x', error: 'password hunter2', kind: 'source', since: 1 }];
    acme.report({ healthy: false, failing, blocked: [apart] });
    hidden.report();

    await using all = await fleetStream(server.url, publisher);
    await all.sees('both', ({ rows }) => rows.get('ours')?.health.state === 'unhealthy' && rows.size === 2);
    assert.equal(all.rows.get('ours')?.error?.text, 'password hunter2');
    assert.equal(all.rows.get('ours')?.data.state, 'blocked');
    assert.deepEqual(
      all.fleet.changes.map(({ title }) => title),
      ['kept apart', 'to both'],
    );

    const limits = { permitted_topics: ['acme'] };
    await using limited = await fleetStream(server.url, await token({ type: 'datasource', claims: limits }));
    await limited.sees('its part', ({ rows }) => rows.size === 1);
    const { summary, changes, instances } = limited.fleet;
    assert.deepEqual([summary.total, summary.limited, summary.data.head], [1, true, both]);
    assert.deepEqual(
      changes.map(({ topics, paths, total, size }) => ({ topics, paths, total, size })),
      [{ topics: ['acme'], paths: ['/acme/x'], total: 1, size: 1 }],
    );
    assert.equal(instances[0]?.clients, 1);
    assert.equal(limited.rows.get('ours')?.data.state, 'behind');
    assert.doesNotMatch(JSON.stringify(limited.events), /hunter2|hidden|elsewhere|"other"|secret|apart/);

    const listener = await token({ type: 'listener' });
    await using looks = await fleetStream(server.url, listener);
    await looks.sees('both', ({ rows }) => rows.size === 2);
    assert.doesNotMatch(JSON.stringify(looks.events), /"to both"/);
    assert.deepEqual(
      looks.fleet.changes.map(({ by, title }) => [by, title]),
      [
        [null, ''],
        [null, ''],
      ],
    );
    const later = await publish('later', entry('/secret/2', 'other'));
    await looks.sees('the update', ({ fleet }) => fleet.changes[0]?.id === String(later));
    assert.doesNotMatch(JSON.stringify(looks.events), /"later"/);
    assert.equal((await fleetStream(server.url, await token({}))).status, 401);

    const listed = async (headers: Record<string, string>, query = '') =>
      (await request(`${server.url}/changes${query}`, { headers })).text;
    assert.match(await listed(publisher), /kept apart/);
    assert.doesNotMatch(await listed(listener), /kept apart/);
    const narrow = await token({ type: 'listener', claims: limits });
    assert.doesNotMatch(await listed(narrow), /elsewhere|secret|"other"/);
    // Nor does a question for the hidden part of an update find it.
    for (const query of ['?topic=other&kind=data', '?path=/elsewhere&kind=data', '?path=/none&kind=data']) {
      assert.match(await listed(narrow, query), /"changes":\[\]/, query);
    }
    assert.match(await listed(narrow, '?path=/acme/x&kind=data'), /acme/);
    assert.match(await listed(publisher, '?topic=other&kind=data'), /to both/);
  });

  it('ends with the token', async () => {
    await using server = await startServer(withKeys());
    await using stream = await fleetStream(server.url, bearer(await tokenOf(server.url, { type: 'listener', ttl: 2 })));
    await until(() => stream.isEnded, { ...WITHIN, what: 'the end' });
    assert.equal(stream.events[0]?.name, 'snapshot');
    assert.deepEqual(stream.events.at(-1)?.data, { reason: 'expired' });
  });

  it('ends when the server drains, before its clients leave it', async () => {
    await using dir = await tempDir();
    const { values } = loadSettings(SERVER_SETTINGS, { env: { SYNC_SERVER_BIND_PORT: '0', SYNC_DRAIN_DELAY: '0' } });
    const server = createServer({ ...values, stateDir: dir.path }, { log: silentLogger(), env: process.env });
    const { url } = await server.start();
    try {
      await using peer = await fleetPeer(url, 'one');
      peer.report();
      await using stream = await fleetStream(url);
      await stream.sees('the client', ({ rows }) => rows.get('one')?.health.state === 'healthy');
      await server.drain();
      await server.stop();
      await until(() => stream.isEnded, { ...WITHIN, what: 'the end' });
      assert.deepEqual(stream.events.at(-1)?.data, { reason: 'draining' });
      assert.equal(stream.rows.get('one')?.connected, true, 'it never seemed to be away');
    } finally {
      await server.stop();
    }
  });

  it('of a server that has started again begins with a snapshot', async () => {
    await using dir = await tempDir();
    const ids: string[] = [];
    for (const _ of [1, 2]) {
      const server = await startServer({}, { stateDir: dir.path });
      try {
        await using stream = await fleetStream(server.url, ids.length === 0 ? {} : { 'last-event-id': ids[0] ?? '' });
        await stream.sees('a snapshot', ({ events }) => events[0]?.name === 'snapshot');
        ids.push(stream.lastId ?? '');
      } finally {
        await server.stop();
      }
    }
    assert.notEqual(ids[0], ids[1]);
  });

  it('whose reader does not read is bounded, and whole again when it does', async () => {
    // Nobody is cut off for reading nothing while a busy machine gets there.
    await using server = await startServer({ SYNC_READER_TIMEOUT: '3600' });
    const text = 'x'.repeat(300);
    const error = (at: number) => ({
      failing: [{ path: `/p${at}`, error: text, kind: 'source', since: 1 }],
      healthy: false,
    });
    const peers = await Promise.all(Array.from({ length: 40 }, (_, at) => fleetPeer(server.url, `p${at}`)));
    try {
      let release: () => void = () => undefined;
      const thaw = new Promise<void>((resolve) => {
        release = resolve;
      });
      await using frozen = await fleetStream(server.url, {}, thaw);
      await using other = await fleetStream(server.url);
      let round = 0;
      // More than the system buffers for it, and than it may leave unread.
      while (other.events.reduce((sum, { bytes }) => sum + bytes, 0) < 12 * 1024 * 1024 && round < 20) {
        round++;
        const topics = Array.from({ length: 80 }, (_, at) => `topic-${round}-${at}-${'t'.repeat(900)}`);
        await Promise.all(peers.map((peer) => peer.subscribe(topics)));
        for (const peer of peers) peer.report(error(round));
        await other.sees(`round ${round}`, ({ rows }) => rows.get('p39')?.error?.place === `/p${round}`);
      }
      for (const peer of peers) peer.report({ since: 4711 });
      await other.sees('the last', ({ rows }) => rows.get('p39')?.health.since === 4711);
      release();
      await frozen.sees('the last', ({ rows }) => rows.get('p39')?.health.since === 4711);
      const bytes = (events: typeof frozen.events): number => events.reduce((sum, event) => sum + event.bytes, 0);
      assert(frozen.events.filter(({ name }) => name === 'snapshot').length >= 2, 'it was told anew');
      assert(bytes(frozen.events) < bytes(other.events), `${bytes(frozen.events)} of ${bytes(other.events)} bytes`);
      assert.deepEqual([...frozen.rows.keys()].toSorted(), [...other.rows.keys()].toSorted());
    } finally {
      for (const peer of peers) await peer[Symbol.asyncDispose]();
    }
  });

  it('there are at most fifty of one address', async () => {
    await using server = await startServer();
    const streams = await Promise.all(Array.from({ length: 50 }, () => fleetStream(server.url)));
    try {
      const refused = await request(`${server.url}/ui/events`);
      assert.deepEqual([refused.status, refused.headers.get('x-sync-error')], [503, 'too_many_watchers'], refused.text);
      await streams.pop()?.[Symbol.asyncDispose]();
      await until(
        async () => {
          const stream = await fleetStream(server.url);
          streams.push(stream);
          return stream.status === 200;
        },
        { ...WITHIN, what: 'room' },
      );
    } finally {
      for (const stream of streams) await stream[Symbol.asyncDispose]();
    }
  });
});

describe('the streams of one token', () => {
  it('are at most ten, and leave room for those of others', async () => {
    await using server = await startServer(withKeys());
    const [own, other] = [
      await tokenOf(server.url, { type: 'listener' }),
      await tokenOf(server.url, { type: 'listener' }),
    ];
    const streams = await Promise.all(Array.from({ length: 10 }, () => fleetStream(server.url, bearer(own))));
    try {
      const refused = await request(`${server.url}/ui/events`, { headers: bearer(own) });
      assert.deepEqual([refused.status, refused.headers.get('x-sync-error')], [503, 'too_many_watchers'], refused.text);
      await using free = await fleetStream(server.url, bearer(other));
      assert.equal(free.status, 200);
    } finally {
      for (const stream of streams) await stream[Symbol.asyncDispose]();
    }
  });
});

describe('a stream of several instances', { skip: redis.missing ?? false }, () => {
  it('shows the clients of all, and those of one that stops are elsewhere or away', async () => {
    await using backbone = await redis.start();
    const env = { SYNC_BROADCAST_URI: backbone.uri };
    await using one = await startInstance(env);
    await using other = await startInstance(env);
    await using near = await fleetPeer(one.url, 'near');
    await using far = await fleetPeer(other.url, 'far');
    await using here = await fleetStream(one.url);
    await using there = await fleetStream(other.url);
    const entries = [entry('/x', 'policy_data')];
    const seq = Number(field((await postJson(`${one.url}/data/config`, { entries, reason: 'r' })).json, 'seq'));
    // A report of what an instance has not read yet is refused.
    await until(() => near.seqs.includes(seq) && far.seqs.includes(seq), { ...WITHIN, what: 'both have heard' });
    near.holds(null, seq);
    far.holds(null, seq);
    for (const stream of [here, there]) {
      await stream.sees('both clients', ({ rows }) => rows.size === 2);
      await stream.sees('both hold it', ({ fleet }) => fleet.summary.data.counts.at_head === 2);
      await stream.sees('both instances', ({ fleet }) => fleet.instances.length === 2);
      await stream.sees('the change', ({ fleet }) => fleet.changes[0]?.counts.applied === 2);
    }
    assert.notEqual(here.rows.get('near')?.instance, here.rows.get('far')?.instance);
    assert.deepEqual(here.rows.get('far')?.policy, there.rows.get('far')?.policy);
    far.socket.terminate();
    await here.sees('one is away', ({ rows }) => rows.get('far')?.connected === false);
  });
});
