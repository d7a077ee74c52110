import type { EngineProblem } from '../../src/embedded/vocabulary.js';
import { elements, jsonKind, members } from '../../src/lib/json/json-text.js';
import type { ConformanceCase } from './cases.js';
import { canonical } from './same-value.js';

/** What came of a query: its bindings, as a JSON list with one object for each result, or its errors. */
export type Outcome = { readonly bindings: string } | { readonly problems: readonly EngineProblem[] };

/** Says what is wrong with an outcome, by the rules of OPA's own suite; undefined if nothing is. */
export function fault(one: ConformanceCase, outcome: Outcome): string | undefined {
  const { wantError, wantErrorCode, wantResult } = one;
  if (wantError === undefined && wantErrorCode === undefined && wantResult === undefined) return 'expects nothing';
  if ('problems' in outcome) return faultOfError(one, outcome.problems);
  if (wantError !== undefined || wantErrorCode !== undefined)
    return `an error is expected (${wantErrorCode ?? ''} ${wantError ?? ''}), the result is ${outcome.bindings}`;
  if (wantResult === undefined) return undefined;
  const want = resultSet(wantResult, { sortBindings: one.sortBindings });
  const got = resultSet(outcome.bindings, one);
  return want === got ? undefined : `expected ${want}, got ${got}`;
}

function faultOfError(one: ConformanceCase, problems: readonly EngineProblem[]): string | undefined {
  const text = problems
    .map(({ file, row, code, message }) => `${file === undefined ? '' : `${file}:${row}: `}${code}: ${message}`)
    .join('\n');
  if (one.wantError === undefined && one.wantErrorCode === undefined) return `no error is expected: ${text}`;
  if (one.wantError !== undefined && !text.includes(one.wantError))
    return `the error "${one.wantError}" is expected: ${text}`;
  const [first] = problems;
  if (one.wantErrorCode !== undefined && first?.code !== one.wantErrorCode)
    return `the code ${one.wantErrorCode} is expected: ${text}`;
  return undefined;
}

/** Results as OPA compares them: as a set. `sortBindings`: each binding is a list whose order does not count. */
function resultSet(
  list: string,
  { sortBindings, ignoreGeneratedVars }: Pick<ConformanceCase, 'sortBindings' | 'ignoreGeneratedVars'>,
): string {
  const rows = elements(list).map((row) => {
    const bindings = [...members(row)]
      .filter(([name]) => ignoreGeneratedVars !== true || !name.startsWith('__localq'))
      .map(([name, value]) => `${name}=${sortBindings === true ? sorted(value) : canonical(value)}`);
    return `{${bindings.sort().join()}}`;
  });
  return [...new Set(rows)].sort().join('\n');
}

function sorted(value: string): string {
  if (jsonKind(value) !== 'array') return canonical(value);
  return `[${elements(value)
    .map((item) => canonical(item))
    .sort()
    .join()}]`;
}
