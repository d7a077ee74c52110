import assert from 'node:assert/strict';
import { chown, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { GoProcess } from '../../src/embedded/go/go-process.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { createGitSource } from '../../src/server/policy/source/git-source.js';
import { remoteBranches } from '../../src/server/policy/source/remote-branches.js';
import { runCommand } from '../support/command.js';
import { gitRepoAt, runGit } from '../support/git-repo.js';
import { runHere } from '../support/run-here.js';
import { sharedGo } from '../support/shared-go.js';
import { type TempDir, tempDir } from '../support/temp-dir.js';

/** A repository of this machine that belongs to somebody else: containers and services have users of their own. */

const STRANGER = 34_567;
const skip = process.getuid?.() === 0 ? false : 'only root gives a repository to another user';

/** A repository of somebody else, in a folder whose name a shell would read, and what is done there by git as it comes. */
async function foreign(dir: TempDir, form: 'work tree' | 'bare'): Promise<{ path: string; head: string }> {
  const own = await gitRepoAt(join(dir.path, 'own'));
  const head = await own.commit({ 'a.rego': 'package a\n' });
  const path = join(dir.path, `it's "$HOME" \`x\` ${form}`);
  await runGit(['clone', '--quiet', ...(form === 'bare' ? ['--bare'] : []), own.path, path]);
  await chown(path, STRANGER, STRANGER);
  for (const name of await readdir(path, { recursive: true })) await chown(join(path, name), STRANGER, STRANGER);
  await assert.rejects(runGit(['ls-remote', path]), /dubious ownership/);
  return { path, head };
}

describe('a repository that belongs to another user', { skip }, () => {
  for (const form of ['work tree', 'bare'] as const) {
    test(`is followed, and asked for its branches: ${form}`, async () => {
      await using dir = await tempDir();
      const { path, head } = await foreign(dir, form);
      const env = { PATH: process.env.PATH, HOME: dir.path };
      const { signal } = new AbortController();
      for (const [index, url] of [path, pathToFileURL(path).href].entries()) {
        const question = { url, env, sshKey: undefined, keyFolder: dir.path, timeoutMs: 20_000 };
        assert.equal((await remoteBranches(question, signal)).commits.get('master'), head, url);
        const mirror = { url, clonePath: join(dir.path, `mirror-${index}`), fetchTimeoutMs: 20_000, env };
        const source = createGitSource({ ...mirror, branch: 'master' }, { log: silentLogger() });
        assert.equal(await source.fetch(signal), head, url);
        const lost = createGitSource({ ...mirror, branch: 'lost' }, { log: silentLogger() });
        await assert.rejects(lost.fetch(signal), /it has master/);
      }
    });
  }

  test('init, doctor and check read it', async (t) => {
    await using dir = await tempDir();
    const { path } = await foreign(dir, 'work tree');
    const env = { HOME: dir.path };
    const made = await runCommand('policysync', ['init', join(dir.path, 'set-up'), '--yes', '--repository', path], env);
    assert.equal(made.code, 0, made.stderr);
    const given = { ...env, SYNC_POLICY_REPO_URL: path, SYNC_STATE_DIR: join(dir.path, 'state') };
    const found = await runCommand('policysync', ['doctor', 'server', '--json'], given);
    assert.match(found.stdout, /branch master is at/);
    const go = await GoProcess.start({ host: { fetch: () => Promise.reject(new Error('a check sends no requests')) } });
    t.after(() => go.kill('the test is over'));
    const startGo = async () => sharedGo(go);
    for (const target of [[path], [path, '--branch', 'master'], [pathToFileURL(path).href]]) {
      const checked = await runHere('policysync', ['check', ...target], env, '', { startGo });
      assert.equal(checked.code, 0, checked.stdout + checked.stderr);
    }
  });
});
