import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { SyncError } from '../../src/lib/errors.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import type { KnownClient } from '../../src/server/clients/known-client.js';
import { inOurTime } from '../../src/server/clients/session-handler.js';
import { MailParts } from '../../src/server/log/backbone/postgres-session.js';
import { FoldedLog } from '../../src/server/log/folded-log.js';
import type { Presence, RowKind, StoredRow } from '../../src/server/log/log-store.js';
import { AskRelay } from '../../src/server/peers/ask-relay.js';
import { PeerInstances } from '../../src/server/peers/peer-instances.js';
import { MemoryLog } from '../support/memory-log-store.js';
import { toldView } from '../support/told-view.js';
import { until } from '../support/until.js';

/**
 * A peer instance that lies: what it can write into the log, into its announcement and into mail. The backbone is trusted as a disk is; what
 * nobody can have written in good faith is named, and ends or fills no instance.
 */

const MIB = 1024 * 1024;
const ENTRY = { url: '', topics: ['t'], dst_path: '/a', save_method: 'PUT', data: 1 };
const UPDATE = { id: 'i', publisher: null, reason: null, entries: [ENTRY], callbacks: [] };
const body = (more: object = {}): string => JSON.stringify({ ...UPDATE, ...more });
const compaction = (compacts: unknown): string =>
  JSON.stringify({ compacts, id: 'c', reason: null, time_ms: 1, entries: [ENTRY] });
const generation = (place: unknown, more: object = {}): string =>
  JSON.stringify({ generation: 'g', known: [], entries: [{ place, entry: ENTRY }], buried: [], ...more });

/** Rows that no instance writes, in place of the second row of a log. */
const FORGED_ROWS: Readonly<Record<string, Partial<Record<keyof StoredRow, unknown>>>> = {
  'of a kind that is none': { kind: 'constructor' },
  'without a kind': { kind: undefined },
  'of a time that is none': { timeMs: Number.NaN },
  'of a time that no date has': { timeMs: 8.64e15 + 1 },
  'of a time long before all dates': { timeMs: -1e300 },
  'without a body': { body: undefined },
  'that is not JSON': { body: '\u0000\u001b[2J' },
  'that is nested without end': { body: `{"entries":${'['.repeat(2 * MIB)}` },
  'with a number beyond all numbers': { body: body().replace('"callbacks"', '"retain":1e999,"callbacks"') },
  'with a list in place of a text': { body: body({ id: ['i'] }) },
  'with names of prototypes in place of members': {
    body: '{"__proto__":{"id":"i","publisher":null,"reason":null,"entries":[],"callbacks":[]}}',
  },
  'that replaces what is still to come': { body: compaction([4_000_000_000, 0]) },
  'that replaces itself': { body: compaction([2, 0]) },
  'that replaces half a row': { body: compaction([0.5, -1]) },
  'with base entries above all that will follow': { kind: 'base', body: generation([4_000_000_000, 0]) },
  'that closes what is still to come': {
    kind: 'base',
    body: generation([2, 0], { buried: [{ place: [4_000_000_000, 0] }] }),
  },
};

async function instance(memory: MemoryLog): Promise<FoldedLog & AsyncDisposable> {
  const options = {
    exclusive: false,
    patchesPerPath: 10,
    retention: { maxAgeMs: 1000, maxRows: 1000 },
    pollMs: 20,
    retry: { minMs: 1, maxMs: 20 },
  };
  const log = await FoldedLog.open(memory.handle(), options, { log: silentLogger() });
  return Object.assign(log, { [Symbol.asyncDispose]: () => log.close() });
}

