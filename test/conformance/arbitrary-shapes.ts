import fc from 'fast-check';
import type { EmbeddedPolicy } from '../../src/embedded/types.js';

/** A policy, and the paths that are asked: its rules one by one, and the documents of whole packages. */
export interface ArbitraryPolicy {
  readonly modules: EmbeddedPolicy['modules'];
  readonly paths: readonly string[];
}

/** Documents that stand beside, below and instead of what the rules of {@link arbitraryShapes} make. */
export const SHAPE_DOCUMENTS = `{"u":{"d":{"x":1,"y":[1,2]},"e":3,"w":{"d":{"x":"w"}}},"w":{"a":1},"x":{"":{"":0},"null":"n","list":["p","q"]}}`;

/** One input a shape; texts of JSON. */
export const SHAPE_INPUTS = [
  undefined,
  'null',
  '7',
  '"x"',
  '[1,{"a":2}]',
  '{"a":1,"i":1,"k":"a","s":"abcdef","l":["p","q","r",1],"j":"1.0","n":3,"o":{"a":1,"":2,"1":3}}',
  '{"a":{"b":1},"i":0,"k":null,"s":"","l":[0,1,2,3],"j":"[1e0,-0,10e-1]","n":0,"o":{"null":1,"a":{"b":2}}}',
  '{"a":{"b":{"c":"d"}},"i":2,"k":1,"s":"ä日本","l":[[],{},null],"j":"{\\"n\\":2.50}","n":-1,"o":{}}',
  '{"a":"text","i":3,"k":"","s":"x","l":["a","1",true],"j":"1e2","n":1e0,"o":{"1":"one","true":2}}',
] as const;

const among = (...items: readonly string[]): fc.Arbitrary<string> => fc.constantFrom(...items);

/** The same few numbers in every spelling. */
const number = among(
  ...[
    '0',
    '-0',
    '0.0',
    '-0.0',
    '0e5',
    '1',
    '1.0',
    '1e0',
    '10e-1',
    '0.1e1',
    '2',
    '2.0',
    '20e-1',
    '3',
    '3e0',
    '-1',
    '-1.0',
  ],
  ...[
    '2.5',
    '2.50',
    '25e-1',
    '0.1',
    '1e2',
    '100',
    '1E2',
    '9007199254740993',
    '9223372036854775808',
    '1e18',
    '1e-7',
    '12345678901234567890',
  ],
);
/** A number as something that is computed. */
const counted = fc.oneof(
  { weight: 4, arbitrary: number },
  number.map((one) => `json.unmarshal("${one}")`),
  number.map((one) => `yaml.unmarshal("[${one}]")[0]`),
  number.map((one) => `to_number("${one}")`),
  fc.tuple(number, among('+', '-', '*', '/', '%'), number).map(([a, sign, b]) => `(${a} ${sign} ${b})`),
  among(
    'input.i',
    'input.n',
    'json.unmarshal(input.j)',
    'abs(input.n)',
    'round(0.6)',
    'ceil(-0.5)',
    'constant',
    'computed',
    'same(1.0)',
  ),
);
const two = fc.tuple(counted, counted);

