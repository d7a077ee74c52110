import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { DocPath } from '../../wire/doc-path.js';
import { bundleRoots } from './roots.js';

describe('roots of a bundle', () => {
  const TABLE: [string, string[], DocPath[], DocPath[]][] = [
    ['no policy has none', [], [], []],
    ['packages, each once', ['package a', 'package b.c', 'package a'], [], [['a'], ['b', 'c']]],
    ['a package inside another has none of its own', ['package a.b', 'package a', 'package a.b.c'], [], [['a']]],
    ['names that only share letters are apart', ['package a', 'package ab'], [], [['a'], ['ab']]],
    [
      'documents of the bundle before stay',
      ['package a'],
      [
        ['d', 'e'],
        ['a', 'x'],
      ],
      [['a'], ['d', 'e']],
    ],
    ['a document above a package is the root', ['package a.b'], [['a']], [['a']]],
    ['plain text is a segment as it is', ['package a["b c"].d'], [], [['a', 'b c', 'd']]],
    // OPA splits a root at each slash, and decodes what looks like an escape when it erases the bundle before.
    [
      'a segment that a root cannot name is owned from above',
      ['package a["b/c"].d', 'package e["%20"]'],
      [],
      [['a'], ['e']],
    ],
    ['a module without a package has none: OPA will say so', ['x := 1', ''], [], []],
  ];
  for (const [what, modules, held, roots] of TABLE) {
    it(what, () => {
      const policy = { hash: 'h', modules: new Map(modules.map((rego, index) => [`${index}.rego`, rego])) };
      assert.deepEqual(bundleRoots(policy, held), roots);
    });
  }
});
