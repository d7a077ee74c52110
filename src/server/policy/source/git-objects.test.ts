import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../../lib/errors.js';
import type { GitCommand } from './git-command.js';
import { limited } from './git-objects.js';
import { createGitViews } from './git-views.js';

/** A git whose reads end when they are let. */
function slowGit() {
  const running: (() => void)[] = [];
  const run = (): Promise<Buffer> =>
    new Promise((resolve) => {
      running.push(() => resolve(Buffer.alloc(0)));
    });
  return { git: { run } as unknown as GitCommand, running };
}

const isBusy = (error: unknown): boolean =>
  error instanceof SyncError && error.code === 'git_busy' && error.retryAfterSeconds !== undefined;
const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
};

test('calls beyond the limit wait, and beyond those that may wait they are refused', async () => {
  const ends: (() => void)[] = [];
  const call = limited(1, () => new Promise<void>((resolve) => void ends.push(resolve)), 1);
  const [first, second] = [call(), call()];
  await assert.rejects(call(), isBusy);
  ends[0]?.();
  await first;
  const third = call();
  await turns();
  ends[1]?.();
  await second;
  await turns();
  ends[2]?.();
  await third;
});

test('of reads for people few wait, and facts of commits do not wait for them', async () => {
  const { git, running } = slowGit();
  const views = createGitViews(git, 'refs/heads/main');
  const tips = Array.from({ length: 33 }, () => views.tip());
  await assert.rejects(views.tip(), isBusy);
  const facts = views.facts([{ hash: 'a'.repeat(40) }]);
  await turns();
  assert.equal(running.length, 2, 'one of each kind runs');
  running[1]?.();
  assert.equal((await facts).size, 0);
  for (let ended = 0; ended < 34; ended++) {
    if (ended !== 1) running[ended]?.();
    await turns();
  }
  await Promise.all(tips);
});
