import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createFirstMatch, re2FirstMatch } from './first-match.js';

test('finds what the first of re.findall is: the first group where there is one, else the whole match', async () => {
  const rows: [expression: string, text: string, found: string | undefined][] = [
    ['(.*)', 'abc', 'abc'],
    ['(.*)', '', ''],
    ['sha256=(.*)', 'sha256=abc', 'abc'],
    ['sha256=(.*)', 'sha1=1,sha256=abc', 'abc'],
    ['sha256=(.*)', 'sha1=abc', undefined],
    ['[0-9a-f]{4}', 'x cafe babe', 'cafe'],
    ['Bearer (\\S+)', 'Bearer t1 t2', 't1'],
    ['v(?P<version>\\d)=([0-9a-f]+)', 'v1=ab', '1'],
    ['(?:t=\\d+,)v1=([0-9a-f]+)', 't=1,v1=ab,v1=cd', 'ab'],
    ['a|(b)', 'a', undefined],
  ];
  for (const [expression, text, found] of rows) {
    const find = await createFirstMatch(expression);
    assert.equal(find(text), found, `${expression} in ${text}`);
  }
});

test('the short way for a prefix gives what the full one gives', async () => {
  const prefix = fc.stringMatching(/^[\w\-=:/ ]{0,3}$/);
  const text = fc.string({ unit: fc.constantFrom('a', '=', ':', '\n', ' ', 'é', '_'), maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(prefix, text, async (start, value) => {
      const expression = `${start}(.*)`;
      assert.equal((await createFirstMatch(expression))(value), (await re2FirstMatch(expression))(value));
    }),
  );
});

test('an expression that makes other engines take forever takes no time', async () => {
  for (const expression of ['(a+)+$', '(a|aa)+$', '(.*a){12}$', '((a*)*)*b']) {
    const find = await createFirstMatch(expression);
    const start = performance.now();
    find(`${'a'.repeat(4095)}!`);
    const ms = performance.now() - start;
    assert(ms < 1_000, `${expression} took ${ms} ms`);
  }
});

test('an expression that cannot be used is a configuration error that names the setting', async () => {
  for (const expression of ['(', '*', '(?=a)', '(a)\\1', 'a{2,1}', '(a{1000}){1000}']) {
    await assert.rejects(
      createFirstMatch(expression),
      { code: 'config_invalid', message: /SYNC_POLICY_REPO_WEBHOOK_PARAMS at secret_parsing_regex: .*RE2/ },
      expression,
    );
  }
});
