import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { LogRecord } from '../log/update-log.js';
import { RecentUpdates, recentUpdates, updateOf } from './recent-updates.js';

function filled(count: number, limit?: number): RecentUpdates {
  const recent = new RecentUpdates(0, limit);
  for (let seq = 1; seq <= count; seq++)
    recent.add({ seq, timeMs: seq * 1000, topics: [seq % 2 === 0 ? 'even' : 'odd'] });
  return recent;
}

const at = (through: number, beyond: number[] = [], unresolved: number[] = []) => ({
  epoch: 'e',
  applied_through: through,
  applied_beyond: beyond,
  unresolved,
});

it('lag counts the updates of the own topics that are not applied, and the age of the oldest', () => {
  const recent = filled(10);
  const lag = (position: ReturnType<typeof at> | null, topics: string[]) =>
    recent.lag(position, topics, { even: 10, odd: 9 }, 20_000);
  assert.deepEqual(lag(at(10), ['even', 'odd']), { updates: 0, seconds: 0, atLeast: false });
  assert.deepEqual(lag(at(5), ['even']), { updates: 3, seconds: 14, atLeast: false });
  assert.deepEqual(lag(at(5, [6, 8]), ['even']), { updates: 1, seconds: 10, atLeast: false });
  assert.deepEqual(lag(at(10, [], [3]), ['odd']), { updates: 1, seconds: 17, atLeast: false }, 'a failing one lags');
  assert.deepEqual(lag(null, ['odd']), { updates: 5, seconds: 19, atLeast: false });
});

it('says of each topic what is held and how much is behind', () => {
  const recent = filled(10);
  const standings = recent.standings(at(5, [8], [3]), new Set(['even', 'odd', 'none']));
  assert.deepEqual(Object.fromEntries(standings), {
    even: { held: 8, behind: 2 },
    odd: { held: 5, behind: 3 },
    none: { held: null, behind: 0 },
  });
});

it('an update with many topics counts for each of them as one with few', () => {
  const topics = Array.from({ length: 20 }, (_, at) => `t${at}`);
  const recent = new RecentUpdates(0);
  recent.add(updateOf({}, { seq: 1, timeMs: 0, entries: [{ topics }, { topics: ['t1', 'x'] }] as never }));
  assert.equal(recent.lag(null, ['x'], { x: 1 }, 0).updates, 1);
  assert.equal(recent.lag(null, ['y'], { y: 1 }, 0).updates, 0);
  const standings = recent.standings(at(0), new Set(['t19', 'y']));
  assert.deepEqual(Object.fromEntries(standings), { t19: { held: null, behind: 1 }, y: { held: null, behind: 0 } });
});

it('who subscribes to all topics lags behind every update', () => {
  const recent = filled(10);
  const lag = recent.lag(at(5), ['__EventNotifier_ALL_TOPICS__'], {}, 20_000);
  assert.deepEqual(lag, { updates: 5, seconds: 14, atLeast: false });
});

it('who is behind more than is remembered lags at least so much', () => {
  const recent = filled(1000, 100);
  const lag = recent.lag(at(10), ['even'], { even: 1000 }, 1_000_000);
  assert(lag.atLeast);
  assert(lag.updates >= 50 && lag.updates < 100, String(lag.updates));
  assert.equal(recent.lag(at(990), ['even'], { even: 1000 }, 1_000_000).updates, 5);
});

