import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { checkJson, jsonString, MAX_JSON_VALUES, parseChecked, parseJson } from './json.js';
import { MAX_JSON_DEPTH } from './json-check.js';

/** Names that are each other's escapes, and some that are not. */
const NAMES = [
  'a',
  'b',
  '"',
  '\\',
  '\n',
  '\\n',
  '\\"',
  'n',
  'a\\',
  'a"',
  '/',
  '\\/',
  '__proto__',
  'é',
  '\\u0061',
  '',
  '0',
];
const name = fc.oneof(fc.constantFrom(...NAMES), fc.string({ unit: 'binary', maxLength: 3 }));
const { value } = fc.letrec<{ value: unknown; list: unknown; members: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.constantFrom(0, 1.5, true, null, '', '"', '\\', 'a\nb'),
    tie('members'),
    tie('list'),
  ),
  list: fc.array(tie('value'), { maxLength: 3 }),
  members: fc
    .uniqueArray(fc.tuple(name, tie('value')), { maxLength: 4, selector: ([key]) => key })
    .map((entries) => Object.fromEntries(entries)),
}));

/** Makes the text around it one that is checked before. */
const LONG = JSON.stringify('\\"'.repeat(MAX_JSON_DEPTH / 4));

/**
 * A text with white space, and characters of names written as other escapes, by the numbers of a
 * list in turn.
 */
function rewritten(text: string, choices: readonly number[]): string {
  let turn = 0;
  const choose = (): number => choices[turn++ % choices.length] ?? 0;
  return text.replaceAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]/g, (token) => {
    if (!token.startsWith('"')) return token + ' \n\t'.charAt(choose()).repeat(choose() % 2);
    const units = [...String(JSON.parse(token))].flatMap((character) => character.split(''));
    const written = units.map((unit) =>
      choose() === 3 ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}` : JSON.stringify(unit).slice(1, -1),
    );
    return `"${written.join('')}"`;
  });
}

describe('the value of a JSON text', () => {
  it('has the names of the text, in their order, whatever was read before', () => {
    fc.assert(
      fc.property(value, fc.array(fc.nat(3), { minLength: 1, maxLength: 8 }), (given, choices) => {
        const plain = JSON.stringify(given);
        for (const text of [plain, rewritten(plain, choices)]) {
          assert.equal(JSON.stringify(parseJson(text)), plain, text);
          assert.deepEqual(parseJson(text), given, text);
          assert.equal(JSON.stringify(parseJson(`[${LONG},${text}]`)), `[${LONG},${plain}]`, text);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it('is the one of the last of members with the same name, at the place of the first', () => {
    assert.equal(JSON.stringify(parseJson('{"\\"":1,"b":2,"\\u0022":{"\\n":3}}')), '{"\\"":{"\\n":3},"b":2}');
    const [made] = [parseJson('{"__proto__":{"a":1},"\\n":2}') as object];
    assert.deepEqual([Object.keys(made), Object.getPrototypeOf(made)], [['__proto__', '\n'], Object.prototype]);
  });

  it('is refused with an escaped name as without one', () => {
    for (const bad of [
      '{"\\"":1',
      '{"\\"" 1}',
      '{"\\"":1}}',
      '{"\\"":}',
      '{"\\"":01}',
      '{"\\x":1}',
      '{"\\"":1,}',
      '[{"\\"":1},]',
      '{"\\"":"\n"}',
      '"\\"":1',
    ]) {
      assert.throws(() => parseJson(bad), SyntaxError, bad);
      assert.throws(() => JSON.parse(bad), SyntaxError, bad);
    }
    assert.deepEqual(parseJson(' {"\\"" :\n[ true,null ,-1.5e3,"\\""]}\r '), { '"': [true, null, -1500, '"'] });
  });

  it('is refused beyond a depth and a number of values, whatever its text', () => {
    const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
    assert(Array.isArray(parseJson(nested(MAX_JSON_DEPTH))));
    assert.throws(() => parseJson(nested(MAX_JSON_DEPTH + 1)), /nested deeper than 10000/);
    assert.throws(() => parseJson(nested(6), { depth: 5 }), /nested deeper than 5/);
    assert(Array.isArray(parseJson(nested(5), { depth: 5 })));
    const list = (values: number): string => `[${'1,'.repeat(values - 2)}1]`;
    assert.equal((parseJson(list(100), { values: 100 }) as []).length, 99);
    assert.throws(() => parseJson(list(101), { values: 100 }), /more than 100 values/);
    assert.throws(() => parseJson(`{${'"a":[],'.repeat(50)}"a":0}`, { values: 51 }), /more than 51 values/);
    assert.throws(() => parseJson(list(MAX_JSON_VALUES + 1)), /more than 1000000 values/);
    assert.equal((parseChecked(list(MAX_JSON_VALUES + 1)) as []).length, MAX_JSON_VALUES);
  });
});

it('a check accepts what has values, of any number, and refuses depth', () => {
  for (const good of ['1', ' {"a":[1]} ', `[${'1,'.repeat(10_000)}1]`, `"${'x'.repeat(20_000)}"`]) checkJson(good);
  for (const bad of ['', '{', '1 2', `[${'1,'.repeat(10_000)}]`, '['.repeat(20_000)])
    assert.throws(() => checkJson(bad), SyntaxError, bad.slice(0, 20));
});

it('a string has the characters that it is written with', () => {
  assert.equal(jsonString('"\\u0061\\n\\""'), 'a\n"');
  assert.throws(() => jsonString('"\\x"'), SyntaxError);
});
