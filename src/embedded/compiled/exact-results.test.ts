import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { exactResult } from './exact-results.js';

/** Function, operands, and the result; undefined: Go has to say. */
const TABLE: readonly (readonly [string, readonly string[], string | undefined])[] = [
  ['plus', ['1', '2'], '3'],
  ['plus', ['9007199254740993', '1'], '9007199254740994'],
  ['plus', ['0.1', '0.2'], undefined],
  ['plus', ['1e2', '0'], undefined],
  ['minus', ['1', '1'], '0'],
  ['minus', ['-1', '-1'], '0'],
  ['mul', ['-3', '0'], '0'],
  ['mul', ['123456789012345678901234567890', '3'], '370370367037037036703703703670'],
  ['div', ['6', '3'], '2'],
  ['div', ['1', '3'], undefined],
  ['div', ['1', '0'], undefined],
  ['div', ['0', '-3'], undefined],
  ['rem', ['-7', '3'], '-1'],
  ['rem', ['-6', '3'], '0'],
  ['rem', ['7', '0'], undefined],
  ['sum', ['[1, 2, 3]'], '6'],
  ['sum', ['{1, 2}'], '3'],
  ['sum', ['[]'], '0'],
  ['sum', ['[1, 0.5]'], undefined],
  ['sum', ['["1"]'], undefined],
  ['product', ['[]'], '1'],
  ['abs', ['-5'], '5'],
  ['abs', ['-2.5'], undefined],
  ['round', ['2.5'], '3'],
  ['round', ['-2.5'], '-3'],
  ['round', ['-0.2'], undefined],
  ['ceil', ['1.2'], '2'],
  ['floor', ['-1.2'], '-2'],
  ['floor', ['-0.05'], undefined],
  ['floor', ['7'], '7'],
  ['lower', ['"Foo Bar"'], '"foo bar"'],
  ['lower', ['"\\n"'], undefined],
  ['upper', ['"ß"'], undefined],
  ['upper', ['5'], undefined],
  ['indexof', ['"abc"', '"c"'], '2'],
  ['indexof', ['"abc"', '"d"'], '-1'],
  ['indexof', ['"abc"', '""'], undefined],
  ['to_number', ['"12"'], '12'],
  ['to_number', ['"007"'], undefined],
  ['to_number', ['true'], '1'],
  ['to_number', ['null'], '0'],
  ['format_int', ['12', '10'], '"12"'],
  ['format_int', ['12', '2'], undefined],
];

describe('exact results of functions that compiled policies leave out', () => {
  for (const [name, args, result] of TABLE)
    it(`${name}(${args.join(', ')}) is ${result ?? 'for Go'}`, () => assert.equal(exactResult(name, args), result));
});
