import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ANY_CHARACTER } from '../../../test/support/any-character.js';
import { isPlainJson, withoutLoneSurrogates } from './plain-json.js';

const PLAIN = [
  ...['{}', '[]', 'null', ' true ', 'false', '0', '-1', '12', '-10', '123456789012345678'],
  ...['""', '"é\u2028😀"', '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9"', '{"a":1,"a":2}', '[ 1 , {"a" : [ ] } ]', '"\u007f"'],
];
const NOT_PLAIN = [
  ...['', ' ', '{', '}', '[1', '[1,]', '[,1]', '[1 2]', '{"a"}', '{"a":}', '{"a":1,}', '{a:1}', '{1:2}', '{1,2}'],
  ...[
    'set()',
    'nul',
    'True',
    '1 2',
    '{} x',
    '"',
    '"a',
    '"\\x"',
    '"\\u12"',
    '"\\',
    "'a'",
    '\ufeff1',
    '"\n"',
    '"\u0000"',
  ],
  ...[
    '01',
    '-',
    '.5',
    '1.',
    '1.e1',
    '+1',
    '1e3',
    '1E-3',
    '-0',
    '-0.0',
    '1.0',
    '0.00',
    '1234567890123456789',
    '0.5',
    '-2.50',
  ],
  ...['"\\ud800"', '"\\ude00"', '"\\ud83d\\ude00"', '"\ud800"', '"\udc00"', '"\ud800x"', '"\\u0000"'],
  ...['['.repeat(100) + ']'.repeat(100), '{"a":'.repeat(100_000)],
];

test('tells what means the same to compiled policies and to Go', () => {
  for (const text of PLAIN) assert(isPlainJson(text), text);
  for (const text of NOT_PLAIN) assert(!isPlainJson(text), text);
});

test('plain JSON is JSON', () => {
  const texts = fc.oneof(
    fc.json({ stringUnit: ANY_CHARACTER }),
    fc.string({ unit: fc.constantFrom(...'{}[]",:\\u0019.-etrue\ud800\udc00 \n') }),
    fc
      .tuple(fc.json(), fc.nat(40), fc.string({ maxLength: 2 }))
      .map(([json, at, put]) => json.slice(0, at) + put + json.slice(at)),
  );
  fc.assert(
    fc.property(texts, (text) => {
      if (isPlainJson(text)) JSON.parse(text);
    }),
    { numRuns: 2000 },
  );
});

test('plain values are plain as JSON.stringify prints them', () => {
  const strings = fc.string({ unit: 'grapheme' }).filter((text) => !text.includes('\0'));
  const numbers = fc.maxSafeInteger();
  const values = fc.anything({
    values: [strings, numbers, fc.boolean(), fc.constant(null)],
    key: strings,
    maxDepth: 4,
  });
  fc.assert(fc.property(values, (value) => value === undefined || isPlainJson(JSON.stringify(value))));
});

test('halves of surrogate pairs become what Go makes of them', () => {
  const cases: [string, string][] = [
    ['"\\ud83d\\ude00"', '"\\ud83d\\ude00"'],
    ['"\\ud800"', '"\\ufffd"'],
    ['"\\uDE00\\uD83D"', '"\\ufffd\\ufffd"'],
    ['"\\ud800\\ud83d\\ude00"', '"\\ufffd\\ud83d\\ude00"'],
    ['"\\\\ud800"', '"\\\\ud800"'],
    ['"\\u00e9"', '"\\u00e9"'],
  ];
  for (const [text, expected] of cases) assert.equal(withoutLoneSurrogates(text), expected);
});
