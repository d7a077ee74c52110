import assert from 'node:assert/strict';
import { it } from 'node:test';
import { RareLines } from './listener-tls.js';

it('says a thing once a minute, with how often it was unsaid, and remembers so many things', () => {
  const lines = new RareLines();
  assert.deepEqual(
    [lines.next('a', 0), lines.next('a', 1), lines.next('b', 2), lines.next('a', 59_999)],
    [0, undefined, 0, undefined],
  );
  assert.equal(lines.next('a', 60_000), 2);
  const said = Array.from({ length: 5000 }, (_, index) => lines.next(`other${index}`, 60_001));
  assert.equal(said.filter((more) => more !== undefined).length, 998);
  assert.equal(lines.next('new', 120_002), 0, 'until those before are forgotten');
});
