import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TreeFile } from '../source/git-objects.js';
import { fileKind, type Snapshot, takeSnapshot } from './snapshot.js';

/** A snapshot of files by path; a manifest's content is its text. */
function snapshot(files: Record<string, string>, manifestPath = '', ignore: string[] = []): Snapshot {
  const tree: TreeFile[] = Object.keys(files)
    .sort()
    .map((path) => ({ path, blob: `id of ${files[path]}` }));
  return takeSnapshot(
    { hash: 'h', tree, manifestText: (path) => files[path] },
    { policyExtensions: ['.rego'], manifestPath, ignore },
  );
}

function order(files: Record<string, string>, manifestPath = '', ignore: string[] = []): string[] {
  return snapshot(files, manifestPath, ignore).files.map((file) => file.path);
}

const REPO = { 'a.rego': '', 'b.rego': '', 'data.json': '{}', 'x/c.rego': '', 'x/data.json': '{}', 'x/y/d.rego': '' };

test('without a manifest the files of a folder load before its subfolders, each alphabetically', () => {
  assert.deepEqual(order({ ...REPO, 'x.rego': '', 'Z.rego': '', 'a/b/e.rego': '', 'a/z.rego': '' }), [
    'Z.rego',
    'a.rego',
    'b.rego',
    'data.json',
    'x.rego',
    'a/z.rego',
    'a/b/e.rego',
    'x/c.rego',
    'x/data.json',
    'x/y/d.rego',
  ]);
});

test('a manifest that makes a data file replace one below it is warned of, with both names', () => {
  const files = { 'data.json': '{}', 'audit/cfg/data.json': '{}', 'x/data.json': '{}', 'x/y/data.json': '{}' };
  assert.deepEqual(
    snapshot(files).warnings.map(({ text }) => text),
    [],
  );
  assert.deepEqual(
    snapshot({ ...files, '.manifest': 'audit/cfg/data.json\nx/y/data.json\nx/data.json' }).warnings.map(
      ({ text }) => text,
    ),
    [
      'audit/cfg/data.json is replaced by data.json, which the manifest loads later at a path above: list data.json before it',
      'x/y/data.json is replaced by x/data.json, which the manifest loads later at a path above: list x/data.json before it',
      'x/data.json is replaced by data.json, which the manifest loads later at a path above: list data.json before it',
    ],
  );
  assert.deepEqual(
    snapshot({ ...files, '.manifest': 'data.json\naudit/cfg/data.json' }).warnings.map(({ text }) => text),
    [],
  );
});

test('listed files come first, in the order of their lines; the others follow', () => {
  assert.deepEqual(order({ ...REPO, '.manifest': 'x/data.json\nb.rego\r\nx/c.rego' }), [
    'x/data.json',
    'b.rego',
    'x/c.rego',
    'a.rego',
    'data.json',
    'x/y/d.rego',
  ]);
});

test('a folder stands for what its own manifest lists, recursively', () => {
  const files = { ...REPO, '.manifest': 'x\nb.rego\n', 'x/.manifest': 'y\nc.rego\n', 'x/y/.manifest': 'd.rego\n' };
  assert.deepEqual(order(files).slice(0, 3), ['x/y/d.rego', 'x/c.rego', 'b.rego']);
  assert.deepEqual([...snapshot(files).manifests.keys()], ['.manifest', 'x/.manifest', 'x/y/.manifest']);
});

test('a folder without a manifest contributes nothing', () => {
  assert.deepEqual(order({ ...REPO, '.manifest': 'x\nb.rego\n' }).slice(0, 2), ['b.rego', 'a.rego']);
});

test('lines that name nothing usable are skipped with a warning, the rest counts', () => {
  const lines = [
    '/a.rego',
    '../b.rego',
    'x/../..',
    'x/..',
    '.',
    'gone.rego',
    ' a.rego',
    'b.rego',
    './b.rego',
    '',
    'skip.rego',
  ];
  const result = snapshot({ ...REPO, 'skip.rego': '', '.manifest': lines.join('\n') }, '', ['skip.rego']);
  assert.equal(result.files[0]?.path, 'b.rego');
  assert.deepEqual(
    result.warnings.map(({ text }) => text),
    [
      '.manifest: "/a.rego" is absolute',
      '.manifest: "../b.rego" lies outside its folder',
      '.manifest: "x/../.." lies outside its folder',
      '.manifest: "x/.." is its own folder',
      '.manifest: "." is its own folder',
      '.manifest: "gone.rego" does not exist',
      '.manifest: " a.rego" does not exist',
      '.manifest: "./b.rego" is listed already',
      '.manifest: "skip.rego" is ignored by SYNC_BUNDLE_IGNORE',
    ],
  );
});

