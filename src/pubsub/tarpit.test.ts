import assert from 'node:assert/strict';
import { once } from 'node:events';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { Tarpit } from './tarpit.js';

test('an address is held back twice as long each time, to a limit, and starts anew after a minute', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let nowMs = 0;
  const tarpit = new Tarpit(2, () => nowMs);
  const isHeldFor = async (address: string, ms: number): Promise<void> => {
    const held = tarpit.hold(address, new PassThrough());
    t.mock.timers.tick(ms - 1);
    assert.equal(tarpit.heldCount, 1, `${address}: ${ms} ms`);
    t.mock.timers.tick(1);
    assert.equal(tarpit.heldCount, 0, `${address}: ${ms} ms`);
    assert.equal(await held, true);
  };
  for (const ms of [2, 4, 8, 16, 16]) await isHeldFor('a', ms);
  await isHeldFor('b', 2);
  nowMs = 60_000;
  await isHeldFor('a', 2);
});

test('what is held is bounded, for one address and over all', async () => {
  const tarpit = new Tarpit(60_000);
  const held: Promise<boolean>[] = [];
  for (let peer = 0; peer < 32; peer++) held.push(tarpit.hold('a', new PassThrough()));
  assert.equal(await tarpit.hold('a', new PassThrough()), false);
  for (let peer = 0; peer < 968; peer++) held.push(tarpit.hold(`address ${peer}`, new PassThrough()));
  assert.equal(await tarpit.hold('b', new PassThrough()), false);
  assert.equal(tarpit.heldCount, 1000);
  tarpit.end();
  assert.deepEqual(new Set(await Promise.all(held)), new Set([true]));
  assert.equal(tarpit.heldCount, 0);
  assert.equal(await tarpit.hold('a', new PassThrough()), true, 'nothing is held after the end');
});

test('a peer that has left before is not held', async () => {
  const tarpit = new Tarpit(60_000);
  const gone = new PassThrough();
  gone.end();
  gone.resume();
  await once(gone, 'end');
  assert.equal(await tarpit.hold('a', gone), true);
});

test('a peer that leaves is held no longer', async () => {
  const tarpit = new Tarpit(60_000);
  const leaving = new PassThrough();
  const held = tarpit.hold('a', leaving);
  leaving.end();
  assert.equal(await held, true);
  assert.equal(tarpit.heldCount, 0);
});
