import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PositionTracker } from './position.js';

test('another life reads again what was to be replaced by an update that the engine did not have', () => {
  const tracker = new PositionTracker(['a']);
  tracker.enter('e');
  for (const seq of [1, 2, 3, 4]) tracker.opened(seq, `entry ${seq}`);
  tracker.pulled(4, true);
  for (const seq of [1, 4]) tracker.closed(`entry ${seq}`);
  tracker.replaced('entry 2', 'entry 3');
  const { record } = tracker;
  assert(record !== undefined);
  const again = new PositionTracker(['a']);
  again.adopt(record);
  // Neither 2 nor what replaced it is in the engine, and nothing of this life says so.
  assert.equal(again.isHidden(2) || again.through < 2, true);
});
