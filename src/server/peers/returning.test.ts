import assert from 'node:assert/strict';
import { it } from 'node:test';
import { WELL } from '../../../test/support/session-report.js';
import { SERVER_STOPPED } from '../../pubsub/close-reason.js';
import type { SessionPeer } from '../../pubsub/peer.js';
import { goodbyeForm, type KnownClient, newClient, wasThere } from '../clients/known-client.js';
import { ClientRegistry } from '../clients/registry.js';
import { createEveryone } from './all-clients.js';
import type { StoredClients } from './clients-file.js';
import { awayAtStart, returning } from './returning.js';

const STORED_MS = 1000;
const START_MS = 5000;
const NONE = (): boolean => false;
const only =
  ({ key }: KnownClient) =>
  (asked: string): boolean =>
    asked === key;

function client(clientId: string, more: Partial<KnownClient> = {}): KnownClient {
  const peer = { host: 'h', port: 1, topics: ['t'], connectedAtMs: 10 };
  const about = { instance: 'before', claimedMs: 10, spans: [{ from: 2, until: null }] };
  return {
    ...newClient({ kind: 'session', subject: null, clientId }, peer, about),
    position: { epoch: 'e', applied_through: 4, applied_beyond: [], unresolved: [] },
    state: { ...WELL, policy_hash: 'held' },
    reportedAtMs: 900,
    ...more,
  };
}

function stored(...clients: KnownClient[]): StoredClients {
  return { instance: 'before', atMs: STORED_MS, epoch: 'e', seen: 4, clients };
}

const FACTS = { instance: 'now', epoch: 'e', head: 6, isShared: false, nowMs: START_MS };

it('who was connected is away since it was last noted, with what it held; who was away stays so', () => {
  const gone = client('gone', { awaySinceMs: 500, awayReason: 'it closed the connection', spans: [] });
  const [first, second] = awayAtStart(stored(client('here'), gone), FACTS);
  assert.deepEqual(
    [first?.clientId, first?.awaySinceMs, first?.awayReason],
    ['gone', 500, 'it closed the connection'],
    'the one that left first stands first',
  );
  assert.deepEqual([second?.clientId, second?.awaySinceMs, second?.awayReason], ['here', STORED_MS, SERVER_STOPPED]);
  assert.deepEqual(
    [second?.instance, second?.state?.policy_hash, second?.position?.applied_through],
    ['now', 'held', 4],
  );
});

it('updates up to the end of the server concern it; where others append meanwhile, those that it had seen', () => {
  const there = (facts: Partial<typeof FACTS>): boolean[] => {
    const [one] = awayAtStart(stored(client('a')), { ...FACTS, ...facts });
    return [2, 4, 5, 7].map((seq) => wasThere(one?.spans ?? [], seq));
  };
  assert.deepEqual(there({}), [false, true, true, false]);
  assert.deepEqual(there({ isShared: true }), [false, true, false, false]);
});

it('one that came after all were stored was there when it came, also where others append', () => {
  const late = client('late', { connectedAtMs: 3000, spans: [{ from: 5, until: null }] });
  const [one] = awayAtStart(stored(late), { ...FACTS, isShared: true });
  assert.deepEqual([one?.awaySinceMs, one?.spans], [3000, [{ from: 5, until: 5, fromMs: 3000, untilMs: 3000 }]]);
});

it('of another log, or one that went back, nothing counts as held or heard', () => {
  for (const facts of [{ epoch: 'other' }, { head: 3 }]) {
    const [one] = awayAtStart(stored(client('a')), { ...FACTS, ...facts });
    assert.deepEqual([one?.position, one?.spans], [null, []]);
  }
});

it('who said goodbye before the start is nobody to expect, and the goodbye is remembered', () => {
  const gone = goodbyeForm(client('gone', { awaySinceMs: 900 }));
  const file = stored(gone);
  const why = returning(file, { startMs: START_MS, isNewLog: false });
  assert.equal(why(NONE, { nowMs: START_MS, isAlone: true }), undefined);
  const [restored] = awayAtStart(file, FACTS);
  assert.deepEqual([restored?.saidGoodbye, restored?.awaySinceMs], [true, 900]);
});

