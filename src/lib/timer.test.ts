import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { withAnySignal } from './any-signal.js';
import { sleep, Wakeup } from './async.js';
import { MAX_TIMER_MS, startTimer, timerMs } from './timer.js';

const YEAR_MS = 365 * 24 * 60 * 60 * 1000;

test('a delay of a year lasts a year, and can be taken back', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    let calls = 0;
    startTimer(YEAR_MS, () => void calls++);
    const stop = startTimer(YEAR_MS, () => void calls++);
    for (let left = YEAR_MS; left > MAX_TIMER_MS; left -= MAX_TIMER_MS) mock.timers.tick(MAX_TIMER_MS);
    assert.equal(calls, 0);
    stop();
    mock.timers.tick(YEAR_MS % MAX_TIMER_MS);
    assert.equal(calls, 1);
  } finally {
    mock.timers.reset();
  }
  assert.equal(timerMs(YEAR_MS), MAX_TIMER_MS);
  assert.equal(timerMs(5), 5);
});

test('sleeps, waits and time limits of a year do not end at once', async () => {
  const warnings: Error[] = [];
  const onWarning = (warning: Error): void => void warnings.push(warning);
  process.on('warning', onWarning);
  const stop = new AbortController();
  const ended: string[] = [];
  const all = [
    sleep(YEAR_MS, stop.signal).then(() => void ended.push('sleep')),
    new Wakeup().wait(stop.signal, YEAR_MS).then(() => void ended.push('wait')),
    withAnySignal([stop.signal], (signal) => sleep(YEAR_MS, signal), YEAR_MS).then(() => void ended.push('any')),
  ];
  const settled = Promise.allSettled(all);
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual(ended, []);
  stop.abort(new Error('stopped'));
  const results = await settled;
  assert.deepEqual(
    results.map((result) => result.status === 'rejected' && String(result.reason)),
    ['Error: stopped', 'Error: stopped', 'Error: stopped'],
  );
  process.off('warning', onWarning);
  assert(!warnings.some(({ name }) => name === 'TimeoutOverflowWarning'));
});
