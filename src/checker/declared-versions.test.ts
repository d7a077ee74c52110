import assert from 'node:assert/strict';
import { test } from 'node:test';
import { declaredProblems } from './check-engine.js';

/** What is said of one module that is read as a version. */
async function problemOf(declared: number | undefined, read: 0 | 1, text: string, isV0 = true): Promise<string> {
  const module = { path: 'a.rego', text, ...(declared !== undefined && { declared }) };
  const found = await declaredProblems([module], new Set(read === 0 ? ['a.rego'] : []), async (modules) =>
    isV0 ? [] : modules.map(({ path }) => path),
  );
  assert(found.length <= 1 && found.every(({ file }) => file === 'a.rego'));
  return found[0]?.message ?? '';
}

const rule = 'package a\n\nallow := true if { input.admin }\n';

test('a module that is read as it is declared, or not declared, is as it should be', async () => {
  assert.equal(await problemOf(undefined, 1, rule), '');
  assert.equal(await problemOf(1, 1, rule), '');
  assert.equal(await problemOf(0, 0, 'package a\n\nallow { input.x }\n'), '');
});

test('one that is declared v0 may be read as v1 where that means the same', async () => {
  for (const text of [
    'package a\n\n# if it is in the list, it contains every one\nx := "if in"\ny := `every\nin`\n',
    `package a\nimport rego.v1\n${rule.slice(9)}`,
    `package a\nimport rego.v2\n${rule.slice(9)}`,
    `package a\nimport future.keywords\n${rule.slice(9)}`,
    `package a\nimport future.keywords.if\nimport future.keywords.in\np if { 1 in [1] }\n`,
    `package a\nimport future.keywords.if\nimport future.keywords.every\np if { every x in [1] { x } }\n`,
  ])
    assert.equal(await problemOf(0, 1, text), '', text);
  assert.match(
    await problemOf(0, 1, 'package a\n\nx := 1\n', false),
    /declares it as Rego v0, as which it does not parse/,
  );
});

test('one that is declared v0 and has a keyword of v1 as a name is refused, since it means something else', async () => {
  assert.match(
    await problemOf(0, 1, rule),
    /declares it as Rego v0, where `if` is a name .* read it as v1: import rego\.v1/,
  );
  const some = `package a\nimport future.keywords.if\np contains x if { x in [1] }\n# import future.keywords.in\n`;
  assert.match(await problemOf(0, 1, some), /where `contains`, `in` is a name/);
});

test('one that is declared v1 and read as v0, or declared v2, is refused, unless it imports rego.v1', async () => {
  assert.match(
    await problemOf(1, 0, 'package a\n\nallow { input.x }\n'),
    /declares it as Rego v1, and clients read it as v0/,
  );
  assert.equal(await problemOf(1, 0, `package a\nimport rego.v1\n`), '');
  assert.match(await problemOf(2, 1, 'package a\n'), /declares it as Rego v2, which clients do not read/);
});
