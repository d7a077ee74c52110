import assert from 'node:assert/strict';
import { test } from 'node:test';
import { declaredVersions } from './opa-manifest.js';

/** What a manifest declares for these paths. */
function declared(manifest: object, ...paths: string[]): (number | undefined)[] {
  return paths.map(declaredVersions(JSON.stringify(manifest)));
}

test('a manifest declares one version of Rego for all modules, and others for files by name or pattern', () => {
  assert.deepEqual(declared({}, 'a.rego'), [undefined]);
  assert.deepEqual(declared({ rego_version: null, file_rego_versions: null }, 'a.rego'), [undefined]);
  assert.deepEqual(declared({ rego_version: 0, roots: ['a'] }, 'a.rego'), [0]);
  const files = {
    '/a.rego': 0,
    'b.rego': 0,
    './c.rego': 0,
    '/x/*': 0,
    '/?.txt.rego': 0,
    '/q\\*.rego': 0,
    '**/deep.rego': 2,
  };
  const paths = [
    'a.rego',
    'b.rego',
    'c.rego',
    'x/y/z.rego',
    'd.txt.rego',
    'dd.txt.rego',
    'q*.rego',
    'qq.rego',
    'y/deep.rego',
    'z.rego',
  ];
  assert.deepEqual(declared({ rego_version: 1, file_rego_versions: files }, ...paths), [0, 0, 0, 0, 0, 1, 0, 1, 2, 1]);
});

test('of several patterns the first counts, in the order of their bytes', () => {
  assert.deepEqual(declared({ file_rego_versions: { '/a.rego': 1, '*': 0 } }, 'a.rego'), [0]);
  assert.deepEqual(declared({ file_rego_versions: { '/*': 0, '/a.rego': 1, '/b*': 1 } }, 'a.rego', 'b.rego'), [0, 0]);
  assert.deepEqual(declared({ file_rego_versions: { '/a.rego': 1, '/b*': 0 } }, 'a.rego', 'b.rego'), [1, 0]);
});

test('what OPA refuses, or may read otherwise, is refused', () => {
  for (const [manifest, message] of [
    [{ rego_version: '1' }, /cannot read/],
    [{ rego_version: 1.5 }, /cannot read/],
    [{ file_rego_versions: ['/a.rego'] }, /cannot read/],
    [{ rego_version: 7 }, /unknown rego_version 7/],
    [{ file_rego_versions: { '/a.rego': -1 } }, /unknown rego_version -1/],
    [{ file_rego_versions: { '/{a,b}.rego': 0 } }, /the pattern "\/\{a,b\}\.rego" .*: name the files/],
    [{ file_rego_versions: { '/[ab].rego': 0 } }, /the pattern/],
  ] as const) {
    assert.throws(() => declared(manifest), message);
  }
});

test('patterns that take too long are refused instead', () => {
  const slow = { file_rego_versions: { [`*${'a'.repeat(2000)}b`]: 0 } };
  assert.throws(
    () => declared(slow, ...Array.from({ length: 100 }, () => 'a'.repeat(4000))),
    /take too long: name the files/,
  );
});