it('who lacks an update that is older than what is remembered is behind', () => {
  const recent = filled(1000, 100);
  const heads = { even: 1000, old: 5 };
  const lag = recent.lag(null, ['old'], heads, 1_000_000);
  assert.deepEqual([lag.updates, lag.atLeast], [1, true]);
  assert(lag.seconds > 0);
  assert.equal(recent.lag(at(4), ['old'], heads, 1_000_000).updates, 1);
  assert.equal(recent.lag(at(9, [], [3]), ['old'], heads, 1_000_000).updates, 1, 'one that fails is open');
  const none = { updates: 0, seconds: 0, atLeast: false };
  assert.deepEqual(recent.lag(at(5), ['old'], heads, 1_000_000), none);
  assert.deepEqual(recent.lag(at(999, [], [951]), ['old', 'even'], { even: 1000, old: 5 }, 1_000_000).updates, 1);
  assert.deepEqual(recent.lag(at(1000, [], [951]), ['old'], heads, 1_000_000), none, 'that is of another topic');
  assert.deepEqual(recent.lag(at(3, [5]), ['old'], heads, 1_000_000), none, 'it has the newest one');
});

it('no more than a thousand updates are counted', () => {
  const lag = filled(5000).lag(null, ['even'], { even: 5000 }, 5_000_000);
  assert.deepEqual(lag, { updates: 1000, seconds: 4998, atLeast: true });
});

it('after updates that were skipped, whoever has not all of them is behind', () => {
  const recent = filled(10);
  recent.skipTo(50);
  assert.deepEqual(recent.lag(at(10), ['even'], { even: 40 }, 60_000), { updates: 1, seconds: 0, atLeast: true });
  recent.add({ seq: 51, timeMs: 51_000, topics: ['even'] });
  assert.deepEqual(recent.lag(at(50), ['even'], { even: 51 }, 60_000), { updates: 1, seconds: 9, atLeast: false });
});

it('an update that was taken before is ignored', () => {
  const recent = filled(3);
  recent.add({ seq: 2, timeMs: 0, topics: ['even'] });
  assert.deepEqual(
    [...recent.between(0, 10)].map(({ seq }) => seq),
    [1, 2, 3],
  );
  assert.deepEqual(
    [...recent.between(1, 2)].map(({ seq }) => seq),
    [2],
  );
});

const record = (seq: number) => ({
  ...{ seq, timeMs: seq, id: `${seq}`, publisher: null, reason: null, callbacks: [] },
  entries: [{ url: '', topics: ['t'], dst_path: '/a', save_method: 'PUT' as const }],
});

it('at the start they are read to the head, page by page, unless they are large', async () => {
  const log = (chars: number) => ({
    head: 5000,
    onRecord: () => () => undefined,
    onSkipped: () => () => undefined,
    tail: async (after: number) => {
      const through = Math.min(after + 300, 5000);
      const records = Array.from({ length: through - after }, (_, at) => record(after + at + 1));
      return { records, through, more: through < 5000, chars };
    },
  });
  assert.equal([...(await recentUpdates(log(1000))).between(0, 5000)].length, 1000);
  assert.deepEqual([...(await recentUpdates(log(50 * 1024 * 1024))).between(0, 5000)], []);
});

it('follows the log from its last look at the head: nothing is missed between, nor told after the end', async () => {
  const heard = { record: (_: LogRecord): void => undefined, skipped: (): void => undefined };
  const log = {
    head: 2,
    onRecord: (listener: typeof heard.record) => {
      heard.record = listener;
      return () => Object.assign(heard, { record: () => undefined });
    },
    onSkipped: (listener: () => void) => {
      heard.skipped = listener;
      return () => Object.assign(heard, { skipped: () => undefined });
    },
    tail: async (after: number) => {
      const page = { records: [record(after + 1)], through: after + 1, more: true };
      if (after === 1) log.head = 3; // appended meanwhile
      return page;
    },
  };
  const recent = await recentUpdates(log);
  const seqs = (): number[] => [...recent.between(0, 100)].map(({ seq }) => seq);
  heard.record(record(4));
  assert.deepEqual(seqs(), [1, 2, 3, 4]);
  log.head = 9;
  heard.skipped();
  heard.record(record(10));
  assert.deepEqual(seqs(), [10]);
  recent.close();
  heard.record(record(11));
  assert.deepEqual(seqs(), [10]);
});
