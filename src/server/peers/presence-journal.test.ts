import assert from 'node:assert/strict';
import { it } from 'node:test';
import { ToldInstance, toldView } from '../../../test/support/told-view.js';
import { createTraceMemory } from '../changes/change-times.js';
import { clientKey, goodbyeForm, type KnownClient } from '../clients/known-client.js';
import { PIECE, readHead } from './presence-text.js';

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
    reportedAtMs: -9000,
    lastError: { path: '/a', error: 'E', atMs: 9 },
    ...more,
  };
}

const many = (count: number, more?: Partial<KnownClient>): KnownClient[] =>
  Array.from({ length: count }, (_, index) => client(index, more));
const position = (seq: number): KnownClient['position'] => ({
  ...{ epoch: 'e', applied_through: seq, applied_beyond: [], unresolved: [] },
});

it('what one instance says is what the others read, small or large', async () => {
  for (const count of [0, 1, 3, 500]) {
    const away = client(count, { awaySinceMs: 7, awayReason: 'it closed the connection' });
    const clients = [...many(count), away];
    const { atMs: _, ...read } = await toldView({ clients, seen: 12 });
    assert.deepEqual(read, { instance: 'one', seen: 12, ttlMs: 60_000, clients, memory: new Map() });
  }
});

it('nobody is left out, however many there are: who is away, and who said goodbye', async () => {
  const here = many(15_000);
  const away = Array.from({ length: 10_000 }, (_, at) => client(20_000 + at, { awaySinceMs: 7 }));
  const goodbyes = Array.from({ length: 10_000 }, (_, at) =>
    goodbyeForm(client(40_000 + at, { awaySinceMs: at, openedAtMs: at })),
  );
  const told = new ToldInstance();
  const clients = [...here, ...away, ...goodbyes];
  await told.say({ clients, hasEnded: true });
  const read = await told.read();
  assert.deepEqual([read.hasEnded, read.clients.length], [true, 35_000]);
  const keys = (of: readonly KnownClient[]): string[] => of.map(({ key }) => key);
  assert.deepEqual(keys(read.clients), keys(clients));
  // How each is told does not depend on how many there are.
  const some = (of: readonly KnownClient[]): KnownClient[] => of.filter((_, index) => index % 20 === 0);
  assert.deepEqual(some(read.clients), some(clients));
  const pieces = [...(told.shared.parts.get('one')?.values() ?? [])];
  assert(pieces.every(({ length }) => length <= PIECE));
  assert((told.shared.texts.get('one')?.text.length ?? 0) < PIECE);
});

it('nobody is left out, however many topics they have, of whatever characters', async () => {
  const topics = (index: number): string[] =>
    Array.from({ length: 250 }, (_, at) => `${index} ${at} ${'\u0001é\ud800'.repeat(300)}`);
  const clients = Array.from({ length: 30 }, (_, index) => client(index, { topics: topics(index) }));
  const told = new ToldInstance();
  await told.say({ clients: many(30) });
  // Of clients that were short before.
  await told.say({ clients });
  assert.deepEqual(
    new Map((await told.read()).clients.map((one) => [one.key, one])),
    new Map(clients.map((one) => [one.key, one])),
  );
  const pieces = [...(told.shared.parts.get('one')?.values() ?? [])];
  assert(pieces.every(({ length }) => length <= PIECE));
});

