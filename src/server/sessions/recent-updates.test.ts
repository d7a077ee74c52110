import assert from 'node:assert/strict';
import { it } from 'node:test';
import { RecentUpdates } from './recent-updates.js';

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
