import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { sameJson } from './same-json.js';

describe('two JSON texts', () => {
  const same: [string, string][] = [
    ['1', '1.0'],
    ['1', '1e0'],
    ['100', '1E+2'],
    ['0.01', '1e-2'],
    ['-0', '0.000'],
    ['-12.50', '-1.25e1'],
    ['12345678901234567890', '12345678901234567890.0'],
    ['12345678901234567890', '1.234567890123456789e19'],
    ['1e400', '10e399'],
    ['0e999999999999', '0'],
    ['"\\u0061"', '"a"'],
    ['{"a":1,"b":[true,null]}', ' { "b" : [ true , null ] , "a" : 1.0 } '],
    ['{"a":1,"a":2}', '{"a":2}'],
    ['{"a\\"]":{"":[{}]},"b":"}"}', '{ "b":"\\u007d","\\u0061\\"]":{"":[ { } ]}}'],
    [`1e${'9'.repeat(5000)}`, `1e${'9'.repeat(5000)}`],
  ];
  const other: [string, string][] = [
    ['9007199254740993', '9007199254740992'],
    ['12345678901234567890', '12345678901234567891'],
    ['0.1', '0.10000000000000000001'],
    ['1e400', '1e401'],
    ['1e400', '1.0e500'],
    ['1', '-1'],
    ['1', '"1"'],
    ['0', 'null'],
    ['0', 'false'],
    ['true', 'false'],
    ['[]', '{}'],
    ['[1,2]', '[2,1]'],
    ['[1]', '[1,1]'],
    ['{"a":1}', '{"b":1}'],
    ['{"a":1}', '{"a":1,"b":1}'],
  ];

  it('are the same where they mean the same value, to the last digit', () => {
    for (const [a, b] of same) assert.equal(sameJson(a, b) && sameJson(b, a), true, `${a} ${b}`.slice(0, 99));
    for (const [a, b] of other) assert.equal(sameJson(a, b) || sameJson(b, a), false, `${a} ${b}`.slice(0, 99));
  });

  it('of one value are the same however it is printed, and differ where a number in it does', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        assert.equal(sameJson(JSON.stringify(value), JSON.stringify(value, null, 2)), true);
        assert.equal(
          sameJson(JSON.stringify([value, 9007199254740992]), `[${JSON.stringify(value)},9007199254740993]`),
          false,
        );
      }),
    );
  });
});