test('a forged row is named, is applied by none, and what stood before it is served', async () => {
  const through: string[] = [];
  for (const [which, forged] of Object.entries(FORGED_ROWS)) {
    const memory = new MemoryLog();
    await using one = await instance(memory);
    const store = memory.handle();
    await store.append([{ kind: 'update', body: body() }]);
    await until(() => one.head === 1, { withinMs: 20_000, what: `${which}: the first row` });
    await store.append([{ kind: 'update' as RowKind, body: body({ entries: [{ ...ENTRY, dst_path: '/b' }] }) }]);
    memory.rows[1] = { ...memory.rows[1], ...forged } as (typeof memory.rows)[number];
    await until(() => !one.status.up || one.head !== 1, { withinMs: 20_000, what: `${which}: it says so` });
    const { status } = one;
    const said = status.up ? `head ${one.head}` : status.reason;
    const atStart = await instance(memory).then(
      async (log) => {
        await log.close();
        return 'started';
      },
      (error: unknown) => (error instanceof SyncError ? `${error.code}: ${error.message}` : String(error)),
    );
    const isNamed = /^record 2 of the update log cannot be read/.test(said) && /^log_damaged: record 2 /.test(atStart);
    const served = one.fold().map(({ entry }) => entry.dst_path);
    if (!isNamed || one.head !== 1 || served.join() !== '/a') through.push(`${which}: ${said}; ${atStart}; ${served}`);
  }
  assert.deepEqual(through, []);
});

test('rows with the id of another one, or of a time far off, are what they are by their place', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory);
  const heard: unknown[] = [];
  one.onRecord(({ seq, id }) => heard.push([seq, id]));
  const store = memory.handle();
  const times = [0, 4e15, -4e15, Date.now()];
  for (const [index, timeMs] of times.entries()) {
    await store.append([{ kind: 'update', body: body({ entries: [{ ...ENTRY, data: index }] }) }]);
    memory.rows[index] = { ...memory.rows[index], timeMs } as (typeof memory.rows)[number];
  }
  await until(() => one.head === times.length, { withinMs: 20_000, what: 'all rows' });
  assert.deepEqual(
    heard,
    times.map((_, index) => [index + 1, 'i']),
  );
  assert.deepEqual(
    one.fold().map(({ seq, entry }) => [seq, entry.data?.text]),
    [[4, '3']],
  );
});

const NOW = Date.now();
const CLIENT = {
  ...{ clientId: 'c', subject: null, kind: 'session', instance: 'liar', address: '127.0.0.1:1', topics: 0 },
  ...{ spans: [{ from: 0, until: null }], connectedAtMs: NOW, awaySinceMs: null, position: null, state: null },
  ...{ reportedAtMs: null, lastError: null },
};
/** What an instance says, as others find it: a short text and two parts of it. */
interface Forged {
  readonly head?: string;
  /** Of the clients, and of what they hold. */
  readonly clients?: string;
  readonly held?: string;
  /** In place of both parts, by their numbers. */
  readonly pieces?: ReadonlyMap<number, string>;
}
const HEAD = {
  ...{ format: 1, instance: 'liar', atMs: NOW, version: 9, seen: 1, ttlMs: 60_000, heardAfterMs: NOW, times: [] },
  sheets: [{ held: [2, 1], clients: [[1, 0]] }],
};
const head = (more: object): string => JSON.stringify({ ...HEAD, ...more });
const clients = (more: object, client: object = {}): string =>
  JSON.stringify({ topics: [['t']], clients: [{ ...CLIENT, n: 1, ...client }], ...more });
const held = (more: object): string => JSON.stringify({ positions: [null], runs: [[0, 1]], ...more });
const packed = (text: string | Buffer): string => `gzip:${gzipSync(text).toString('base64')}`;

