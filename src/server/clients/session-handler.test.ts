import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { until } from '../../../test/support/until.js';
import { silentLogger } from '../../lib/observe/log.js';
import type { SessionPeer } from '../../pubsub/peer.js';
import { sessionAnswer } from '../../wire/session.js';
import type { StoreStatus } from '../log/log-store.js';
import { distinctNames, listedNameOf } from './client-view.js';
import { IdClaims } from './id-claims.js';
import { isConcerned, wasConnected } from './known-client.js';
import { createCatchUpJitter } from './reconnect-jitter.js';
import { ClientRegistry } from './registry.js';
import { ClientSessions } from './session-handler.js';

function world(head = 5) {
  const state: { head: number; now: number; status: StoreStatus } = { head, now: 1000, status: { up: true } };
  const log = {
    epoch: 'e',
    get head() {
      return state.head;
    },
    get status() {
      return state.status;
    },
    heads: (topics: readonly string[]) => Object.fromEntries(topics.map((topic) => [topic, state.head])),
  };
  const claims = new IdClaims({ memoryMs: 500 });
  const registry = new ClientRegistry(
    { instance: 'i', memoryMs: 500 },
    { head: () => state.head, now: () => state.now, claims },
  );
  const ownerOf = (id: string): string | undefined => claims.ownerOf(id, state.now);
  const otherName = (from: SessionPeer): string | undefined => {
    const client = registry.clientAt(from);
    const name = client === undefined ? undefined : listedNameOf(client, ownerOf);
    return name === client?.clientId ? undefined : name;
  };
  const handler = new ClientSessions(
    { heartbeatMs: 15_000, aliveMs: 10, catchUpMs: 150 },
    { registry, log, policyHead: () => undefined, otherName, now: () => state.now, logger: silentLogger() },
  );
  const open = async (from: SessionPeer, args: object, subscribe = () => true) =>
    sessionAnswer.parse(await handler.open(from, { topics: ['t'], ...args }, subscribe));
  return { state, registry, handler, open, names: () => [...distinctNames(registry.list(), ownerOf).keys()] };
}

let peers = 0;

function peer(alive = true, subject: string | null = null): SessionPeer & { dropped: boolean } {
  return {
    id: `peer-${++peers}`,
    info: {
      id: 'x',
      clientId: undefined,
      subject,
      rpcId: undefined,
      host: 'h',
      port: 1,
      connectedAtMs: 0,
      topics: ['t'],
      query: {},
      extended: true,
      protocol: 2,
    },
    dropped: false,
    tell: () => undefined,
    isAlive: async () => alive,
    drop() {
      this.dropped = true;
    },
  };
}

const REPORT = {
  client_id: 'a',
  position: null,
  policy_hash: 'h',
  ready: true,
  healthy: false,
  engine: { kind: 'opa', version: '1', online: true },
  failing: [{ path: '/a', error: 'E' }],
  blocked: [],
  since: 1,
};

