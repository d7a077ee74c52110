import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drainSpreadMs } from './server.js';

test('subscribers are sent away over 5 ms each, and no longer than the setting says', () => {
  assert.equal(drainSpreadMs(0, 10_000), 0);
  assert.equal(drainSpreadMs(20, 10_000), 100);
  assert.equal(drainSpreadMs(20_000, 10_000), 10_000);
  assert.equal(drainSpreadMs(20_000, 0), 0);
});
