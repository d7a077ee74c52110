import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gitSaid, progressText, withoutProgress } from './git-command.js';

const OUTPUT =
  'remote: Enumerating objects: 100, done.\nremote: Counting objects:  50% (50/100)\rremote: Counting objects: 100% (100/100), done.\n' +
  'Receiving objects:  45% (45/100), 3.20 MiB | 1.10 MiB/s\r';

test('the newest progress counts, and what it is of', () => {
  assert.equal(progressText(OUTPUT), 'Receiving objects: 45% (45/100), 3.20 MiB | 1.10 MiB/s');
  assert.equal(progressText('remote: Enumerating objects: 7, done.\n'), 'Enumerating objects: 7, done.');
  assert.equal(progressText('fatal: no route to host\n'), undefined);
  assert.equal(progressText(`remote: Counting objects: ${'9'.repeat(500)}`)?.length, 100);
});

test('what a remote says beside that is no progress', () => {
  assert.equal(progressText('remote: Please visit https://evil.example: 45% (1/2)\n'), undefined);
});

test('a failure is told without it', () => {
  assert.equal(withoutProgress(`${OUTPUT}fatal: early EOF\n`).trim(), 'fatal: early EOF');
});

const TRAILER = `fatal: Could not read from remote repository.

Please make sure you have the correct access rights
and the repository exists.
`;

test('what git adds to every failure is left out, unless there is nothing else', () => {
  const folder = "fatal: '/srv/x' does not appear to be a git repository";
  assert.equal(gitSaid(`${folder}\n${TRAILER}`), folder);
  assert.equal(
    gitSaid(`git@host: Permission denied (publickey).\r\n${TRAILER}`),
    'git@host: Permission denied (publickey)',
  );
  assert.equal(gitSaid(TRAILER), 'fatal: Could not read from remote repository');
  assert.equal(
    gitSaid('remote: Not found.\nfatal: repository not found\n'),
    'remote: Not found.; fatal: repository not found',
  );
  assert.equal(gitSaid('\n'), '');
});
