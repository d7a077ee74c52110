import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ANY_CHARACTER } from '../../../test/support/any-character.js';
import { depthProblem, JsonCheck, MAX_JSON_DEPTH } from './json-check.js';

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** What `JSON.parse` says of bytes read as strict UTF-8. */
function parses(bytes: Uint8Array): boolean {
  try {
    JSON.parse(strict.decode(bytes));
    return true;
  } catch {
    return false; // refused is the answer
  }
}

function check(...chunks: Uint8Array[]): ReturnType<JsonCheck['end']> {
  const json = new JsonCheck();
  for (const chunk of chunks) json.push(chunk);
  return json.end();
}

function accepts(...chunks: Uint8Array[]): boolean {
  try {
    check(...chunks);
    return true;
  } catch (error) {
    assert.ok(error instanceof SyntaxError);
    return false;
  }
}

const GOOD = [
  '{}',
  '[]',
  ' \t\r\n{ "a" : [ 1 , -0 , 0.5e+10 , 1E-2, 12345678901234567890, 1.0 ] , "" : null }\r\n',
  'true',
  'false',
  'null',
  '0',
  '-12.5e3',
  '1e400',
  '""',
  '"é€😀\\u00e9\\ud800\\"\\\\\\/\\b\\f\\n\\r\\t\u007f\u2028"',
  '{"a":1,"a":{"b":[[],{},[{}]]}}',
];

const BAD = [
  '',
  '  ',
  '{} {}',
  '1 2',
  '{}x',
  '[1,]',
  '[,1]',
  '[1 2]',
  '{"a"}',
  '{"a":}',
  '{"a":1,}',
  '{a:1}',
  "{'a':1}",
  '{1:1}',
  '{"a":1]',
  '[1}',
  '[',
  '{',
  '{"a":[1,2',
  '"abc',
  '"a\nb"',
  '"a\u0000b"',
  '"\\x41"',
  '"\\u12g4"',
  '"\\u12',
  '01',
  '-',
  '-a',
  '+1',
  '1.',
  '.5',
  '1.e5',
  '1e',
  '1e+',
  '1.2.3',
  '0x10',
  'NaN',
  'Infinity',
  'tru',
  'truth',
  'nulll',
  'undefined',
  '<html></html>',
  '\ufeff{}',
  '\u00a0{}',
  '// a\n{}',
];

const BAD_BYTES = [
  '80',
  'c0af',
  'c1bf',
  'c3',
  'c328',
  'e080af',
  'eda080',
  'e282',
  'f08080af',
  'f4908080',
  'f5808080',
  'ff',
];

