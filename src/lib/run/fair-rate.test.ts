import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FairRate } from './fair-rate.js';
import { parseRate } from './rate.js';

/** How many of so many attempts succeed. */
function taken(rate: FairRate, caller: string, attempts: number, nowMs: number): number {
  return Array.from({ length: attempts }, () => rate.take(caller, nowMs)).filter((waitMs) => waitMs === 0).length;
}

test('one caller alone may use the whole rate, and is told how long to wait', () => {
  const rate = new FairRate(parseRate('10 per second'));
  assert.equal(taken(rate, 'a', 12, 0), 10);
  assert.equal(rate.take('a', 400), 600);
  assert.equal(rate.take('a', 1000), 0);
});

test('a second caller has its part from the next period on, also if it got nothing in this one', () => {
  const rate = new FairRate(parseRate('10 per second'));
  assert.deepEqual([taken(rate, 'greedy', 50, 0), taken(rate, 'a', 1, 0)], [10, 0]);
  for (const nowMs of [1000, 2000, 3000]) {
    assert.deepEqual([taken(rate, 'greedy', 50, nowMs), taken(rate, 'a', 50, nowMs)], [5, 5], `${nowMs}`);
  }
});

test('with more callers than the rate has places each may take one, and no more than the rate are taken', () => {
  const rate = new FairRate(parseRate('3 per second'));
  const callers = ['a', 'b', 'c', 'd', 'e'];
  for (const caller of callers) rate.take(caller, 0);
  const counts = callers.map((caller) => taken(rate, caller, 9, 1000));
  assert.deepEqual(counts, [1, 1, 1, 0, 0]);
});

test('who has not come for a period has no part any more', () => {
  const rate = new FairRate(parseRate('10 per second'));
  taken(rate, 'a', 1, 0);
  taken(rate, 'b', 1, 0);
  assert.equal(taken(rate, 'a', 50, 1000), 5);
  assert.equal(taken(rate, 'a', 50, 2000), 10);
  taken(rate, 'b', 1, 2000);
  assert.equal(taken(rate, 'a', 50, 9000), 10, 'after a pause');
});

test('any number of callers costs bounded memory', () => {
  const rate = new FairRate(parseRate('10 per second'));
  for (const nowMs of [0, 1000]) for (let caller = 0; caller < 30_000; caller++) rate.take(`${caller}`, nowMs);
  assert.equal(rate.size, 20_000);
  assert.equal(taken(rate, 'another', 20, 2000), 1, 'all of them count');
});
