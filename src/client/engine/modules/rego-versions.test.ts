import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EngineRefusal } from '../../../embedded/vocabulary.js';
import type { PolicySet } from '../engine.js';
import { manifestVersions, type RegoMode, RegoVersions } from './rego-versions.js';

const V0 = 'package a\n\nallow {\n\tinput.x\n}\n';
const V1 = 'package b\n\nallow if input.x\n';
const EITHER = 'package c\n\nx := 1\n';
const signal = new AbortController().signal;

function policy(modules: Record<string, string>): PolicySet {
  return { hash: 'h', modules: new Map(Object.entries(modules)) };
}

/** An engine that reads every module by what stands in it: `if` is v1, a bare body is v0. */
function engine(
  mode: RegoMode,
  isWrong = (rego: string, version: 0 | 1): boolean =>
    version === 0 ? / if /.test(rego) : /^\w+ \{|^x :?= y \{/m.test(rego),
) {
  const attempts: string[][] = [];
  let asked = 0;
  const versions = new RegoVersions(mode, {
    parse: async (modules, version) => {
      asked++;
      return new Set([...modules].filter(([, rego]) => isWrong(rego, version)).map(([path]) => path));
    },
  });
  const activate = async (set: PolicySet): Promise<void> => {
    await versions.settle(
      set,
      async (v0) => {
        attempts.push([...v0]);
        for (const [path, rego] of set.modules) {
          if (!isWrong(rego, v0.has(path) ? 0 : 1)) continue;
          throw new EngineRefusal('no', [{ message: `rego_parse_error as ${v0.has(path) ? 'v0' : 'v1'}`, file: path }]);
        }
      },
      signal,
    );
  };
  return { versions, attempts, activate, asked: () => asked };
}

test('auto: what looks as v0 is taken so at once, all else is v1, and nobody is asked', async () => {
  const it = engine('auto');
  await it.activate(policy({ 'v0.rego': V0, 'v1.rego': V1, 'c.rego': EITHER }));
  assert.deepEqual(it.attempts, [['v0.rego']]);
  assert.deepEqual(it.versions.counts, { v0: 1, v1: 2 });
  assert.equal(it.asked(), 0);
});

test('auto: what is valid in both versions and means something else in each is read as v1', async () => {
  const both = {
    'apart.rego': 'package a\n\nallow := true\n\nif {\n\tinput.admin\n}\n',
    'quoted.rego': 'package q\n\ndoc := `\nallow {\n`\n\nallow := true if { input.admin }\n',
  };
  const it = engine('auto', () => false);
  await it.activate(policy({ ...both, 'v0.rego': `${V0}# not if it has the word, or "in", in a comment or a text\n` }));
  assert.deepEqual(it.attempts, [['v0.rego']]);
});

test('auto: what v1 refuses is not read as v0 where a keyword of v1 is a name there, and the error says so', async () => {
  // In v0 the first rule is always true, and the second is called `if`.
  const opens = { 'a.rego': 'package a\n\nallow := true if { input.admin }\n\nx = y {\n\ty = 1\n}\n' };
  const it = engine('auto', (rego, version) => version === 1 && rego.includes('x = y {'));
  await assert.rejects(it.activate(policy(opens)), (error) => {
    assert(error instanceof EngineRefusal);
    assert.equal(
      error.problems[0]?.message,
      'rego_parse_error as v1 (not read as Rego v0, where `if` means something else unless it is imported)',
    );
    return true;
  });
  assert.deepEqual(it.attempts, [[]]);
  const imported = { 'a.rego': opens['a.rego'].replace('\n', '\nimport future.keywords.if\n') };
  await it.activate(policy(imported));
  assert.deepEqual(it.attempts.slice(1), [['a.rego']]);
  await it.activate(policy({ 'b.rego': 'package b\n\nx = y {\n\ty = contains("ab", "a")\n}\n' }));
  assert.deepEqual(it.attempts.at(-1), ['b.rego']);
});

test('auto: what does not look as it is costs one more attempt, once', async () => {
  const it = engine('auto');
  const odd = policy({ 'odd.rego': 'package o\n\nx := y {\n\ty := 1\n}\n'.replace('x := y', 'x = y'), 'v1.rego': V1 });
  const hidden = policy({ ...Object.fromEntries(odd.modules), 'h.rego': 'package h\n\n# text\nx := y {\n y := 1 }\n' });
  await it.activate(hidden);
  const first = it.attempts.length;
  await it.activate(hidden);
  assert.equal(it.attempts.length, first + 1);
  assert.deepEqual(it.versions.counts, { v0: 2, v1: 1 });
});

test('auto: a module that is neither keeps the message of the version that it looks like', async () => {
  const it = engine('auto');
  const both = { 'bad0.rego': 'package a\n\nallow {\n\tx if y\n}\n' };
  await assert.rejects(it.activate(policy(both)), /no/);
  await assert.rejects(it.activate(policy(both)), (error) => {
    assert(error instanceof EngineRefusal);
    assert.match(error.problems[0]?.message ?? '', /as v0/);
    return true;
  });
});

test('a module that is rewritten in the other version is read so', async () => {
  const it = engine('auto');
  await it.activate(policy({ 'a.rego': V0 }));
  await it.activate(policy({ 'a.rego': V1 }));
  assert.deepEqual(it.versions.counts, { v0: 0, v1: 1 });
});

test('a fixed version is tried once, for all modules', async () => {
  for (const [mode, v0] of [
    ['v0', ['a.rego', 'b.rego']],
    ['v1', []],
  ] as const) {
    const it = engine(mode);
    await assert.rejects(it.activate(policy({ 'a.rego': V0, 'b.rego': V1 })), /no/);
    assert.deepEqual(it.attempts, [v0]);
    assert.equal(it.asked(), 0);
  }
});

test('the manifest has the version of most, and names the others as patterns that fit them alone', () => {
  const modules = new Map([
    ['a.rego', ''],
    ['b*[1]{x}.rego', ''],
    ['c.rego', ''],
  ]);
  assert.deepEqual(manifestVersions(modules, new Set()), { rego_version: 1 });
  assert.deepEqual(manifestVersions(modules, new Set(modules.keys())), { rego_version: 0 });
  assert.deepEqual(manifestVersions(modules, new Set(['b*[1]{x}.rego'])), {
    rego_version: 1,
    file_rego_versions: { 'b\\*\\[1\\]\\{x\\}.rego': 0, '/b\\*\\[1\\]\\{x\\}.rego': 0 },
  });
  assert.deepEqual(manifestVersions(modules, new Set(['a.rego', 'c.rego'])), {
    rego_version: 0,
    file_rego_versions: { 'b\\*\\[1\\]\\{x\\}.rego': 1, '/b\\*\\[1\\]\\{x\\}.rego': 1 },
  });
});
