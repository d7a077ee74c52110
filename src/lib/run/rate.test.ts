import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseRate, RateLimit } from './rate.js';

test('reads rates in the notation of OPAL', () => {
  const rows: [string, number, number, string][] = [
    ['10 per second', 10, 1000, '10 per 1 second'],
    ['2 per minute', 2, 60_000, '2 per 1 minute'],
    ['100/hour', 100, 3_600_000, '100 per 1 hour'],
    [' 7 PER 5 Minutes ', 7, 300_000, '7 per 5 minute'],
    ['1/day', 1, 86_400_000, '1 per 1 day'],
  ];
  for (const [text, count, periodMs, shown] of rows) {
    assert.deepEqual(parseRate(text), { count, periodMs, text: shown }, text);
  }
});

test('refuses what is no rate', () => {
  for (const text of [
    '',
    '10',
    'per second',
    '0 per second',
    '5 per 0 seconds',
    '-1 per second',
    '1.5 per second',
    '9 per week',
  ]) {
    assert.throws(() => parseRate(text), /must be a rate/, text);
  }
});

test('lets the share of a period through, then says how long it lasts', () => {
  const limit = new RateLimit(parseRate('2 per second'));
  assert.deepEqual([limit.take('a', 0), limit.take('a', 400), limit.take('a', 600)], [0, 0, 400]);
  assert.equal(limit.take('b', 600), 0, 'another key has its own share');
  assert.equal(limit.take('a', 1000), 0, 'the next period has a new one');
});

test('forgets keys whose period is over', () => {
  const limit = new RateLimit(parseRate('1 per second'));
  for (let key = 0; key < 10_000; key++) limit.take(`old ${key}`, 0);
  assert.equal(limit.take('new', 5000), 0);
  assert.equal(limit.take('old 1', 5000), 0);
});

test('any number of addresses costs bounded memory, and each the same time', () => {
  const limit = new RateLimit(parseRate('1 per day'));
  for (let key = 0; key < 120_000; key++) limit.take(`key ${key}`, 0);
  assert.equal(limit.size, 100_000);
  assert(limit.take('key 119999', 1) > 0, 'the last ones are held to their share');
  assert.equal(limit.take('later', 86_400_000), 0);
  assert.equal(limit.size, 1, 'what is over is forgotten');
});
