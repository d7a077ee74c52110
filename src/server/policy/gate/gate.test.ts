import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../../lib/errors.js';
import type { CommitProblem } from '../../../wire/commit-problem.js';
import { takeSnapshot } from '../bundle/snapshot.js';
import { type GateCheck, PolicyGate } from './gate.js';
import type { GateMode } from './gate-rules.js';

const NEVER = new AbortController().signal;
const BAD: CommitProblem = { message: 'is bad', file: 'a.rego', line: 3 };

/** A check without anything to begin or to end. */
const IDLE = { prepare: () => undefined, close: async () => undefined };

/** A gate whose check says what a test wants, by commit. */
function gateOf(mode: GateMode = 'on') {
  const asked: string[] = [];
  const found = new Map<string, readonly CommitProblem[] | Error>();
  const clock = { ms: 0 };
  const check: GateCheck = {
    identity: 'fake',
    check: async ({ hash }) => {
      asked.push(hash);
      clock.ms += 100;
      const result = found.get(hash) ?? [];
      if (result instanceof Error) throw result;
      return result;
    },
    ...IDLE,
  };
  const options = { policyExtensions: ['.rego'], manifestPath: '', ignore: [] };
  const snapshots = {
    get: async (hash: string) => takeSnapshot({ hash, tree: [], manifestText: () => undefined }, options),
  };
  const gate = new PolicyGate({ mode, checks: [check] }, { snapshots, now: () => clock.ms });
  return { gate, asked, found, clock };
}

test('each commit is judged by itself, and checked once however often it is asked', async () => {
  const { gate, asked, found } = gateOf();
  found.set('b', [BAD]);
  const steps: string[] = [];
  for (const hash of ['a', 'b', 'b', 'c', 'c', 'b']) steps.push((await gate.decide(hash, undefined, NEVER)).step);
  assert.deepEqual(steps, ['serve', 'refuse', 'refuse', 'serve', 'serve', 'refuse']);
  assert.deepEqual(asked, ['a', 'b', 'c', 'b']);
  assert.deepEqual((await gate.decide('b', undefined, NEVER)).problems, [BAD]);
});

test('what another gate of the same kind found counts without a check', async () => {
  const { gate, asked } = gateOf();
  assert.deepEqual(await gate.decide('b', [BAD], NEVER), { step: 'refuse', problems: [BAD], error: undefined });
  assert.deepEqual(asked, []);
});

test('a check that cannot say is repeated, after a rest of several times what it took', async () => {
  const { gate, asked, found, clock } = gateOf();
  const error = new SyncError('policy_gate_failed', 'it takes longer than 60 s');
  found.set('a', error);
  assert.deepEqual(await gate.decide('a', undefined, NEVER), { step: 'wait', problems: [], error });
  clock.ms += 399;
  assert.equal((await gate.decide('a', undefined, NEVER)).step, 'wait');
  assert.deepEqual(asked, ['a']);
  clock.ms += 1;
  found.delete('a');
  assert.equal((await gate.decide('a', undefined, NEVER)).step, 'serve');
  assert.deepEqual(asked, ['a', 'a']);
});

test('a rest keeps no other commit waiting', async () => {
  const { gate, found } = gateOf();
  found.set('a', new SyncError('policy_gate_failed', 'out of memory'));
  await gate.decide('a', undefined, NEVER);
  assert.equal((await gate.decide('b', undefined, NEVER)).step, 'serve');
});

test('warn serves what is bad, and what could not be checked, and says why', async () => {
  const { gate, found } = gateOf('warn');
  const error = new SyncError('policy_gate_failed', 'out of memory');
  found.set('b', [BAD]);
  found.set('u', error);
  assert.deepEqual(await gate.decide('b', undefined, NEVER), {
    step: 'serve_noted',
    problems: [BAD],
    error: undefined,
  });
  assert.deepEqual(await gate.decide('u', undefined, NEVER), { step: 'serve_noted', problems: [], error });
});

test('any other failure is no verdict: the next look asks again', async () => {
  const { gate, asked, found } = gateOf('warn');
  found.set('a', new SyncError('git_failed', 'no such object'));
  await assert.rejects(gate.decide('a', undefined, NEVER), { code: 'git_failed' });
  found.delete('a');
  assert.equal((await gate.decide('a', undefined, NEVER)).step, 'serve');
  assert.deepEqual(asked, ['a', 'a']);
});

test('gates with other checks are other judges', () => {
  const snapshots = { get: () => Promise.reject(new Error('not asked')) };
  const judgeOf = (identity: string, mode: GateMode): string =>
    new PolicyGate({ mode, checks: [{ identity, check: async () => [], ...IDLE }] }, { snapshots }).judge;
  assert.equal(judgeOf('compile OPA 1', 'on'), judgeOf('compile OPA 1', 'warn'));
  assert.notEqual(judgeOf('compile OPA 1', 'on'), judgeOf('compile OPA 2', 'on'));
});
