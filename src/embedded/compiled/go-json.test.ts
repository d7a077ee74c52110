import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseJson } from '../../lib/json/json.js';
import { goJson, goString } from './go-json.js';
import { compareNumbers, compareStrings } from './term.js';
import { parseTerm } from './term-text.js';

const CASES: readonly [string, string][] = [
  ['null', 'null'],
  ['-1.50', '-1.50'],
  ['"a\\u0008\\u000c\\u0001\\n\\"\\\\"', '"a\\b\\f\\u0001\\n\\"\\\\"'],
  ['"<é>&\u2028\u2029😀"', '"\\u003cé\\u003e\\u0026\\u2028\\u2029😀"'],
  ['[]', '[]'],
  ['{}', '{}'],
  ['set()', '[]'],
  ['[1, [true, {"a": null}]]', '[1,[true,{"a":null}]]'],
  ['{"b": 1, "a": 2, "B": 3}', '{"B":3,"a":2,"b":1}'],
  ['{"\uffff": 1, "😀": 2, "\\n": 3}', '{"\\n":3,"\uffff":1,"😀":2}'],
  [
    '{"b", "a", 10, 9, 1.5, null, true, false, [1], {"a": 1}, {1}}',
    '[null,false,true,1.5,9,10,"a","b",[1],{"a":1},[1]]',
  ],
  ['{{2, 1}, {1}, set()}', '[[],[1],[1,2]]'],
  ['{[1, 2], [1], [2]}', '[[1],[1,2],[2]]'],
  ['{{"b": 1}, {"a": 2}, {"a": 1, "b": 1}}', '[{"a":1,"b":1},{"a":2},{"b":1}]'],
  [
    '{1: "number", "1": "string", [1]: "array", {"<"}: "set"}',
    '{"1":"string","[\\"\\\\u003c\\"]":"set","[1]":"array"}',
  ],
  ['{"__proto__": 1}', '{"__proto__":1}'],
];

test("prints terms as OPA's REST API does", () => {
  for (const [term, json] of CASES) assert.equal(goJson(parseTerm(term)), json);
});

test('refuses what is no term', () => {
  for (const text of ['', '{', '[1', '[1 2]', '{"a" 1}', '{1:2, 3}', '"a', 'nil', '1 2', 'set(1)'])
    assert.throws(() => parseTerm(text), SyntaxError, text);
});

test('a JSON value printed as a term keeps its meaning', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: 'grapheme' }), (value) => {
      assert.deepEqual(parseJson(goJson(parseTerm(JSON.stringify(value)))), parseJson(JSON.stringify(value)));
    }),
  );
});

test('strings are escaped so that they read the same', () => {
  fc.assert(fc.property(fc.string({ unit: 'grapheme' }), (text) => JSON.parse(goString(text)) === text));
});

test('numbers are in the order of what they mean', () => {
  const ordered = [
    '-1e400',
    '-10',
    '-9.5',
    '-0.1',
    '0',
    '0.05',
    '0.1',
    '9',
    '10',
    '100000000000000000000',
    '100000000000000000001',
  ];
  for (const [index, number] of ordered.entries())
    for (const [other, next] of ordered.entries())
      assert.equal(Math.sign(compareNumbers(number, next)), Math.sign(index - other), `${number} ${next}`);
  for (const same of ['1.0', '10e-1', '0.1e1', '1']) assert.equal(compareNumbers('1', same), 0);
  assert.equal(compareNumbers('-0', '0.00'), 0);
});

test('strings are in the order of their UTF-8 bytes', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme' }),
      fc.string({ unit: 'grapheme' }),
      (a, b) => Math.sign(compareStrings(a, b)) === Buffer.compare(Buffer.from(a), Buffer.from(b)),
    ),
  );
});
