import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Bound, Budget, ByteBudget, boundsOf, Held, type Holder, type Release } from './budget.js';

const ABOUT = { what: 'bytes', setting: 'SYNC_BYTES' };
const A: Holder = { subject: 'a', address: '10.0.0.1' };
const B: Holder = { subject: 'b', address: '10.0.0.1' };
const C: Holder = { subject: 'c', address: '10.0.0.2' };
const ANONYMOUS: Holder = { subject: null, address: '10.0.0.1' };

function taken(result: Release | Bound): Release {
  assert(typeof result === 'function', `the bound of ${String(result)} is reached`);
  return result;
}

test('a token has half, its address three quarters, and all others the rest', () => {
  const budget = new Budget(boundsOf(100), ABOUT);
  const first = taken(budget.take(A, 50));
  assert.equal(budget.take(A, 1), 'subject');
  taken(budget.take(B, 25));
  assert.equal(budget.take(B, 1), 'address');
  assert.equal(budget.take(ANONYMOUS, 1), 'address');
  taken(budget.take(C, 25));
  assert.equal(budget.take(C, 1), 'all');
  first();
  first();
  assert.deepEqual(budget.state, { used: 50, limit: 100, perToken: 50, perAddress: 75, refused: 0 });
  taken(budget.take(A, 50));
});

test('what is larger than a bound is served when its holder has nothing else', () => {
  const budget = new Budget(boundsOf(100), ABOUT);
  const large = taken(budget.take(A, 1_000));
  assert.equal(budget.state.used, 100);
  assert.equal(budget.take(A, 1), 'subject');
  large();
  const small = taken(budget.take(A, 1));
  assert.equal(budget.take(A, 1_000), 'subject');
  small();
  assert.deepEqual([budget.state.used, budget.size], [0, 0]);
});

test('the same thing counts once for each holder and once for all, until the last of it is given back', () => {
  const budget = new Budget(boundsOf(100), ABOUT);
  const thing = {};
  const ends = [A, A, B, C].map((holder) => taken(budget.take(holder, 30, thing)));
  assert.deepEqual([budget.state.used, budget.ofAddress('10.0.0.1'), budget.ofAddress('10.0.0.2')], [30, 30, 30]);
  assert.equal(budget.take(A, 30), 'subject');
  ends[0]?.();
  ends[2]?.();
  ends[3]?.();
  assert.deepEqual([budget.state.used, budget.ofAddress('10.0.0.1'), budget.ofAddress('10.0.0.2')], [30, 30, 0]);
  ends[1]?.();
  assert.deepEqual([budget.state.used, budget.size], [0, 0]);
});

test('a refusal says whose bound it is, names the setting, and is counted', () => {
  const budget = new Budget(boundsOf(100), ABOUT);
  const errors = (['subject', 'address', 'all'] as const).map((bound) => budget.refusal(bound));
  assert.deepEqual(
    errors.map(({ code, status, retryAfterSeconds }) => [code, status, retryAfterSeconds]),
    [
      ['share_used_up', 429, 1],
      ['share_used_up', 429, 1],
      ['server_busy', 503, 1],
    ],
  );
  assert.deepEqual(
    errors.map(({ outside }) => outside),
    [
      'this token has as many bytes as one caller may have (SYNC_BYTES)',
      'this address has as many bytes as one caller may have (SYNC_BYTES)',
      'all callers together have too many bytes (SYNC_BYTES)',
    ],
  );
  assert.equal(budget.state.refused, 3);
});

test('small amounts have room whatever the large ones do', () => {
  const budget = new ByteBudget(1_048_576, ABOUT);
  taken(budget.take(A, 10_000_000));
  assert.equal(budget.take(A, 65_537), 'subject');
  const small = [65_536, 65_536].map((bytes) => taken(budget.take(A, bytes)));
  assert.equal(budget.take(A, 1), 'subject', 'they have a share, too');
  taken(budget.take(B, 65_536));
  for (const end of small) end();
  assert.equal(budget.state.used, 786_432 + 65_536);
});

test('an amount that is held grows and shrinks; where it may not grow it stays', () => {
  const budget = new Budget(boundsOf(100), ABOUT);
  const held = new Held(budget, A);
  assert.equal(held.resize(30), undefined);
  const other = taken(budget.take(A, 15));
  assert.equal(held.resize(36), 'subject');
  assert.equal(budget.state.used, 45);
  assert.equal(held.resize(20), undefined);
  assert.equal(budget.state.used, 35);
  other();
  held.release();
  held.release();
  assert.deepEqual([budget.state.used, budget.size], [0, 0]);
});
