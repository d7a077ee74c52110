import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { PolicyUpdater } from '../../src/client/reconcile/policy-updater.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import type { GitObjects } from '../../src/server/policy/source/git-objects.js';
import type { PolicyBundle } from '../../src/wire/bundle.js';
import { applyBundle } from '../support/apply-bundle.js';
import {
  branchCommits,
  bundleModules,
  compileProblem,
  corpusFile,
  engineModules,
  serveHistory,
} from '../support/corpus.js';
import { startEngine, type TestEngine } from '../support/engine.js';
import { runGit } from '../support/git-repo.js';
import { field, postJson } from '../support/http.js';
import { runSize } from '../support/run-size.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const CORPUS = corpusFile('conforma-policy.bundle');
const LAST = 500;

/**
 * The functions that this repository's own engine adds to OPA, with their numbers of arguments. Plain OPA refuses every
 * commit for want of them, so they are given as modules, and calls of them get the `data.` that a module needs.
 */
const ADDED_FUNCTIONS: Record<string, Record<string, number>> = {
  oci: {
    blob: 1,
    blob_files: 2,
    descriptor: 1,
    image_files: 2,
    image_index: 1,
    image_manifest: 1,
    image_manifests: 1,
    image_referrers: 1,
    image_tag_refs: 1,
    parsed_blob: 1,
  },
  purl: { is_valid: 1, parse: 1 },
  sigstore: { verify_attestation: 2, verify_image: 2 },
};

const ADDED_MODULES = Object.entries(ADDED_FUNCTIONS).map(([name, functions]) => {
  const rules = Object.entries(functions).map(
    ([rule, count]) => `${rule}(${Array.from({ length: count }, () => '_').join(', ')}) := json.unmarshal("null")`,
  );
  const rego = `package ec.${name}\nimport rego.v1\n${rules.join('\n')}\n`;
  return { path: `ec/${name}.rego`, rego, blob: createHash('sha1').update(rego).digest('hex') };
});
const ADDED_CALL = new RegExp(`(?<![\\w.])ec\\.(?=(?:${Object.keys(ADDED_FUNCTIONS).join('|')})\\.[a-z_])`, 'g');

/** The repository as plain OPA can take it, and its JSON files as data files, of which it has none. */
function forPlainOpa(objects: GitObjects): GitObjects {
  const added = new Map(ADDED_MODULES.map(({ blob, rego }) => [blob, Buffer.from(rego)]));
  const regoBlobs = new Set<string>();
  return {
    hasCommit: objects.hasCommit,
    isAncestor: objects.isAncestor,
    recall: objects.recall,
    files: async (commit) => {
      const files = (await objects.files(commit)).map(({ path, blob }) => {
        if (path.endsWith('.rego')) regoBlobs.add(blob);
        return { path: path.replace(/\.json$/, '/data.json'), blob };
      });
      return [...files, ...ADDED_MODULES].sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
    },
    blobs: async (ids) => {
      const found = await objects.blobs(ids.filter((id) => !added.has(id)));
      for (const [id, bytes] of found) {
        if (regoBlobs.has(id)) found.set(id, Buffer.from(bytes.toString('utf8').replaceAll(ADDED_CALL, 'data.ec.')));
      }
      for (const id of ids) {
        const bytes = added.get(id);
        if (bytes !== undefined) found.set(id, bytes);
      }
      return found;
    },
  };
}

/** How one walk goes. */
interface Walk {
  readonly v0Compatible: boolean;
  readonly directories: readonly string[];
  readonly every: number;
}

/** The engine shows whoever asks what modules it has; a client of an open engine would list them after each update, too. */
const SHOW_MODULES = `package system.authz
import rego.v1
allow if {
	input.method == "GET"
	input.path == ["v1", "policies"]
}
`;

/** An engine of this walk. Compiling makes much garbage: OPA collects it less often. */
function engineOf(v0Compatible: boolean, rules: string): Promise<TestEngine> {
  return startEngine({
    env: {
      SYNC_ENGINE_V0_COMPAT: String(v0Compatible),
      SYNC_INLINE_ENGINE_CONFIG: JSON.stringify({ files: [rules] }),
    },
    programEnv: { ...process.env, GOGC: '400' },
  });
}