describe('opening a session', () => {
  it('a subscribe without a client id is a plain one', () => {
    assert.equal(
      world().handler.open(peer(), { topics: ['t'] }, () => true),
      undefined,
    );
  });

  it('answers epoch, heads, policy head and heartbeat', async () => {
    const { open } = world();
    const position = { epoch: 'e', applied_through: 4, applied_beyond: [5], unresolved: [] };
    assert.deepEqual(await open(peer(), { client_id: 'a', position }), {
      accepted: true,
      epoch: 'e',
      head: 5,
      resumes: true,
      heads: { t: 5 },
      policy_head: null,
      heartbeat_seconds: 15,
      spread_ms: 0,
    });
  });

  it('a position of another epoch, or ahead of the head, is of another log and not taken over', async () => {
    const { open, registry } = world();
    const at = (epoch: string, through: number, beyond: number[] = []) => ({
      epoch,
      applied_through: through,
      applied_beyond: beyond,
      unresolved: [],
    });
    for (const position of [at('other', 1), at('e', 6), at('e', 2, [9])]) {
      const from = peer();
      const answer = await open(from, { client_id: 'a', position });
      assert(answer.accepted && answer.resumes === false, JSON.stringify(answer));
      assert.equal(registry.get('a', null)?.position, null);
      registry.left(from);
    }
  });

  it('waits a moment for a head that this instance has not seen yet', async () => {
    const { open, state } = world();
    const position = { epoch: 'e', applied_through: 6, applied_beyond: [], unresolved: [] };
    setTimeout(() => {
      state.head = 6;
    }, 20);
    const answer = await open(peer(), { client_id: 'a', position });
    assert(answer.accepted && answer.resumes === true);
  });

  it('a position ahead of the head is not judged while the backbone is unavailable, nor at its return', async () => {
    const { open, state, registry } = world();
    const position = { epoch: 'e', applied_through: 6, applied_beyond: [], unresolved: [] };
    const away: StoreStatus = { up: false, reason: 'gone', sinceMs: 1 };
    for (const [before, after] of [
      [away, away],
      [away, { up: true }],
      [{ up: true }, away],
    ] as const) {
      state.status = before;
      let subscribed = false;
      const answer = open(peer(), { client_id: 'a', position }, () => (subscribed = true));
      state.status = after;
      assert.equal((await answer).accepted, false);
      assert(!subscribed && registry.get('a', null) === undefined);
    }
    // What this instance has seen counts, whether or not there is more.
    const known = await open(peer(), { client_id: 'a', position: { ...position, applied_through: 5 } });
    assert(known.accepted && known.resumes === true);
  });

  it('a second connection of the same client is served at once, and is the client; the older one is another while it lives', async () => {
    const { open, registry, names, state } = world();
    const [first, second] = [peer(), peer()];
    await open(first, { client_id: 'a' });
    state.head = 6;
    let subscribed = false;
    assert((await open(second, { client_id: 'a' }, () => (subscribed = true))).accepted);
    assert(subscribed);
    assert.equal(registry.peerOf('a', null), second);
    await until(() => names().length === 2, { withinMs: 5000, what: 'both are listed' });
    assert.match(names().join(), /^a,a~[0-9a-f]{8}$/);
    assert(!first.dropped, 'nobody is cut off because of an id');
    registry.left(second);
    assert.equal(registry.get('a', null)?.awaySinceMs, 1000, 'what the one holds says nothing of the other');
    assert.equal(names().length, 2);
    registry.left(first);
    assert.deepEqual(names(), ['a']);
  });

  it('a second connection that ends before the older one is known to be another client was a moment of that', async () => {
    const { open, registry, names } = world();
    const [first, second] = [peer(), peer()];
    first.isAlive = () => new Promise(() => undefined);
    await open(first, { client_id: 'a' });
    await open(second, { client_id: 'a' });
    registry.left(second);
    assert.equal(registry.peerOf('a', null), first);
    assert.deepEqual([names(), registry.get('a', null)?.awaySinceMs], [['a'], null]);
  });

  it('an older connection that does not answer is ended, and was there until then for those who wait', async () => {
    const { open, registry } = world();
    const [half, second] = [peer(false), peer()];
    const seen: unknown[] = [];
    const gone: string[] = [];
    await open(half, { client_id: 'a' });
    registry.watch(
      ({ twin, isDoubtful = false, spans }) => seen.push([twin, isDoubtful, spans.length]),
      (key) => gone.push(key),
    );
    assert((await open(second, { client_id: 'a' })).accepted);
    assert.deepEqual(seen, [
      [half.id, true, 1],
      [undefined, false, 2],
    ]);
    await until(() => half.dropped && gone.length === 1, { withinMs: 5000, what: 'the older one is ended' });
    assert.equal(registry.list().length, 1);
    registry.left(half);
    assert.equal(registry.peerOf('a', null), second, 'the end of the old one changes nothing');
  });

  it('an id belongs to the subject that used it first; another one is served, told, and listed under another name', async () => {
    const { open, registry, handler, names, state } = world();
    const [own, foreign, back] = [peer(true, 's1'), peer(true, 's2'), peer(true, 's1')];
    const answer = await open(own, { client_id: 'a' });
    assert(answer.accepted && answer.listed_as === undefined);
    const other = await open(foreign, { client_id: 'a' });
    assert(other.accepted && /^a~[0-9a-f]{8}$/.test(other.listed_as ?? ''), JSON.stringify(other));
    assert.equal(registry.peerOf('a', 's1'), own);
    assert.equal(handler.call(foreign, 'report', { ...REPORT, healthy: true }), true);
    assert.equal(registry.get('a', 's1')?.state, null, 'nothing is said in the name of the first');
    assert.deepEqual(names(), ['a', other.listed_as]);
    registry.left(own);
    assert.deepEqual(names(), ['a', other.listed_as], 'also while the owner is away');
    await open(back, { client_id: 'a' });
    assert.deepEqual(names(), ['a', other.listed_as]);
    registry.left(back);
    state.now += 501;
    assert.deepEqual(names(), ['a'], 'forgotten: it is free');
    assert.equal(registry.get('a', 's2')?.subject, 's2');
  });

  it('one connection is one client, and may subscribe to more', async () => {
    const { open } = world();
    const one = peer();
    assert((await open(one, { client_id: 'a' })).accepted);
    assert((await open(one, { client_id: 'a' })).accepted);
    assert(!(await open(one, { client_id: 'b' })).accepted);
  });

  it('says what is wrong with arguments, and opens nothing where the subscription is refused', async () => {
    const { open, registry } = world();
    for (const args of [
      { client_id: 5 },
      { client_id: '' },
      { client_id: 'a', position: { epoch: 'e' } },
      { client_id: 'x'.repeat(300) },
    ]) {
      assert(!(await open(peer(), args)).accepted, JSON.stringify(args));
    }
    assert(!(await open(peer(), { client_id: 'a' }, () => false)).accepted);
    assert.deepEqual(registry.list(), []);
  });
});

