import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PathIndex, PathTree } from './path-tree.js';

/** More than a call takes as arguments. */
const MANY = 140_000;

test('a path may have any number of items at and below it', () => {
  const tree = new PathTree<number>();
  for (let n = 0; n < MANY; n++) tree.add(['same'], n);
  assert.equal(tree.above(['same', 'below']).length, MANY);
  assert.equal([...tree.below([])].length, MANY);
  for (let n = 0; n < MANY; n++) tree.add(['acl', `t${n}`], n);
  assert.equal([...tree.below(['acl'])].length, MANY);
  assert.equal(tree.cut(['acl']).length, MANY);
  assert.equal(tree.cut([]).length, MANY);
  assert(tree.isEmpty);
});

test('few or many at one path are found in their order, and each is taken out once', () => {
  const tree = new PathTree<number>();
  const some = Array.from({ length: 20 }, (_, n) => n);
  for (const n of some) {
    tree.add(['a'], n);
    assert.deepEqual([...tree.at(['a'])], some.slice(0, n + 1));
  }
  for (const n of some) {
    tree.remove(['a'], n);
    tree.remove(['a'], n);
    assert.deepEqual(tree.above(['a']), some.slice(n + 1));
  }
  assert(tree.isEmpty);
});

test('branches that nothing is in go', () => {
  const tree = new PathTree<string>();
  tree.add(['a', 'b', 'c'], 'deep');
  tree.add(['a'], 'above');
  tree.remove(['a', 'b', 'c'], 'deep');
  assert.deepEqual([...tree.below([])], ['above']);
  assert.deepEqual(tree.above(['a', 'b', 'c']), ['above']);
  assert.deepEqual([...tree.at(['a', 'b', 'c'])], []);
  tree.remove(['a'], 'above');
  assert(tree.isEmpty);
});

test('a path may have any number of items below it', () => {
  const index = new PathIndex<{ id: string; path: string[] }>();
  for (let n = 0; n < MANY; n++) index.set({ id: `${n}`, path: ['acl', `t${n}`] });
  assert.equal(index.atOrBelow(['acl']).length, MANY);
  assert.equal(index.overlapping(['acl']).length, MANY);
});
