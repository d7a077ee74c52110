import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { Refusals } from './refusals.js';

test('an address is held back twice as long each time, to a limit, and starts anew after a minute', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let nowMs = 0;
  const refusals = new Refusals(2, () => nowMs);
  const isHeldFor = async (address: string, ms: number): Promise<void> => {
    const held = refusals.hold(address, new PassThrough());
    t.mock.timers.tick(ms - 1);
    assert.equal(refusals.heldCount, 1, `${address}: ${ms} ms`);
    t.mock.timers.tick(1);
    assert.equal(refusals.heldCount, 0, `${address}: ${ms} ms`);
    assert.equal(await held, true);
  };
  for (const ms of [2, 4, 8, 16, 16]) await isHeldFor('a', ms);
  await isHeldFor('b', 2);
  nowMs = 60_000;
  await isHeldFor('a', 2);
});

test('what is held is bounded, for one address and over all', async () => {
  const refusals = new Refusals(60_000);
  const held: Promise<boolean>[] = [];
  for (let peer = 0; peer < 32; peer++) held.push(refusals.hold('a', new PassThrough()));
  assert.equal(await refusals.hold('a', new PassThrough()), false);
  for (let peer = 0; peer < 968; peer++) held.push(refusals.hold(`address ${peer}`, new PassThrough()));
  assert.equal(await refusals.hold('b', new PassThrough()), false);
  assert.equal(refusals.heldCount, 1000);
  refusals.end();
  assert.deepEqual(new Set(await Promise.all(held)), new Set([true]));
  assert.equal(refusals.heldCount, 0);
  assert.equal(await refusals.hold('a', new PassThrough()), true, 'nothing is held after the end');
});

test('a peer that has left before is not held', async () => {
  const refusals = new Refusals(60_000);
  const gone = new PassThrough();
  gone.end();
  gone.resume();
  await once(gone, 'end');
  assert.equal(await refusals.hold('a', gone), true);
});

test('a peer that leaves is held no longer', async () => {
  const refusals = new Refusals(60_000);
  const leaving = new PassThrough();
  const held = refusals.hold('a', leaving);
  leaving.end();
  assert.equal(await held, true);
  assert.equal(refusals.heldCount, 0);
});
