import assert from 'node:assert/strict';
import { test } from 'node:test';
import { progressText, withoutProgress } from './git-command.js';

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
