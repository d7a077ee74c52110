import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../../lib/errors.js';
import { silentLogger } from '../../../lib/observe/log.js';
import { CommitRefused } from '../source/commit-refused.js';
import type { GitObjects } from '../source/git-objects.js';
import { type BundleLimits, changedDirectories, createCommitReview } from './review.js';
import { type Snapshots, takeSnapshot } from './snapshot.js';

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

/** A repository of commits whose files have their text as object id; counts what is read. */
function reviewing(commits: Record<string, Record<string, string>>, limits?: BundleLimits) {
  const read: string[][] = [];
  const snapshots: Snapshots = {
    isKept: () => true,
    dataPlaces: () => undefined,
    hasData: () => false,
    get: async (hash) => {
      const tree = Object.entries(commits[hash] ?? {}).map(([path, blob]) => ({ path, blob }));
      return takeSnapshot(
        { hash, tree, manifestText: () => undefined },
        { policyExtensions: ['.rego'], manifestPath: '', ignore: [] },
      );
    },
  };
  const objects = {
    hasCommit: async () => true,
    recall: () => undefined,
    blobs: async (ids: readonly string[]) => {
      read.push([...ids]);
      return new Map(ids.map((id) => [id, Buffer.from(id)]));
    },
  };
  const deps = { objects: objects as unknown as GitObjects, snapshots, log: silentLogger() };
  return { read, snapshots, review: createCommitReview(deps, limits) };
}

const refusedFor = (pattern: RegExp) => (error: unknown) => {
  assert(error instanceof CommitRefused, String(error));
  assert.match(error.message, pattern);
  return true;
};

test('a commit is refused whose bundle would be too large, though each review reads only what is new', async () => {
  const [a, b, c] = ['a', 'b', 'c'].map((name) => `package ${name} # ${name.repeat(1000)}`) as [string, string, string];
  const commits = {
    one: { 'a.rego': a },
    two: { 'a.rego': a, 'b.rego': b },
    three: { 'a.rego': a, 'b.rego': b, 'c.rego': c },
  };
  const { review, read } = reviewing(commits, { bytes: 3000, chars: 1e6 });
  await review.review('one', undefined);
  await review.review('two', 'one');
  await assert.rejects(
    review.review('three', 'two'),
    refusedFor(/has 1 MiB of modules and data, and a bundle at most 1 MiB/),
  );
  await review.review('two', 'one');
  assert.deepEqual(read, [[a], [b], [c], [b]]);
  const asText = reviewing(commits, { bytes: 1e6, chars: 64 * 1024 + 2500 });
  await asText.review.review('two', undefined);
  await assert.rejects(asText.review.review('three', 'two'), refusedFor(/takes 1 MiB as JSON/));
  const data = { one: { 'x/data.json': `[${'1,'.repeat(2000)}1]` } };
  await assert.rejects(
    reviewing(data, { bytes: 1000, chars: 1e6 }).review.review('one', undefined),
    refusedFor(/modules and data/),
  );
});

test('a data file that is nested deeper below its folder than engines read refuses the commit, also where it is moved', async () => {
  const nested = (levels: number): string => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`;
  const { review } = reviewing({
    root: { 'data.json': nested(10_000) },
    moved: { 'x/data.json': nested(10_000) },
    fits: { 'x/y/data.json': `\n${nested(9_998)}` },
    deeper: { 'x/y/z/data.json': `\n${nested(9_998)}` },
  });
  await review.review('root', undefined);
  const reason =
    /x\/data.json:1 .*nested too deep \(.*10000 levels deep, and 1 of them are its path\): nested deeper than 9999/;
  await assert.rejects(review.review('moved', 'root'), refusedFor(reason));
  await review.review('fits', 'root');
  await assert.rejects(review.review('deeper', 'fits'), refusedFor(/x\/y\/z\/data.json:2 .*nested too deep/));
});

test('a number or a package that keeps engines busy refuses the commit', async () => {
  const { review } = reviewing({
    key: { 'data.json': `{"a":${'7'.repeat(2_000)},"b":"${'x'.repeat(20_000)}"}` },
    long: { 'data.json': `{"b":"${'x'.repeat(20_000)}",\n"a":${'7'.repeat(2_001)}}` },
    names: { 'x.rego': `# a comment\npackage a${'.b'.repeat(999)}` },
    more: { 'x.rego': `# a comment\npackage a${'.b'.repeat(1_000)}` },
  });
  await review.review('key', undefined);
  await assert.rejects(
    review.review('long', 'key'),
    refusedFor(/data.json:2 keeps engines busy: a number of more than 2000 digits/),
  );
  await review.review('names', 'key');
  await assert.rejects(
    review.review('more', 'key'),
    refusedFor(/x.rego:2 has a package of 1001 names, and one may have 1000/),
  );
});

test('what fails in an unexpected way refuses the commit; what git says does not', async () => {
  const { review, snapshots } = reviewing({ one: { 'a.rego': 'package a' }, two: { 'a.rego': 'package b' } });
  await review.review('one', undefined);
  const get = snapshots.get;
  const failing = (error: Error): void => {
    snapshots.get = async (hash) => {
      if (hash === 'two') throw error;
      return await get(hash);
    };
  };
  failing(new RangeError('Maximum call stack size exceeded'));
  await assert.rejects(review.review('two', 'one'), refusedFor(/cannot be put into a bundle: Maximum call stack/));
  failing(new SyncError('git_failed', 'no memory', { retryable: true }));
  await assert.rejects(review.review('two', 'one'), { code: 'git_failed' });
  snapshots.get = async (hash) => {
    const snapshot = await get(hash);
    // As long as the delta is planned, and no longer.
    return {
      ...snapshot,
      manifests: hash === 'two' ? (undefined as unknown as ReadonlyMap<string, string>) : snapshot.manifests,
    };
  };
  await assert.rejects(review.review('two', 'one'), refusedFor(/cannot be put into a bundle/));
});