/** Announcements that no instance makes; each is bounded by what the backbone takes. */
const FORGED_VIEWS: Readonly<Record<string, () => Forged>> = {
  'that is nothing': () => ({ head: '' }),
  'that is no gzip': () => ({ head: 'gzip:AAAA' }),
  'nested without end': () => ({ head: '['.repeat(500_000) }),
  'with names of prototypes for members': () => ({ head: '{"__proto__":{"instance":"liar","sheets":[]}}' }),
  'made at no time': () => ({ head: head({ atMs: 1e300 }) }),
  'of another format': () => ({ head: head({ format: 2 }) }),
  'of no part': () => ({ head: head({ sheets: [{ held: [2], clients: [[]] }] }) }),
  'of parts between parts': () => ({ head: head({ sheets: [{ held: [2, 0.5], clients: [[1, -1]] }] }) }),
  'of parts that are not there': () => ({ head: head({ sheets: [{ held: [2, 1], clients: [[1, 5]] }] }) }),
  'of parts of other versions': () => ({ head: head({ sheets: [{ held: [2, 1], clients: [[7, 0]] }] }) }),
  'of parts without a version': () => ({ pieces: new Map([0, 1].map((number) => [number, '{}'])) }),
  'longer than any instance makes one': () => ({ head: head({ note: 'x'.repeat(MIB) }) }),
  'of a client that went away at no time': () => ({ clients: clients({}, { awaySinceMs: 1e300 }) }),
  'of a client that came before all times': () => ({ clients: clients({}, { connectedAtMs: -1e300 }) }),
  'of a report of no time': () => ({ clients: clients({}, { reportedAtMs: 9e15 }) }),
  'of seqs between seqs': () => ({ clients: clients({}, { spans: [{ from: 0.5, until: -1 }] }) }),
  'of an id without end': () => ({ clients: clients({}, { clientId: 'c'.repeat(300_000) }) }),
  'of clients without a number': () => ({ clients: clients({}, { n: undefined }) }),
  'of parts nested without end': () => ({ clients: '['.repeat(500_000) }),
  'of more that is held than clients': () => ({ held: held({ runs: [[0, 9e15]] }) }),
  'of fewer clients than none': () => ({
    held: held({
      runs: [
        [0, 2],
        [0, -1],
      ],
    }),
  }),
  'of a position that is none': () => ({ held: held({ runs: [[1, 1]] }) }),
  'of a part that is longer than any': () => ({ clients: clients({ note: 'x'.repeat(17 * MIB) }) }),
  'packed, of ten million lists': () => ({ clients: packed(`{"topics":[${'[],'.repeat(9_990_000)}[]]}`) }),
  'packed, of a hundred megabytes': () => ({ clients: packed(Buffer.alloc(100 * MIB, ' ')) }),
  'packed as a whole, of a hundred megabytes': () => ({ head: packed(Buffer.alloc(100 * MIB, ' ')) }),
};

interface Announced {
  readonly text: string;
  readonly leftMs: number;
  readonly pieces: ReadonlyMap<number, string>;
}

function announced(forged: Forged, instance = 'liar', leftMs = 59_900): Announced {
  const told = [forged.clients ?? clients({}, { instance }), forged.held ?? held({})];
  const parts = told.map((text, index) => [index, `${index + 1}:${text}`] as const);
  return { text: forged.head ?? head({ instance }), leftMs, pieces: forged.pieces ?? new Map(parts) };
}

function peers(said: Readonly<Record<string, Announced>>): PeerInstances {
  const presence: Presence = {
    ...{ put: async () => 0, putParts: async () => undefined },
    list: async () => new Map(Object.entries(said)),
    parts: async (instance) => said[instance]?.pieces ?? new Map<number, string>(),
  };
  return new PeerInstances(
    { instance: 'own', memoryMs: 60_000 },
    { presence, clients: () => [], head: () => 1, log: silentLogger() },
  );
}

test('a forged announcement is unreadable, says so, takes no memory, and hides no other instance', async () => {
  const honest = announced({}, 'honest');
  const through: string[] = [];
  for (const [which, forge] of Object.entries(FORGED_VIEWS)) {
    const liar = announced(forge());
    const before = process.memoryUsage.rss();
    const { instances, unread } = await peers({ liar, honest }).others(0, true);
    const grownMib = (process.memoryUsage.rss() - before) / MIB;
    const [forged, other] = instances.map(({ state, clients: theirs }) => `${state} ${theirs.length}`);
    const isNamed = instances[0]?.why?.includes('server instance liar says cannot be read') === true;
    const isRepelled = forged === 'unreadable 0' && isNamed && other === 'live 1' && unread === undefined;
    if (!isRepelled || grownMib > 150) through.push(`${which}: ${forged}, ${other}, ${Math.round(grownMib)} MiB more`);
  }
  assert.deepEqual(through, []);
});

