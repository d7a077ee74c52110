import type { ConformanceCase } from './cases.js';

/** Rego that a release of OPA got wrong, found in real policies: each new one has to have it right. */
export const REGRESSIONS: readonly ConformanceCase[] = [
  {
    note: 'a comprehension with some among the values of an object (refused by OPA 1.21.0)',
    file: 'regressions.ts',
    query: 'data.test.p = x',
    modules: ['package test\n\np := {"k": [r.a | some r in input.xs]}\n'],
    input: '{"xs":[{"a":1},{"a":2}]}',
    wantResult: '[{"x":{"k":[1,2]}}]',
  },
  {
    note: 'any_prefix_match of one text with an array and a set of the same members (its cache is wrong in OPA 1.22)',
    file: 'regressions.ts',
    query: 'data.test.p = x',
    modules: [
      'package test\n\np := [a, b, c] if {\n\ta := strings.any_prefix_match(input.s, ["x", "a"])\n\tb := strings.any_prefix_match(input.s, {"x", "a"})\n\tc := strings.any_suffix_match(input.s, ["x", "c"])\n}\n',
    ],
    input: '{"s":"abc"}',
    wantResult: '[{"x":[true,true,true]}]',
  },
  {
    note: 'any_prefix_match of one text with more collections than its cache has (its cache is wrong in OPA 1.22)',
    file: 'regressions.ts',
    query: 'data.test.p = x',
    modules: [
      'package test\n\np := count([1 | some _ in [1, 2, 3]; some i in numbers.range(1, 12); strings.any_prefix_match(input.s, ["a", sprintf("k%d", [i])])])\n',
    ],
    input: '{"s":"abc"}',
    wantResult: '[{"x":36}]',
  },
  {
    note: 'a comprehension that stands alone, in which a rule has two values (OPA plans nothing for it)',
    file: 'regressions.ts',
    query: 'data.test.p = x',
    modules: [
      'package test\n\ntwo := 1 if input.a\n\ntwo := 2 if input.a\n\np if {\n\t[1 | two < 3]\n\t{"k": {x | x := two}}\n}\n',
    ],
    input: '{"a":true}',
    wantErrorCode: 'eval_conflict_error',
  },
  {
    note: 'comprehensions that stand alone are true, also empty and under not',
    file: 'regressions.ts',
    query: 'data.test.p = x',
    modules: [
      'package test\n\np contains "empty" if [x | x := input.none]\n\np contains "set" if {x | some x in input.xs}\n\np contains "with" if {x | x := input.a} with input.a as 1\n\np contains "never" if not [x | x := input.none]\n',
    ],
    input: '{"xs":[1]}',
    wantResult: '[{"x":["empty","set","with"]}]',
  },
];