describe('json check', () => {
  it('accepts what JSON.parse accepts, wherever the bytes are cut', () => {
    for (const text of GOOD) {
      const bytes = Buffer.from(text);
      assert.ok(parses(bytes), text);
      for (let cut = 0; cut <= bytes.length; cut++) check(bytes.subarray(0, cut), bytes.subarray(cut));
      check(...Array.from(bytes, (byte) => Uint8Array.of(byte)));
    }
  });

  it('refuses what JSON.parse refuses, wherever the bytes are cut', () => {
    for (const text of BAD) {
      const bytes = Buffer.from(text);
      assert.ok(!parses(bytes), text);
      for (let cut = 0; cut <= bytes.length; cut++) {
        assert.ok(!accepts(bytes.subarray(0, cut), bytes.subarray(cut)), `${JSON.stringify(text)} cut at ${cut}`);
      }
    }
  });

  it('refuses bytes that are not UTF-8, inside and outside strings', () => {
    for (const hex of BAD_BYTES) {
      const wrong = Buffer.from(hex, 'hex');
      const inString = Buffer.concat([Buffer.from('["a'), wrong, Buffer.from('b"]')]);
      assert.ok(!parses(inString), hex);
      for (let cut = 0; cut <= inString.length; cut++) {
        assert.ok(!accepts(inString.subarray(0, cut), inString.subarray(cut)), `${hex} cut at ${cut}`);
      }
      assert.ok(!accepts(wrong), hex);
    }
  });

  it('agrees with JSON.parse on any JSON, printed any way', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 5, stringUnit: ANY_CHARACTER }), fc.nat(3), fc.nat(), (text, indent, seed) => {
        const bytes = Buffer.from(JSON.stringify(JSON.parse(text), null, indent));
        const cut = seed % (bytes.length + 1);
        assert.equal(accepts(bytes.subarray(0, cut), bytes.subarray(cut)), true);
      }),
      { numRuns: 300 },
    );
  });

  it('agrees with JSON.parse on JSON with one byte changed, dropped or put in', () => {
    const change = fc.record({
      kind: fc.constantFrom('change', 'drop', 'insert'),
      at: fc.nat(),
      byte: fc.oneof(fc.nat(255), fc.constantFrom(...Buffer.from('{}[]",:\\u0-+.eE \n')) as fc.Arbitrary<number>),
    });
    fc.assert(
      fc.property(
        fc.json({ maxDepth: 3, stringUnit: ANY_CHARACTER }),
        change,
        fc.nat(),
        (text, { kind, at, byte }, seed) => {
          const bytes = [...Buffer.from(text)];
          bytes.splice(at % bytes.length, kind === 'insert' ? 0 : 1, ...(kind === 'drop' ? [] : [byte]));
          const changed = Uint8Array.from(bytes);
          const cut = seed % (changed.length + 1);
          assert.equal(accepts(changed.subarray(0, cut), changed.subarray(cut)), parses(changed));
        },
      ),
      { numRuns: 3000 },
    );
  });

  it('agrees with JSON.parse on short runs of structural bytes', () => {
    const token = fc.constantFrom(...'{ } [ ] , : " \\ \\u00e9 0 1 - . e + true null "a"'.split(' '), ' ');
    fc.assert(
      fc.property(fc.array(token, { maxLength: 8 }), (tokens) => {
        const bytes = Buffer.from(tokens.join(''));
        assert.equal(accepts(bytes), parses(bytes), tokens.join(''));
      }),
      { numRuns: 5000 },
    );
  });

  it('is open only where the bytes so far are no whole value', () => {
    const openAt = (text: string): boolean => {
      const check = new JsonCheck();
      check.push(Buffer.from(text));
      return check.isOpen;
    };
    assert.deepEqual(['', '1', '"{', '{', '[[]', '{"a":[1]', '{"a":[1]}', '[] '].map(openAt), [
      ...[false, false, false],
      ...[true, true, true],
      ...[false, false],
    ]);
    fc.assert(
      fc.property(fc.json({ maxDepth: 5 }), fc.nat(), (text, seed) => {
        const start = text.slice(0, seed % (text.length + 1));
        if (openAt(start)) assert.throws(() => JSON.parse(start));
      }),
    );
  });

  it('says of which kind the value is', () => {
    assert.equal(check(Buffer.from(' {"a":[1]}')).kind, 'object');
    assert.equal(check(Buffer.from('[{}]')).kind, 'array');
    for (const text of ['"a"', '1', '-1', 'true', 'null']) assert.equal(check(Buffer.from(text)).kind, 'scalar');
  });

  it('bounds the depth of nesting', () => {
    const nested = (depth: number) => Buffer.from('['.repeat(depth) + ']'.repeat(depth));
    check(nested(MAX_JSON_DEPTH));
    assert.throws(() => check(nested(MAX_JSON_DEPTH + 1)), /nested deeper than 10000 at byte 10000/);
  });

  it('says why a text cannot be below a path: its segments are levels, too', () => {
    const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
    for (const segments of [0, 1, 64, 6_000, MAX_JSON_DEPTH]) {
      const most = MAX_JSON_DEPTH - segments;
      assert.equal(depthProblem(most === 0 ? '1' : nested(most), segments), undefined);
      assert.match(
        depthProblem(nested(most + 1), segments) ?? '',
        /^nested deeper .*: data may be nested 10000 levels deep/,
      );
    }
    assert.match(depthProblem('{}', 2 * MAX_JSON_DEPTH) ?? '', /20000 of them are its path/);
  });

  it('names the wrong byte, its offset over all chunks, and what was expected', () => {
    const cases: [string[], string][] = [
      [['{"a":', '1 "b":2}'], 'unexpected "\\"" at byte 7: expected "," or "}"'],
      [['[1', '}'], 'unexpected "}" at byte 2: expected "," or "]"'],
      [['{}', ' <'], 'unexpected "<" at byte 3: expected nothing after the value'],
      [['<html>'], 'unexpected "<" at byte 0: expected a JSON value'],
      [['"a\n"'], 'unexpected byte 0x0a at byte 2: expected the rest of a string (control characters must be escaped)'],
      [['nul', 'x'], 'unexpected "x" at byte 3: expected "null"'],
      [['{"a":[1'], 'unexpected end after 7 bytes: expected "," or "]"'],
      [['{"a"'], 'unexpected end after 4 bytes: expected ":"'],
      [[''], 'unexpected end after 0 bytes: expected a JSON value'],
    ];
    for (const [chunks, message] of cases) {
      assert.throws(() => check(...chunks.map((chunk) => Buffer.from(chunk))), { name: 'SyntaxError', message });
    }
    assert.throws(() => check(Buffer.from('22ff22', 'hex')), { message: /byte 0xff at byte 1: expected valid UTF-8/ });
  });
});
