import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type AppliedPolicy, applyBundle } from '../../../../test/support/apply-bundle.js';
import type { PolicyBundle } from '../../../wire/bundle.js';
import { comparePaths, requestedDirectories } from './directories.js';
import { planComplete, planDelta } from './plan.js';
import { buildBundle } from './policy-bundles.js';
import { type Snapshot, takeSnapshot } from './snapshot.js';

/** A commit as its files; the object id of a file is its text. */
type Files = Record<string, string>;

function snapshot(hash: string, files: Files): Snapshot {
  const tree = Object.keys(files)
    .sort(comparePaths)
    .map((path) => ({ path, blob: files[path] ?? '' }));
  return takeSnapshot(
    { hash, tree, manifestText: (path) => files[path] },
    { policyExtensions: ['.rego'], manifestPath: '', ignore: [] },
  );
}

function contents(files: Files): Map<string, Buffer> {
  return new Map(Object.values(files).map((text) => [text, Buffer.from(text)]));
}

function complete(hash: string, files: Files, asked: string[] = []): PolicyBundle {
  return buildBundle(planComplete(snapshot(hash, files), requestedDirectories(asked)), contents(files));
}

/** The delta, or undefined where the answer is a complete bundle. */
function delta(before: Files, after: Files, asked: string[] = []): PolicyBundle | undefined {
  const plan = planDelta(snapshot('old', before), snapshot('new', after), requestedDirectories(asked));
  return plan && buildBundle(plan, contents(after));
}

test('a complete bundle has everything in load order, and no base', () => {
  assert.deepEqual(
    complete('new', {
      'zdir/b.rego': 'package b\n',
      'a.rego': 'package a\n',
      'data.json': '{"root":2}\n',
      'n/data.json': '{"n":1}\n',
      'README.md': 'x',
    }),
    {
      manifest: ['a.rego', 'data.json', 'n/data.json', 'zdir/b.rego'],
      hash: 'new',
      old_hash: null,
      data_modules: [
        { path: '.', data: '{"root":2}\n' },
        { path: 'n', data: '{"n":1}\n' },
      ],
      policy_modules: [
        { path: 'a.rego', package_name: 'a', rego: 'package a\n' },
        { path: 'zdir/b.rego', package_name: 'b', rego: 'package b\n' },
      ],
      deleted_files: null,
    },
  );
});

test('a directory gets its own files only', () => {
  const files = { 'a/x.rego': '1', 'ab/y.rego': '2', 'a/s/data.json': '{}', 'z.rego': '3' };
  assert.deepEqual(complete('new', files, ['a']).manifest, ['a/x.rego', 'a/s/data.json']);
  assert.deepEqual(complete('new', files, ['ab', 'a/s']).manifest, ['a/s/data.json', 'ab/y.rego']);
});

test('a delta carries what was added and changed, and names what is gone', () => {
  assert.deepEqual(
    delta(
      { 'same.rego': 's', 'mod.rego': '1', 'gone.rego': 'g', 'd/data.json': '{}' },
      { 'same.rego': 's', 'mod.rego': '2', 'new.rego': 'n' },
    ),
    {
      manifest: ['mod.rego', 'new.rego'],
      hash: 'new',
      old_hash: 'old',
      data_modules: [],
      policy_modules: [
        { path: 'mod.rego', package_name: '', rego: '2' },
        { path: 'new.rego', package_name: '', rego: 'n' },
      ],
      deleted_files: { data_modules: ['d'], policy_modules: ['gone.rego'] },
    },
  );
});

test('no change gives empty lists and no deletions', () => {
  const files = { 'a.rego': '1', 'data.json': '{}' };
  assert.deepEqual(delta(files, { ...files, 'README.md': 'x' }), {
    manifest: [],
    hash: 'new',
    old_hash: 'old',
    data_modules: [],
    policy_modules: [],
    deleted_files: null,
  });
});

test('a rename is the new path and the old one deleted; modules go in reverse load order', () => {
  const bundle = delta(
    { '.manifest': 'b.rego', 'b.rego': 'x', 'c.rego': 'y' },
    { '.manifest': 'b.rego', 'z/b.rego': 'x' },
  );
  assert.deepEqual(bundle?.manifest, ['z/b.rego']);
  assert.deepEqual(bundle?.deleted_files?.policy_modules, ['c.rego', 'b.rego']);
});

test('a rename across the border of the asked directories leaks neither path nor content', () => {
  const inside = { 'a/m.rego': 'secret', 'a/k.rego': 'k' };
  const outside = { 'b/m.rego': 'secret', 'a/k.rego': 'k' };
  const out = delta(inside, outside, ['a']);
  assert.deepEqual([out?.manifest, out?.deleted_files?.policy_modules], [[], ['a/m.rego']]);
  assert.equal(JSON.stringify(out).includes('secret'), false);
  const back = delta(outside, inside, ['a']);
  assert.deepEqual([back?.manifest, back?.deleted_files], [['a/m.rego'], null]);
});

test('data below a changed folder is carried again, in load order', () => {
  const before = { 'u/data.json': '{"a":1}', 'u/v/data.json': '{"b":1}', 'w/data.json': '{}' };
  assert.deepEqual(delta(before, { ...before, 'u/data.json': '{"a":2}' })?.manifest, ['u/data.json', 'u/v/data.json']);
});

