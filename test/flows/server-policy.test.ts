import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { field, postJson, request } from '../support/http.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const run = promisify(execFile);

/** Commits files to the `main` branch of a repository, which is made where it is missing; gives the hash. */
async function commit(repository: string, files: Record<string, string>): Promise<string> {
  const git = async (...args: string[]): Promise<string> => {
    const identity = ['-c', 'user.name=test', '-c', 'user.email=test@example.com', '-c', 'commit.gpgsign=false'];
    return (await run('git', ['-C', repository, ...identity, ...args])).stdout.trim();
  };
  await mkdir(repository, { recursive: true });
  await git('init', '--quiet', '--initial-branch=main');
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(repository, path)), { recursive: true });
    await writeFile(join(repository, path), text);
  }
  await git('add', '--all');
  await git('commit', '--quiet', '--message=change');
  return git('rev-parse', 'HEAD');
}

function follow(repository: string): Record<string, string> {
  return {
    SYNC_POLICY_REPO_URL: `file://${repository}`,
    SYNC_POLICY_REPO_MAIN_BRANCH: 'main',
    SYNC_POLICY_REPO_POLLING_INTERVAL: '0.1',
  };
}

/** Waits until the server serves a commit. */
function serves(url: string, hash: string): Promise<unknown> {
  return until(async () => field((await request(`${url}/healthcheck`)).json, 'policy', 'head') === hash, {
    withinMs: 15_000,
    what: `commit ${hash} is served`,
  });
}

test('serves data before there is policy, says why there is none, and announces the first commit', async () => {
  await using dir = await tempDir();
  const repository = join(dir.path, 'policy');
  await using server = await startServer(follow(repository));
  const early = await request(`${server.url}/policy`);
  assert.equal(early.status, 503);
  assert(Number(early.headers.get('retry-after')) > 0);
  assert.equal(
    (await postJson(`${server.url}/data/config`, { entries: [{ url: 'http://x', topics: ['t'], dst_path: '/a' }] }))
      .status,
    200,
  );
  const health = await until(
    async () => {
      const answer = await request(`${server.url}/healthcheck`);
      return field(answer.json, 'policy', 'error') === null ? undefined : answer;
    },
    { withinMs: 20_000, what: 'the failure of the fetch' },
  );
  assert.deepEqual([health.status, field(health.json, 'policy', 'state')], [200, 'starting']);

  await using peer = await startPeer(server.url);
  await peer.call('subscribe', { topics: ['default:policy:.'] });
  const hash = await commit(repository, { 'a.rego': 'package a\n' });
  assert.deepEqual(await peer.notified(1), [hash]);
  const bundle = await request(`${server.url}/policy`);
  assert.deepEqual(
    [bundle.status, field(bundle.json, 'hash'), field(bundle.json, 'manifest')],
    [200, hash, ['a.rego']],
  );
});

test('announces a commit in both forms, to subscribers of its directories alone, and serves the delta', async () => {
  await using dir = await tempDir();
  const repository = join(dir.path, 'policy');
  const first = await commit(repository, { 'a/a.rego': 'package a\n', 'b/b.rego': 'package b\n' });
  await using server = await startServer(follow(repository));
  await serves(server.url, first);
  await using ours = await startPeer(server.url, { 'x-sync-protocol': '1' });
  await using opal = await startPeer(server.url);
  await using other = await startPeer(server.url);
  await ours.call('subscribe', { topics: ['default:policy:a', 'default:policy:.'] });
  await opal.call('subscribe', { topics: ['policy:a'] });
  await other.call('subscribe', { topics: ['default:policy:b', 'policy:b'] });

  const second = await commit(repository, { 'a/a.rego': 'package a\nx := 1\n' });
  assert.deepEqual(await ours.notified(1), [second]);
  assert.deepEqual(await opal.notified(1), [
    { old_policy_hash: first, new_policy_hash: second, changed_directories: ['.', 'a'] },
  ]);
  const third = await commit(repository, { 'b/b.rego': 'package b\nx := 1\n' });
  assert.equal((await other.notified(2))[0], third);
  const delta = await request(`${server.url}/policy?path=a&base_hash=${first}`);
  assert.deepEqual([field(delta.json, 'old_hash'), field(delta.json, 'hash')], [first, third]);
  assert.deepEqual(field(delta.json, 'manifest'), ['a/a.rego']);
});

test('keeps serving the last good commit while the repository is away, also after a restart', async () => {
  await using dir = await tempDir();
  const repository = join(dir.path, 'policy');
  const hash = await commit(repository, { 'a.rego': 'package a\n' });
  await using first = await startServer(follow(repository));
  await serves(first.url, hash);
  await rename(repository, `${repository}-away`);
  await first.stop();
  await using second = await startServer(follow(repository), { stateDir: first.stateDir });
  await serves(second.url, hash);
  const failing = await until(
    async () => {
      const { json } = await request(`${second.url}/healthcheck`);
      return field(json, 'policy', 'state') === 'failing' && json;
    },
    { withinMs: 20_000, what: 'the failing look' },
  );
  assert.match(String(field(failing, 'policy', 'error')), /policy/);
  assert.equal((await request(`${second.url}/policy`)).status, 200);
});

test('a server without a repository says so', async () => {
  await using server = await startServer();
  const answer = await request(`${server.url}/policy`);
  assert.deepEqual([answer.status, answer.json], [503, { detail: 'policy repo was not found' }]);
});

test('a branch name that cannot be one is a configuration error, and the state folder stays free', async () => {
  await using dir = await tempDir();
  const wrong = { ...follow(dir.path), SYNC_POLICY_REPO_MAIN_BRANCH: '../main' };
  await assert.rejects(startServer(wrong, { stateDir: dir.path }), { code: 'config_invalid' });
  await using server = await startServer({}, { stateDir: dir.path });
  assert.equal((await request(server.url)).status, 200);
});
