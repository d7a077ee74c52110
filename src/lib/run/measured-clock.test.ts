import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MeasuredClock } from './measured-clock.js';

const HOUR = 3_600_000;

/**
 * The clock of a machine that answers each call after these times, and is ahead by that much when
 * it answers.
 */
function measured(...calls: readonly (readonly [tookMs: number, aheadMs: number])[]): (number | undefined)[] {
  const clock = new MeasuredClock();
  return calls.map(([tookMs, aheadMs], index) => {
    const sentMs = 1_000_000 + index * 5000;
    clock.answered(Math.floor(sentMs + tookMs / 2 + aheadMs), { sentMs, tookMs });
    return clock.aheadMs;
  });
}

test('a difference is what an answer proves, to half of its way', () => {
  assert.equal(new MeasuredClock().aheadMs, undefined);
  assert.deepEqual(measured([4, 0]), [0]);
  assert.deepEqual(measured([40, 15]), [0], 'less than the way of the answer proves nothing');
  assert.deepEqual(measured([2, HOUR]), [HOUR]);
  assert.deepEqual(measured([2, -HOUR]), [-HOUR]);
});

test('one measure stays until another one is better, or proves it wrong', () => {
  assert.deepEqual(measured([10, 1000], [10, 1003], [8, 998]), [1000, 1000, 1000]);
  assert.deepEqual(measured([100, 1010], [2, 990]), [1010, 990]);
  assert.deepEqual(measured([2, HOUR], [2, 0]), [HOUR, 0], 'a clock was set');
});
