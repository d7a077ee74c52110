import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ERROR_CODES, type ErrorCode, errorText, failureFields, SyncError } from './errors.js';

describe('a sync error', () => {
  it('has the status of its code unless told otherwise, and is not retryable unless told so', () => {
    const plain = new SyncError('fetch_failed', 'no');
    assert.deepEqual(
      [plain.name, plain.code, plain.status, plain.retryable, plain.retryAfterSeconds, plain.detail, plain.cause],
      ['SyncError', 'fetch_failed', 502, false, undefined, undefined, undefined],
    );
    const told = new SyncError('fetch_failed', 'no', {
      status: 418,
      retryable: true,
      retryAfterSeconds: 3,
      detail: [],
    });
    assert.deepEqual([told.status, told.retryable, told.retryAfterSeconds, told.detail], [418, true, 3, []]);
    assert.equal('cause' in plain, false);
  });

  it('a remedy names commands by their whole name, as they are typed', () => {
    for (const [code, { remedy }] of Object.entries(ERROR_CODES)) {
      assert.doesNotMatch(remedy, /`--help-all`|A client keeps trying/, code);
    }
    const { remedy } = ERROR_CODES.config_invalid;
    for (const part of [
      '`policysync server --help-all`',
      '`policysync client --help-all`',
      'docs/reference/settings.md',
    ])
      assert(remedy.includes(part), part);
  });

  it('every code has an HTTP error status, a cause and a remedy as sentences', () => {
    for (const [code, { status, cause, remedy }] of Object.entries(ERROR_CODES)) {
      assert.match(code, /^[a-z]+(_[a-z]+)*$/);
      assert(status >= 400 && status <= 599, code);
      for (const text of [cause, remedy]) assert.match(text, /^[A-Z`].*[.]$/s, `${code}: ${text}`);
    }
  });
});

describe('the fields of a failure in a log line', () => {
  it('are its text, its code and the remedy of the code', () => {
    for (const code of Object.keys(ERROR_CODES) as ErrorCode[]) {
      const { remedy } = ERROR_CODES[code];
      assert.deepEqual(failureFields(new SyncError(code, 'it is wrong')), { error: 'it is wrong', code, remedy });
    }
  });

  it('are those of the first cause that has a code, and say where none has', () => {
    const { remedy } = ERROR_CODES.git_failed;
    const wrapped = new Error('outer', { cause: new SyncError('git_failed', 'inner') });
    assert.deepEqual(failureFields(wrapped), { error: 'outer: inner', code: 'git_failed', remedy });
    for (const error of [new Error('x'), 'x']) {
      assert.deepEqual([failureFields(error).error, failureFields(error).code], ['x', 'unexpected']);
    }
  });
});

describe('error text', () => {
  const TABLE: [unknown, string][] = [
    [new Error('a'), 'a'],
    [new Error('a', { cause: new Error('b', { cause: new TypeError('c') }) }), 'a: b: c'],
    [new Error('cannot read x: ENOENT', { cause: new Error('ENOENT') }), 'cannot read x: ENOENT'],
    [new Error('', { cause: new Error('b') }), 'b'],
    [new AggregateError([new Error('v6'), new Error('v4')]), 'v6; v4'],
    [new Error('a', { cause: new AggregateError([new Error('v6'), new Error('v4')]) }), 'a: v6; v4'],
    [new Error('a', { cause: 'not an error' }), 'a'],
    [new Error('a\n'), 'a'],
    [
      new Error('80CC:error:0A00010B:SSL routines:ssl3_get_record:wrong version number:../deps/x.c:350:\n'),
      'wrong version number',
    ],
    [new TypeError(), 'TypeError'],
    ['text', 'text'],
    [undefined, 'undefined'],
  ];
  for (const [error, text] of TABLE) it(`of ${JSON.stringify(text)}`, () => assert.equal(errorText(error), text));

  it('ends, also where an error is its own cause', () => {
    const loop = new Error('round');
    loop.cause = new Error('and round', { cause: loop });
    assert.match(errorText(loop), /round/);
  });
});
