import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { SyncError } from '../errors.js';
import type { Holder } from './budget.js';
import { Turns } from './turns.js';

const ABOUT = { what: 'requests', setting: 'SYNC_REQUESTS' };
const of = (subject: string): Holder => ({ subject, address: '10.0.0.1' });

/** Work that ends when it is told to. */
function opened(turns: Turns) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const run = (subject: string, name: string): void => {
    void turns.run(of(subject), () => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    });
  };
  const end = async (name: string): Promise<void> => {
    ends.get(name)?.();
    await nextTurn();
    await nextTurn();
    await nextTurn();
  };
  return { begun, run, end };
}

test('so much is done at a time, half of it of one caller; callers take turns', async () => {
  const turns = new Turns(4, ABOUT);
  const { begun, run, end } = opened(turns);
  for (const name of ['a1', 'a2', 'a3', 'a4']) run('a', name);
  run('b', 'b1');
  await nextTurn();
  assert.deepEqual(begun, ['a1', 'a2', 'b1'], 'b does not wait for a');
  run('c', 'c1');
  run('d', 'd1');
  await nextTurn();
  assert.deepEqual(begun, ['a1', 'a2', 'b1'], 'the address has three');
  await end('a1');
  assert.deepEqual(begun.slice(3), ['a3']);
  await end('a2');
  assert.deepEqual(begun.slice(4), ['c1'], 'a is behind the others now');
  await end('a3');
  await end('b1');
  assert.deepEqual(begun.slice(5), ['d1', 'a4']);
  assert.equal(turns.waiting, 0);
});

test('who waits too often is refused, and others are not', async () => {
  const turns = new Turns(2, ABOUT);
  const end = await turns.enter(of('a'));
  const waiting = Array.from({ length: 999 }, () => turns.enter(of('a')));
  const last = turns.enter(of('a'));
  await assert.rejects(turns.enter(of('a')), (error) => error instanceof SyncError && error.code === 'share_used_up');
  const other = await turns.enter({ subject: 'b', address: '10.0.0.2' });
  assert.deepEqual([turns.waiting, turns.state.refused], [1_000, 1]);
  other();
  end();
  end();
  for (const one of [...waiting, last]) (await one)();
  await nextTurn();
  assert.deepEqual([turns.waiting, turns.state.used], [0, 0]);
});

test('work that fails ends its turn', async () => {
  const turns = new Turns(1, ABOUT);
  await assert.rejects(
    turns.run(of('a'), () => Promise.reject(new Error('no'))),
    /no/,
  );
  assert.equal(await turns.run(of('a'), () => 1), 1);
});
