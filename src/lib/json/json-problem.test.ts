import assert from 'node:assert/strict';
import { it } from 'node:test';
import { jsonProblem } from './json-problem.js';

it('says where a text is no JSON, what is there, and what may be', () => {
  const shell = ': names are in double quotes, which a shell takes away unless they are quoted themselves';
  for (const [text, problem] of [
    ['{"a":1}', undefined],
    ['', 'at line 1, column 1 there must be a JSON value, not the end'],
    ['{"a":', 'at line 1, column 6 there must be a JSON value, not the end, after {"…":'],
    ['{"a":[1,2]', 'at line 1, column 11 there must be "," or "}", not the end, after {"…":[…,…]'],
    ["{'a':1}", `at line 1, column 2 there must be a member name or "}", not ', after {: JSON has double quotes`],
    ['{config:{}}', `at line 1, column 2 there must be a member name or "}", not a letter, after {${shell}`],
    ['{"a":1,}', 'at line 1, column 8 there must be a member name, not }, after {"…":…,: there is a comma too many'],
    ['{"é":1,\n  "b": x}', 'at line 2, column 8 there must be a JSON value, not a letter, after {"…":…,"…":'],
    ['/etc/sources.json', 'at line 1, column 1 there must be a JSON value, not /'],
    ['{} {}', 'at line 1, column 4 there must be nothing after the value, not {, after {}'],
    ['{"a":"x\ny"}', /line 1, column 8 there must be the rest of a string .*, not the end of the line, after {"…":"…$/],
  ] as const) {
    const found = jsonProblem(text);
    if (problem instanceof RegExp) assert.match(found ?? '', problem, text);
    else assert.equal(found, problem, text);
  }
});

it('is short, and shows no character of names and values', () => {
  const long = `[${'{"S3CRET":"S3CRET"},'.repeat(1000)}S3CRET`;
  for (const text of [long, '{"a":"S3CRET', '{"S3CRET":S3CRET}', 'S3CRET', '["S3CRET" "S3CRET"]', `'S3CRET'`]) {
    const found = jsonProblem(text) ?? '';
    assert.doesNotMatch(found, /S3C|3CR|CRET/);
    assert(found.length > 20 && found.length < 250, found);
  }
});

it('of too much JSON it says that', () => {
  assert.match(jsonProblem('['.repeat(20_000)) ?? '', /^nested deeper than 10000/);
});
