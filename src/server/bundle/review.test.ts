import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedDirectories } from './review.js';
import { takeSnapshot } from './snapshot.js';

function changed(before: Record<string, string>, after: Record<string, string>): string[] {
  const [one, two] = [before, after].map((files) =>
    takeSnapshot(
      {
        hash: 'h',
        tree: Object.entries(files).map(([path, blob]) => ({ path, blob })),
        manifestText: (path) => files[path],
      },
      { policyExtensions: ['.rego'], manifestPath: '', ignore: ['ignored/**'] },
    ),
  );
  assert(one !== undefined && two !== undefined);
  return changedDirectories(one, two);
}

test('a change counts for its directory and all above, on both sides of a rename', () => {
  assert.deepEqual(changed({ 'a/b/x.rego': '1', 'c/y.rego': '1' }, { 'a/b/x.rego': '2', 'c/y.rego': '1' }), [
    '.',
    'a',
    'a/b',
  ]);
  assert.deepEqual(changed({ 'a/x.rego': '1' }, { 'c/d/x.rego': '1' }), ['.', 'a', 'c', 'c/d']);
});

test('what is in no bundle changes nothing', () => {
  assert.deepEqual(
    changed({ 'a/x.rego': '1' }, { 'a/x.rego': '1', 'a/other.json': '1', 'README.md': '2', 'ignored/x.rego': '3' }),
    [],
  );
});

test('a changed manifest alone counts for every directory that it can order', () => {
  const files = {
    '.manifest': 'a/x.rego\nb',
    'a/x.rego': '1',
    'b/.manifest': 'y.rego',
    'b/y.rego': '1',
    'b/c/z.rego': '1',
  };
  assert.deepEqual(changed(files, { ...files, '.manifest': 'b\na/x.rego' }), ['.', 'a', 'b', 'b/c']);
  assert.deepEqual(changed(files, { ...files, 'b/.manifest': 'c/z.rego' }), ['.', 'b', 'b/c']);
});

test('a manifest that no other one names takes no part', () => {
  const files = { 'b/.manifest': 'y.rego', 'b/y.rego': '1' };
  assert.deepEqual(changed(files, { ...files, 'b/.manifest': '' }), []);
});
