import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleetRow, type RowSetting } from '../../test/support/fleet-row.js';
import { needsLook, parseSort, type SortKey, type Standing, sortRows, sortText, standingOf } from './rank.js';

const STANDING: readonly [name: string, row: RowSetting, standing: Standing, needs: boolean][] = [
  ['refused', { policy: { state: 'refused' } }, 'refused', true],
  ['refused, and unhealthy by it', { policy: { state: 'refused' }, health: { state: 'unhealthy' } }, 'refused', true],
  ['gone', { connected: false, policy: { state: 'away' } }, 'away', true],
  ['failing', { health: { state: 'unhealthy' } }, 'unhealthy', true],
  ['blocked', { data: { state: 'blocked', behind: 1 } }, 'unhealthy', true],
  ['never ready', { policy: { state: 'not_told' }, health: { state: 'not_ready' } }, 'not_ready', true],
  ['OPAL', { kind: 'plain', policy: { state: 'does_not_say' } }, 'does_not_say', false],
  ['new', { policy: { state: 'not_told', held: null, behind: null }, health: { state: 'new' } }, 'not_told', false],
  ['told', { policy: { state: 'told', behind: 1 } }, 'told', false],
  ['holds it', {}, 'acknowledged', false],
  ['behind on data', { data: { state: 'behind', behind: 3 } }, 'acknowledged', false],
  ['no policy', { policy: { state: 'none', held: null, behind: null } }, 'acknowledged', false],
];

for (const [name, row, standing, needs] of STANDING) {
  test(`a client that is ${name} stands as ${standing}`, () => {
    assert.equal(standingOf(fleetRow(row)), standing);
    assert.equal(needsLook(fleetRow(row)), needs);
  });
}

const told = (id: string, behind: number | null, since: number | null = 2000): RowSetting => ({
  id,
  policy: { state: 'told', held: behind === null ? null : 'aaaaaaa', behind, since },
});

const ORDER: readonly [name: string, sort: string, rows: readonly RowSetting[]][] = [
  ['worst first', 'worst', STANDING.filter((row, index) => row[2] !== STANDING[index - 1]?.[2]).map((row) => row[1])],
  [
    'holding nothing, more behind and longer first',
    'worst',
    [told('d', null), told('c', 3), told('b', 1, 5), told('a', 1)],
  ],
  ['more updates behind first', 'worst', [{ data: { behind: 3 } }, { data: { behind: 1 } }, {}]],
  ['by id where all is equal', 'worst', [{ id: 'a' }, { id: 'b' }]],
  ['numbers in names as numbers', 'client', [{ id: 'node-9' }, { id: 'node-10' }]],
  ['names backwards', '-client', [{ id: 'node-10' }, { id: 'node-9' }]],
  ['the longest first', 'since', [told('b', 1, 10), told('a', 1, 20), told('c', 1, null)]],
  ['the shortest first, not known last', '-since', [told('a', 1, 20), told('b', 1, 10), told('c', 1, null)]],
  [
    'away counts from its end',
    'since',
    [told('b', 1, 10), { id: 'a', connected: false, away_since: 11, policy: { since: 1 } }],
  ],
  ['commits behind', 'held', [told('c', 9), told('b', 2), {}, { policy: { state: 'does_not_say', behind: null } }]],
  ['updates behind', 'data', [{ data: { behind: 7 } }, { policy: { state: 'refused' } }, { data: { behind: null } }]],
  ['health', 'health', [{ health: { state: 'unhealthy' } }, { health: { state: 'not_ready' } }, {}]],
  [
    'versions as numbers',
    'engine',
    [{ engine: 'opa 0.64.1' }, { engine: 'opa 1.9.0' }, { engine: 'opa 1.22.0' }, { engine: null }],
  ],
  ['labels in their order', 'labels', [{ labels: { app: 'a', zone: 'z' } }, { labels: { app: 'b', zone: 'a' } }, {}]],
  ['instances by name', 'instance', [{ instance: 'z9' }, { instance: 'a1' }]],
  ['errors first', 'error', [{ error: { place: 'a.rego:4' } }, { error: { place: 'b.rego:1' } }, {}]],
];

for (const [name, sort, rows] of ORDER) {
  test(`sorts ${sort}: ${name}`, () => {
    const wanted = rows.map((row, index) => fleetRow({ id: `client-${9 - index}`, ...row }));
    const options = { labels: ['app', 'zone'], instanceName: (id: string) => (id === 'z9' ? 'one' : 'two') };
    assert.deepEqual(
      sortRows([...wanted].reverse(), parseSort(sort), options).map(({ id }) => id),
      wanted.map(({ id }) => id),
    );
  });
}

test('a sort survives the address, and a text that is none is worst first', () => {
  for (const text of ['worst', '-data', 'client'] satisfies (SortKey | `-${SortKey}`)[]) {
    assert.equal(sortText(parseSort(text)), text);
  }
  for (const text of [null, '', '-', 'colour', '__proto__']) assert.equal(sortText(parseSort(text)), 'worst');
});
