import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { repoRoot } from '../support/repo.js';
import { tempDir } from '../support/temp-dir.js';

/** scripts/commits.mjs in real repositories. */

const SCRIPT = join(repoRoot(), 'scripts/commits.mjs');

/** What the check prints on standard error in a folder; empty when it passes. */
async function check(cwd: string): Promise<string> {
  return promisify(execFile)(process.execPath, [SCRIPT], { cwd }).then(
    () => '',
    (error: { stderr: string }) => error.stderr,
  );
}

async function commit(repo: GitRepo, message: string): Promise<void> {
  await repo.git('commit', '--allow-empty', '-q', '-m', message);
}

/** A repository with old history that breaks the rule, and then the commit that brings the check. */
async function ruledRepo(): Promise<GitRepo> {
  const repo = await gitRepo();
  await repo.commit({ 'a.txt': 'a' });
  await commit(repo, 'Whatever. People wrote this long before anybody thought of a rule for the messages of commits.');
  await repo.commit({ 'scripts/commits.mjs': '' });
  return repo;
}

test('messages that keep the rule pass, every other is named with what is wrong, old history is left alone', async () => {
  await using repo = await ruledRepo();
  await commit(repo, 'client/engine, docs: retry PUT on 503\n\nThe engine restarts.');
  assert.equal(await check(repo.path), '');
  await commit(repo, 'no area here');
  await commit(repo, 'docs: ends with a period.');
  await commit(repo, `docs: ${'x'.repeat(60)}`);
  await commit(repo, 'docs: a body\nwithout an empty line');
  const problems = (await check(repo.path)).split('\n').filter((line) => line.includes('"'));
  assert.deepEqual(
    problems.map((line) => line.slice(line.indexOf('" ') + 2)),
    [
      'has no empty line after its first one',
      'has 66 characters, 60 are allowed',
      'is not "area: what changes", without a period',
      'is not "area: what changes", without a period',
    ],
  );
});

test('of a branch only its own commits are checked, and nothing that a tag has', async () => {
  await using repo = await ruledRepo();
  await commit(repo, 'wrong, and on the main branch');
  await repo.git('checkout', '-q', '-b', 'topic');
  await commit(repo, 'docs: say more');
  assert.equal(await check(repo.path), '');
  await commit(repo, 'wrong, and tagged');
  assert.match(await check(repo.path), /wrong, and tagged/);
  await repo.git('tag', 'v1.0.0');
  assert.equal(await check(repo.path), '');
});

test('a fresh clone, a shallow one and a folder without git are checked as far as they go', async () => {
  await using repo = await ruledRepo();
  await commit(repo, 'wrong');
  await commit(repo, 'docs: right');
  await using dir = await tempDir();
  await repo.git('clone', '-q', repo.url, join(dir.path, 'fresh'));
  await repo.git('clone', '-q', '--depth', '1', repo.url, join(dir.path, 'shallow'));
  assert.match(await check(join(dir.path, 'fresh')), /"wrong"/);
  assert.equal(await check(join(dir.path, 'shallow')), '');
  assert.equal(await check(dir.path), '');
});
