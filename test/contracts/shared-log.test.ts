import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonText } from '../../src/lib/json/json-text.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import type { BackoffOptions } from '../../src/lib/run/async.js';
import { FoldedLog } from '../../src/server/log/folded-log.js';
import type { StoredRow } from '../../src/server/log/log-store.js';
import type { FoldedEntry, NewRecord } from '../../src/server/log/update-log.js';
import { type PeerEntry, peerEntry } from '../../src/wire/data.js';
import { MemoryLog } from '../support/memory-log-store.js';
import { until } from '../support/until.js';

/** Several instances on one log. The stores themselves are tested by test/contracts/log-store.test.ts. */

async function instance(memory: MemoryLog, retry?: BackoffOptions): Promise<FoldedLog & AsyncDisposable> {
  const options = {
    exclusive: false,
    patchesPerPath: 10,
    retention: { maxAgeMs: 1000, maxRows: 1000 },
    pollMs: 50,
    retry,
    probes: { retry: { minMs: 1, maxMs: 10 } },
  };
  const log = await FoldedLog.open(memory.handle(), options, { log: silentLogger() });
  return Object.assign(log, { [Symbol.asyncDispose]: () => log.close() });
}

function record(dst_path: string, data: unknown = 1, save_method: 'PUT' | 'PATCH' = 'PUT'): NewRecord {
  const entries = [{ url: '', topics: ['t'], dst_path, save_method, data: JsonText.of(data) }];
  return { id: `id of ${dst_path}`, publisher: null, reason: null, entries, callbacks: [] };
}

function base(...urls: string[]): PeerEntry[] {
  return urls.map((url) => peerEntry.parse({ url, dst_path: `/${url.slice(-1)}`, topics: ['t'] }));
}

function shown(log: FoldedLog): string[] {
  return log.fold().map(({ seq, origin, entry }) => `${seq} ${origin} ${entry.dst_path}`);
}

/** The seqs that a log delivers from now on. */
function heardBy(log: FoldedLog): number[] {
  const heard: number[] = [];
  log.onRecord(({ seq }) => heard.push(seq));
  return heard;
}

test('patches that several instances take at the same moment do not pass the limit together', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory);
  await using other = await instance(memory);
  await using third = await instance(memory);
  const patch = (): NewRecord => record('/a', [{ op: 'move', from: '/x', path: '/y' }], 'PATCH');
  const all = await Promise.allSettled(
    Array.from({ length: 20 }, () => [one, other, third].map((log) => log.append(patch()))).flat(),
  );
  assert.equal(all.filter(({ status }) => status === 'fulfilled').length, 10);
  const codes = all.flatMap((each) => (each.status === 'rejected' ? [(each.reason as { code?: string }).code] : []));
  assert.deepEqual([...new Set(codes)], ['too_many_patches']);
  await until(() => [one, other, third].every((log) => log.fold().length === 10), {
    withinMs: 20_000,
    what: 'ten stand',
  });
});

test('every instance delivers every record once, in one order, whoever appended it; an append is applied when answered', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory);
  await using other = await instance(memory);
  const heard = [heardBy(one), heardBy(other)];
  const appended = await Promise.all(
    Array.from({ length: 200 }, async (_, index) => {
      const log = index % 2 === 0 ? one : other;
      const { seq } = await log.append(record(`/p${index}`));
      assert.ok(log.head >= seq, 'applied here');
      return seq;
    }),
  );
  const all = Array.from({ length: 200 }, (_, index) => index + 1);
  assert.deepEqual(
    appended.sort((a, b) => a - b),
    all,
  );
  await until(() => one.head === 200 && other.head === 200, { withinMs: 20_000, what: 'both are at the head' });
  assert.deepEqual(heard, [all, all]);
  assert.deepEqual(shown(one), shown(other));
});

test('while the log is away publishes are refused and what is known is served; then it catches up by position', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory);
  await using other = await instance(memory);
  await one.append(record('/a'));
  await until(() => other.head === 1, { withinMs: 20_000, what: 'the other one has it' });
  const heard = heardBy(other);
  memory.take(true);
  await assert.rejects(other.append(record('/b')), { code: 'backbone_unavailable', status: 503 });
  assert.equal(other.status.up, false);
  assert.deepEqual(shown(other), ['1 update /a']);
  memory.take(false);
  await one.append(record('/c'));
  await one.append(record('/d'));
  await until(() => other.head === 3, { withinMs: 20_000, what: 'it catches up' });
  assert.deepEqual(heard, [2, 3]);
  assert.deepEqual(shown(other), ['1 update /a', '2 update /c', '3 update /d']);
});

