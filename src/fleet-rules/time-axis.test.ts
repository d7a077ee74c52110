import assert from 'node:assert/strict';
import { test } from 'node:test';
import { axisEnd, axisTicks, countTop, niceTop, tickText } from './time-axis.js';

test('the axis of a change that is under way doubles from 10 s', () => {
  const ends = [0, 5000, 9000, 12_000, 21_000, 60_000].map((elapsedMs) =>
    axisEnd({ running: true, elapsedMs, lastMs: elapsedMs }),
  );
  assert.deepEqual(ends, [10_000, 10_000, 10_000, 20_000, 40_000, 80_000]);
});

test('the axis of a change that everyone holds ends 15 % after the last', () => {
  assert.equal(axisEnd({ running: false, elapsedMs: 3_600_000, lastMs: 2000 }), 2300);
});

test('a change that stands still for hours keeps a readable curve', () => {
  assert.equal(axisEnd({ running: true, elapsedMs: 3 * 3_600_000, lastMs: 45_000 }), 320_000);
});

test('a change that nobody holds has an axis as long as it runs', () => {
  assert.equal(axisEnd({ running: true, elapsedMs: 150_000, lastMs: 0 }), 160_000);
  assert.equal(axisEnd({ running: false, elapsedMs: 0, lastMs: 0 }), 1);
});

test('ticks are round, from 0, and no more than asked for', () => {
  assert.deepEqual(
    axisTicks(10_000, 5),
    [0, 2000, 4000, 6000, 8000, 10_000].filter((at) => at % 2000 === 0),
  );
  assert.deepEqual(axisTicks(2300, 5), [0, 500, 1000, 1500, 2000]);
  assert.deepEqual(axisTicks(320_000, 6), [0, 60_000, 120_000, 180_000, 240_000, 300_000]);
  assert.deepEqual(axisTicks(900, 4), [0, 500]);
});

test('ticks of one axis have the same unit', () => {
  const texts = (end: number): string[] => axisTicks(end, 4).map((at) => tickText(at, end));
  assert.deepEqual(texts(920), ['0\u00a0ms', '500\u00a0ms']);
  assert.deepEqual(texts(40_000), ['0\u00a0s', '10\u00a0s', '20\u00a0s', '30\u00a0s', '40\u00a0s']);
  assert.deepEqual(texts(320_000), ['0\u00a0min', '2\u00a0min', '4\u00a0min']);
  assert.deepEqual(
    axisTicks(150_000, 9).map((at) => tickText(at, 150_000)),
    ['0\u00a0min', '1\u00a0min', '2\u00a0min'],
  );
});

test('the top of an axis is round and not below its figures', () => {
  assert.deepEqual([0, 1, 7, 47, 103, 31.5].map(niceTop), [1, 1, 8, 60, 120, 40]);
});

test('the top and the middle of an axis of counts are whole numbers', () => {
  assert.deepEqual([0, 1, 2, 3, 5, 11, 30].map(countTop), [2, 2, 2, 4, 6, 12, 30]);
});
