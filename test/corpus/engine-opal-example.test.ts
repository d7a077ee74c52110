import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { isDeepStrictEqual, promisify } from 'node:util';
import { type PolicyBundle, policyBundle } from '../../src/wire/bundle.js';
import { branchCommits, bundleModules, compileProblem, corpusFile, engineModules } from '../support/corpus.js';
import { runGit } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { testOpa } from '../support/opa.js';
import { type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const CORPUS = corpusFile('opal-example-policy-repo.bundle');
const WITHIN_MS = 20_000;
/** A question that the policies of this history answer, each in its way. */
const INPUT = { user: 'bob', action: 'read', object: 'id123', type: 'finance', tenant: 'tenant1', resource: 'id123' };

/** A bundle that the engine took, with what an OPA that loads nothing else answers. */
interface Good {
  readonly modules: ReadonlyMap<string, string>;
  readonly documents: unknown;
  readonly answers: unknown;
}

test('the example repository, pushed commit by commit: the engine follows, and broken commits change nothing', {
  skip: CORPUS.skip,
}, async (t) => {
  await using dir = await tempDir();
  const [all, served] = [join(dir.path, 'all'), join(dir.path, 'served.git')];
  await runGit(['clone', '--quiet', '--bare', CORPUS.path, all]);
  await runGit(['init', '--quiet', '--bare', '--initial-branch=live', served]);
  const commits = await branchCommits(all, 'master');
  assert(commits.length > 30, `only ${commits.length} commits`);
  // The order has two sides of a merge one after the other: some steps are forced, as a rewritten branch is.
  const push = (commit: string): Promise<string> =>
    runGit(['-C', all, 'push', '--quiet', '--force', served, `${commit}:refs/heads/live`]);

  const [first = '', ...rest] = commits;
  await push(first);
  await using server = await startServer({
    SYNC_POLICY_REPO_URL: pathToFileURL(served).href,
    SYNC_POLICY_REPO_MAIN_BRANCH: 'live',
    SYNC_POLICY_REPO_POLLING_INTERVAL: '0.4',
  });
  await using client = await startClient({
    serverUrl: server.url,
    env: { SYNC_ENGINE_V0_COMPAT: 'true', SYNC_INLINE_ENGINE_OPEN: 'true' },
  });

  const walk = new Walk(t, server, client);
  await walk.step(first);
  for (const commit of rest) {
    await push(commit);
    await walk.step(commit);
  }
  t.diagnostic(
    `${commits.length} commits: ${walk.applied} applied, ${walk.refused} refused, ${walk.same} without change`,
  );
  assert(walk.applied > 10, 'most commits with policy must go in');
  assert(walk.refused > 0, 'the history has commits that do not compile');
  assert(walk.heals > 0, 'and commits that mend them');
  await client.healthy();
});

/** One replay: what was served before, and what the engine has to hold. */
class Walk {
  readonly #test: TestContext;
  readonly #server: StartedServer;
  readonly #client: StartedClient;
  #before: Omit<PolicyBundle, 'hash'> | undefined;
  #good: Good | undefined;
  #broken = false;
  applied = 0;
  refused = 0;
  same = 0;
  heals = 0;

  constructor(t: TestContext, server: StartedServer, client: StartedClient) {
    this.#test = t;
    this.#server = server;
    this.#client = client;
  }

  /** Waits until the server serves a commit and the client has dealt with it; then compares. */
  async step(commit: string): Promise<void> {
    await until(
      async () => field((await request(`${this.#server.url}/healthcheck`)).json, 'policy', 'head') === commit,
      {
        withinMs: WITHIN_MS,
        what: `the server serves ${commit}`,
      },
    );
    const { hash, ...content } = policyBundle.parse((await request(`${this.#server.url}/policy`)).json);
    assert.equal(hash, commit);
    if (isDeepStrictEqual(content, this.#before)) this.same++;
    else await this.#changed(commit, content);
    this.#before = content;
    await this.#compare(commit);
  }

  async #changed(commit: string, content: Omit<PolicyBundle, 'hash'>): Promise<void> {
    const modules = bundleModules({ ...content, hash: commit });
    const { status, json } = await this.#client.tells(
      `the client has dealt with ${commit}`,
      (health) => field(health, 'policy', 'last_transaction', 'id') === commit,
    );
    const last = field(json, 'policy', 'last_transaction');
    if (field(last, 'success') !== true) {
      const problem = await compileProblem(modules, { v0Compatible: true });
      assert(problem !== undefined, `${commit} compiles, but was refused: ${JSON.stringify(last)}`);
      this.#test.diagnostic(`${commit} does not compile: ${problem.split('\n', 2).join(' ').slice(0, 160)}`);
      assert.equal(status, 503, 'a refused policy shows in the health');
      const [file = 'none'] = [...modules.keys()].filter((path) => problem.includes(`${path}:`));
      assert.match(String(field(last, 'error')), new RegExp(`${file}:\\d+: `), 'the error has file and line');
      this.refused++;
      this.#broken = true;
      return;
    }
    if (this.#broken) this.heals++;
    this.#broken = false;
    this.applied++;
    this.#good = await alone(content, modules);
  }

  async #compare(commit: string): Promise<void> {
    const { engineUrl } = this.#client;
    assert.deepEqual(await engineModules(engineUrl), this.#good?.modules, `modules at ${commit}`);
    assert.deepEqual(await ask(engineUrl, undefined), this.#good?.documents, `documents and rules at ${commit}`);
    assert.deepEqual(await ask(engineUrl, INPUT), this.#good?.answers, `answers at ${commit}`);
  }
}

/** What OPA answers that loads the files of a complete bundle by itself; it ends with an error where they do not compile. */
async function alone(content: Omit<PolicyBundle, 'hash'>, modules: ReadonlyMap<string, string>): Promise<Good> {
  await using dir = await tempDir();
  const files = [...modules, ...content.data_modules.map(({ path, data }) => [join(path, 'data.json'), data] as const)];
  for (const [path, text] of files) {
    await mkdir(join(dir.path, dirname(path)), { recursive: true });
    await writeFile(join(dir.path, path), text);
  }
  const query = `documents := data; answers := data with input as ${JSON.stringify(INPUT)}`;
  const args = ['eval', '--v0-compatible', '--format=json', '--bundle', dir.path, query];
  const { stdout } = await promisify(execFile)(await testOpa(), args);
  const { documents, answers } = field(JSON.parse(stdout), 'result', 0, 'bindings') as Omit<Good, 'modules'>;
  return { modules, documents, answers };
}

async function ask(url: string, input: unknown): Promise<unknown> {
  const answer = await postJson(`${url}/v1/data`, { input });
  assert.equal(answer.status, 200, answer.text.slice(0, 300));
  return field(answer.json, 'result');
}