test('a log that is back is read at once, however long it was away', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory, { minMs: 3_600_000, maxMs: 3_600_000 });
  memory.take(true);
  await until(() => memory.refusals > 0, { withinMs: 20_000, what: 'it looked in vain' });
  memory.take(false);
  await using other = await instance(memory);
  await other.append(record('/a'));
  await until(() => one.head === 1, { withinMs: 20_000, what: 'it catches up' });
});

test('an instance that was away for longer than the log is kept reads what counts now', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory);
  const store = memory.handle();
  let isCut = false;
  const cut: typeof store = Object.create(store, {
    read: { value: (after: number, limit: number) => (isCut ? Promise.resolve([]) : store.read(after, limit)) },
  });
  const options = { exclusive: false, patchesPerPath: 10, retention: { maxAgeMs: 1000, maxRows: 1000 }, pollMs: 50 };
  const away = await FoldedLog.open(cut, options, { log: silentLogger() });
  let skips = 0;
  away.onSkipped(() => skips++);
  isCut = true;
  for (let count = 0; count < 5; count++) await one.append(record('/a', count));
  await one.append(record('/b'));
  await until(() => memory.rows.filter(({ retired }) => retired).length === 4, { withinMs: 20_000, what: 'retired' });
  memory.drop();
  isCut = false;
  await until(() => away.head === 6, { withinMs: 20_000, what: 'it has read the log anew' });
  assert.deepEqual(shown(away), ['5 update /a', '6 update /b']);
  assert.equal(skips, 1, 'whoever listened is told that it missed something');
  await away.close();
});

test('what others replace while a log is read at the start is never missing from its fold', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory);
  for (const path of ['/a', '/b', '/c']) await one.append(record(path));
  const store = memory.handle();
  async function* pages(): AsyncGenerator<readonly StoredRow[]> {
    yield memory.rows.slice(0, 2);
    await one.append(record('/c', 'newer'));
    await store.retire([3]);
    yield memory.rows.filter(({ seq, retired }) => seq > 2 && !retired);
  }
  const meanwhile: typeof store = Object.create(store, {
    load: { value: async () => ({ head: 3, rows: pages() }) },
    read: {
      value: async (after: number, limit: number) => {
        await new Promise((resolve) => setTimeout(resolve, 20)); // as long as a backbone takes
        return await store.read(after, limit);
      },
    },
  });
  const other = await FoldedLog.open(
    meanwhile,
    { exclusive: false, patchesPerPath: 10, retention: { maxAgeMs: 1000, maxRows: 1000 } },
    { log: silentLogger() },
  );
  assert.deepEqual(shown(other), ['1 update /a', '2 update /b', '4 update /c']);
  await other.close();
});

test('instances that start together with new base entries agree on their places', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory);
  await using other = await instance(memory);
  await Promise.all([one.adoptBase(base('http://x', 'http://y')), other.adoptBase(base('http://x', 'http://y'))]);
  assert.deepEqual(
    [shown(one), shown(other)],
    [
      ['1 base /x', '1 base /y'],
      ['1 base /x', '1 base /y'],
    ],
  );
  assert.deepEqual([one.configDiffers, other.configDiffers], [false, false]);
});

test('an instance that starts with an older configuration takes the newer one of the log, and says so', async () => {
  const memory = new MemoryLog();
  await using first = await instance(memory);
  await first.adoptBase(base('http://x'));
  await using second = await instance(memory);
  await second.adoptBase(base('http://x', 'http://y'));
  await until(() => shown(first).length === 2, { withinMs: 20_000, what: 'the first one takes the new generation' });
  assert.deepEqual([first.configDiffers, second.configDiffers], [true, false]);
  await using third = await instance(memory);
  await third.adoptBase(base('http://x'));
  assert.deepEqual([shown(third), third.configDiffers], [['1 base /x', '2 base /y'], true]);
});

