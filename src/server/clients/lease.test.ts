import assert from 'node:assert/strict';
import { it } from 'node:test';
import { until } from '../../../test/support/until.js';
import { type CutOff, Lease } from './lease.js';

it('a backbone that does not answer for longer than the lease makes the instance cut off, since the last call that was answered', async () => {
  const changes: (number | undefined)[] = [];
  const lease: Lease = new Lease(30, () => changes.push(lease.cutOff?.sinceMs));
  const beganMs = Date.now();
  assert.equal(lease.cutOff, undefined);
  await until(() => changes.length === 1, { withinMs: 20_000, what: 'it is told' });
  assert(Math.abs((changes[0] ?? 0) - beganMs) < 20, `since ${changes[0]}, not ${beganMs}`);
  const cutOff = (): CutOff | undefined => lease.cutOff;
  assert((cutOff()?.forMs ?? 0) > 30);
  // An answer to an old call proves nothing of now.
  lease.answered(performance.now() - 60_000);
  assert.equal(changes.length, 1);
  lease.answered(performance.now());
  assert.deepEqual([changes.length, changes[1], lease.cutOff], [2, undefined, undefined]);
  await until(() => changes.length === 3, { withinMs: 20_000, what: 'it is told again' });
  lease.close();
});

it('one that answers in time is never cut off', async () => {
  const changes: unknown[] = [];
  const lease = new Lease(1000, () => changes.push(1));
  for (let count = 0; count < 5; count++) {
    await new Promise((resolve) => setImmediate(resolve));
    lease.answered(performance.now());
  }
  assert.deepEqual([changes, lease.cutOff], [[], undefined]);
  lease.close();
});
