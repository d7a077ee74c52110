import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type ConformanceCase, readCases } from './cases.js';
import { fault, type Outcome } from './judge.js';
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
  it('has the whole suite of OPA 1.21.0', () => {
    assert.equal(cases.length, 2343);
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

/** The first value of the first result in another way; one more result where there is none. */
function changed(bindings: string): string {
  if (bindings === '[]') return '[{"x":1}]';
  const digit = /\d(?=[^"]*(?:"[^"]*"[^"]*)*$)/.exec(bindings);
  if (digit === null) return bindings.replace(/\]$/, ',{"another":1}]');
  const at = digit.index;
  return `${bindings.slice(0, at)}${(Number(digit[0]) + 1) % 10}${bindings.slice(at + 1)}`;
}