test('of two instances that see a new policy head, one appends it, and both know it', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory);
  await using other = await instance(memory);
  const outcomes = await Promise.allSettled([one.appendPolicy('"c1"', 0), other.appendPolicy('"c2"', 0)]);
  assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
  assert.deepEqual(one.policy, other.policy);
  assert.equal(one.policy?.seq, 1);
});

test('two instances that compact the same document write it once', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory);
  await using other = await instance(memory);
  await one.append(record('/a', {}));
  for (let count = 0; count < 70; count++) {
    await one.append(record('/a', [{ op: 'add', path: `/k${count % 7}`, value: count }], 'PATCH'));
  }
  const live = () => memory.rows.filter(({ retired }) => !retired).length;
  await until(() => one.head === other.head && live() < 15, { withinMs: 20_000, what: 'most rows are retired' });
  assert.equal(memory.rows.filter(({ body }) => body.includes('"compacts"')).length, 1);
  const texts = [one, other].map((log) => log.fold().map(({ entry }) => entry.data?.text));
  assert.deepEqual(texts[0], texts[1]);
  await using fresh = await instance(memory);
  assert.deepEqual(JSON.parse(fresh.fold()[0]?.entry.data?.text ?? '').k6, JSON.parse(texts[0]?.[0] ?? '').k6);
});

test('what is made of the fold is made anew where another instance appended amid it, a bounded number of times', async () => {
  const memory = new MemoryLog();
  await using other = await instance(memory);
  await other.append(record('/a', 'old'));
  const store = memory.handle();
  let disturbances = 0;
  let disturb = 1;
  /** Another instance is faster than each append that was to be the next. */
  const append: typeof store.append = async (rows, expect) => {
    if (disturbances < disturb) await other.append(record('/a', `newer ${++disturbances}`));
    return await store.append(rows, expect);
  };
  const options = { exclusive: false, patchesPerPath: 10, retention: { maxAgeMs: 1000, maxRows: 1000 }, pollMs: 50 };
  const one = await FoldedLog.open(Object.create(store, { append: { value: append } }), options, {
    log: silentLogger(),
  });
  const again = (fold: readonly FoldedEntry[]): NewRecord[] =>
    fold.map(({ entry }) => ({ ...record(''), entries: [entry] }));
  const [made] = await one.appendFrom(again);
  assert.deepEqual([made?.seq, made?.entries[0]?.data?.text], [3, '"newer 1"']);

  disturb = Number.POSITIVE_INFINITY;
  await assert.rejects(one.appendFrom(again), { code: 'backbone_unavailable', status: 503 });
  assert.ok(disturbances > 5 && disturbances < 100, `${disturbances} attempts`);
  assert.equal(memory.rows.length, 2 + disturbances, 'nothing was written');
  disturb = 0;
  await one.append(record('/b'));
  await one.close();
});

test('a row that cannot be read stops an instance where it is; it says so, takes nothing, and goes on once it can', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory);
  await one.append(record('/a'));
  const heard = heardBy(one);
  const store = memory.handle();
  await store.append([{ kind: 'update', body: '{"of":"a newer version"}' }]);
  await store.append([{ kind: 'update', body: memory.rows[0]?.body ?? '' }]);
  await until(() => !one.status.up, { withinMs: 20_000, what: 'it says so' });
  const { status } = one;
  assert.match(status.up ? '' : status.reason, /record 2 of the update log cannot be read/);
  assert.deepEqual([one.head, shown(one), heard], [1, ['1 update /a'], []]);
  await assert.rejects(one.append(record('/b')), { code: 'backbone_unavailable', status: 503, message: /record 2/ });
  await assert.rejects(one.appendPolicy('"c"', 0), { code: 'backbone_unavailable' });
  assert.equal(memory.rows.length, 3, 'nothing was written');
  const [, damaged] = memory.rows;
  assert.ok(damaged);
  memory.rows[1] = { ...damaged, body: memory.rows[0]?.body ?? '' };
  await until(() => one.status.up && one.head === 3, { withinMs: 20_000, what: 'it goes on' });
  assert.deepEqual(heard, [2, 3]);
  await one.append(record('/b'));
});