describe('what is remembered of clients', () => {
  const report = REPORT;

  it('takes a report only from the connection of that client', async () => {
    const { open, handler } = world();
    const one = peer();
    await open(one, { client_id: 'a' });
    assert.equal(handler.call(one, 'report', report), true);
    assert.equal(handler.call(one, 'report', { ...report, client_id: 'b' }), false);
    assert.equal(handler.call(peer(), 'report', report), false);
    assert.equal(handler.call(one, 'report', { client_id: 'a' }), false);
  });

  it('all times of a report are by our clock, whatever clock the client has', async () => {
    const HOUR = 3_600_000;
    for (const ahead of [0, HOUR, -HOUR]) {
      const { open, handler, registry, state } = world();
      state.now = 10 * HOUR;
      const one = peer();
      await open(one, { client_id: 'a' });
      const theirs = (agoMs: number): number => state.now - agoMs + ahead;
      handler.call(one, 'report', {
        ...report,
        at: theirs(0),
        since: theirs(60_000),
        policy: { wanted: 'h', held: null, error: { message: 'E', file: null, line: null }, since: theirs(50_000) },
        engine: { ...report.engine, since: theirs(40_000) },
        failing: [{ path: '/a', error: 'E', since: theirs(30_000) }],
      });
      const { state: known, reportedAtMs } = registry.get('a', null) ?? {};
      assert.deepEqual(
        [known?.since, known?.policy?.since, known?.engine.since, known?.failing[0]?.since].map(
          (at) => state.now - (at ?? 0),
        ),
        [60_000, 50_000, 40_000, 30_000],
        `${ahead} ms ahead`,
      );
      assert.equal(reportedAtMs, state.now);
      // The next report is a second under way: that is no reason to move all times.
      const before = theirs(0);
      state.now += 1000;
      handler.call(one, 'report', { ...report, at: before, since: before - 5 });
      assert.equal(state.now - (registry.get('a', null)?.state?.since ?? 0), 1005);
      // None is in the future.
      handler.call(one, 'report', { ...report, at: theirs(0), since: theirs(0) + HOUR });
      assert.equal(registry.get('a', null)?.state?.since, state.now);
    }
  });

  it('what a client says again is the same, though its reports take some milliseconds more or less', async () => {
    const { open, handler, registry, state } = world();
    state.now = 1_000_000;
    const one = peer();
    await open(one, { client_id: 'a' });
    const said = { ...report, since: 5000, engine: { ...report.engine, since: 6000 } };
    const times: unknown[] = [];
    for (const way of [90, 7, 3, 11, 0, 250]) {
      state.now += 1000;
      handler.call(one, 'report', { ...said, at: state.now - way });
      const { since, engine } = registry.get('a', null)?.state ?? {};
      times.push([since, engine?.since]);
    }
    assert.deepEqual(times, Array(6).fill([5090, 6090]));
    // A way that was much longer says less.
    const other = peer();
    await open(other, { client_id: 'b' });
    for (const way of [800, 3]) handler.call(other, 'report', { ...said, client_id: 'b', at: state.now - way });
    assert.equal(registry.get('b', null)?.state?.since, 5003);
  });

  it('a client that left is listed as away, its last error too, and forgotten after a while', async () => {
    const { open, handler, registry, state } = world();
    const one = peer();
    await open(one, { client_id: 'a' });
    handler.call(one, 'report', report);
    handler.call(one, 'report', { ...report, healthy: true, failing: [] });
    state.now = 2000;
    handler.closed(one, 'it closed the connection');
    const [away] = registry.list();
    assert.equal(away?.awaySinceMs, 2000);
    assert.equal(away?.awayReason, 'it closed the connection');
    assert.deepEqual(away?.lastError, { path: '/a', error: 'E', kind: undefined, atMs: 1000 });
    state.now = 2501;
    assert.deepEqual(registry.list(), []);
  });

  it('a client was connected in each of its connections, also where the next one began before the server saw the end', async () => {
    const { open, registry, state } = world();
    const [one, two, three] = [peer(), peer(), peer()];
    state.now = 1000;
    await open(one, { client_id: 'a' });
    state.now = 1100;
    registry.left(one);
    state.now = 1200;
    await open(two, { client_id: 'a' });
    state.now = 1300;
    await open(three, { client_id: 'a' });
    state.now = 1400;
    registry.left(two);
    const times = [999, 1000, 1100, 1150, 1200, 1299, 1300, 5000];
    const there = [false, true, true, false, true, true, true, true];
    const known = registry.get('a', null);
    assert(known !== undefined);
    assert.deepEqual(
      times.map((at) => wasConnected(known, at)),
      there,
    );
    assert.equal(wasConnected(known, undefined), false);
  });

  it('a report of what the log does not have yet is refused, and nothing of it counts', async () => {
    const { open, handler, registry, state } = world();
    const one = peer();
    await open(one, { client_id: 'a', position: { epoch: 'e', applied_through: 5 } });
    for (const claim of [
      { applied_through: 6 },
      { applied_through: 5, applied_beyond: [9] },
      { applied_through: 5, unresolved: [7] },
    ]) {
      assert.equal(
        handler.call(one, 'report', { ...report, position: { epoch: 'e', ...claim } }),
        false,
        JSON.stringify(claim),
      );
    }
    state.head = 9;
    assert.equal(registry.get('a', null)?.position?.applied_through, 5);
    assert.equal(handler.call(one, 'report', { ...report, position: { epoch: 'e', applied_through: 9 } }), true);
  });

  it('a client that left is kept small, and may be concerned by what is not kept', async () => {
    const { open, registry } = world();
    const one = peer();
    const topics = Array.from({ length: 1000 }, (_, index) => `tenant-${index}`);
    Object.assign(one.info, { topics });
    await open(one, { client_id: 'a', topics });
    registry.left(one);
    const [kept] = registry.list();
    assert(kept !== undefined && JSON.stringify(kept).length < 5000);
    assert.equal(kept.topics.length + kept.topicsLeftOut, 1000);
    assert(isConcerned(kept, ['tenant-999']));
  });

  it('a position of another log counts as none', async () => {
    const { open, handler, registry } = world();
    const one = peer();
    await open(one, { client_id: 'a' });
    handler.call(one, 'report', { ...report, position: { epoch: 'other', applied_through: 9 } });
    assert.equal(registry.get('a', null)?.position, null);
  });
});

it('who comes in a rush is asked to spread, who comes alone is not', () => {
  const spread = createCatchUpJitter();
  assert.equal(spread(0), 0);
  let last = 0;
  for (let count = 0; count < 1000; count++) last = spread(1000);
  assert(last >= 5000 && last <= 30_000, String(last));
  assert(spread(10_500) > 0, 'the rush may go on in the next window');
  assert.equal(spread(100_000), 0);
});

it('whoever subscribes arrives as the client with all its topics, also over an older connection', async () => {
  const { open, registry } = world();
  const [older, newer] = [peer(), peer()];
  await open(older, { client_id: 'a' });
  await open(newer, { client_id: 'a' });
  const arriving = registry.arriving(older, 'a', { position: null }, ['t', 'u']);
  const [client] = registry.list().filter(({ twin }) => twin === undefined);
  assert.deepEqual([arriving.key, arriving.twin, arriving.topics], [client?.key, undefined, ['t', 'u']]);
  assert.equal(arriving.awaySinceMs, null);
});
