import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { GoProcess } from '../../src/embedded/go/go-process.js';
import { type CommandResult, runCommand } from '../support/command.js';
import { type FileContent, type GitRepo, gitRepo } from '../support/git-repo.js';
import { request } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { testOpa } from '../support/opa.js';
import { repoRoot } from '../support/repo.js';
import { runHere } from '../support/run-here.js';
import { sharedGo } from '../support/shared-go.js';
import { following } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const RBAC = 'package app.rbac\n\nimport rego.v1\n\ndefault allow := false\n\nallow if input.user == "alice"\n';

interface Finding {
  readonly level: string;
  readonly id: string;
  readonly message: string;
  readonly file?: string;
  readonly line?: number;
}

interface Report {
  readonly ok: boolean;
  readonly commit: string | null;
  readonly bundle: {
    modules: { path: string; rego_version: string }[];
    data_files: string[];
    ignored: object[];
    others: string[];
  };
  readonly entrypoints?: { compiled: string[]; with_go: { path: string; reason: string }[] };
  readonly against?: Record<string, unknown>;
  readonly findings: Finding[];
}

/** One for all checks of this file but the first. */
let go: GoProcess;

/** `policysync check` in this process. */
function runCheck(args: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> {
  return runHere('policysync', ['check', ...args], env, '', { startGo: async () => sharedGo(go) });
}

/** Runs `policysync check --json`; asserts the exit code. */
async function check(code: number, args: readonly string[], env: Record<string, string> = {}): Promise<Report> {
  const result = await runCheck(['--json', ...args], env);
  assert.equal(result.code, code, result.stdout + result.stderr);
  return JSON.parse(result.stdout) as Report;
}

/** What is not in order, as `level id file:line`. */
function notInOrder({ findings }: Report): string[] {
  return findings
    .filter(({ level }) => level !== 'ok')
    .map(({ level, id, file = '', line }) => `${level} ${id} ${file}${line === undefined ? '' : `:${line}`}`.trim());
}

async function repoOf(files: Record<string, FileContent>): Promise<GitRepo> {
  const repo = await gitRepo();
  await repo.commit(files);
  return repo;
}

describe('policysync check', () => {
  before(async () => {
    go = await GoProcess.start({ host: { fetch: () => Promise.reject(new Error('a check sends no requests')) } });
  });
  after(() => go.kill('the test is over'));

  it('the example policies are clean, and need no OPA program and no git repository', async () => {
    await using dir = await tempDir();
    await cp(join(repoRoot(), 'examples', 'policies'), dir.path, { recursive: true });
    const PATH = dirname(process.execPath);
    const { code, stdout, stderr } = await runCommand('policysync', ['check', '--strict', dir.path], { PATH });
    assert.equal(code, 0, stdout + stderr);
    assert.match(
      stdout,
      /as it lies on disk\n\n✓ bundle: 1 module and 1 data file\n✓ policy: 1 module, compiled by OPA/,
    );
    assert.match(stdout, /: Rego v1\n\n0 errors, 0 warnings, 2 in order\n$/);
  });

  it('names each mistake with its file and line, and what is ignored by which pattern', async () => {
    await using repo = await repoOf({
      'app/rbac.rego': RBAC,
      'lib/broken.rego': 'package lib.broken\n\nallow if {\n  nowhere(1)\n}\n',
      'lib/bytes.rego': new Uint8Array([0xff, 0xfe]),
      'lib/old.rego': 'package lib.old\n\nallow { input.x }\n',
      'data.json': '{"users": {"alice": 1}}',
      'users/data.json': '{"bob": 1}',
      'users/more-data.json': '{}',
      'broken/data.json': '{\n  "a": 1,\n}\n',
      'yaml/data.yaml': 'a: 1\n',
      '.manifest': 'app/rbac.rego\nnowhere.rego\n\n/absolute\n',
      'lib/link.rego': { link: 'old.rego' },
      'fixtures/data.json': 'not JSON, and ignored',
      'app/rbac_test.rego': 'package app.rbac_test\n',
      'README.md': 'no policy',
      'roles.json': '{}',
      '.tool/settings.json': '{}',
      '.gitignore': 'local/\n',
      'local/data.json': 'not JSON, and no file of git',
    });
    const env = { SYNC_BUNDLE_IGNORE: 'fixtures/**,*_test.rego' };
    const report = await check(1, [repo.path], env);
    assert.deepEqual(notInOrder(report), [
      'error file_not_json broken/data.json:3',
      'error file_not_utf8 lib/bytes.rego:1',
      'warning manifest_line .manifest:2',
      'warning manifest_line .manifest:4',
      'warning data_replaced users/data.json',
      'warning not_a_file lib/link.rego',
      'warning yaml_data yaml/data.yaml',
      'warning data_shadowed data.json',
      'error compile_error lib/broken.rego:4',
    ]);
    assert.match(report.findings.find(({ id }) => id === 'compile_error')?.message ?? '', /undefined function nowhere/);
    assert.deepEqual(report.bundle, {
      modules: [
        { path: 'app/rbac.rego', rego_version: 'v1' },
        { path: 'lib/broken.rego', rego_version: 'v1' },
        { path: 'lib/old.rego', rego_version: 'v0' },
      ],
      data_files: ['data.json', 'users/data.json', 'users/more-data.json'],
      ignored: [
        { path: 'app/rbac_test.rego', pattern: '*_test.rego' },
        { path: 'fixtures/data.json', pattern: 'fixtures/**' },
      ],
      others: ['.gitignore', '.tool/settings.json', 'README.md', 'roles.json', 'yaml/data.yaml'],
    });
    const leftOut = report.findings.filter(({ id }) => id === 'json_left_out');
    assert.deepEqual(
      leftOut.map(({ message }) => message),
      ['roles.json is left out: data files are called data.json'],
    );
    assert.equal(report.commit, null);
  });

  it('a folder without a module and a data file is an error, data alone is not', async () => {
    await using dir = await tempDir();
    await writeFile(join(dir.path, 'README.md'), 'no policy');
    const { code, stdout } = await runCheck([dir.path]);
    assert.equal(code, 1);
    const text = stdout.replace(/\n {2}(?=\S)/g, ' ');
    assert.ok(text.includes(`✗ bundle: nothing to serve in ${dir.path}: no module, no data file\n`), stdout);
    assert.doesNotMatch(stdout, /✓/);
    await writeFile(join(dir.path, 'data.json'), '{}');
    assert.deepEqual(notInOrder(await check(0, [dir.path])), []);
  });

  it('names the decisions that an embedded engine does not compile, each with its reason, which is no mistake', async () => {
    const values = Array.from({ length: 10_001 }, (_, index) => index).join(',');
    await using repo = await repoOf({
      'app/rbac.rego': RBAC,
      'app/large.rego': `package app.large\n\nlist := [${values}]\n\nhas if input.x in list\n`,
      'app/http.rego': 'package app.http\n\nanswer := http.send({"method": "get", "url": "http://x"}).body\n',
      'limits/data.json': '{"max": 3}',
    });
    const of = ['/app/rbac/allow', 'app/large/has', 'app/http/answer', 'app/nowhere'].join(',');
    const report = await check(0, [repo.path, '--embedded-engine-entrypoints', of]);
    assert.deepEqual(report.entrypoints?.compiled, ['app/rbac/allow']);
    const reasons = new Map(report.entrypoints?.with_go.map(({ path, reason }) => [path, reason]));
    assert.deepEqual([...reasons.keys()].sort(), ['app/http/answer', 'app/large/has', 'app/nowhere']);
    assert.match(reasons.get('app/large/has') ?? '', /app\/large.rego:3.* more than 10000 values/);
    assert.match(reasons.get('app/http/answer') ?? '', /http.send/);
    assert.equal(reasons.get('app/nowhere'), 'the policy has no rule at this path');
    const { code, stdout } = await runCheck(['--strict', '--bundle-ignore', 'app/http.rego', repo.path], {
      SYNC_EMBEDDED_ENGINE_ENTRYPOINTS: of,
    });
    assert.equal(code, 0, stdout);
    const lines = stdout.replace(/\n {2}/g, ' ');
    assert.match(lines, /✓ entrypoints: app\/rbac\/allow is compiled\n/);
    assert.match(lines, /✓ entrypoints: app\/large\/has is not compiled: .*10000 values/);
    assert.equal((await check(0, [repo.path])).entrypoints, undefined);
  });

  it('many JSON files that are no data files are one line', async () => {
    await using repo = await repoOf({
      'app/rbac.rego': RBAC,
      ...Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((name) => [`${name}/other.json`, '{}'])),
    });
    const { stdout, code } = await runCheck(['--strict', repo.path]);
    assert.equal(code, 0, stdout);
    const lines = stdout.replace(/\n {2}/g, ' ');
    assert.match(lines, /✓ data: a\/other.json, b\/other.json, c\/other.json and 2 more are left out: data files/);
  });

  it('a document at the place of a rule is an error, one below a package a hint', async () => {
    await using repo = await repoOf({ 'app/rbac.rego': RBAC, 'app/rbac/data.json': '{"allow": true, "roles": []}' });
    const report = await check(1, [repo.path]);
    assert.deepEqual(notInOrder(report), ['error data_conflicts_with_rule app/rbac.rego:5']);
    assert.match(JSON.stringify(report.findings), /its value is in app\/rbac\/data\.json/);
    assert.equal(report.findings.find(({ id }) => id === 'data_below_package')?.file, 'app/rbac/data.json');
  });

  it('a branch that is not there, and directories of it', async () => {
    await using repo = await repoOf({ 'a/a.rego': 'package a\n', 'data.json': '{}', 'b/b.rego': 'package b\n\n!' });
    const report = await check(1, [repo.url, '--branch', 'master', '--strict', '--policy-subscription-dirs', 'a:c']);
    assert.deepEqual(notInOrder(report), ['error directory_missing', 'warning root_data_left_out data.json']);
    assert.deepEqual(report.bundle.modules, [{ path: 'a/a.rego', rego_version: 'v1' }]);
    assert.equal(report.commit, await repo.git('rev-parse', 'HEAD'));
    const missing = await runCheck([repo.url, '--branch', 'nowhere']);
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /branch nowhere does not exist in .*; it has master\n/);
  });

  it('runs the tests of the policy, also those that bundles ignore', async () => {
    const opa = { SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa() };
    const passes =
      'package app.rbac_test\n\nimport data.app.rbac\n\ntest_alice if rbac.allow with input.user as "alice"\n';
    await using repo = await repoOf({
      'app/rbac.rego': RBAC,
      'limits/data.json': '{"max": 3}',
      'old/limit.rego': 'package old\n\ntest_v0 { data.limits.max == 3 }\n',
      'app/rbac_test.rego': passes,
    });
    const good = await check(0, [repo.path, '--test', '--strict', '--bundle-ignore', '*_test.rego'], opa);
    assert.equal(good.findings.find(({ id }) => id === 'tests_passed')?.message, '2 tests passed');
    await repo.commit({ 'app/rbac_test.rego': `${passes}\ntest_bob if rbac.allow with input.user as "bob"\n` });
    const bad = await check(1, [repo.path, '--test'], opa);
    assert.deepEqual(notInOrder(bad), ['error test_failed app/rbac_test.rego:7']);
    assert.match(JSON.stringify(bad.findings), /data\.app\.rbac_test\.test_bob failed/);
    await repo.commit({ 'app/rbac.rego': 'package app.rbac\n\nallow if nowhere(1)\n' });
    const broken = await check(1, [repo.path, '--test'], opa);
    assert.deepEqual(notInOrder(broken), ['error compile_error app/rbac.rego:3', 'error tests_not_run']);
  });

  it('compares with what a running server serves', async () => {
    await using repo = await repoOf({
      'app/rbac.rego': RBAC,
      'users/data.json': '{"a":1}',
      'gone.rego': 'package gone\n',
    });
    await using server = await startServer(following(repo));
    const isReady = async (): Promise<boolean> => (await request(`${server.url}/ready`)).status === 200;
    await until(isReady, { withinMs: 20_000, what: 'the server has the policy' });
    const served = await repo.git('rev-parse', 'HEAD');
    const same = await check(0, [repo.path, '--against', server.url]);
    assert.deepEqual(same.against, {
      ...{ url: server.url, hash: served, same: 3 },
      ...{ changed: [], only_here: [], only_there: [] },
    });
    await using other = await repoOf({
      'app/rbac.rego': `${RBAC}\n`,
      'users/data.json': '{ "a": 1.0 }',
      'new.rego': 'package n\n',
    });
    const report = await check(1, [other.path, '--against', server.url]);
    assert.deepEqual(notInOrder(report), ['error changed', 'error only_here', 'error only_there']);
    assert.deepEqual(report.against, {
      ...{ url: server.url, hash: served, same: 1 },
      ...{ changed: ['app/rbac.rego'], only_here: ['new.rego'], only_there: ['gone.rego'] },
    });
  });

  it('runs nothing that the checked repository names', async () => {
    await using repo = await repoOf({ 'app/rbac.rego': RBAC });
    await using dir = await tempDir();
    const [program, ran] = [join(dir.path, 'program'), join(dir.path, 'ran')];
    await writeFile(program, `#!/bin/sh\necho "$0" >>${ran}\n`, { mode: 0o755 });
    for (const [key, value] of [
      ['core.fsmonitor', program],
      ['core.repositoryformatversion', '1'],
      ['extensions.partialClone', 'origin'],
      ['remote.origin.promisor', 'true'],
      ['remote.origin.url', repo.url],
      ['remote.origin.uploadpack', program],
    ] as const) {
      await repo.git('config', key, value);
    }
    await check(0, [repo.path]);
    // Git would get what is missing from the remote repository, by its program.
    const blob = await repo.git('rev-parse', 'HEAD:app/rbac.rego');
    await rm(join(repo.path, '.git', 'objects', blob.slice(0, 2), blob.slice(2)));
    const { code, stderr } = await runCheck([repo.path, '--commit', 'HEAD']);
    assert.equal(code, 1, stderr);
    assert.equal(existsSync(ran), false, 'a program of the repository ran');
  });

  it('writes no file of the repository outside the folder of its tests', async () => {
    await using repo = await repoOf({ 'app/rbac.rego': RBAC });
    const name = `outside-${process.pid}.rego`;
    const blob = await repo.git('rev-parse', 'HEAD:app/rbac.rego');
    const tree = async (line: string): Promise<string> => {
      await writeFile(join(repo.path, 'tree'), line);
      return await repo.git('-c', 'alias.tree=!git mktree <tree', 'tree');
    };
    const above = await tree(`040000 tree ${await tree(`100644 blob ${blob}\t${name}\n`)}\t..\n`);
    const commit = await repo.git('commit-tree', above, '-m', 'hostile');
    const args = [repo.path, '--commit', commit, '--test', '--json'];
    const { code, stdout } = await runCheck(args, { SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa() });
    const outside = join(tmpdir(), name);
    const isThere = existsSync(outside);
    await rm(outside, { force: true });
    assert.deepEqual([isThere, code, notInOrder(JSON.parse(stdout) as Report)], [false, 1, ['error tests_not_run']]);
  });

  it('--against names an address that is no sync server', async () => {
    await using dir = await tempDir();
    await using web = await listening(createServer((_, response) => response.end('<html>')));
    const { code, stderr } = await runCheck([dir.path, '--against', web.url]);
    assert.equal(code, 1);
    assert.match(stderr, /answers, but not as a sync server does: .*\[server_refused\]\n$/s);
  });

  it('a mistake in the call has exit code 2', async () => {
    const calls = [[], ['/nowhere'], [join(repoRoot(), 'README.md')], ['.', '--against', 'x'], ['.', '--commit=-x']];
    const cases = await Promise.all(calls.map((args) => runCheck([...args])));
    assert.deepEqual(
      cases.map(({ code }) => code),
      calls.map(() => 2),
      JSON.stringify(cases),
    );
  });
});
