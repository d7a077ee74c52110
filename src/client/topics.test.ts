import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { outermostDirectories } from './topics.js';

describe('directories to subscribe to', () => {
  const TABLE: [string[], string[]][] = [
    [[], []],
    [['.'], ['.']],
    [[''], ['.']],
    [['/'], ['.']],
    [['a', '.'], ['.']],
    [
      ['a', 'b'],
      ['a', 'b'],
    ],
    [['a', 'a/b', 'a/b/c'], ['a']],
    [['a/b', 'a'], ['a']],
    [
      ['ab', 'a'],
      ['ab', 'a'],
    ],
    [['a/', './a', '/a', 'a//'], ['a']],
    [['a//b', 'a/./b'], ['a/b']],
    [
      ['a:b', 'A'],
      ['a:b', 'A'],
    ],
  ];
  for (const [given, kept] of TABLE) {
    it(`${JSON.stringify(given)} are ${JSON.stringify(kept)}`, () =>
      assert.deepEqual(outermostDirectories(given), kept));
  }
});
