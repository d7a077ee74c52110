import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { packageLine, regoPackage } from './rego-package.js';

describe('the package of a module', () => {
  const TABLE: Record<string, string[] | undefined> = {
    'package a': ['a'],
    'package a.b.c\n': ['a', 'b', 'c'],
    '# about\n\n\r\n  package a.b # more': ['a', 'b'],
    '# package x\npackage a': ['a'],
    'package a["b c"]': ['a', 'b c'],
    'package a[ "b" ].c["d.e"]\nx := 1': ['a', 'b', 'c', 'd.e'],
    'package a["q\\"]\\\\"].b': ['a', 'q"]\\', 'b'],
    'package a["\\u00e9/%"]': ['a', 'é/%'],
    'package a[`r"\\w`]': ['a', 'r"\\w'],
    'package a["__proto__"].constructor': ['a', '__proto__', 'constructor'],
    'package a["b"] ["c"]': ['a', 'b'],
    'package a.b\n["c"]': ['a', 'b'],
    'package # why\n a': ['a'],
    '\uFEFFpackage a': ['a'],
    '': undefined,
    package: undefined,
    packagea: undefined,
    'package 1': undefined,
    'package ["a"]': undefined,
    'import rego.v1\npackage a': undefined,
    '"package a"': undefined,
  };
  for (const [rego, segments] of Object.entries(TABLE)) {
    it(`of ${JSON.stringify(rego)}`, () => assert.deepEqual(regoPackage(rego), segments));
  }
});

it('the line of its declaration is behind comments and empty lines', () => {
  const lines = ['package a', '# about\n\n\r\n  package a.b', '\uFEFF\npackage a', 'package # why\n a', ''].map(
    packageLine,
  );
  assert.deepEqual(lines, [1, 4, 2, 1, 1]);
});
