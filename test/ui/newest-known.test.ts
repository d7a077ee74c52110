import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FleetChange } from '../../src/wire/fleet.js';
import { newestKnown } from '../../ui/src/pages/changes/newest-known.js';
import { fleetChange } from './support/small-fleet.js';

/** Data updates with these numbers, each at the time of its number. */
function updates(from: number, to: number, setting: Partial<FleetChange> = {}): FleetChange[] {
  return Array.from({ length: to - from + 1 }, (_, index) =>
    fleetChange({ id: String(from + index), at: from + index, ...setting }),
  );
}
const ids = (changes: readonly FleetChange[]): string[] => changes.map(({ id }) => id);

test('what the stream pushes out stays, up to a limit: then the oldest go', () => {
  const known = new Map<string, FleetChange>();
  assert.deepEqual(ids(newestKnown(known, updates(1, 3), 5)), ['3', '2', '1']);
  assert.deepEqual(ids(newestKnown(known, updates(4, 5), 5)), ['5', '4', '3', '2', '1']);
  assert.deepEqual(ids(newestKnown(known, updates(6, 8), 5)), ['8', '7', '6', '5', '4']);
  assert.equal(known.size, 5);
});

test('a change that the stream has left is not under way for ever', () => {
  const known = new Map<string, FleetChange>();
  const states = (streamed: readonly FleetChange[]): string[] =>
    newestKnown(known, streamed, 5).map(({ id, state }) => `${id} ${state}`);
  const [one, two] = [updates(1, 1, { state: 'under_way' }), updates(2, 2, { state: 'under_way' })];
  assert.deepEqual(states([...two, ...one]), ['2 under_way', '1 under_way']);
  assert.deepEqual(states(two), ['2 under_way', '1 served']);
  assert.deepEqual(states(one), ['2 served', '1 under_way'], 'it came back');
});
