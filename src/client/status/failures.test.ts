import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MAX_FAILING, MAX_FAILING_TEXT, sessionReport } from '../../wire/session.js';
import { Failures } from './failures.js';
import { PolicyTracker } from './policy-state.js';

describe('what fails', () => {
  it('is told with path, reason, kind and time, whatever the path looks like', () => {
    const failures = new Failures();
    failures.failed('one', '/a: b/c', 'answered 503: try later', 'source');
    const [told] = failures.listed;
    assert.deepEqual([told?.path, told?.error, told?.kind], ['/a: b/c', 'answered 503: try later', 'source']);
    assert(told?.since !== undefined && Math.abs(told.since - Date.now()) < 1000);
  });

  it('keeps its time and place while the reason changes', () => {
    const failures = new Failures();
    failures.failed('one', '/a', 'no answer', 'source');
    const sinceMs = failures.all.get('one')?.since;
    failures.failed('two', '/b', 'no answer', 'source');
    failures.failed('one', '/a', 'a rule is there', 'refused');
    assert.deepEqual(
      failures.listed.map(({ path, error, kind }) => [path, error, kind]),
      [
        ['/a', 'a rule is there', 'refused'],
        ['/b', 'no answer', 'source'],
      ],
    );
    assert.equal(failures.all.get('one')?.since, sinceMs);
  });

  it('is bounded in number and length where it is listed, the oldest first', () => {
    const failures = new Failures();
    for (let at = 0; at < 1000; at++) failures.failed(`${at}`, `/${at}`, 'x'.repeat(10_000), 'source');
    const { listed } = failures;
    assert.equal(listed.length, MAX_FAILING);
    assert.equal(failures.all.size, 1000);
    assert.deepEqual([listed[0]?.path, listed[0]?.error.length], ['/0', MAX_FAILING_TEXT]);
  });
});

describe('the state of a policy', () => {
  it('names the wanted and the held commit, and why they differ', () => {
    const policy = new PolicyTracker();
    assert.deepEqual(policy.state, { wanted: null, held: null, error: null, since: null });
    policy.wants('c1');
    policy.holds('c1');
    policy.failed('c2', 'a.rego:3: does not parse', { file: 'a.rego', row: 3 });
    const { wanted, held, error, since } = policy.state;
    assert.deepEqual([wanted, held], ['c2', 'c1']);
    assert.deepEqual(error, { message: 'a.rego:3: does not parse', file: 'a.rego', line: 3 });
    assert(since !== null && Math.abs(since - Date.now()) < 1000);
    policy.holds('c3');
    assert.deepEqual([policy.state.held, policy.state.error], ['c3', null]);
  });
});

describe('a report', () => {
  const older = {
    client_id: 'c',
    position: null,
    policy_hash: null,
    ready: true,
    healthy: false,
    engine: { kind: 'opa', version: null, online: true },
    failing: [{ path: '/a', error: 'no answer' }],
    blocked: [],
    since: 1,
  };

  it('of an older client says neither kind nor time, and is taken', () => {
    assert.deepEqual(sessionReport.parse(older), older);
  });

  it('carries the state of the policy and of each failure', () => {
    const newer = {
      ...older,
      policy: { wanted: 'c2', held: 'c1', error: { message: 'M', file: 'a.rego', line: 3 }, since: 5 },
      engine: { ...older.engine, error: 'no answer', since: 7 },
      failing: [{ path: '/a', error: 'no answer', kind: 'source', since: 3 }],
      failing_total: 9,
    };
    assert.deepEqual(sessionReport.parse(newer), newer);
  });
});
