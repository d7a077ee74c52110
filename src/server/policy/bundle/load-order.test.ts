import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { applyBundle } from '../../../../test/support/apply-bundle.js';
import { comparePaths, directoryOf, isWithin, lastSegment } from './directories.js';
import { loadOrder } from './load-order.js';
import { planComplete } from './plan.js';
import { buildBundle } from './policy-bundles.js';
import { takeSnapshot } from './snapshot.js';

const segment = fc.constantFrom('a', 'a-b', 'a.x', 'a0', 'B', 'é', 'data.json', 'z');
const file = fc.constantFrom('data.json', 'a_data.json', 'm.rego', '😀.rego');
/** Paths as git lists a tree: no file is a folder, too. */
const tree = fc
  .uniqueArray(
    fc.tuple(fc.array(segment, { maxLength: 4 }), file).map(([folders, name]) => [...folders, name].join('/')),
    { maxLength: 20 },
  )
  .map((paths) => paths.filter((path) => !paths.some((other) => other.startsWith(`${path}/`))).sort(comparePaths));

test('all paths, each once; a file before all that lies in subfolders of its folder; siblings as git lists them', () => {
  fc.assert(
    fc.property(tree, (paths) => {
      const ordered = loadOrder(paths);
      assert.deepEqual([...ordered].sort(comparePaths), paths);
      for (const [at, path] of ordered.entries()) {
        for (const later of ordered.slice(at + 1)) {
          // What comes later never lies in a folder above.
          assert(directoryOf(later) === directoryOf(path) || !isWithin(directoryOf(path), directoryOf(later)));
          if (directoryOf(later) === directoryOf(path)) assert(comparePaths(lastSegment(path), lastSegment(later)) < 0);
          else if (!isWithin(directoryOf(later), directoryOf(path))) assert(comparePaths(path, later) < 0);
        }
      }
    }),
    { numRuns: 500 },
  );
});

test('a deep tree and one with many folders are put in order', () => {
  const deep = `${'d/'.repeat(1_900)}data.json`;
  const wide = Array.from({ length: 150_000 }, (_, index) => `w${String(index).padStart(6, '0')}/data.json`);
  assert.deepEqual(loadOrder([deep, 'data.json', ...wide]), ['data.json', deep, ...wide]);
});

test('without a manifest no data file of another folder is ever lost, whatever the commit has', () => {
  fc.assert(
    fc.property(tree, (paths) => {
      const listed = paths.filter((path) => lastSegment(path) === 'data.json');
      const texts = new Map(
        listed.map((path, index) => [path, Buffer.from(JSON.stringify({ [`own ${index}`]: path }))]),
      );
      const snapshot = takeSnapshot(
        { hash: 'h', tree: listed.map((path) => ({ path, blob: path })), manifestText: () => undefined },
        { policyExtensions: ['.rego'], manifestPath: '', ignore: [] },
      );
      const { data } = applyBundle(undefined, buildBundle(planComplete(snapshot, ['.']), texts));
      for (const [index, path] of listed.entries()) {
        let at: unknown = data;
        for (const name of path.split('/').slice(0, -1)) at = (at as Record<string, unknown>)[name];
        assert.equal((at as Record<string, unknown>)[`own ${index}`], path);
      }
      assert.deepEqual(snapshot.warnings, []);
    }),
    { numRuns: 500 },
  );
});
