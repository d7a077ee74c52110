import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { silentLogger } from '../../src/lib/observe/log.js';
import { PolicyBundles } from '../../src/server/policy/bundle/policy-bundles.js';
import { createSnapshots } from '../../src/server/policy/bundle/snapshot.js';
import { createGitCommand } from '../../src/server/policy/source/git-command.js';
import { createGitObjects, type GitObjects } from '../../src/server/policy/source/git-objects.js';
import { type PolicyBundle, policyBundle } from '../../src/wire/bundle.js';
import { runGit } from './git-repo.js';
import { request } from './http.js';
import { testOpa } from './opa.js';
import { repoRoot } from './repo.js';
import { tempDir } from './temp-dir.js';

const exec = promisify(execFile);

/** A git bundle file of the corpus: real policy repositories with their history, which are no part of this repository. */
export interface CorpusFile {
  readonly path: string;
  /** Why tests that need it are left out; false where it is there. */
  readonly skip: string | false;
}

/** Finds a file of the corpus: in SYNC_CORPUS_DIR, else in `shared/corpus` beside the repository. */
export function corpusFile(name: string): CorpusFile {
  const dir = process.env.SYNC_CORPUS_DIR ?? join(repoRoot(), '..', 'shared', 'corpus');
  const path = join(dir, name);
  return existsSync(path)
    ? { path, skip: false }
    : {
        path,
        skip: `CORPUS ABSENT: ${path} does not exist; set SYNC_CORPUS_DIR to the folder that has ${name}`,
      };
}

/** Commits of a branch, oldest first. */
export async function branchCommits(gitDir: string, branch: string): Promise<string[]> {
  return (await runGit(['-C', gitDir, 'rev-list', '--reverse', '--topo-order', branch])).split('\n');
}

/** The server's bundles of a repository, at whatever commit a test says. */
export interface ServedHistory {
  readonly objects: GitObjects;
  /** The commit that is served from now on. */
  serve(commit: string): void;
  /** `GET /policy`: the delta from a base, or the complete bundle. */
  bundle(baseHash: string | undefined, directories: readonly string[]): Promise<PolicyBundle>;
}

/** Changes what the server's own code reads from the repository; for histories that need something from outside. */
export type ObjectsOverlay = (objects: GitObjects) => GitObjects;

/** The server's parts over a bare repository, without tracker and HTTP. */
export function serveHistory(gitDir: string, overlay: ObjectsOverlay = (objects) => objects): ServedHistory {
  const objects = overlay(createGitObjects(createGitCommand({ gitDir, env: process.env })));
  const snapshots = createSnapshots({ policyExtensions: ['.rego'], manifestPath: '', ignore: [] }, { objects });
  let head: string | undefined;
  const service = new PolicyBundles(
    { cacheBytes: 0 },
    {
      ...{ objects, snapshots, log: silentLogger() },
      tracker: {
        head: () => head,
        status: () => ({ refused: undefined, error: undefined }),
        reportDamage: () => undefined,
      },
    },
  );
  return {
    objects,
    serve: (commit) => {
      head = commit;
    },
    bundle: async (baseHash, directories) => {
      const { json } = await service.get({ directories, baseHash });
      return policyBundle.parse(JSON.parse(json.toString('utf8')));
    },
  };
}

/** Texts of the modules that an inline engine holds, by their path in the repository; those that guard it are not policy. */
export async function engineModules(engineUrl: string): Promise<Map<string, string>> {
  const answer = await request(`${engineUrl}/v1/policies`);
  assert.equal(answer.status, 200, answer.text.slice(0, 300));
  const { result = [] } = answer.json as { result?: { id: string; raw: string }[] };
  // OPA names a module of a bundle by the bundle's name and the file's path in it.
  const policies = result.filter(({ raw }) => !/^package system\.authz$/m.test(raw));
  return new Map(policies.map(({ id, raw }) => [id.replace(/^policy\//, ''), raw] as const).sort(byKey));
}

/** Texts of the modules of a complete bundle by path; an empty file is none to an engine. */
export function bundleModules(bundle: PolicyBundle): Map<string, string> {
  return new Map(bundle.policy_modules.map(({ path, rego }) => [path, rego] as const).sort(byKey));
}

function byKey([a]: readonly [string, string], [b]: readonly [string, string]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** What `opa check` has against modules, as its own words; undefined where they compile. Our own check has no part in it. */
export async function compileProblem(
  modules: ReadonlyMap<string, string>,
  { v0Compatible }: { v0Compatible: boolean },
): Promise<string | undefined> {
  await using dir = await tempDir();
  for (const [path, rego] of modules) {
    await mkdir(join(dir.path, dirname(path)), { recursive: true });
    await writeFile(join(dir.path, path), rego);
  }
  const version = v0Compatible ? '--v0-compatible' : '--v1-compatible';
  try {
    await exec(await testOpa(), ['check', version, dir.path], { maxBuffer: 16 * 1024 * 1024 });
    return undefined;
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr) : '';
    if (!said.includes('error')) throw error; // the program itself failed
    return said.replaceAll(`${dir.path}/`, '').trim();
  }
}
