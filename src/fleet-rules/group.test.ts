import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleetRow } from '../../test/support/fleet-row.js';
import { groupingText, groupRows, labelNames, parseGrouping } from './group.js';

const ROWS = [
  fleetRow({ id: 'a', labels: { app: 'search', state: 'x' }, policy: { state: 'told' }, engine: 'opa 1.9.0' }),
  fleetRow({ id: 'b', labels: { app: 'billing' }, engine: 'opa 1.22.0' }),
  fleetRow({ id: 'c', labels: { app: 'search' }, policy: { state: 'refused' }, engine: 'opa 1.22.0' }),
  fleetRow({ id: 'd', labels: { zone: 'a' }, connected: false, engine: null }),
  fleetRow({ id: 'e', labels: { app: 'audit', zone: 'a' }, instance: 'i2', health: { state: 'not_ready' } }),
];

const TABLE: readonly [by: string, groups: readonly string[]][] = [
  ['app', ['search a,c', 'audit e', 'billing b', ' d']],
  ['zone', ['a d,e', ' a,b,c']],
  ['label:state', ['x a', ' b,c,d,e']],
  ['state', ['refused c', 'away d', 'told a', 'acknowledged b,e']],
  ['health', ['healthy a,b,c,d', 'not_ready e']],
  ['engine', ['opa 1.22.0 b,c,e', 'opa 1.9.0 a', ' d']],
  ['instance', ['one a,b,c,d', 'two e']],
];

for (const [by, groups] of TABLE) {
  test(`groups by ${by}`, () => {
    const grouping = parseGrouping(by);
    assert(grouping);
    assert.equal(groupingText(grouping), by);
    const made = groupRows(ROWS, grouping, (id) => (id === 'i2' ? 'two' : 'one'));
    assert.deepEqual(
      made.map(({ value, rows }) => `${value} ${rows.map(({ id }) => id).join(',')}`),
      groups,
    );
  });
}

test('a group says how many are in which state, and how many need a look', () => {
  const [search] = groupRows(ROWS, { kind: 'label', name: 'app' });
  assert.deepEqual(search?.counts, { told: 1, refused: 1 });
  assert.equal(search?.needing, 1);
});

test('no grouping, and labels by how many clients have them', () => {
  assert.equal(parseGrouping(null), null);
  assert.equal(parseGrouping(''), null);
  assert.deepEqual(labelNames(ROWS), ['app', 'zone', 'state']);
});