test('a log that refuses a record says so, serves what it has, and is known to take records again without another one', async () => {
  const memory = new MemoryLog();
  await using one = await instance(memory);
  await one.append(record('/a'));
  assert.deepEqual(one.writes, { ok: true });
  memory.isFull = true;
  const before = Date.now();
  await assert.rejects(one.append(record('/b')), { code: 'log_unwritable', status: 507 });
  const { writes } = one;
  assert(!writes.ok && writes.reason === 'no space left' && writes.sinceMs >= before);
  assert.deepEqual([one.status, shown(one)], [{ up: true }, ['1 update /a']]);
  memory.isFull = false;
  await until(() => one.writes.ok, { withinMs: 20_000, what: 'there is room' });
  assert.equal(memory.rows.length, 1, 'and nothing was written to know it');
  memory.isFull = true;
  await assert.rejects(one.appendPolicy('"c"', 0), { code: 'log_unwritable' });
  assert.equal(one.writes.ok, false, 'every kind of row counts');
});

test('an append that the log does not give back is not known to have failed', async () => {
  const memory = new MemoryLog();
  const store = memory.handle();
  const append: typeof store.append = async (rows, expect) => {
    await store.append([{ kind: 'update', body: '{"of":"a newer version"}' }]);
    return await store.append(rows, expect);
  };
  const options = { exclusive: false, patchesPerPath: 10, retention: { maxAgeMs: 1000, maxRows: 1000 } };
  const one = await FoldedLog.open(Object.create(store, { append: { value: append } }), options, {
    log: silentLogger(),
  });
  await assert.rejects(one.append(record('/b')), { code: 'backbone_unavailable', message: /does not return the rows/ });
  assert.equal(memory.rows.length, 2);
  await one.close();
});

test('of an append to a list and a document that comes from a URL at the same time, no log has the one after the other', async () => {
  for (let round = 0; round < 30; round++) {
    const memory = new MemoryLog();
    await using one = await instance(memory);
    await using other = await instance(memory);
    await one.append(record('/d', { l: [] }));
    await until(() => other.head === 1, { withinMs: 20_000, what: 'the document' });
    const [entry] = record('/d').entries;
    const fromUrl = { ...record('/d'), entries: [{ ...entry, url: 'http://source/', data: undefined }] } as NewRecord;
    const [, appended] = await Promise.all([
      round % 2 === 0 ? one.append(fromUrl) : other.append(fromUrl),
      one.append(record('/d', [{ op: 'add', path: '/l/-', value: 1 }], 'PATCH')).then(
        ({ seq }) => seq,
        (error: unknown) => error,
      ),
    ]);
    const last = memory.rows.at(-1);
    assert.match(last?.body ?? '', /http:\/\/source/, 'the document from the URL is last');
    if (appended !== 2) {
      assert(appended instanceof Error && /append/.test(appended.message), String(appended));
      assert.equal(memory.rows.length, 2);
    }
  }
});

test('an append that returns in the turn in which a read finds nothing is read all the same', async () => {
  for (let ticks = 0; ticks < 16; ticks++) {
    const memory = new MemoryLog();
    const store = memory.handle();
    let isHeld = false;
    let release: (() => void) | undefined;
    const read: typeof store.read = async (after, limit) => {
      const rows = await store.read(after, limit);
      if (isHeld && release === undefined) await new Promise<void>((resolve) => (release = resolve));
      return rows;
    };
    const append: typeof store.append = async (rows) => {
      const places = await store.append(rows);
      release?.();
      for (let tick = 0; tick < ticks; tick++) await undefined;
      return places.map(({ seq, duplicate }) => ({ seq, duplicate }));
    };
    const options = { exclusive: false, patchesPerPath: 10, retention: { maxAgeMs: 1000, maxRows: 1000 }, pollMs: 5 };
    const both = Object.create(store, { read: { value: read }, append: { value: append } });
    const log = await FoldedLog.open(both, options, { log: silentLogger() });
    await using _closed = { [Symbol.asyncDispose]: () => log.close() };
    isHeld = true;
    await until(() => release !== undefined, { withinMs: 20_000, what: 'a read is under way' });
    assert.equal((await log.append(record('/a'))).seq, 1, `${ticks} ticks later`);
  }
});