it('they are expected for a minute, wherever they connect; nobody is expected where nobody was', () => {
  const [a, b] = [client('a'), client('b')];
  const left = client('left', { awaySinceMs: 900, awayReason: 'it closed the connection' });
  const start = { startMs: START_MS, isNewLog: false };
  const why = returning(stored(a, b, left), start);
  const after = (seconds: number) => ({ nowMs: START_MS + seconds * 1000, isAlone: true });
  assert.equal(why(NONE, after(4)), 'this server started 4 s ago: clients are still coming back');
  assert.match(why(only(a), after(5)) ?? '', /still coming back$/);
  assert.match(why(NONE, after(6)) ?? '', /still coming back$/, 'the other one is missing');
  assert.equal(why(only(b), after(7)), undefined);
  assert.equal(returning(stored(a), start)(NONE, after(61)), undefined);
  assert.equal(returning(stored(left), start)(NONE, after(0)), undefined);
});

it('where nobody knows who was there, anybody may come back for a minute', () => {
  const start = { startMs: START_MS, isNewLog: false };
  const why = returning(undefined, start);
  const after = (seconds: number) => ({ nowMs: START_MS + seconds * 1000, isAlone: true });
  assert.equal(why(NONE, after(4)), 'this server started 4 s ago: clients may still be coming back');
  assert.equal(why(NONE, { ...after(4), isAlone: false }), undefined, 'other instances know their clients');
  assert.equal(why(NONE, after(61)), undefined);
  assert.equal(returning(undefined, { ...start, isNewLog: true })(NONE, after(0)), undefined, 'nobody was ever there');
});

function registry(): ClientRegistry {
  const claims = { use: (_id: string, _subject: string | null, nowMs: number) => nowMs, release: () => undefined };
  const one = new ClientRegistry(
    { instance: 'now', memoryMs: 60_000 },
    { head: () => 6, claims, now: () => START_MS + 1 },
  );
  one.restore(awayAtStart(stored(client('a'), client('b')), FACTS));
  return one;
}

function peerOf(id: string): SessionPeer {
  return {
    id,
    info: {
      ...{ id, clientId: undefined, subject: null, rpcId: undefined, host: 'h', port: 1, connectedAtMs: 1 },
      ...{ topics: ['t'], query: {}, extended: true, protocol: 2 },
    },
    tell: () => undefined,
    isAlive: async () => true,
    drop: () => undefined,
  };
}

it('who comes back takes its place, and says anew what it holds', () => {
  const clients = registry();
  const told: (KnownClient | undefined)[] = [];
  clients.watch((_, before) => told.push(before));
  const peer = peerOf('p');
  clients.connected(peer, 'a', { position: null });
  assert.equal(clients.list().length, 2);
  const back = clients.get('a', null);
  assert.deepEqual(
    [back?.awaySinceMs, back?.awayReason, back?.state, back?.reportedAtMs],
    [null, undefined, null, null],
  );
  assert(wasThere(back?.spans ?? [], 4), 'it was there before');
  assert.deepEqual(told, [undefined], 'no step from what it held before the start to now counts as one that was seen');
});

it('a client that comes back without its position says anew what it holds: its process, and its engine, may be new', () => {
  const clients = registry();
  const position = { epoch: 'e', applied_through: 6, applied_beyond: [], unresolved: [] };
  const heldBack = (more: { position: typeof position | null }): (string | null | undefined)[] => {
    const [first, second] = [peerOf('first'), peerOf('second')];
    clients.connected(first, 'c', { position });
    clients.reported(first, { client_id: 'c', position, ...WELL, policy_hash: 'held' });
    clients.left(first);
    clients.connected(second, 'c', more);
    const { state, reportedAtMs } = clients.get('c', null) ?? {};
    clients.left(second);
    return [state?.policy_hash ?? null, reportedAtMs === null ? null : 'reported'];
  };
  assert.deepEqual(heldBack({ position }), ['held', 'reported']);
  assert.deepEqual(heldBack({ position: null }), [null, null]);
});

it('a client that is connected to another instance is listed once, and expected no more', async () => {
  const clients = registry();
  const moved = client('a', { instance: 'other', connectedAtMs: 1500 });
  const view = { instance: 'other', atMs: START_MS, seen: 6, clients: [moved], leftOut: 0 };
  const other = { instance: 'other', state: 'live', view, clients: view.clients, why: undefined } as const;
  const everyone = createEveryone({
    clients: () => clients.list(),
    instances: { others: async () => ({ instances: [other], views: [view], unread: undefined }) },
    ownerOf: () => undefined,
    whyReturning: returning(stored(client('a')), { startMs: START_MS, isNewLog: false }),
    now: () => START_MS,
  });
  const found = await everyone();
  const places = found.named.map(([name, one]) => [name, one.instance, one.awaySinceMs]);
  assert.deepEqual(places, [
    ['a', 'other', null],
    ['b', 'now', STORED_MS],
  ]);
  assert.deepEqual([found.connected.get(moved.key), found.incomplete], [1, null]);
});
