import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PathTree } from './path-tree.js';

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

test('branches that nothing is in go', () => {
  const tree = new PathTree<string>();
  tree.add(['a', 'b', 'c'], 'deep');
  tree.add(['a'], 'above');
  tree.remove(['a', 'b', 'c'], 'deep');
  assert.deepEqual([...tree.below([])], ['above']);
  assert.deepEqual(tree.above(['a', 'b', 'c']), ['above']);
  assert.equal(tree.at(['a', 'b', 'c']).length, 0);
  tree.remove(['a'], 'above');
  assert(tree.isEmpty);
});
