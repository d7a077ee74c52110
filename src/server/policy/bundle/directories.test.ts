import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  comparePaths,
  directoryOf,
  isWithin,
  normalDirectory,
  properAncestors,
  requestedDirectories,
  withAncestors,
} from './directories.js';

test('a directory has one normal form, however it is written', () => {
  const table: Record<string, string> = {
    '': '.',
    '.': '.',
    '/': '.',
    './': '.',
    a: 'a',
    '/a': 'a',
    'a/': 'a',
    './a//b/./': 'a/b',
    '../a': '../a',
  };
  for (const [text, normal] of Object.entries(table)) assert.equal(normalDirectory(text), normal, text);
});

test('asked directories do not overlap, and none asked means the root', () => {
  assert.deepEqual(requestedDirectories([]), ['.']);
  assert.deepEqual(requestedDirectories(['a', '.']), ['.']);
  assert.deepEqual(requestedDirectories(['b', 'a/x', '/a/', 'a', 'ab', 'b/']), ['a', 'ab', 'b']);
  assert.deepEqual(requestedDirectories(['a/x/y', 'a/x', 'a/z']), ['a/x', 'a/z']);
});

test('knows what lies in a directory and what only begins like it', () => {
  assert.equal(isWithin('a/b.rego', 'a'), true);
  assert.equal(isWithin('a', 'a'), true);
  assert.equal(isWithin('ab/c', 'a'), false);
  assert.equal(isWithin('a', 'a/b'), false);
  assert.equal(isWithin('anything', '.'), true);
});

test('gives directories and ancestors up to the root', () => {
  assert.equal(directoryOf('a/b/c.rego'), 'a/b');
  assert.equal(directoryOf('c.rego'), '.');
  assert.deepEqual(properAncestors('a/b/c'), ['a/b', 'a', '.']);
  assert.deepEqual(properAncestors('.'), []);
  assert.deepEqual(withAncestors(['a/b', 'c']), ['.', 'a', 'a/b', 'c']);
  assert.deepEqual(withAncestors(['.']), ['.']);
  assert.deepEqual(withAncestors([]), []);
});

test('orders by bytes of the whole path, as git does', () => {
  const paths = ['é', '\u{1f600}', '\ufb01', 'b.rego', 'a/z', 'a.rego', 'B', 'a'];
  assert.deepEqual(paths.sort(comparePaths), ['B', 'a', 'a.rego', 'a/z', 'b.rego', 'é', '\ufb01', '\u{1f600}']);
});