test('a client whose times are far off does not make what its instance announces unreadable', async () => {
  const report = {
    ...{ policy_hash: null, ready: true, healthy: true, failing: [], blocked: [] },
    engine: { kind: 'opa', version: null, online: true, since: 4e15 },
    since: 0,
    policy: { wanted: null, held: null, error: null, since: 1 },
  };
  for (const at of [4e15, 0]) {
    const { position: _, ...state } = { ...inOurTime({ ...report, position: null }, NOW - at, NOW), position: null };
    const client = { ...CLIENT, state, topics: ['t'], subject: 's', claimedMs: 0, topicsLeftOut: 0 };
    const known = { ...client, key: 'k', labels: {}, asks: [] } as unknown as KnownClient;
    assert.equal((await toldView({ clients: [known] })).clients.length, 1, `at ${at}`);
  }
});

test('an announcement that says how long it holds, against the backbone, is not heard for ever', async () => {
  for (const leftMs of [Number.NaN, Number.POSITIVE_INFINITY, 1e300, -1]) {
    const { instances } = await peers({ liar: announced({}, 'liar', leftMs) }).others(0);
    const ages = instances.map(({ state }) => state);
    assert(['live', 'unreadable', 'silent'].includes(ages[0] ?? ''), `${leftMs}: ${ages}`);
    assert.doesNotThrow(() => JSON.stringify(instances), String(leftMs));
    assert.doesNotMatch(instances[0]?.why ?? '', /NaN|Infinity/, String(leftMs));
  }
});

test('mail that is a bomb, a flood, or for nobody is dropped, and mail in good faith arrives', async () => {
  let deliver: (text: string) => void = () => undefined;
  const sent: string[] = [];
  const relay = new AskRelay(
    { instance: 'own' },
    {
      mail: {
        send: async (text) => void sent.push(text),
        watch: (listener) => {
          deliver = listener;
          return () => undefined;
        },
      },
      asks: { ask: () => Promise.reject(new SyncError('client_away', 'nobody')) },
      clientOf: () => undefined,
      log: silentLogger(),
    },
  );
  const stop = new AbortController();
  relay.run(stop.signal);
  const pack = (mail: unknown): string => gzipSync(JSON.stringify(mail)).toString('base64');
  const ask = { id: '1', from: 'liar', to: 'own', client: '__proto__', kind: 'refresh' };
  const bad = [
    '',
    'A'.repeat(149_999),
    'A'.repeat(10 * MIB),
    gzipSync(Buffer.alloc(100 * MIB, '['))
      .toString('base64')
      .slice(0, 149_998),
    pack({ ask: { ...ask, kind: 'shutdown' } }),
    pack({ ask: { ...ask, kind: 'log_level', level: 'silent' } }),
    pack({ ask: { ...ask, id: 'x'.repeat(65) } }),
    pack({ ask: { ...ask, to: 'another' } }),
    pack({ answer: { id: 'never asked', to: 'own', answer: { ok: true } } }),
    pack({ answer: { id: 'toString', to: 'own', failure: { code: 'internal_error', message: 'x' } } }),
  ];
  const before = process.memoryUsage.rss();
  for (let round = 0; round < 20; round++) for (const text of bad) deliver(text);
  deliver(pack({ ask }));
  await until(() => sent.length > 0, { withinMs: 10_000, what: 'the answer to the one good mail' });
  assert.equal(sent.length, 1);
  assert((process.memoryUsage.rss() - before) / MIB < 150);
  stop.abort();
});

test('parts of mail that are out of order, of two mails, or without end make no mail', () => {
  const mails: string[] = [];
  const parts = new MailParts((text) => mails.push(text));
  const part = 'x'.repeat(7000);
  for (const message of [
    'mail:a:1:2:late',
    'mail:a:0:41:too many',
    'mail:a:0:999:far too many',
    'mail:a:0:0:none',
    'mail:A:0:1:no id',
    ...Array.from({ length: 41 }, (_, index) => `mail:e:${index}:41:one more than any`),
    'mail:a:0:1:line\nbreak',
    'mail:',
    ...Array.from({ length: 5000 }, (_, index) => `mail:a:${index % 40}:40:${part}`).filter((_, at) => at % 40 !== 39),
    'mail:b:0:2:one',
    'mail:c:1:2:other',
    'mail:b:1:2:two',
  ])
    assert.equal(parts.take(message), true);
  assert.deepEqual(mails, []);
  assert.equal(parts.take('7'), false, 'a hint');
  parts.take('mail:d:0:1:whole');
  assert.deepEqual(mails, ['whole']);
});