test('a nested manifest cannot reach back out of its folder, so folders cannot go in circles', () => {
  const files = { ...REPO, '.manifest': 'x\n', 'x/.manifest': '../x\n..\n.\nx\nc.rego\n' };
  const result = snapshot(files);
  assert.equal(result.files[0]?.path, 'x/c.rego');
  assert.equal(result.warnings.length, 4);
});

test('SYNC_POLICY_REPO_MANIFEST_PATH takes a file or a folder; entries are relative to its folder', () => {
  const files = { ...REPO, '.manifest': 'b.rego\n', 'x/order.txt': 'y/d.rego\nc.rego\n', 'x/.manifest': 'data.json\n' };
  assert.deepEqual(order(files, 'x/order.txt').slice(0, 2), ['x/y/d.rego', 'x/c.rego']);
  assert.deepEqual(order(files, '/x/order.txt').slice(0, 2), ['x/y/d.rego', 'x/c.rego']);
  assert.equal(order(files, 'x')[0], 'x/data.json');
  assert.equal(order(files, 'x/')[0], 'x/data.json');
  assert.equal(order(files, '.')[0], 'b.rego');
  assert.equal(order(files, 'nowhere')[0], 'a.rego');
});

test('a manifest orders and never excludes, and lists nothing that is no bundle file', () => {
  assert.deepEqual(order({ 'a.rego': '', 'README.md': '', '.manifest': 'README.md\n' }), ['a.rego']);
});

test('of several data files in one folder all are kept, with a warning that names both', () => {
  const result = snapshot({ 'u/a_data.json': '{}', 'u/data.json': '{}', 'v/data.json': '{}' });
  assert.deepEqual(
    result.files.map((file) => file.path),
    ['u/a_data.json', 'u/data.json', 'v/data.json'],
  );
  assert.deepEqual(
    result.warnings.map(({ text }) => text),
    ['u/a_data.json is replaced by u/data.json, which is loaded later at the same path'],
  );
});

test('data as YAML is left out, with a warning, unless it is ignored', () => {
  const files = {
    'a/data.yaml': 'a: 1',
    'b/data.yml': '',
    'c/data.yaml': '',
    'd/more-data.yaml': '',
    'data.json': '{}',
  };
  const result = snapshot(files, '', ['c/**']);
  assert.deepEqual(
    result.warnings.map(({ kind, text }) => [kind, text]),
    [
      ['yaml_data', 'a/data.yaml is left out: data files are JSON here'],
      ['yaml_data', 'b/data.yml is left out: data files are JSON here'],
    ],
  );
});

test('ignored files are no bundle files, their directories are known', () => {
  const result = snapshot(REPO, '', ['x/**']);
  assert.deepEqual(
    result.files.map((file) => file.path),
    ['a.rego', 'b.rego', 'data.json'],
  );
  assert.deepEqual([...result.directories], ['.', 'x', 'x/y']);
});

test('knows modules and data files by their names', () => {
  const table: Record<string, ReturnType<typeof fileKind>> = {
    'a.rego': 'policy',
    'x/y/a.rego': 'policy',
    'a.cedar': 'policy',
    '.rego': undefined,
    'a.rego.txt': undefined,
    'a.REGO': undefined,
    'data.json': 'data',
    'x/data.json': 'data',
    'x/user_data.json': 'data',
    'x/metadata.json': 'data',
    'x/.data.json': 'data',
    'data.json/readme': undefined,
    dataXjson: undefined,
    'data.json5': undefined,
    'other.json': undefined,
    'data.yaml': undefined,
    '.manifest': undefined,
  };
  for (const [path, kind] of Object.entries(table)) assert.equal(fileKind(path, ['.rego', '.cedar']), kind, path);
});
