import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseJson } from '../../lib/json/json.js';
import { bodyOfText } from '../../wire/json-node.js';
import { OPAL_HASH_LIMIT_BYTES, opalHash, pythonJson, reportHash } from './report-hash.js';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** Of opal-protocol P4.7, as OPAL's own code computes them. */
const OPAL: readonly (readonly [text: string, hash: string])[] = [
  ['{}', '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'],
  ['"plain"', 'a116c9ed46d6207734a43317d30fd88f52ac8634c37d904bbf4e41d865f90475'],
  ['[1,2]', '3a316d6d3226f84c1e46e4447fa8d5fd800bff4a1bc6498152523cd4a602b69b'],
  ['{"b":1,"a":[1.0,null,"\u00e9"]}', 'e8b339df544cbffa32539a5cce8f31c777fa11d29497107f133073e9313ebce3'],
];

test("the hash in OPAL's form is the one that OPAL computes", () => {
  for (const [text, hash] of OPAL) {
    assert.equal(opalHash(text), hash, text);
    assert.equal(reportHash('opal', bodyOfText(` ${text}\n`)), hash);
  }
});

test('the hash of bytes is that of the bytes as they were fetched', () => {
  const text = '{"b" : 1.0}\n';
  assert.equal(reportHash('bytes', bodyOfText(text)), sha256(text));
});

test('a document that is too large for the form of OPAL gets no hash, and is not read', () => {
  const text = (): string => assert.fail('it was read');
  const large = { hash: 'x', sizeBytes: OPAL_HASH_LIMIT_BYTES + 1, text };
  assert.equal(reportHash('opal', large), null);
  assert.equal(reportHash('bytes', large), 'x');
});

/** What Python 3 answers for `json.dumps(json.loads(text))`. */
const PYTHON: readonly (readonly [text: string, printed: string])[] = [
  ['1.0', '1.0'],
  ['1.50', '1.5'],
  ['1e2', '100.0'],
  ['1E+2', '100.0'],
  ['-0', '0'],
  ['-0.0', '-0.0'],
  ['0e5', '0.0'],
  ['0.0001', '0.0001'],
  ['0.00001', '1e-05'],
  ['1e-7', '1e-07'],
  ['3.0e-5', '3e-05'],
  ['5e-324', '5e-324'],
  ['1e15', '1000000000000000.0'],
  ['1e16', '1e+16'],
  ['1e22', '1e+22'],
  ['1.5e300', '1.5e+300'],
  ['1e999', 'Infinity'],
  ['-1e999', '-Infinity'],
  ['12345678901234567.0', '1.2345678901234568e+16'],
  ['1234567890123456.7', '1234567890123456.8'],
  ['123456.789e3', '123456789.0'],
  ['12345678901234567890', '12345678901234567890'],
  ['-9007199254740993', '-9007199254740993'],
  [
    '"\\u007f\\u0001\\n\\t\\b\\f\\r\\"\\\\\\/ \u00e9\u{1f600}"',
    '"\\u007f\\u0001\\n\\t\\b\\f\\r\\"\\\\/ \\u00e9\\ud83d\\ude00"',
  ],
  ['{"a":1,"b":2,"a":3}', '{"a": 3, "b": 2}'],
  ['{"__proto__":1,"2":2,"1":1}', '{"__proto__": 1, "2": 2, "1": 1}'],
  [' [ true , false,null , {} , [ ] ,"" ] ', '[true, false, null, {}, [], ""]'],
  ['{"z":{"y":[1,2.50]},"":"\\\\"}', '{"z": {"y": [1, 2.5]}, "": "\\\\"}'],
];

test('prints JSON as Python does: separators, escapes, floats, integers of any size, repeated names', () => {
  for (const [text, printed] of PYTHON) assert.equal(pythonJson(text), printed, text);
});

test('what is printed has the same value, however it was written', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      assert.deepEqual(parseJson(pythonJson(text)), parseJson(text));
      assert.match(pythonJson(text), /^[ -~]*$/);
    }),
  );
});

test('a document may be nested deep, or have a long string', () => {
  const deep = `${'['.repeat(10_000)}${']'.repeat(10_000)}`;
  assert.equal(pythonJson(deep), deep);
  const long = `"${'x\\n'.repeat(2_000_000)}"`;
  assert.equal(pythonJson(long).length, long.length);
});
