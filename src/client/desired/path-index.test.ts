import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PathIndex } from './path-index.js';

/** More than a call takes as arguments. */
const MANY = 140_000;

test('a path may have any number of items below it', () => {
  const index = new PathIndex<{ id: string; path: string[] }>();
  for (let n = 0; n < MANY; n++) index.set({ id: `${n}`, path: ['acl', `t${n}`] });
  assert.equal(index.atOrBelow(['acl']).length, MANY);
  assert.equal(index.overlapping(['acl']).length, MANY);
});
