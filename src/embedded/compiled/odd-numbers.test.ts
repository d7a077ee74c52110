import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ANY_CHARACTER } from '../../../test/support/any-character.js';
import { hasOtherSpelling, OddNumbers, placesOfOddNumbers } from './odd-numbers.js';

test('finds numbers that compiled policies take for others, and where', () => {
  for (const odd of [
    '1e2',
    '1E-2',
    '12.5e3',
    '-0',
    '-0.0',
    '1.0',
    '10.00',
    '-3.0',
    '9223372036854775808',
    '0.1234567890123456',
  ])
    assert.deepEqual(
      placesOfOddNumbers(`{"a":{"b ":[1,${odd}],"c":${odd} }}`),
      [
        ['a', 'b '],
        ['a', 'c'],
      ],
      odd,
    );
  for (const plain of [
    '0',
    '-1',
    '10',
    '0.5',
    '-0.05',
    '1.05',
    '100000000000000000',
    '1.50',
    '"1e2"',
    '"-0"',
    '"x\\"1.0"',
  ])
    assert.deepEqual(placesOfOddNumbers(`{"a":{"b":[${plain}],"1e5":${plain}}}`), [], plain);
  assert.deepEqual(placesOfOddNumbers('1.0'), [[]]);
  assert.deepEqual(placesOfOddNumbers('[{"a":1.0}]'), [[]]);
  assert.deepEqual(placesOfOddNumbers('{"x":[{"a":{}}],"a\\"\\u0062" : {"":1e1}}'), [['a"b', '']]);
});

test('finds results of functions that compiled policies take for other numbers', () => {
  for (const odd of ['1.0', '1e3', '10E-1', '-0', '-0.0', '0.0', '[1,{2,3.00}]', '{"a":{"b":1e0}}', '"\\"" 1.0'])
    assert(hasOtherSpelling(odd), odd);
  const plain = [
    '1',
    '-1',
    '1.5',
    '-0.05',
    '1.50',
    '1700000000000000000',
    '0.3333333333333333',
    'set()',
    '{1,2}',
    'true',
  ];
  for (const one of [...plain, '"1.0"', '["1e3 \\" -0","\\\\"]', '{"1.0":1}', '']) assert(!hasOtherSpelling(one), one);
});

test('many places are one', () => {
  const many = Object.fromEntries(Array.from({ length: 101 }, (_, index) => [`m${index}`, { value: index }]));
  assert.deepEqual(placesOfOddNumbers(JSON.stringify(many).replaceAll('"value":', '"value":1e')), [[]]);
});

test('follows changes of the documents', () => {
  const odd = new OddNumbers('{"a":{"b":1.0,"c":1},"d":[1e3]}');
  assert(odd.areIn([['a']]) && odd.areIn([['x'], ['a', 'b', 'deeper']]) && odd.areIn([[]]));
  assert(!odd.areIn([['a', 'c'], ['x']]) && !odd.areIn([]));
  odd.patch([
    { path: ['a', 'b'], text: '1' },
    { path: ['d'], text: undefined },
  ]);
  assert(!odd.areIn([[]]));
  odd.patch([{ path: ['a', 'e'], text: '{"f":-0}' }]);
  assert(odd.areIn([['a', 'e', 'f']]) && !odd.areIn([['a', 'e', 'g']]));
  odd.patch([{ path: [], text: '{}' }]);
  assert(!odd.areIn([[]]));
});

test('property: numbers as JSON.stringify prints them are odd only with an exponent or many digits', () => {
  fc.assert(
    fc.property(fc.jsonValue({ stringUnit: ANY_CHARACTER }), (value) => {
      const text = JSON.stringify(value);
      const numbers = text.replace(/"(?:[^"\\]|\\.)*"/g, '""').match(/-?\d[\d.e+-]*/g) ?? [];
      const isOdd = numbers.some((number) => /e|\d{19}|\d\.\d{15}|\d{15}\.\d/.test(number) || number === '-0');
      assert.equal(placesOfOddNumbers(text).length > 0, isOdd, text);
    }),
  );
});
