import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClockWatch } from './clock-watch.js';

test('a clock that differs is told of once, and so is its end', () => {
  const said: string[] = [];
  const look = createClockWatch({ differs: ({ message }) => said.push(message), agrees: () => said.push('agrees') });
  for (const aheadMs of [undefined, 0, 1999, 3_600_000, 3_600_005, undefined, -3, -2500, 0]) look(aheadMs);
  assert.deepEqual(said, [
    'the clock of this server is 3600 s behind that of the backbone',
    'agrees',
    'the clock of this server is 3 s ahead of that of the backbone',
    'agrees',
  ]);
});
