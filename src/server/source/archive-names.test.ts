import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ArchiveNames, archivePath } from './archive-names.js';

test('a name becomes its normal form', () => {
  for (const [name, path] of [
    ['a/b.rego', 'a/b.rego'],
    ['./a//b/./c.rego', 'a/b/c.rego'],
    ['dir/', 'dir'],
    ['./', ''],
    ['..a/b..', '..a/b..'],
    ['.github/x', '.github/x'],
    ['a "b"/ c', 'a "b"/ c'],
  ] as const) {
    assert.equal(archivePath(name), path);
  }
});

test('a name that leads elsewhere, or that nobody can read, is refused', () => {
  for (const name of ['/a', '..', 'a/..', '../a', 'a/../b', 'a\\b', 'a\tb', 'a\u009bb', '\uFFFD', 'x/'.repeat(101)]) {
    assert.throws(() => archivePath(name), Error, JSON.stringify(name));
  }
  assert.throws(() => archivePath('x'.repeat(4_097)), /more than 4096 bytes/);
});

test('.git is refused however a file system may write it', () => {
  for (const name of ['.git', 'a/.git/b', '.GIT/x', 'GIT~1/x', '.git./x', '.git /x', 'a/.git']) {
    assert.throws(() => archivePath(name), /\.git folder/, name);
  }
});

test('a path is a file or a folder, whichever comes first', () => {
  const names = new ArchiveNames(100);
  names.add('a/b/c', 'file');
  names.add('a', 'folder');
  names.add('a/b/c', 'file');
  assert.throws(() => names.add('a/b', 'file'), /"a\/b" is both/);
  assert.throws(() => names.add('a/b/c/d', 'file'), /"a\/b\/c" is both/);
  assert.throws(() => names.add('', 'file'), /without a name/);
});

test('folders that only appear in names count', () => {
  const names = new ArchiveNames(3);
  names.add('a/b/c', 'file');
  names.add('a/b', 'folder');
  assert.throws(() => names.add('d', 'file'), /beyond the 3 files and folders/);
});