it('who says nothing new costs one short text, however many there are; a change costs the part that it is in', async () => {
  const sizes: number[] = [];
  for (const count of [500, 5000]) {
    const told = new ToldInstance();
    let clients = many(count, { position: position(1) });
    await told.say({ clients, seen: 1 });
    const before = await told.read();
    const cost = async (): Promise<{ texts: number; parts: number; read: number; chars: number }> => {
      const [{ texts, parts, chars }, { read }] = [told.shared.written, told.shared];
      await told.say({ clients, seen: 1 });
      await told.read();
      const now = told.shared.written;
      return {
        ...{ texts: now.texts - texts, parts: now.parts - parts, chars: now.chars - chars },
        read: told.shared.read - read,
      };
    };
    const idle = await cost();
    assert.deepEqual([idle.texts, idle.parts, idle.read], [1, 0, 0]);
    // Reports that say nothing new.
    clients = clients.map((one) => ({ ...one, state: one.state && { ...one.state, at: 5 }, reportedAtMs: -8000 }));
    const { parts, read } = await cost();
    assert.deepEqual([parts, read], [0, 0]);
    assert.equal((await told.read()).clients, before.clients, 'the same objects');
    clients = clients.map((one, index) => (index === 7 ? { ...one, labels: { app: 'other' } } : one));
    const one = await cost();
    assert.deepEqual([one.parts, one.read], [1, 2], 'and what is held there is read again');
    // All of them hold an update: one part for thousands.
    clients = clients.map((each) => ({ ...each, position: position(2) }));
    const all = await cost();
    assert.equal(all.parts, Math.ceil(count / 4096));
    const now = (await told.read()).clients;
    assert(now.every(({ position: at }) => at?.applied_through === 2));
    assert(
      now.every(({ spans, topics }, index) => spans === before.clients[index]?.spans || topics[0] === 'policy_data'),
    );
    sizes.push(idle.chars, one.chars, all.chars);
  }
  const [idle = 0, one = 0, all = 0, idleOfMany = 0, oneOfMany = 0, allOfMany = 0] = sizes;
  assert(idleOfMany < 2 * idle + 1000 && idleOfMany < 2500, `${idle} and ${idleOfMany} characters`);
  assert(oneOfMany < 2 * one, `${one} and ${oneOfMany} characters`);
  assert(allOfMany < all + 2000, `${all} and ${allOfMany} characters`);
});

it('a client that reports all the time costs nothing, and is never said to have reported later than it did', async () => {
  const told = new ToldInstance();
  told.nowMs = 1_000_000;
  const reported = (at: number): KnownClient[] => many(300, { reportedAtMs: at });
  await told.say({ clients: reported(told.nowMs) });
  const { written } = told.shared;
  const seen = async (): Promise<unknown> =>
    [...new Set((await told.read()).clients.map(({ reportedAtMs, heard }) => [reportedAtMs, heard?.afterMs]))][0];
  assert.deepEqual(await seen(), [1_000_000, 1_000_000]);
  for (let round = 0; round < 5; round++) {
    await told.say({ clients: reported(told.nowMs + 900) });
    assert.deepEqual(await seen(), [1_000_000, told.nowMs - 1000], 'they reported after this');
  }
  assert.equal(told.shared.written.parts, written.parts);
  const last = reported(told.nowMs + 100);
  await told.say({ clients: last });
  await told.say({ clients: last });
  assert.deepEqual(await seen(), [told.nowMs - 1900, undefined], 'they have stopped');
});

it('a position with too many failing updates says less than is true, never more', async () => {
  const unresolved = Array.from({ length: 200 }, (_, index) => 500 + index);
  const long = { epoch: 'e', applied_through: 1000, applied_beyond: [1002], unresolved };
  const { clients } = await toldView({ clients: [client(1, { position: long })] });
  assert.deepEqual(clients[0]?.position, { epoch: 'e', applied_through: 499, applied_beyond: [], unresolved: [] });
});

it('what is no such text is refused, and one of another format by its name', async () => {
  await assert.rejects(readHead('{"instance":1}'));
  await assert.rejects(readHead('gzip:abc'));
  await assert.rejects(readHead('{"format":2}'), /^RangeError: an announcement of format 2: this version reads 1$/);
});

it('when the last changes came how far is said with the clients, and bounded', async () => {
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
  const told = new ToldInstance();
  await told.say({ clients, memory });
  const { chars } = told.shared.written;
  assert(chars < 100_000, String(chars));
  const read = (await told.read()).memory;
  assert.deepEqual(read?.get('abc'), { stages: { refused: 1_000_500 }, error, clients: new Map() });
  const last = {
    stages: { received: 1_000_300, announced: 1_000_302 },
    ...{ subscribers: 2, id: 'u300', isShort: true },
    clients: new Map([
      [here, { heard: 999_000, appliedSeen: 1_000_700 }],
      [away, { refused: 1_000_600, refusedSeen: 1_000_800 }],
    ]),
  };
  assert.deepEqual(read?.get(300), last);
  assert.equal(read?.get(250), undefined);
  // Of the others nothing is written again, and what is forgotten is removed.
  const { parts } = told.shared.written;
  memory.updates.said(300, here ?? '', { fetched: 999_500 });
  await told.say({ clients, memory });
  assert.equal(told.shared.written.parts - parts, 2, 'the changes, and the times of one');
  const again = (await told.read()).memory?.get(300)?.clients;
  assert.deepEqual(again?.get(here ?? ''), { heard: 999_000, fetched: 999_500, appliedSeen: 1_000_700 });
});

