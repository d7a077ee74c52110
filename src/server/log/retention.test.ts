import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { silentLogger } from '../../lib/observe/log.js';
import { Retention } from './retention.js';

test('what cannot be marked is tried again each second, and logged once; after the close nothing is', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let tries = 0;
  let isAway = true;
  const store = {
    retire: async (): Promise<void> => {
      tries++;
      if (isAway) throw new Error('away');
    },
    dropRetired: async () => 0,
  };
  let warnings = 0;
  const log = Object.assign(silentLogger(), { warn: () => void warnings++ });
  const retention = new Retention({ maxAgeMs: 1000, maxRows: 10 }, { store, log, now: () => 0 });
  const second = async (): Promise<void> => {
    t.mock.timers.tick(1000);
    await new Promise((resolve) => setImmediate(resolve));
  };
  retention.take([1]);
  for (let count = 0; count < 3; count++) await second();
  assert.deepEqual({ tries, warnings }, { tries: 3, warnings: 1 });
  isAway = false;
  await second();
  await second();
  assert.deepEqual({ tries, warnings }, { tries: 4, warnings: 1 });

  isAway = true;
  retention.take([2]);
  await retention.close();
  assert.deepEqual({ tries, warnings }, { tries: 5, warnings: 2 });
  await second();
  assert.equal(tries, 5);
});

test('many that cannot be marked are tried each second, too, and not at once again', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let tries = 0;
  const store = {
    retire: async (): Promise<void> => {
      tries++;
      // Without a pause this would be called for ever, and no timer would come to its turn.
      if (tries < 50) throw new Error('away');
    },
    dropRetired: async () => 0,
  };
  const retention = new Retention({ maxAgeMs: 1000, maxRows: 10 }, { store, log: silentLogger(), now: () => 0 });
  retention.take(numbers(5000));
  for (let second = 1; second <= 3; second++) {
    for (let step = 0; step < 20; step++) await new Promise((resolve) => setImmediate(resolve));
    assert.equal(tries, second);
    t.mock.timers.tick(1000);
  }
});

/** A store that drops at most so many a call, on a clock that never stands still. */
function storeOf(dropsPerCall: number) {
  let nowMs = 1_000_000;
  let isAway = false;
  const rows: { seq: number; retiredMs: number }[] = [];
  return {
    rows,
    now: () => nowMs++,
    pass: (ms: number): void => {
      nowMs += ms;
    },
    away: (value: boolean): void => {
      isAway = value;
    },
    retire: async (seqs: readonly number[]): Promise<void> => {
      const retiredMs = nowMs++;
      for (const seq of seqs) rows.push({ seq, retiredMs });
    },
    dropRetired: async (beforeMs: number): Promise<number> => {
      if (isAway) throw new Error('away');
      const { length } = rows.slice(0, dropsPerCall).filter(({ retiredMs }) => retiredMs < beforeMs);
      rows.splice(0, length);
      return length;
    },
  };
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

test('however many are taken at once, as many are kept as is said, and at most a portion more', async () => {
  const store = storeOf(5000);
  const retention = new Retention({ maxAgeMs: 60_000, maxRows: 3000 }, { store, log: silentLogger(), now: store.now });
  retention.take(numbers(12_345));
  await retention.close();
  assert.ok(store.rows.length >= 3000 && store.rows.length < 4000, `${store.rows.length} are kept`);
  assert.equal(store.rows.at(-1)?.seq, 12_345, 'the newest are kept');
});

test('what could not be dropped, or was more than is dropped at once, goes without anything new', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const store = storeOf(10);
  const retention = new Retention({ maxAgeMs: 60_000, maxRows: 2000 }, { store, log: silentLogger(), now: store.now });
  store.away(true);
  retention.take(numbers(3500));
  await seconds(1, t, store);
  assert.equal(store.rows.length, 3500, 'all of them are marked at once');
  store.away(false);
  await seconds(50, t, store);
  assert.ok(store.rows.length >= 2000 && store.rows.length < 3000, `${store.rows.length} are kept`);
  await retention.close();
});

test('what is old goes also where nothing new comes', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const store = storeOf(100);
  const retention = new Retention({ maxAgeMs: 10_000, maxRows: 1000 }, { store, log: silentLogger(), now: store.now });
  retention.take([1, 2, 3]);
  await seconds(8, t, store);
  assert.equal(store.rows.length, 3);
  await seconds(5, t, store);
  assert.equal(store.rows.length, 0);

  retention.take([4]);
  await retention.close();
  await seconds(20, t, store);
  assert.equal(store.rows.length, 1, 'after the close nothing is done');
});

/** Lets seconds pass, for timers and for the store. */
async function seconds(count: number, t: TestContext, store: ReturnType<typeof storeOf>): Promise<void> {
  for (let second = 0; second < count; second++) {
    store.pass(1000);
    t.mock.timers.tick(1000);
    for (let step = 0; step < 20; step++) await new Promise((resolve) => setImmediate(resolve));
  }
}
