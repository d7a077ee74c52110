import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleetSummary } from '../../test/support/fleet-summary.js';
import { announcement } from './answer.js';

type Counts = Readonly<Record<string, number>>;

const TABLE: readonly [
  what: string,
  before: Counts | undefined,
  after: Counts,
  isNew: boolean,
  said: string | undefined,
][] = [
  ['the first look says nothing', undefined, { told: 4 }, false, undefined],
  ['a new commit', { acknowledged: 4 }, { told: 3, acknowledged: 1 }, true, 'Commit 5b1f0c2 is served: 1 of 4 hold it'],
  ['a step', { told: 4 }, { acknowledged: 1, told: 3 }, false, undefined],
  ['half', { acknowledged: 1, told: 3 }, { acknowledged: 2, told: 2 }, false, 'Half hold 5b1f0c2: 2 of 4'],
  ['after half', { acknowledged: 2, told: 2 }, { acknowledged: 3, told: 1 }, false, undefined],
  [
    'all',
    { acknowledged: 3, told: 1 },
    { acknowledged: 4 },
    false,
    'Yes: all 4 hold 5b1f0c2 · data at 4,812, all of it everywhere',
  ],
  [
    'nothing moves any more',
    { acknowledged: 3, told: 1 },
    { acknowledged: 3, refused: 1 },
    false,
    'No: 3 of 4 hold 5b1f0c2 · 1\u00a0refused · data at 4,812, all of it everywhere',
  ],
  ['rest', { acknowledged: 4 }, { acknowledged: 4 }, false, undefined],
];

for (const [what, before, after, isNew, said] of TABLE) {
  test(`says to those who listen: ${what}`, () => {
    const was = before && fleetSummary({ policy: { counts: before, ...(isNew && { head: '8e40d17' }) } });
    assert.equal(announcement(was, fleetSummary({ policy: { counts: after } }), { source: null, now: 0 }), said);
  });
}

test('nobody hears a yes while the newest commit is refused', () => {
  const before = fleetSummary({ policy: { counts: { acknowledged: 3, told: 1 } } });
  const after = fleetSummary({ policy: { counts: { acknowledged: 4 } } });
  const source = { state: 'following', head: '5b1f0c2a9d', refused: '5396ef6aaa' } as const;
  assert.equal(
    announcement(before, after, { source, now: 0 }),
    'All 4 hold 5b1f0c2, but 5396ef6 is not served · data at 4,812, all of it everywhere',
  );
});
