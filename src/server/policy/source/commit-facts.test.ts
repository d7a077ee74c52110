import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gitRepo } from '../../../../test/support/git-repo.js';
import { createGitCommand } from './git-command.js';
import { createGitViews } from './git-views.js';

test('says title, author, time and changed files of commits, and nothing of what is none', async () => {
  await using repo = await gitRepo();
  const first = await repo.commit({ a: '1', 'b c': '2' });
  const second = await repo.commit({ a: '2' });
  const third = await repo.commit({ d: '3' });
  const git = createGitCommand({ gitDir: `${repo.path}/.git`, env: process.env });
  const views = createGitViews(git, 'refs/heads/main');
  const missing = '1'.repeat(40);
  const facts = await views.facts([
    { hash: first },
    { hash: second },
    { hash: third, base: first },
    { hash: missing },
    { hash: '--all' },
  ]);
  const files = [first, second, third].map((hash) => facts.get(hash)?.files);
  assert.deepEqual(files, [2, 1, 2]);
  const { title, author, timeMs } = facts.get(third) ?? {};
  assert.deepEqual([title, author], ['test', 'test']);
  assert(Math.abs(Date.now() - (timeMs ?? 0)) < 3_600_000);
  assert.equal(facts.size, 3);
  assert.equal((await views.facts([{ hash: third, base: missing }])).get(third)?.files, 1);
  assert.equal((await views.facts([{ hash: missing }])).size, 0);
});
