import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FileDiff, PolicyFile } from '../wire/fleet-views.js';
import { baseName, byDirectory, hunkTitle, openFiles } from './policy-files.js';

const file = (path: string, order: number): PolicyFile => ({
  ...{ path, order, kind: 'policy', listed: false, package: null, bytes: 1, warning: null },
});

test('directories stand in the order of their first file', () => {
  const directories = byDirectory([
    file('b/two.rego', 3),
    file('b/one.rego', 1),
    file('top.rego', 2),
    file('a/b/c.rego', 4),
  ]);
  assert.deepEqual(
    directories.map(({ path, files }) => [path, files.map((one) => baseName(one.path))]),
    [
      ['b', ['one.rego', 'two.rego']],
      ['', ['top.rego']],
      ['a/b', ['c.rego']],
    ],
  );
});

test('a header of a hunk says which lines', () => {
  assert.equal(hunkTitle('@@ -31,8 +31,15 @@ package billing'), '31,8 to 31,15 \u00b7 package billing');
  assert.equal(hunkTitle('@@ -0,0 +1,3 @@'), 'new file');
  assert.equal(hunkTitle('@@ -1,3 +0,0 @@'), 'file removed');
  assert.equal(hunkTitle('something else'), 'something else');
});

test('files that are too long wait to be asked for', () => {
  const diff = (path: string, lines: number): FileDiff => ({
    ...{ path, change: 'modified', added: lines, removed: 0, binary: false, truncated: false },
    hunks: [
      {
        header: '',
        lines: Array.from({ length: lines }, () => ({ kind: 'added' as const, old: null, new: 1, text: '' })),
      },
    ],
  });
  assert.deepEqual([...openFiles([diff('a', 10), diff('b', 500), diff('c', 20)], 100)], ['a', 'c']);
});
