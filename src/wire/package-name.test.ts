import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cpuTimer } from '../../test/support/cpu-time.js';
import { packageName } from './rego-package.js';

/** What OPA 1.22 reads, or refuses (empty). */
const TABLE: Record<string, string> = {
  'package a': 'a',
  'package a.b.c\n\nimport rego.v1\n': 'a.b.c',
  '# about\n\n  # more\n package my_pkg.x1 # trailing\n': 'my_pkg.x1',
  'package system.my_pkg  \r\n': 'system.my_pkg',
  'package a["b-c"].d\n': 'a["b-c"].d',
  'package a["q\\"x"]["y"]\n': 'a["q\\"x"]["y"]',
  'package a[`raw`]\n': 'a[`raw`]',
  'package\ta\n': 'a',
  'package # hi\n a\n': 'a',
  'package\n a.b\n': 'a.b',
  '\uFEFFpackage a\n': 'a',
  'package a; x := 1\n': 'a',
  'x := 1\npackage a\n': '',
  '# package a\n': '',
  'packages a\n': '',
  'package\n': '',
  'package 1\n': '',
  '': '',
};

for (const [text, name] of Object.entries(TABLE)) {
  test(`package of ${JSON.stringify(text)}`, () => assert.equal(packageName(text), name));
}

test('long runs of blank lines and comments cost no more than their length', () => {
  const spentMs = cpuTimer();
  assert.equal(packageName(`${' \n'.repeat(50_000)}${'# c\n'.repeat(50_000)}rule := 1`), '');
  assert(spentMs() < 2_000);
});
