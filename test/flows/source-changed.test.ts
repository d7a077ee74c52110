import assert from 'node:assert/strict';
import { readFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { pino } from 'pino';
import { startCommand } from '../support/command.js';
import { gitRepoAt } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** Another address of the policy source, from one start of a server to the next. */

function serves(url: string, hash: string): Promise<unknown> {
  return until(async () => field((await request(`${url}/healthcheck`)).json, 'policy', 'head') === hash, {
    withinMs: 15_000,
    what: `commit ${hash} is served`,
  });
}

test('another repository is followed at once: the mirror of the one before, in the state folder, is made anew', async () => {
  await using dir = await tempDir();
  const stateDir = join(dir.path, 'state');
  const [one, two] = [await gitRepoAt(join(dir.path, 'one')), await gitRepoAt(join(dir.path, 'two'))];
  const heads = [await one.commit({ 'a.rego': 'package a' }), await two.commit({ 'b.rego': 'package b' })] as const;
  const logged: string[] = [];
  const log = pino({ level: 'warn' }, { write: (line) => void logged.push(line) });
  for (const [url, head] of [
    [one.url, heads[0]],
    [join(dir.path, 'no-such-repository'), undefined],
    [two.url, heads[1]],
    [one.url, heads[0]],
  ] as const) {
    await using server = await startServer({ SYNC_POLICY_REPO_URL: url }, { stateDir, log });
    if (head !== undefined) await serves(server.url, head);
    else {
      const policy = await until(
        async () => {
          const found = field((await request(`${server.url}/healthcheck`)).json, 'policy');
          return field(found, 'error') !== null && found;
        },
        { withinMs: 15_000, what: 'the reason why nothing is served' },
      );
      assert.deepEqual(
        [field(policy, 'state'), field(policy, 'head')],
        ['starting', null],
        'nothing of another source',
      );
    }
  }
  const replaced = logged.filter((line) => line.includes('the policy source has changed'));
  assert.equal(replaced.length, 3, logged.join(''));
  assert(replaced[0]?.includes(one.url) && replaced[0].includes('no-such-repository'), replaced[0]);
});

test('another spelling of the same repository keeps the mirror, and the head that was agreed on', async () => {
  await using dir = await tempDir();
  const stateDir = join(dir.path, 'state');
  const repo = await gitRepoAt(join(dir.path, 'repo'));
  const head = await repo.commit({ 'a.rego': 'package a' });
  {
    await using server = await startServer({ SYNC_POLICY_REPO_URL: repo.url }, { stateDir });
    await serves(server.url, head);
  }
  await rename(repo.path, `${repo.path}-away`);
  for (const url of [`${repo.url}/`, repo.path, `${repo.path}/`]) {
    await using server = await startServer({ SYNC_POLICY_REPO_URL: url }, { stateDir });
    await serves(server.url, head);
  }
  assert.match(await readFile(join(stateDir, 'policy-repo', 'policysync-mirror.json'), 'utf8'), /repo"/);
});

test('a folder that the operator named and that has another mirror is left alone: exit code 2, with the remedy', async () => {
  await using dir = await tempDir();
  const clone = join(dir.path, 'clone');
  const [one, two] = [await gitRepoAt(join(dir.path, 'one')), await gitRepoAt(join(dir.path, 'two'))];
  const head = await one.commit({ 'a.rego': 'package a' });
  await two.commit({ 'b.rego': 'package b' });
  const env = {
    SYNC_SERVER_BIND_PORT: '0',
    SYNC_POLICY_REPO_CLONE_PATH: clone,
    SYNC_STATE_DIR: join(dir.path, 'state'),
  };
  {
    await using server = await startServer({ ...env, SYNC_POLICY_REPO_URL: one.url });
    await serves(server.url, head);
  }
  await using refused = startCommand('server', ['run'], { ...env, SYNC_POLICY_REPO_URL: two.url });
  const { code, stderr } = await refused.result;
  assert.equal(code, 2, stderr);
  assert.match(
    stderr,
    /^policysync: SYNC_POLICY_REPO_CLONE_PATH .*clone is a mirror of .*one, not of .*two; choose an empty folder, or leave/m,
  );
  await using back = await startServer({ ...env, SYNC_POLICY_REPO_URL: one.url });
  await serves(back.url, head);
});
