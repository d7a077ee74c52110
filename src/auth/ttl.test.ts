import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTtl } from './ttl.js';

const DAY = 86_400;

/** Every form of opal-protocol P3.3, and what is none. */
const ROWS: [unknown, number | undefined][] = [
  [60, 60],
  [31536000.0, 365 * DAY],
  [1.5, 1.5],
  [0, 0],
  ['60', 60],
  ['1.5', 1.5],
  ['0.000001', 0.000001],
  ['1:30', 90],
  ['01:02:03', 3723],
  ['01:02:03.5', 3723.5],
  ['1 day, 2:00:00', DAY + 7200],
  ['2 days, 00:00:01', 2 * DAY + 1],
  ['3 00:00:10', 3 * DAY + 10],
  ['5 30', 5 * DAY + 30],
  ['P1D', DAY],
  ['P1DT2H', DAY + 7200],
  ['PT1M', 60],
  ['PT1.5S', 1.5],
  ['P0.5D', DAY / 2],
  ['PT36H', 36 * 3600],
  [-60, undefined],
  ['-60', undefined],
  ['-1 day, 0:00:00', undefined],
  ['-P1D', undefined],
  ['P-1D', undefined],
  ['P1Y', undefined],
  ['P1M', undefined],
  ['P1W', undefined],
  ['P', undefined],
  ['PT', undefined],
  ['P1DT', undefined],
  ['', undefined],
  [' 60', undefined],
  ['60s', undefined],
  ['1 day', undefined],
  ['1:2:3:4', undefined],
  ['1e3', undefined],
  ['9'.repeat(65), undefined],
  [Number.NaN, undefined],
  [Number.POSITIVE_INFINITY, undefined],
  [null, undefined],
  [true, undefined],
  [['60'], undefined],
];

for (const [value, seconds] of ROWS) {
  test(`a ttl of ${JSON.stringify(value)} is ${seconds === undefined ? 'refused' : `${seconds} s`}`, () => {
    assert.equal(parseTtl(value), seconds);
  });
}
