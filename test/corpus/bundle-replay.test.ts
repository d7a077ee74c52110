import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { planComplete, planDelta } from '../../src/server/policy/bundle/plan.js';
import { buildBundle } from '../../src/server/policy/bundle/policy-bundles.js';
import { createSnapshots } from '../../src/server/policy/bundle/snapshot.js';
import { createGitCommand } from '../../src/server/policy/source/git-command.js';
import { createGitObjects } from '../../src/server/policy/source/git-objects.js';
import type { PolicyBundle } from '../../src/wire/bundle.js';
import { type AppliedPolicy, applyBundle } from '../support/apply-bundle.js';
import { runGit } from '../support/git-repo.js';
import { repoRoot } from '../support/repo.js';
import { tempDir } from '../support/temp-dir.js';

/** Real repositories as git bundle files. They are not part of this repository. */
const CORPUS = process.env.SYNC_CORPUS_DIR ?? join(repoRoot(), '..', 'shared', 'corpus');

/** Histories to walk: the newest `last` commits of the branch, each `every`-th (all of them with SYNC_TEST_LONG=1). */
const HISTORIES = [
  {
    file: 'opal-example-policy-repo.bundle',
    branch: 'master',
    last: Number.MAX_SAFE_INTEGER,
    every: 1,
    some: ['single-topic-multi-tenant'],
  },
  { file: 'conforma-policy.bundle', branch: 'main', last: 500, every: 10, some: ['policy/lib', 'policy/release/cve'] },
];

for (const { file, branch, last, every, some } of HISTORIES) {
  const bundleFile = join(CORPUS, file);
  const skip = existsSync(bundleFile)
    ? false
    : `CORPUS ABSENT: ${bundleFile} does not exist; set SYNC_CORPUS_DIR to the folder that has ${file}`;

  test(`replaying ${file} as deltas ends at each commit where a complete bundle ends`, { skip }, async (t) => {
    await using dir = await tempDir();
    await runGit(['clone', '--quiet', '--bare', '--branch', branch, bundleFile, join(dir.path, 'repo')]);
    const git = createGitCommand({ gitDir: join(dir.path, 'repo'), env: process.env });
    const objects = createGitObjects(git);
    const snapshots = createSnapshots({ policyExtensions: ['.rego'], manifestPath: '', ignore: [] }, { objects });
    const history = (
      await runGit(['-C', join(dir.path, 'repo'), 'rev-list', '--reverse', '--topo-order', branch])
    ).split('\n');
    const step = process.env.SYNC_TEST_LONG === '1' ? 1 : every;
    const commits = history.slice(-last).filter((_, index, all) => (all.length - 1 - index) % step === 0);
    assert(commits.length > 20, `only ${commits.length} commits in ${file}`);

    const counts = { deltas: 0, complete: 0 };
    const replays: { asked: string[]; held?: AppliedPolicy }[] = [{ asked: ['.'] }, { asked: some }];
    for (const hash of commits) {
      const head = await snapshots.get(hash);
      const contents = await objects.blobs(head.files.map((each) => each.blob));
      for (const replay of replays) {
        const { asked, held } = replay;
        const complete = planComplete(head, asked);
        const fresh = applyBundle(undefined, overTheWire(buildBundle(complete, contents)));
        const delta = held && planDelta(await snapshots.get(held.hash), head, asked);
        if (delta === undefined) counts.complete++;
        else counts.deltas++;
        replay.held = applyBundle(held, overTheWire(buildBundle(delta ?? complete, contents)));
        assert.deepEqual(comparable(replay.held), comparable(fresh), `${hash} of ${file} for ${asked}`);
      }
    }
    t.diagnostic(`${commits.length} commits, ${counts.deltas} deltas, ${counts.complete} complete bundles`);
    assert(counts.deltas > counts.complete, 'most steps must be deltas');
  });
}

function overTheWire(bundle: PolicyBundle): PolicyBundle {
  return JSON.parse(JSON.stringify(bundle)) as PolicyBundle;
}

function comparable(policy: AppliedPolicy): object {
  return { ...policy, modules: [...policy.modules].sort() };
}
