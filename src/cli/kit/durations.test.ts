import assert from 'node:assert/strict';
import { it } from 'node:test';
import { parseDuration } from './durations.js';

it('reads durations as people write them, and as ISO 8601', () => {
  const table: [string, number][] = [
    ['30d', 2_592_000],
    ['12h', 43_200],
    ['90m', 5400],
    ['90min', 5400],
    ['2w', 1_209_600],
    ['45s', 45],
    ['1h30m', 5400],
    ['1h 30m', 5400],
    ['365 days', 31_536_000],
    ['1 week', 604_800],
    ['500 milliseconds', 0.5],
    ['500000 microseconds', 0.5],
    ['P30D', 2_592_000],
    ['PT12H', 43_200],
    [' 1d ', 86_400],
    ['0s', 0],
  ];
  for (const [text, seconds] of table) assert.equal(parseDuration(text), seconds, text);
});

it('reads nothing else: no number without a unit, no unknown unit', () => {
  for (const text of ['', '30', 'd', '30 fortnights', '-1d', '1.5h', '1d!', 'P', 'PT', 'P1Y', '30D', 'toString'])
    assert.equal(parseDuration(text), undefined, text);
  assert.equal(parseDuration('5 constructor'), undefined);
});
