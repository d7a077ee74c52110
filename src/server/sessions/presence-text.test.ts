import assert from 'node:assert/strict';
import { it } from 'node:test';
import { createTraceMemory } from '../trace/change-times.js';
import { clientKey, goodbyeForm, type KnownClient } from './known-client.js';
import { printView, readView } from './presence-text.js';

function client(index: number, more: Partial<KnownClient> = {}): KnownClient {
  const identity = { kind: 'session', subject: `s${index % 3}`, clientId: `client-${index}` } as const;
  return {
    ...identity,
    key: clientKey(identity),
    claimedMs: index,
    topicsLeftOut: index % 2,
    labels: index % 2 === 0 ? {} : { app: 'billing' },
    asks: index % 3 === 0 ? ['details', 'refresh'] : [],
    instance: 'one',
    address: `10.0.0.1:${index}`,
    topics: ['policy_data', index % 2 === 0 ? 'even' : 'odd'],
    spans: [...(index % 2 === 0 ? [] : [{ from: 0, until: 1, fromMs: 5, untilMs: 6 }]), { from: index, until: null }],
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
    const away = client(count, { awaySinceMs: 7, awayReason: 'it closed the connection' });
    const said = view([...Array.from({ length: count }, (_, index) => client(index)), away]);
    assert.deepEqual(await readView(await printView(said)), said);
  }
});

it('goodbyes are read as they were said; the newest of them count, and none as left out', async () => {
  const [here, away] = [client(1, { openedAtMs: 3 }), client(2, { awaySinceMs: 7 })];
  const goodbyes = Array.from({ length: 1500 }, (_, at) =>
    goodbyeForm(client(10 + at, { awaySinceMs: at, openedAtMs: at })),
  );
  const read = await readView(await printView({ ...view([...goodbyes, here, away]), hasEnded: true, ttlMs: 5 }));
  assert.deepEqual([read.hasEnded, read.ttlMs, read.leftOut, read.clients.length], [true, 5, 0, 1002]);
  assert.deepEqual(read.clients.slice(0, 3), [here, away, goodbyes.at(-1)]);
  const small = await readView(await printView(view([...goodbyes, here, away]), 4000));
  assert.deepEqual([small.leftOut, small.clients.slice(0, 2)], [0, [here, away]]);
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

it('when the last changes came how far is said with the clients, bounded, and an older version reads over it', async () => {
  const memory = createTraceMemory();
  const clients = [client(1), client(2, { awaySinceMs: 5 })];
  const [here, away] = clients.map(({ key }) => key);
  const error = { message: 'no', code: 'policy_commit_refused' };
  memory.commits.failed('abc', 'refused', 1_000_500, error);
  for (let seq = 1; seq <= 300; seq++) {
    memory.updates.reached(seq, 'received', 1_000_000 + seq, { id: `u${seq}` });
    memory.updates.reached(seq, 'announced', 1_000_002 + seq, { subscribers: 2 });
    for (let index = 0; index < 30; index++) memory.updates.said(seq, `gone ${index}`, { appliedSeen: 1_000_900 });
    memory.updates.said(seq, here ?? '', { heard: 999_000, appliedSeen: 1_000_700 });
    memory.updates.said(seq, away ?? '', { refused: 1_000_600, refusedSeen: 1_000_800 });
  }
  const text = await printView({ ...view(clients), memory });
  assert(text.length < 100_000, String(text.length));
  const read = (await readView(text)).memory;
  assert.deepEqual(read?.get('abc'), { stages: { refused: 1_000_500 }, error, clients: new Map() });
  assert.deepEqual(read?.get(300), {
    stages: { received: 1_000_300, announced: 1_000_302 },
    ...{ subscribers: 2, id: 'u300', isShort: true },
    clients: new Map([
      [here, { heard: 999_000, appliedSeen: 1_000_700 }],
      [away, { refused: 1_000_600, refusedSeen: 1_000_800 }],
    ]),
  });
  assert.equal(read?.get(250), undefined);
  const { changes: _, ...older } = JSON.parse(text) as Record<string, unknown>;
  assert.equal((await readView(JSON.stringify(older))).clients.length, 2);
});

it('of a large instance the newest changes have the times of all its clients, of whichever kind, and others none', async () => {
  const memory = createTraceMemory();
  const clients = Array.from({ length: 1500 }, (_, index) => client(index));
  const everyone = (said: (key: string) => void): void => clients.forEach(({ key }) => void said(key));
  for (let at = 1; at <= 10; at++) {
    memory.commits.reached(`c${at}`, 'announced', at * 100);
    everyone((key) => memory.commits.said(`c${at}`, key, { appliedSeen: at * 100 + 5 }));
    memory.updates.reached(at, 'announced', at * 100 + 50);
    everyone((key) => memory.updates.said(at, key, { appliedSeen: at * 100 + 60 }));
  }
  const sizes = async (maxText?: number): Promise<unknown[]> => {
    const read = await readView(await printView({ ...view(clients), memory }, maxText));
    assert.equal(read.clients.length, 1500);
    const of = (key: string | number): unknown[] => [
      read.memory?.get(key)?.clients.size,
      read.memory?.get(key)?.isShort,
    ];
    return ['c10', 10, 'c9', 9, 'c8', 8].map(of);
  };
  const [all, none] = [
    [1500, undefined],
    [0, true],
  ];
  assert.deepEqual(await sizes(), [all, all, all, all, none, none]);
  const tight = (await printView(view(clients))).length + 2000;
  assert.deepEqual(await sizes(tight), [none, none, none, none, none, none], 'times go before clients do');
});

it('how an instance is goes with its clients; what another version says of that is left out, and the clients stay', async () => {
  const figures = { memory: 1, loopMs: null, isUp: true, backboneMs: 2.5, isDraining: false, source: 'following' };
  const vitals = { name: 'host', version: '1', startedMs: 3, ...figures, hour: '{"from":1,"rows":[]}' };
  const said = { ...view([client(1)]), vitals };
  assert.deepEqual(await readView(await printView(said)), said);
  for (const other of [
    { ...vitals, name: 'n'.repeat(300) },
    { ...vitals, hour: 'h'.repeat(40_000) },
    { name: 'host' },
    7,
  ]) {
    const text = JSON.stringify({ ...(JSON.parse(await printView(said)) as object), vitals: other });
    const { vitals: read, clients } = await readView(text);
    assert.deepEqual([read, clients.length], [undefined, 1]);
  }
});