test('a folder is deleted only when its last data file is gone', () => {
  const before = { 'u/a_data.json': '{"a":1}', 'u/data.json': '{"b":1}', 'k/data.json': '{}' };
  const one = delta(before, { 'u/a_data.json': '{"a":1}', 'k/data.json': '{}' });
  assert.deepEqual([one?.manifest, one?.deleted_files], [['u/a_data.json'], null]);
  const none = delta(before, { 'k/data.json': '{}' });
  assert.deepEqual([none?.manifest, none?.deleted_files?.data_modules], [[], ['u']]);
});

test('the answer is complete where writing one by one and then deleting would go wrong', () => {
  const nested = { 'u/data.json': '{"a":1}', 'u/v/data.json': '{"b":1}' };
  assert.equal(delta(nested, { 'u/v/data.json': '{"b":1}' }), undefined, 'deleting u would take u/v with it');
  const root = { 'data.json': '{"u":{"own":1}}', 'u/data.json': '{"a":1}' };
  assert.equal(
    delta(root, { 'data.json': '{"u":{"own":1}}' }),
    undefined,
    'deleting u would not bring back what was below',
  );
  const hidden = { '.manifest': 'b/data.json', 'b/data.json': '{"x":1}', 'data.json': '{}' };
  assert.equal(
    delta(hidden, { ...hidden, 'b/data.json': '{"x":2}' }),
    undefined,
    'b loads before the root, which replaces it',
  );
});

test('a changed manifest makes the answer complete, one that takes no part does not', () => {
  const files = { '.manifest': 'b.rego', 'a.rego': '1', 'b.rego': '2', 'x/.manifest': 'c.rego', 'x/c.rego': '3' };
  assert.equal(delta(files, { ...files, '.manifest': 'a.rego\nb.rego' }), undefined);
  const { '.manifest': _, ...without } = files;
  assert.equal(delta(files, without), undefined);
  assert.deepEqual(delta(files, { ...files, 'x/.manifest': '' })?.manifest, []);
});

test('a file that becomes a folder, and one that becomes data, are handled as what they are', () => {
  assert.deepEqual(delta({ 'a.rego': '1' }, { 'a.rego/b.rego': '1' })?.deleted_files?.policy_modules, ['a.rego']);
  const bundle = delta({ 'data.json': '{}' }, { 'data.json/data.json': '{}' });
  assert.equal(bundle, undefined, 'deleting the root document would take the new one with it');
});

test('any two commits: the base with the delta applied holds exactly what a complete bundle gives', () => {
  const folder = fc.constantFrom('', 'a/', 'a/b/', 'a/b/c/', 'x/', 'e/', 'e/f/');
  const dataFile = fc.tuple(folder, fc.constantFrom('data.json', 'a_data.json')).map(([at, name]) => at + name);
  const dataText = fc.constantFrom(
    '{}',
    '{"a":{"b":1}}',
    '{"a":{"k":2},"e":{"f":{"z":1}}}',
    '{"b":{"c":{"q":1}},"f":3}',
  );
  const moduleFile = fc.tuple(folder, fc.constantFrom('m.rego', 'n.rego')).map(([at, name]) => at + name);
  const manifest = fc
    .array(fc.constantFrom('a', 'data.json', 'a/data.json', 'a/b/data.json', 'e/f/data.json', 'm.rego'), {
      maxLength: 4,
    })
    .map((lines) => lines.join('\n'));
  const commit = fc
    .record({
      data: fc.dictionary(dataFile, dataText, { maxKeys: 6 }),
      modules: fc.dictionary(moduleFile, fc.constantFrom('1', '2'), { maxKeys: 5 }),
      manifest: fc.option(manifest, { nil: undefined }),
    })
    .map(({ data, modules, manifest: text }): Files => {
      return { ...data, ...modules, ...(text === undefined ? {} : { '.manifest': text }) };
    });
  const edited = fc
    .tuple(commit, commit, fc.constantFrom('keep', 'all'), fc.boolean())
    .map(([one, two, how, keepManifest]) => {
      const after = how === 'all' ? two : { ...one, ...two };
      const { '.manifest': manifestBefore, ...rest } = one;
      if (!keepManifest || manifestBefore === undefined) return { before: rest, after: dropManifest(after) };
      return { before: one, after: { ...after, '.manifest': manifestBefore } };
    });
  let deltas = 0;
  fc.assert(
    fc.property(edited, fc.constantFrom<string[]>(['.'], ['a'], ['a/b', 'x'], ['e']), ({ before, after }, asked) => {
      const bundle = delta(before, after, asked);
      const wanted = applyBundle(undefined, complete('new', after, asked));
      if (bundle === undefined) return;
      deltas++;
      const reached = applyBundle(applyBundle(undefined, complete('old', before, asked)), bundle);
      assert.deepEqual(comparable(reached), comparable(wanted));
    }),
    { numRuns: 3_000 },
  );
  assert(deltas > 300, `only ${deltas} deltas were tried`);
});

function dropManifest(files: Files): Files {
  const { '.manifest': _, ...rest } = files;
  return rest;
}

function comparable(policy: AppliedPolicy): object {
  return { ...policy, modules: [...policy.modules].sort() };
}
