import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ConformanceCase, readCases } from './cases.js';
import { fault, type Outcome } from './judge.js';
import { withOwnRoots } from './own-roots.js';
import { canonical } from './same-value.js';

const { cases } = readCases();
const isError = (one: ConformanceCase): boolean => one.wantError !== undefined || one.wantErrorCode !== undefined;
const withResult = cases.filter((one) => one.wantResult !== undefined && !isError(one));
const withError = cases.filter(isError);

/** The outcome that a case expects. */
function expected(one: ConformanceCase): Outcome {
  if (one.wantResult !== undefined && !isError(one)) return { bindings: one.wantResult };
  const [file, row, message] = ['test-0.rego', 1, one.wantError ?? ''];
  return { problems: [{ message, file, row, code: one.wantErrorCode ?? 'eval_builtin_error' }] };
}

describe("the judge of OPA's cases", () => {
  it('has the whole suite of OPA 1.22.3', () => {
    assert.equal(cases.length, 2400);
    assert(withResult.length > 2000 && withError.length > 200);
  });

  it('accepts what a case expects', () => {
    for (const one of [...withResult, ...withError]) assert.equal(fault(one, expected(one)), undefined, one.note);
  });

  it('refuses each expected result after one change', () => {
    for (const one of withResult) {
      const bindings = changed(one.wantResult ?? '');
      assert.notEqual(fault(one, { bindings }), undefined, `${one.note}: ${bindings}`);
    }
  });

  it('refuses a result where an error is expected, and another error', () => {
    const problems = [{ message: 'something else', code: 'other_error' }];
    for (const one of withError) {
      assert.notEqual(fault(one, { bindings: '[{"x":1}]' }), undefined, one.note);
      assert.notEqual(fault(one, { problems }), undefined, one.note);
    }
  });

  it('refuses an error where a result is expected', () => {
    for (const one of withResult)
      assert.notEqual(fault(one, { problems: [{ message: 'x', code: 'eval_builtin_error' }] }), undefined, one.note);
  });

  it('takes numbers exactly, and as the same in each of their forms', () => {
    assert.equal(canonical('[1, 1.0, 10e-1, 0.1E1]'), canonical('[1,1,1,1]'));
    assert.equal(canonical('-0.0'), canonical('0'));
    assert.equal(canonical('1e400'), canonical(`1${'0'.repeat(400)}`));
    assert.notEqual(canonical('12345678901234567890'), canonical('12345678901234567891'));
    assert.equal(canonical('{"b":[true],"a":"\\u0041"}'), canonical('{"a":"A","b":[true]}'));
    assert.notEqual(canonical('"1"'), canonical('1'));
  });
});

describe('a case among others in one policy', () => {
  const base: ConformanceCase = { note: 'n', file: 'f', query: 'data.a.p = x', modules: [], wantResult: '[]' };
  const moved = (over: Partial<ConformanceCase>): ConformanceCase | undefined => withOwnRoots({ ...base, ...over }, 7);

  it('has packages and documents of its own, and nothing else is changed', () => {
    const rego = `# package a
package a.b

import data.docs
import data.lib.f

p if docs.x == data.docs.y with data.docs.z as input.data.a
q := data_of(data["docs"])`;
    const own = moved({ modules: [rego.replace('data["docs"]', '1')], data: '{"docs":{"n":1.0}, "a":[2]}' });
    assert.deepEqual(own, {
      ...base,
      query: 'data.a_case7.p = x',
      modules: [
        `# package a
package a_case7.b

import data.docs_case7 as docs
import data.lib_case7.f

p if docs.x == data.docs_case7.y with data.docs_case7.z as input.data.a
q := data_of(1)`,
      ],
      data: '{"docs_case7":{"n":1.0},"a_case7":[2]}',
    });
    assert.equal(moved({ modules: [rego] }), undefined, 'it may read the documents of others');
  });

  it('stays alone if it sees more than its own, or is to be refused', () => {
    assert.equal(moved({ query: 'data = x' }), undefined);
    assert.equal(moved({ modules: ['package a\np := rego.metadata.chain()'] }), undefined);
    assert.equal(moved({ modules: ['p := 1'] }), undefined);
    assert.equal(moved({ wantErrorCode: 'rego_type_error' }), undefined);
    assert.notEqual(moved({ wantErrorCode: 'eval_type_error', strictError: true }), undefined);
  });

  it('is nearly every case', () => {
    const alone = cases.filter((one, index) => withOwnRoots(one, index) === undefined);
    assert(alone.length < 60, `${alone.length} stay alone`);
  });
});

/** The first value of the first result in another way; one more result where there is none. */
function changed(bindings: string): string {
  if (bindings === '[]') return '[{"x":1}]';
  const digit = /\d(?=[^"]*(?:"[^"]*"[^"]*)*$)/.exec(bindings);
  if (digit === null) return bindings.replace(/\]$/, ',{"another":1}]');
  const at = digit.index;
  return `${bindings.slice(0, at)}${(Number(digit[0]) + 1) % 10}${bindings.slice(at + 1)}`;
}
