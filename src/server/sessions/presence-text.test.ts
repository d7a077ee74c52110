import assert from 'node:assert/strict';
import { it } from 'node:test';
import { clientKey, type KnownClient } from './known-client.js';
import { printView, readView } from './presence-text.js';

function client(index: number, more: Partial<KnownClient> = {}): KnownClient {
  const identity = { kind: 'session', subject: `s${index % 3}`, clientId: `client-${index}` } as const;
  return {
    ...identity,
    key: clientKey(identity),
    claimedMs: index,
    topicsLeftOut: index % 2,
    instance: 'one',
    address: `10.0.0.1:${index}`,
    topics: ['policy_data', index % 2 === 0 ? 'even' : 'odd'],
    spans: [{ from: index, until: null }],
    connectedAtMs: index,
    awaySinceMs: null,
    position: { epoch: 'e', applied_through: index, applied_beyond: [index + 2], unresolved: [] },
    state: {
      policy_hash: 'abc',
      ready: true,
      healthy: false,
      engine: { kind: 'opa', version: '1.22.0', online: true },
      failing: [{ path: '/a', error: 'E' }],
      blocked: [3],
      since: 5,
    },
    reportedAtMs: 9,
    lastError: { path: '/a', error: 'E', atMs: 9 },
    ...more,
  };
}

const view = (clients: KnownClient[]) => ({ instance: 'one', atMs: 1, seen: 12, clients, leftOut: 0 });

it('what one instance says is what the others read, small or large', async () => {
  for (const count of [0, 1, 3, 500]) {
    const said = view(Array.from({ length: count }, (_, index) => client(index)));
    assert.deepEqual(await readView(await printView(said)), said);
  }
});

it('a text has a bound: who is away is left out first, and how many were left out is said', async () => {
  const away = Array.from({ length: 300 }, (_, index) =>
    client(index, { awaySinceMs: 1, address: Math.random().toString() }),
  );
  const here = Array.from({ length: 100 }, (_, index) => client(1000 + index));
  const text = await printView(view([...away, ...here]), 8000);
  assert(text.length <= 8000, String(text.length));
  const read = await readView(text);
  assert.equal(read.clients.length + read.leftOut, 400);
  assert(read.leftOut > 0);
  assert(
    read.clients.some(({ awaySinceMs }) => awaySinceMs === null),
    'nobody who is here is left out before',
  );
  const rank = read.clients.map(({ awaySinceMs }) => awaySinceMs !== null);
  assert.deepEqual(
    rank,
    rank.toSorted((a, b) => Number(a) - Number(b)),
  );
});

it('a position with too many failing updates says less than is true, never more', async () => {
  const unresolved = Array.from({ length: 200 }, (_, index) => 500 + index);
  const long = { epoch: 'e', applied_through: 1000, applied_beyond: [1002], unresolved };
  const { clients } = await readView(await printView(view([client(1, { position: long })])));
  assert.deepEqual(clients[0]?.position, { epoch: 'e', applied_through: 499, applied_beyond: [], unresolved: [] });
});

it('what is no such text is refused', async () => {
  await assert.rejects(readView('{"instance":1}'));
  await assert.rejects(readView('gzip:abc'));
});
