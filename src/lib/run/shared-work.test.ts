import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { AT_ONCE, type CallerTurn, SharedWork } from './shared-work.js';

/** A caller whose turn comes when it is told so. */
function waiting(who: string): CallerTurn & { begin: () => void } {
  let begin = (): void => undefined;
  const turn = new Promise<void>((resolve) => {
    begin = resolve;
  });
  return {
    who,
    begin: () => begin(),
    run: async (work) => {
      await turn;
      return await work();
    },
  };
}

test('who comes while the work is done, or waits for the same turn, gets its result', async () => {
  const shared = new SharedWork<number>();
  let done = 0;
  let end = (): void => undefined;
  const work = async (): Promise<number> => {
    await new Promise<void>((resolve) => {
      end = resolve;
    });
    return ++done;
  };
  const a = waiting('a');
  const queued = [shared.get('x', a, work), shared.get('x', a, work)];
  a.begin();
  await nextTurn();
  const late = shared.get('x', AT_ONCE, work);
  end();
  assert.deepEqual(await Promise.all([...queued, late]), [1, 1, 1]);
  const next = shared.get('x', AT_ONCE, work);
  end();
  assert.equal(await next, 2);
});

test('nobody waits in the line of another caller, or fails with it', async () => {
  const shared = new SharedWork<number>();
  const greedy = waiting('greedy');
  const first = shared.get('x', greedy, async () => 1);
  assert.equal(await shared.get('x', AT_ONCE, async () => 2), 2);
  greedy.begin();
  assert.equal(await first, 1);
  const refused: CallerTurn = { who: 'refused', run: () => Promise.reject(new Error('too many')) };
  await assert.rejects(
    shared.get('x', refused, async () => 3),
    /too many/,
  );
  assert.equal(await shared.get('x', AT_ONCE, async () => 4), 4);
});
