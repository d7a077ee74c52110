import fc from 'fast-check';
import { ANY_CHARACTER } from '../support/any-character.js';

/** JSON texts: fast-check's numbers would lose what is to be tested. */
const number = fc.oneof(
  { weight: 3, arbitrary: fc.integer({ min: -20, max: 20 }).map(String) },
  fc.integer().map(String),
  fc.integer({ min: -1e9, max: 1e9 }).map((value) => String(value / 100)),
  fc.maxSafeInteger().map(String),
  fc.constantFrom('0', '1', '2.5', '0.1', '-0.5', '1700000000000000000', '0.0001', '999999999999999'),
  { weight: 1, arbitrary: fc.bigInt({ min: -(10n ** 30n), max: 10n ** 30n }).map(String) },
  fc.constantFrom('-0', '1.0', '1e2', '2.50', '1e15', '1e-7', '9223372036854775808', '0.1000000000000000055511151'),
);

const text = fc
  .oneof(
    fc.string({ maxLength: 5 }),
    fc.string({ maxLength: 4, unit: 'grapheme' }),
    fc.string({ maxLength: 3, unit: ANY_CHARACTER }),
    fc.constantFrom(
      '',
      'a',
      'b',
      'ab',
      'abc',
      'a.b',
      '/x/y',
      'foo',
      'Foo BAR',
      ' x ',
      '1',
      '12',
      '007',
      'a,b,c',
      'ä',
      '日本',
      'é',
    ),
    fc.constantFrom(
      'İ',
      'ß',
      'ΣΑΣ',
      'ǅ',
      '\ufffd',
      '\u2028',
      '<>&',
      '\u007f',
      '\u00a0x\u00a0',
      '\u0085',
      '\u001f',
      'ﬀ',
      'ẞ',
    ),
    fc.constantFrom(
      '\u{1f600}',
      'e\u0301',
      '"\\/\b\f\n\r\t',
      'ı',
      '\u3000',
      '\u{10ffff}',
      '{{x}}',
      '{}',
      '%d',
      '__proto__',
      'constructor',
    ),
  )
  .map((value) => JSON.stringify(value.replace(/\p{Surrogate}/gu, '\ufffd')));

function objectOf(value: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc
    .array(fc.tuple(text, value), { maxLength: 4 })
    .map((pairs) => `{${[...new Map(pairs)].map(([name, item]) => `${name}:${item}`).join()}}`);
}

function listOf(value: fc.Arbitrary<string>, maxLength = 4): fc.Arbitrary<string> {
  return fc.array(value, { maxLength }).map((items) => `[${items.join()}]`);
}

const { value } = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    number,
    text,
    fc.constantFrom('null', 'true', 'false'),
    listOf(tie('value')),
    objectOf(tie('value')),
  ),
}));

const quoted = (...items: readonly string[]): fc.Arbitrary<string> =>
  fc.constantFrom(...items.map((one) => JSON.stringify(one)));
const small = (min: number, max: number): fc.Arbitrary<string> => fc.integer({ min, max }).map(String);

const address = quoted(
  '10.0.0.0/8',
  '10.1.2.3',
  '192.168.0.0/16',
  '0.0.0.0/0',
  '::1',
  '2001:db8::/32',
  '2001:db8::1',
  'x',
  '10.0.0.0/33',
  '1.2.3',
  '::ffff:10.0.0.1',
  '10.0.0.01',
  'fe80::1%eth0',
  '10.0.0.1/8',
  '::/0',
  '',
);
const glob = fc.oneof(
  quoted(
    '*',
    '**',
    'a*',
    '*.b',
    '*:*',
    '{a,b}',
    '[a-c]*',
    '[!a]',
    '?',
    'a?c',
    '\\*',
    '',
    'a{b,c}d',
    '*.{com,org}',
    '[',
    '{',
    'a**b',
    '/*/y',
    '/**',
    '*a*',
    '日*',
    '**.b',
  ),
  text,
);
const regex = fc.oneof(
  quoted(
    '^a',
    'a+',
    '[a-z]+',
    '\\d+',
    '\\w',
    '.*',
    '(a)(b)?',
    '^$',
    '(?i)foo',
    '\\bfoo\\b',
    '\\pL+',
    '[^a]',
    'a|b',
    '\\s',
    'x{2,3}',
    '(?P<n>a)',
    '[[:alpha:]]',
    '\\Q.\\E',
    '(',
    'a**',
    '\\x41',
    '.',
    '\\C',
    '\\z',
    '(?s).',
    '(?U)a+',
    '\\p{Greek}',
    'é',
    '(?m)^b',
    'a{1001}',
    '\\8',
    '[\\d-z]',
    '(?<n>a)',
    '\\A',
    'a{,2}',
    '(?i)ß',
    '[^\\n]',
    '\\W',
    '$',
  ),
  text,
);
const json = fc.oneof(
  value.map((one) => JSON.stringify(one)),
  text,
  quoted(
    '1 ',
    '[1,]',
    '{"a":1,"a":2}',
    '01',
    '1.',
    '"\\ud800"',
    '"\\u0000"',
    'nul',
    '',
    ' ',
    '[1] 2',
    '1e5',
    '-',
    '+1',
    '"\t"',
    '"\\x"',
    '{"b":1,"a":2}',
    '1E400',
    'NaN',
    '"\\ud83d\\ude00"',
    '"\\/"',
    '{a:1}',
    '[1 2]',
    '.5',
    '"a',
    '[1]',
    '{"x":[1,2,{"y":null}]}',
    '{1:2}',
    '{"a"}',
  ),
);
const numeral = fc.oneof(
  number.map((one) => JSON.stringify(one)),
  text,
  quoted(
    ' 1',
    '1 ',
    '0x10',
    '1_000',
    '1.',
    '.5',
    '+1',
    'inf',
    'NaN',
    '1e5',
    '-0',
    '007',
    'Infinity',
    '1e400',
    '0b1',
    '0o7',
    '1e',
    '',
  ),
);

/** An input for all {@link EXPRESSIONS}, as JSON text. */
export const arbitraryInput: fc.Arbitrary<Readonly<Record<string, string>>> = fc.record({
  a: number,
  b: number,
  i: small(-3, 6),
  i2: small(-3, 8),
  l: listOf(value, 5),
  m: listOf(value, 5),
  n: listOf(number),
  v: value,
  w: value,
  x: value,
  s: text,
  t: text,
  s2: text,
  ss: listOf(text, 3),
  c: address,
  d: address,
  g: glob,
  j: json,
  o: objectOf(value),
  q: objectOf(value),
  k: fc.oneof(text, small(-1, 4)),
  r: regex,
  ns: numeral,
  gr: fc.constantFrom('{"a":["b"],"b":["c"],"c":[]}', '{"a":["a","x"]}', '{}'),
  pp: listOf(fc.oneof(text, listOf(text)), 3),
});

/** A JSON text of members as texts. */
export function inputText(input: Readonly<Record<string, string>>): string {
  return `{${Object.entries(input)
    .map(([name, one]) => `"${name}":${one}`)
    .join()}}`;
}
