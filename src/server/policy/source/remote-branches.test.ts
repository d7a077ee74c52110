import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readBranches } from './remote-branches.js';

test('the branches of a repository, and the one that HEAD names', () => {
  const hash = (digit: string): string => digit.repeat(40);
  const output = `ref: refs/heads/main\tHEAD\n${hash('a')}\tHEAD\n${hash('a')}\trefs/heads/main\n${hash('b')}\trefs/heads/x/y\n`;
  const { head, commits } = readBranches(output);
  assert.equal(head, 'main');
  assert.deepEqual([...commits], [['main', hash('a')], ['x/y', hash('b')]]); // biome-ignore format: short
  assert.deepEqual(readBranches(''), { head: undefined, commits: new Map() });
});