it('the first change is said, also by the announcement that writes all anew after a failure', async () => {
  const told = new ToldInstance();
  const memory = createTraceMemory();
  const clients = [client(1)];
  told.shared.down = true;
  await assert.rejects(told.say({ clients, memory }), { code: 'backbone_unavailable' });
  told.shared.down = false;
  await told.say({ clients, memory });
  told.nowMs += 10_000;
  memory.updates.reached(5, 'announced', 50);
  memory.updates.said(5, clients[0]?.key ?? '', { appliedSeen: 60 });
  await told.say({ clients, memory });
  const change = (await told.read()).memory?.get(5);
  assert.deepEqual(change?.clients, new Map([[clients[0]?.key, { appliedSeen: 60 }]]));
});

it('of a large instance the newest changes have the times of all its clients, of whichever kind, and others none', async () => {
  const memory = createTraceMemory();
  const clients = many(1500);
  const everyone = (said: (key: string) => void): void => clients.forEach(({ key }) => void said(key));
  for (let at = 1; at <= 10; at++) {
    memory.commits.reached(`c${at}`, 'announced', at * 100);
    everyone((key) => memory.commits.said(`c${at}`, key, { appliedSeen: at * 100 + 5 }));
    memory.updates.reached(at, 'announced', at * 100 + 50);
    everyone((key) => memory.updates.said(at, key, { appliedSeen: at * 100 + 60 }));
  }
  const read = await toldView({ clients, memory });
  assert.equal(read.clients.length, 1500);
  const of = (key: string | number): unknown[] => [read.memory?.get(key)?.clients.size, read.memory?.get(key)?.isShort];
  const [all, none] = [
    [1500, undefined],
    [0, true],
  ];
  assert.deepEqual(['c10', 10, 'c9', 9, 'c8', 8].map(of), [all, all, all, all, none, none]);
});

it('how an instance is goes with its clients; what another version says of that is left out, and the clients stay', async () => {
  const figures = { memory: 1, loopMs: null, isUp: true, backboneMs: 2.5, isDraining: false, source: 'following' };
  const vitals = { name: 'host', version: '1', startedMs: 3, ...figures, hour: '{"from":1,"rows":[]}' };
  const clients = [client(1)];
  const read = await toldView({ clients, vitals });
  assert.deepEqual([read.vitals, read.clients], [vitals, clients]);
  for (const other of [
    { ...vitals, name: 'n'.repeat(300) },
    { ...vitals, hour: 'h'.repeat(40_000) },
    { name: 'host' },
    7,
  ]) {
    const told = new ToldInstance();
    await told.say({ clients, vitals });
    const said = told.shared.texts.get('one');
    assert(said !== undefined);
    const text = JSON.stringify({ ...(JSON.parse(said.text) as object), vitals: other });
    told.shared.texts.set('one', { ...said, text });
    const { vitals: left, clients: stay } = await told.read();
    assert.deepEqual([left, stay.length], [undefined, 1]);
  }
});

it('whoever came and went leaves nothing behind: the numbers of parts are used again', async () => {
  const told = new ToldInstance();
  const sizes: number[] = [];
  for (let round = 0; round < 20; round++) {
    await told.say({ clients: Array.from({ length: 1000 }, (_, at) => client(round * 1000 + at)) });
    assert.equal((await told.read()).clients.length, 1000);
    sizes.push(told.shared.parts.get('one')?.size ?? 0);
  }
  assert(Math.max(...sizes) <= 2 * Math.max(...sizes.slice(0, 2)), sizes.join());
  for (const _ of [1, 2]) await told.say({ clients: [] });
  assert.equal(told.shared.parts.get('one')?.size, 0);
});