async function walk(t: TestContext, folder: string, { v0Compatible, directories, every }: Walk): Promise<void> {
  const startedMs = performance.now();
  const [gitDir, rules] = [join(folder, 'repo'), join(folder, 'show-modules.rego')];
  const newest = (await branchCommits(gitDir, 'main')).slice(-LAST);
  const chosen = newest.filter((_, index) => (newest.length - 1 - index) % every === 0);
  const [first = ''] = chosen;
  // And back to the first one, as after a force-push: an engine that was left behind by refused commits must heal.
  const commits = [...chosen, first];

  const history = serveHistory(gitDir, forPlainOpa);
  await using engine = await engineOf(v0Compatible, rules);
  const counts = { applied: 0, refused: 0, deltas: 0, complete: 0 };
  await using client = followBundles(engine, async (baseHash) => {
    const bundle = await history.bundle(baseHash, directories);
    counts[typeof bundle.old_hash === 'string' ? 'deltas' : 'complete']++;
    return bundle;
  });

  const folders = new Set<string>();
  let good: Good | undefined;
  for (const [index, hash] of commits.entries()) {
    history.serve(hash);
    const complete = await history.bundle(undefined, directories);
    const modules = bundleModules(complete);
    await client.update();
    const { last: lastPolicy } = engine.status.transactions.policy;
    assert.equal(lastPolicy?.id, hash);
    if (lastPolicy.success) {
      good = { complete, modules, data: applyBundle(undefined, complete).data };
      for (const folder of Object.keys(good.data)) folders.add(folder);
      counts.applied++;
    } else {
      // That OPA took the others says that they compile; that it refused this one is checked without our own code.
      const problem = await compileProblem(modules, { v0Compatible });
      assert(problem !== undefined, `${hash} compiles, but was refused: ${lastPolicy.error}`);
      counts.refused++;
    }
    assert.equal(client.policy.hash, good?.complete.hash);
    await assertHolds(engine, good, folders, hash);
    const isLast = index === commits.length - 1;
    if (good !== undefined && (isLast || (lastPolicy.success && counts.applied % 15 === 0))) {
      await using reference = await engineOf(v0Compatible, rules);
      await assertAnswersLikeFresh(engine, good, reference);
    }
    if ((index + 1) % 10 === 0 || isLast) {
      t.diagnostic(
        `${index + 1} of ${commits.length} commits: ${counts.applied} applied, ${counts.refused} refused by OPA, ${counts.deltas} deltas, ${counts.complete} complete bundles, ${Math.round((performance.now() - startedMs) / 1000)} s`,
      );
    }
  }
  assert(counts.applied > commits.length / 2, `only ${counts.applied} commits were applied: the walk shows little`);
  assert.equal(counts.complete, 1, 'every step after the first must be a delta');
  assert.equal(engine.status.transactions.policy.last?.success, true, 'the way back to the first commit heals');
}

/** The client's policy updater alone, over a real engine. */
function followBundles(
  engine: TestEngine,
  fetchBundle: ConstructorParameters<typeof PolicyUpdater>[1]['fetchBundle'],
): AsyncDisposable & { readonly policy: PolicyUpdater; update(): Promise<void> } {
  const stop = new AbortController();
  const policy = new PolicyUpdater(
    { backoff: { minMs: 5, maxMs: 50 }, firstWaitMs: 0 },
    {
      applier: engine.applier,
      exclusive: engine.keeper.exclusive,
      withDocuments: (step) => step(() => []),
      fetchBundle,
      onApplied: () => undefined,
      status: engine.status,
      log: silentLogger(),
    },
  );
  const done = policy.run(stop.signal);
  return {
    policy,
    update: async () => {
      policy.request();
      await until(() => policy.settled, { withinMs: 60_000, what: 'the policy updater is at rest' });
    },
    async [Symbol.asyncDispose]() {
      stop.abort();
      await done;
    },
  };
}

/** What an engine must hold: a complete bundle. */
interface Good {
  readonly complete: PolicyBundle;
  readonly modules: Map<string, string>;
  /** The documents as one tree. */
  readonly data: Record<string, unknown>;
}

/** The engine has exactly the modules and the documents of a bundle; `folders` are all that ever had documents. */
async function assertHolds(
  engine: TestEngine,
  good: Good | undefined,
  folders: ReadonlySet<string>,
  hash: string,
): Promise<void> {
  assert.deepEqual(await engineModules(engine.url), good?.modules ?? new Map(), `modules at ${hash}`);
  for (const folder of folders) {
    assert.deepEqual(await engine.data([folder]), good?.data[folder], `data of ${folder} at ${hash}`);
  }
}

/** All rules and documents evaluate like those of an engine that is given the complete bundle and nothing else. */
async function assertAnswersLikeFresh(engine: TestEngine, good: Good, reference: TestEngine): Promise<void> {
  await using client = followBundles(reference, async () => good.complete);
  await client.update();
  assert.equal(client.policy.hash, good.complete.hash);
  const [answers, fresh] = await Promise.all([allAnswers(engine), allAnswers(reference)]);
  assert.deepEqual(answers, fresh, `answers at ${good.complete.hash}`);
}

/** The whole tree, rules evaluated; some read the clock, which stands still for the query. */
async function allAnswers(engine: TestEngine): Promise<unknown> {
  const answer = await postJson(`${engine.url}/v1/query`, { query: 'all := data with time.now_ns as 1.7e18' });
  assert.equal(answer.status, 200, answer.text.slice(0, 300));
  const all = field(answer.json, 'result', 0, 'all') as Record<string, unknown>;
  assert(Object.keys(all).length > 20, 'the query answers little');
  // The rules of access to an engine name its own address.
  return { ...all, system: { ...(all.system as object), authz: undefined } };
}

describe('the history of a large repository', { skip: CORPUS.skip }, () => {
  let dir: TempDir;
  before(async () => {
    dir = await tempDir();
    await writeFile(join(dir.path, 'show-modules.rego'), SHOW_MODULES);
    await runGit(['clone', '--quiet', '--bare', '--branch', 'main', CORPUS.path, join(dir.path, 'repo')]);
  });
  after(() => dir[Symbol.asyncDispose]());

  test('every step of real history that OPA takes leaves an engine as a complete bundle does; others change nothing', (t) =>
    walk(t, dir.path, { v0Compatible: true, directories: ['.'], every: runSize({ long: 1, ci: 50, quick: 100 }) }));

  test('the same for some directories, read as Rego v1', (t) =>
    walk(t, dir.path, {
      v0Compatible: false,
      directories: ['policy', 'acceptance', 'ec'],
      every: runSize({ long: 1, ci: 100, quick: 250 }),
    }));
});
