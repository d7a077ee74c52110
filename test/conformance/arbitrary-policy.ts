import fc from 'fast-check';

/** What rules of the random policies iterate over or look into. */
const SOURCES = [
  ...['input.l', 'input.o', 'input.v', 'input.ss', 'data.o', 'data.l', 'data.deep', 'data.deep.a', 'data.numbers'],
  ...['{1, 2, "a"}', '[3, 1, 2, 3]', '{"b": 1, "a": 2}', 'names', 'pairs', '{"ä", "Z", "a"}', 'object.keys(input.o)'],
] as const;
const KEYS = ['input.k', 'input.i', '"a"', '"1"', '0', 'input.a', 'input.s', '"x-y"'] as const;

/** Rules that each random policy has beside its own. */
const COMMON = `package t

default weight(_) := 0

weight(x) := x if is_number(x)

weight(x) := count(x) if is_string(x)

names contains name if some name in input.ss

names contains "fixed"

pairs[k] := v if some k, v in input.o

level := "high" if {
	input.a > 10
} else := "middle" if {
	input.a > 0
} else := "low"
`;

const source = fc.constantFrom(...SOURCES);
const key = fc.constantFrom(...KEYS);

/** A condition on a variable. */
function condition(name: string): fc.Arbitrary<string> {
  return fc.oneof(
    fc.constantFrom('is_string', 'is_number', 'is_object').map((type) => `${type}(${name})`),
    source.map((one) => `${name} in ${one}`),
    key.map((one) => `${name} != ${one}`),
    key.map((one) => `${name} > ${one}`),
    key.map((one) => `not ${name} == ${one}`),
    source.map((one) => `${one}[${name}]`),
    source.map((one) => `not ${one}[${name}]`),
    source.map((one) => `every e in ${one} { e != ${name} }`),
    fc.constant(`weight(${name}) > 0`),
    fc.constant(`data.o[${name}] with input as {"a": ${name}}`),
    fc.constant('true'),
  );
}

/** Expressions that give `k` and `v` values. */
const body = fc.oneof(
  fc.tuple(source, condition('v')).map(([from, test]) => `some k, v in ${from}\n\t${test}`),
  fc.tuple(source, condition('k')).map(([from, test]) => `some k, v in ${from}\n\t${test}`),
  fc.tuple(source, source).map(([from, other]) => `some k\n\tw := ${from}[k]\n\tv := [w, ${other}[k]]`),
  fc.tuple(source, source).map(([from, other]) => `some v in ${from}\n\tk := v\n\tv in ${other}`),
  fc.tuple(source, key).map(([from, at]) => `k := ${at}\n\tv := ${from}[k]`),
  fc.tuple(source, key, key).map(([from, at, next]) => `k := ${at}\n\tv := ${from}[k][${next}]`),
  fc.tuple(source, key).map(([from, at]) => `k := ${at}\n\tv := object.get(${from}, ${at}, level)`),
  fc.constant('some k in ["a", "b"]\n\tv := weight(k) + count(names)'),
  fc.constant('k := level\n\tv := level with input.a as 5'),
  fc.constant('some k, x in data.deep\n\tsome v in x.x'),
);

const RULES: readonly ((name: string, body: string) => string)[] = [
  (name, text) => `${name} := [v |\n\t${text}\n]`,
  (name, text) => `${name} := {v |\n\t${text}\n}`,
  (name, text) => `${name} := {k: v |\n\t${text}\n}`,
  (name, text) => `${name} := count([v |\n\t${text}\n])`,
  (name, text) => `${name} := sort([[k, v] |\n\t${text}\n])`,
  (name, text) => `${name} if {\n\t${text}\n}`,
  (name, text) => `${name} contains v if {\n\t${text}\n}`,
  (name, text) => `${name}[k] := v if {\n\t${text}\n}`,
  (name, text) => `${name} := sprintf("%v/%v", [k, v]) if {\n\t${text}\n}`,
  (name, text) => `default ${name} := false\n\n${name} if {\n\t${text}\n}`,
  (name, text) => `${name} := v if {\n\t${text}\n} else := "none"`,
  (name, text) => `${name} := json.marshal({v |\n\t${text}\n})`,
];

/** One module of package `t` with rules `p_0`, `p_1` ... Some modules do not compile: a variable may stand for nothing. */
export const arbitraryModule: fc.Arbitrary<{ readonly rego: string; readonly rules: readonly string[] }> = fc
  .array(fc.tuple(fc.constantFrom(...RULES), body), { minLength: 6, maxLength: 6 })
  .map((made) => ({
    rego: [COMMON, ...made.map(([rule, text], i) => rule(`p_${i}`, text))].join('\n\n'),
    rules: made.map((_, i) => `p_${i}`),
  }));