const numberExpression = fc.oneof(
  counted,
  counted.map((n) => `input.l[${n}]`),
  counted.map((n) => `["x", "y", "z"][${n}]`),
  counted.map((n) => `data.x.list[${n}]`),
  counted.map((n) => `input.o[${n}]`),
  counted.map((n) => `{1: "a", 2.5: "b", "1": "c", 0: "d"}[${n}]`),
  counted.map((n) => `object.get({1: "a", "1": "c"}, ${n}, ${n})`),
  counted.map((n) => `object.get(["a", "b"], [${n}], "none")`),
  two.map(([a, b]) => `array.slice(input.l, ${a}, ${b})`),
  two.map(([a, b]) => `substring(input.s, ${a}, ${b})`),
  fc.tuple(among('or', 'and', 'xor', 'lsh', 'rsh'), counted, counted).map(([name, a, b]) => `bits.${name}(${a}, ${b})`),
  counted.map((n) => `bits.negate(${n})`),
  fc
    .tuple(among('max', 'min', 'sort', 'sum', 'product', 'count'), counted, counted, counted)
    .map(([name, a, b, c]) => `${name}([${a}, ${b}, ${c}])`),
  fc
    .tuple(among('max', 'min', 'sort', 'sum', 'count'), counted, counted)
    .map(([name, a, b]) => `${name}({${a}, ${b}})`),
  two.map(([a, b]) => `{${a}, ${b}}`),
  two.map(([a, b]) => `{x: y | some x in [${a}, ${b}]; y := true}`),
  two.map(([a, b]) => `{"a": ${a}, "b": [${b}]}`),
  fc
    .tuple(counted, among('==', '!=', '<', '>=', 'in'), counted)
    .map(([a, sign, b]) => (sign === 'in' ? `[${a} in [${b}], ${a} in {${b}}]` : `[x | x := ${a}; x ${sign} ${b}]`)),
  fc.tuple(counted, among('==', '!=', '<', '<=', '>', '>='), number).map(([a, sign, b]) => `[1 | ${a} ${sign} ${b}]`),
  fc
    .tuple(among('input.n', 'input.i', 'input.a.b'), among('==', '!=', '<', '>='), number)
    .map(([a, sign, b]) => `[1 | ${a} ${sign} ${b}]`),
  among('0', '1.0', '1e0', '2.0', '-0', '0e5', '2.5', 'constant').map((n) => `numbers.range(${n}, 3)`),
  counted.map((n) => `format_int(${n}, 10)`),
  counted.map((n) => `json.marshal([${n}])`),
  counted.map((n) => `sprintf("%v %d", [${n}, ${n}])`),
  counted.map((n) => `$"{${n}}"`),
  counted.map((n) => `indexof("abc", substring("abc", ${n}, 1))`),
  two.map(([a, b]) => `looked with input.l as [${a}, ${b}]`),
  counted.map((n) => `looked with input.i as ${n}`),
  counted.map((n) => `same(${n})`),
  counted.map((n) => `named(${n})`),
  counted.map((n) => `{k | some k, v in input.l; v == ${n}}`),
  counted.map((n) => `{v | some k, v in input.l; k == ${n}}`),
  counted.map((n) => `[y | [${n}, y] = [input.n, 1]]`),
  counted.map((n) => `members[${n}]`),
  counted.map((n) => `object.remove({1: 2, 3: 4}, [${n}])`),
  counted.map((n) => `object.union({1: 2}, {${n}: 3})`),
  counted.map((n) => `graph.reachable({1: [2], 2: [1]}, [${n}])`),
);

const NUMBERS = `package t

default constant := 1.0

constant := 2e0 if input.n > 2.0

computed := 0.5 + 1.5

same(x) := x

named(1.0) := "one"

named(2) := "two"

looked := input.l[input.i]

members[x] := x if some x in [1.0, 2, "1"]

`;

const V0 = `package old

default level = 0.0

level = 1e0 { input.a == 1 }

deny[msg] { input.l[_] == 1.0; msg := sprintf("%v", [input.i]) }

by[k] = v { v := input.o[k] }

at(i) = x { x := input.l[i] }
`;

function moduleOf(path: string, rego: string, version: 0 | 1 = 1): EmbeddedPolicy['modules'][number] {
  return { path, rego, version };
}

function rulesOf(head: string, expressions: readonly string[]): string {
  return `${head}${expressions.map((one, i) => `p_${i} := x if {\n\tx := ${one}\n}`).join('\n\n')}\n`;
}

function pathsOf(pack: string, count: number): string[] {
  return [pack, ...Array.from({ length: count }, (_, i) => `${pack}/p_${i}`)];
}

const RULES = 8;

const ofNumbers = fc.array(numberExpression, { minLength: RULES, maxLength: RULES }).map((made) => ({
  modules: [
    moduleOf('numbers.rego', rulesOf(NUMBERS, [...made, '[data.old.level, data.old.at(1.0)]'])),
    moduleOf('old.rego', V0, 0),
  ],
  paths: [...pathsOf('t', RULES + 1), 'old'],
}));

