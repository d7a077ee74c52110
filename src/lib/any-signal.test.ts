import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { withAnySignal } from './any-signal.js';

const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener('abort', () => reject(signal.reason));
  });

test('work ends with the reason of the signal that aborts first, before or after it began', async () => {
  const [one, two] = [new AbortController(), new AbortController()];
  const work = withAnySignal([one.signal, two.signal], untilAborted);
  const reason = new Error('two stops');
  two.abort(reason);
  await assert.rejects(work, (error) => error === reason);
  await assert.rejects(withAnySignal([one.signal, two.signal], untilAborted), (error) => error === reason);
});

test('work ends with its time, and what it gave is answered otherwise', async () => {
  const { signal } = new AbortController();
  await assert.rejects(withAnySignal([signal], untilAborted, 1), { name: 'TimeoutError' });
  assert.equal(await withAnySignal([signal], async () => 5, 1000), 5);
});

test('a signal that lives long keeps nothing of the work that is over', async () => {
  const { signal } = new AbortController();
  for (let n = 0; n < 10; n++) await withAnySignal([signal], async () => n, 1000);
  await assert.rejects(
    withAnySignal([signal], () => Promise.reject(new Error('broken'))),
    /broken/,
  );
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});
