import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SilenceLimit } from './git-source.js';

test('the limit is the setting; it doubles up to four times that, and a success sets it to twice what was needed', () => {
  const limit = new SilenceLimit(1000);
  const after = (event: () => void): number => {
    event();
    return limit.ms;
  };
  assert.equal(limit.ms, 1000);
  assert.deepEqual(
    [1, 2, 3].map(() => after(() => limit.ended())),
    [2000, 4000, 4000],
  );
  assert.equal(
    after(() => limit.sufficed(1500)),
    3000,
    'a slow remote is waited for the next time, too',
  );
  assert.equal(
    after(() => limit.sufficed(9000)),
    4000,
  );
  assert.equal(
    after(() => limit.sufficed(10)),
    1000,
  );
});