const textKey = among('""', '"a"', '"b"', '"a.b"', '"x/y"', '"null"', '"ä"');
/** Keys of heads and of lookups. */
const key = fc.oneof(
  { weight: 3, arbitrary: textKey },
  among('null', 'true', 'false', '"1"', '1', '1.0', '[1]', '{"a": 1}'),
);
const headKey = fc.oneof(
  { weight: 6, arbitrary: textKey },
  { weight: 4, arbitrary: among('x', 'x.k', 'input.k', 'y', '[y]') },
  { weight: 1, arbitrary: key },
);
const condition = among('true', 'input.a == 1', 'not input.n == 3', 'y != null', 'input.o[y]');
const head = fc
  .tuple(
    fc.array(headKey, { minLength: 1, maxLength: 3 }),
    fc.boolean(),
    among('x.v', '1', 'null', 'x', '1.0', '{"a": null}', 'y'),
    condition,
  )
  .map(([keys, isSet, value, test]) => {
    const ref = keys.map((one) => `[${one}]`).join('');
    const some =
      'some x in [{"k": "a", "v": 1}, {"k": null, "v": 2}, {"k": "", "v": []}]\n\tsome y in ["a", "", null, 1]';
    return `${ref} ${isSet ? 'contains' : ':='} ${value} if {\n\t${some}\n\t${test}\n}`;
  });
const lookup = fc.oneof(
  key.map((one) => `r[${one}]`),
  fc.tuple(key, key).map(([one, other]) => `r[${one}][${other}]`),
  among(
    'r',
    'r[input.k]',
    '{k | r[k]}',
    '{[k, v] | some k, v in r}',
    'count(r)',
    'object.keys(r)',
    'r[_][input.k]',
    'data.t.r[input.k][_]',
  ),
  among('{[k, l] | r[k][l]}', 'object.get(r, input.k, "none")', '[v | some v in r]', '{v | some v in data.t.r}'),
);
const ofHeads = fc
  .tuple(fc.array(head, { minLength: 1, maxLength: 3 }), fc.array(lookup, { minLength: 4, maxLength: 4 }))
  .map(([heads, made]) => ({
    modules: [
      moduleOf('heads.rego', `package t\n\n${heads.map((one) => `r${one}`).join('\n\n')}\n`),
      moduleOf('lookups.rego', rulesOf('package s\n\nimport data.t.r\n\n', made)),
      moduleOf('old.rego', V0, 0),
    ],
    paths: ['t', 't/r', 't/r/a', ...pathsOf('s', 4)],
  }));

const target = fc.oneof(
  among('input', 'input.a', 'input.a.b', 'input.a.b.c', 'input.k', 'input.l', 'input.n'),
  among(
    'data.u',
    'data.u.d',
    'data.u.d.x',
    'data.u.k',
    'data.u.o',
    'data.u.v',
    'data.u.v.k',
    'data.u.w',
    'data.w',
    'data.w.a',
    'data.old.level',
    'data.x',
  ),
);
const replaced = among(
  ...[
    '5',
    '1.0',
    '"x"',
    'null',
    '{}',
    '[]',
    '{"a": {"b": 1}}',
    '{"d": {"x": 5}, "k": 7}',
    '{"v": {"k": 8}}',
    'input',
    'input.a',
  ],
  ...['data.u.d', '{"": null}', 'input.zzz', '{1, 2}', '{"x": [1, 2]}', 'false'],
);
const withs = fc
  .array(
    fc.oneof(
      { weight: 4, arbitrary: fc.tuple(target, replaced).map(([at, value]) => `with ${at} as ${value}`) },
      among(
        'with count as 7',
        'with data.t.f as 7',
        'with data.t.f as g',
        'with time.now_ns as 1.0',
        'with upper as lower',
      ),
    ),
    { minLength: 1, maxLength: 3 },
  )
  .map((list) => list.join(' '));
