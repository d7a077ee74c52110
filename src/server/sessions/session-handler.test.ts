import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { silentLogger } from '../../lib/log.js';
import type { SessionPeer } from '../../pubsub/session-peer.js';
import { sessionAnswer } from '../../wire/session.js';
import { ClientRegistry } from './registry.js';
import { createSessionHandler } from './session-handler.js';
import { createSpread } from './spread.js';

function world(head = 5) {
  const state = { head, now: 1000 };
  const log = {
    epoch: 'e',
    get head() {
      return state.head;
    },
    heads: (topics: readonly string[]) => Object.fromEntries(topics.map((topic) => [topic, state.head])),
  };
  const registry = new ClientRegistry(
    { instance: 'i', memoryMs: 500 },
    { head: () => state.head, now: () => state.now },
  );
  const handler = createSessionHandler(
    { heartbeatMs: 15_000, aliveMs: 10, catchUpMs: 150 },
    { registry, log, policyHead: () => undefined, logger: silentLogger() },
  );
  const open = async (from: SessionPeer, args: object, subscribe = () => true) =>
    sessionAnswer.parse(await handler.open(from, { topics: ['t'], ...args }, subscribe));
  return { state, registry, handler, open };
}

function peer(alive = true): SessionPeer & { dropped: boolean } {
  return {
    id: '00000000',
    info: {
      id: 'x',
      clientId: undefined,
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
      assert.equal(registry.get('a')?.position, null);
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

  it('a second client with the same id is refused while the first is alive', async () => {
    const { open, registry } = world();
    const first = peer();
    await open(first, { client_id: 'a' });
    let subscribed = false;
    const answer = await open(peer(), { client_id: 'a' }, () => (subscribed = true));
    assert(!answer.accepted && /connected already/.test(answer.reason), JSON.stringify(answer));
    assert(!subscribed, 'it gets nothing');
    assert.equal(registry.peerOf('a'), first);
    assert(!first.dropped);
  });

  it('a first connection that does not answer is replaced', async () => {
    const { open, registry } = world();
    const [half, second] = [peer(false), peer()];
    await open(half, { client_id: 'a' });
    assert((await open(second, { client_id: 'a' })).accepted);
    assert(half.dropped);
    registry.left(half);
    assert.equal(registry.peerOf('a'), second, 'the end of the old one changes nothing');
  });

  it('of two that come in the same moment one is refused', async () => {
    const { open } = world();
    const answers = await Promise.all([open(peer(), { client_id: 'a' }), open(peer(), { client_id: 'a' })]);
    assert.deepEqual(answers.map(({ accepted }) => accepted).sort(), [false, true]);
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
  const report = {
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

  it('takes a report only from the connection of that client', async () => {
    const { open, handler } = world();
    const one = peer();
    await open(one, { client_id: 'a' });
    assert.equal(handler.call(one, 'report', report), true);
    assert.equal(handler.call(one, 'report', { ...report, client_id: 'b' }), false);
    assert.equal(handler.call(peer(), 'report', report), false);
    assert.equal(handler.call(one, 'report', { client_id: 'a' }), false);
  });

  it('a client that left is listed as away, its last error too, and forgotten after a while', async () => {
    const { open, handler, registry, state } = world();
    const one = peer();
    await open(one, { client_id: 'a' });
    handler.call(one, 'report', report);
    handler.call(one, 'report', { ...report, healthy: true, failing: [] });
    state.now = 2000;
    handler.closed(one);
    const [away] = registry.list();
    assert.equal(away?.awaySinceMs, 2000);
    assert.deepEqual(away?.lastError, { path: '/a', error: 'E', atMs: 1000 });
    state.now = 2501;
    assert.deepEqual(registry.list(), []);
  });

  it('a position of another log counts as none', async () => {
    const { open, handler, registry } = world();
    const one = peer();
    await open(one, { client_id: 'a' });
    handler.call(one, 'report', { ...report, position: { epoch: 'other', applied_through: 9 } });
    assert.equal(registry.get('a')?.position, null);
  });
});

it('who comes in a rush is asked to spread, who comes alone is not', () => {
  const spread = createSpread();
  assert.equal(spread(0), 0);
  let last = 0;
  for (let count = 0; count < 1000; count++) last = spread(1000);
  assert(last >= 5000 && last <= 30_000, String(last));
  assert(spread(10_500) > 0, 'the rush may go on in the next window');
  assert.equal(spread(100_000), 0);
});
