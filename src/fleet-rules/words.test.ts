import assert from 'node:assert/strict';
import { test } from 'node:test';
import { age, behind, clock, commit, count, day, duration, integer, measured, moment, size } from './words.js';

const plain = (text: string): string => text.replaceAll('\u00a0', ' ');

const DURATIONS: readonly [seconds: number | null, age: string, measured: string][] = [
  [null, '–', '–'],
  [-3, '0 ms', '0 ms'],
  [0.2104, '210 ms', '210 ms'],
  [0.9999, '999 ms', '999 ms'],
  [1, '1.0 s', '1.0 s'],
  [9.99, '9.9 s', '9.9 s'],
  [13.37, '13 s', '13.3 s'],
  [119.9, '119 s', '119.9 s'],
  [120, '2 min', '2 min'],
  [7199, '119 min', '119 min'],
  [7200, '2 h', '2 h'],
  [172_799, '47 h', '47 h'],
  [172_800, '2 d', '2 d'],
  [86_400 * 1234, '1,234 d', '1,234 d'],
];
for (const [seconds, text, exact] of DURATIONS) {
  test(`${seconds} s read as ${text}`, () => {
    assert.equal(plain(duration(seconds)), text);
    assert.equal(plain(measured(seconds)), exact);
  });
}

const SIZES: readonly [bytes: number | null, text: string][] = [
  [null, '–'],
  [0, '0 B'],
  [1023, '1,023 B'],
  [1024, '1.0 KB'],
  [2_210_400, '2.1 MB'],
  [3 * 1024 ** 3, '3.0 GB'],
];
for (const [bytes, text] of SIZES) test(`${bytes} bytes read as ${text}`, () => assert.equal(plain(size(bytes)), text));

test('numbers have commas', () => {
  assert.deepEqual([0, 999, 1000, 4812, 1234567.9, null].map(integer), [
    '0',
    '999',
    '1,000',
    '4,812',
    '1,234,567',
    '–',
  ]);
  assert.deepEqual(
    [1, 3].map((files) => plain(count(files, 'file'))),
    ['1 file', '3 files'],
  );
});

test('distance is a number of updates, and none has a word', () => {
  assert.equal(plain(behind(1)), '1 behind');
  assert.equal(plain(behind(1200, { atLeast: true })), 'at least 1,200 behind');
  assert.equal(behind(0), 'current');
  assert.equal(behind(null), '–');
});

test('times are in UTC; of another day with the day, of another year with the year', () => {
  const now = Date.UTC(2026, 10, 22, 17, 4, 11);
  assert.equal(clock(now), '17:04:11');
  assert.equal(clock(null), '–');
  assert.equal(plain(moment(now - 60_000, now)), '17:03:11 UTC');
  assert.equal(plain(moment(now - 86_400_000, now)), '21 November 17:04:11 UTC');
  assert.equal(day(Date.UTC(2025, 11, 31), now), '31 December 2025');
  assert.equal(plain(age(now - 372_000, now)), '6 min');
  assert.deepEqual([age(null, now), age(0, now), moment(0, now)], ['–', '–', '–']);
});

test('a commit has 7 signs', () => {
  assert.equal(commit('5b1f0c2a9d8e'), '5b1f0c2');
  assert.equal(commit(null), '–');
});
