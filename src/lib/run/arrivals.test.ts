import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Arrivals } from './arrivals.js';
import { ByteBudget, type Holder } from './budget.js';

const KIB = 1024;
const A: Holder = { subject: 'a', address: '10.0.0.1' };
const B: Holder = { subject: 'b', address: '10.0.0.2' };

/** Large bodies of one token have 384 KiB. */
function opened() {
  const clock = { ms: 0 };
  const budget = new ByteBudget(1024 * KIB, { what: 'bytes' });
  const arrivals = new Arrivals(budget, () => clock.ms);
  const gone: string[] = [];
  const begin = (name: string, holder = A) => arrivals.begin(holder, () => gone.push(name));
  return { clock, budget, gone, begin };
}

test('where there is no room, those that stall give way; those that arrive do not', () => {
  const { clock, gone, begin } = opened();
  const [stalled, steady] = [begin('stalled'), begin('steady')];
  assert.equal(stalled.add(200 * KIB), undefined);
  assert.equal(steady.add(100 * KIB), undefined);
  const third = begin('third');
  assert.equal(third.add(100 * KIB)?.code, 'share_used_up', 'it might be slow for a moment');
  clock.ms = 2_000;
  assert.equal(steady.add(60 * KIB), undefined);
  const fourth = begin('fourth');
  assert.equal(fourth.add(100 * KIB)?.code, 'share_used_up', 'both were fast enough so far');
  clock.ms = 4_000;
  assert.equal(steady.add(24 * KIB)?.code, undefined);
  const fifth = begin('fifth');
  assert.equal(fifth.add(100 * KIB), undefined);
  assert(gone.includes('stalled') && !gone.includes('fifth'));
});

test('a stalled one of another token gives way only where all together have too much', () => {
  const { clock, gone, begin } = opened();
  begin('other', B).add(300 * KIB);
  const mine = begin('mine');
  mine.add(384 * KIB);
  mine.isWhole();
  clock.ms = 60_000;
  assert.equal(begin('more').add(100 * KIB)?.code, 'share_used_up');
  assert.deepEqual(gone, [], 'one that is whole is not slow, and the other has a share of its own');
});

test('small ones have room, and without need nobody is slow', () => {
  const { clock, budget, gone, begin } = opened();
  begin('large').add(384 * KIB);
  clock.ms = 100_000;
  const small = begin('small');
  assert.equal(small.add(64 * KIB), undefined);
  assert.deepEqual(gone, []);
  small.end();
  assert.equal(budget.state.used, 384 * KIB);
});