const seen = among(
  ...[
    'data.s.all',
    'data.s.given',
    'data.s.part',
    'data.s.deep',
    'data.s.of',
    'data.s.keys',
    'data.s.rule',
    'data.s.called',
    'data.s.test',
  ],
  ...[
    'data.u',
    'data.u.d',
    'data.u.d.x',
    'data.u.v',
    'data.u.k',
    'data.u.o',
    'data.u.w',
    'data.w',
    'data.w.a',
    'data.x',
    'data.s',
    'data.old',
  ],
  ...[
    'input',
    'input.a',
    'input.a.b',
    'data.u[input.k]',
    'count(data.u.d)',
    '{k | data.u[k]}',
    '{k | some k, _ in data.u}',
    'data.old.level',
  ],
);
const SEEN = `package s

all := data.u

given := input

part := input.a.b

deep := data.u.d.x

of[k] := v if some k, v in data.u.v

keys contains k if some k, _ in data.w

rule := [data.u.k, data.u.v.k]

called := [count([1]), data.t.f(1), input, upper("a")]

default test := false

test if not input.a.b == 5
`;
const U = `package u

k := 1

o[x] := input.a if some x in ["a", "", null]

s contains input.k
`;
const ofWith = fc.array(fc.tuple(seen, withs, fc.nat(5)), { minLength: RULES, maxLength: RULES }).map((made) => {
  const bodies = made.map(([one, changed, form]) => {
    const expression = `y := ${one} ${changed}`;
    if (form === 0) return `[y | ${expression}]`;
    if (form === 1) return `{y: 1 | some z in [1, "x"]; ${expression}}`;
    return form === 2 ? `[1 | not f(${one}) ${changed}]` : undefined;
  });
  const rules = made.map(([one, changed], i) =>
    bodies[i] === undefined
      ? `p_${i} := y if {\n\ty := ${one} ${changed}\n}`
      : `p_${i} := x if {\n\tx := ${bodies[i]}\n}`,
  );
  return {
    modules: [
      moduleOf('withs.rego', `package t\n\nf(x) := [x]\n\ng(x) := {x}\n\n${rules.join('\n\n')}\n`),
      moduleOf('seen.rego', SEEN),
      moduleOf('u.rego', U),
      moduleOf('v.rego', 'package u.v\n\nk := 1\n\nlist := [input, data.u.d]\n'),
      moduleOf('old.rego', V0, 0),
    ],
    paths: [...pathsOf('t', RULES), 's', 'u', 'old'],
  };
});

/** Policies that compiled code could answer otherwise, how many are made in each run, and how many of their paths are compiled at least. */
export const arbitraryShapes: Readonly<
  Record<string, { readonly policies: fc.Arbitrary<ArbitraryPolicy>; readonly runs: number; readonly many: number }>
> = {
  'numbers in every spelling': { policies: ofNumbers, runs: 8, many: 3 },
  'keys of every kind': { policies: ofHeads, runs: 8, many: 1 },
  'documents replaced by with': { policies: ofWith, runs: 6, many: 3 },
};

/** Rules of a package, and why it stays with Go; it is compiled if there is no reason. */
export const KNOWN_SHAPES: Readonly<Record<string, { readonly rego: string; readonly stays?: string }>> = {
  'a number is compared with': { rego: 'p if input.n > 0.0\n\nq if input.n == 1.0\n\nr if input.n != 1e0' },
  'a number is computed with': { rego: 'p := input.n * 1e3\n\nq := round(input.n / 1.0)\n\nr := sum([input.n, 1.0])' },
  'a result of a function': { rego: 'p := input.l[json.unmarshal(input.j)]\n\nq := input.l[to_number(input.j)]' },
  'a score': { rego: 'default score := 0.0\n\nscore := 1e0 if input.n > 2\n\nlow if score < 0.5\n\nmore := score + 1' },
  'an index': { rego: 'p := input.l[1.0]', stays: 'compiled code may take the number 1.0 for another' },
  'an operand': { rego: 'p := bits.or(1e0, 2)', stays: 'compiled code may take the number 1e0 for another' },
  'a value of a rule as index': {
    rego: 'at := 1.0 if input.n\n\np := input.l[at]',
    stays: 'compiled code may take the number 1.0 of data.t6.at for another',
  },
  'a value of a rule inside': {
    rego: 'at := {"a": 1.0}\n\np := input.l[at.a]',
    stays: 'compiled code may take the number 1.0 for another',
  },
  'a part of the input is replaced': { rego: 'q := input\n\np := x if {\n\tx := q with input.a.b as 5\n}' },
  'a function is replaced before the input': {
    rego: 'f(x) := [x]\n\nq := [f(1), input]\n\np := x if {\n\tx := q with data.t9.f as 7 with input.a as 5\n}',
  },
  'input and a part of it are replaced': {
    rego: 'q := input\n\np := x if {\n\tx := q with input as 7 with input.a as 5\n}',
    stays: 'with replaces the input and a part of it',
  },
  'a rule is replaced': { rego: 'q := 1\n\nr := q\n\np := x if {\n\tx := r with data.t11.q as {"a": 1}\n}' },
  'a package is replaced': {
    rego: 'p := x if {\n\tx := data.t11.q with data.t11 as {"q": 5, "d": 6}\n}',
    stays: 'documents are replaced by with',
  },
  'a key that is null': {
    rego: 'r[null][x.k] := x.v if some x in input.l',
    stays: "the rule's name has the key null, which is no text",
  },
  'keys of a partial object': { rego: 'r[x] := 1 if some x in input.l\n\ns[""][x] := 1 if some x in input.l' },
};
