import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it, mock, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import {
  backoffMs,
  firstOf,
  isAbort,
  MAX_TIMER_MS,
  SerialQueue,
  sleep,
  startTimer,
  timerMs,
  Wakeup,
  withAnySignal,
} from './async.js';

describe('backoff', () => {
  it('has a bound that doubles up to the longest delay', () => {
    const bounds = [1, 2, 3, 4, 5, 6, 1000].map((attempt) =>
      backoffMs(attempt, { minMs: 100, maxMs: 1000 }, 0, () => 1),
    );
    assert.deepEqual(bounds, [100, 200, 400, 800, 1000, 1000, 1000]);
  });

  it('is spread from nothing to the bound, on top of what the server asked for', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5000 }),
        fc.nat(10_000),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (attempt, floorMs, random) => {
          const delay = backoffMs(attempt, { minMs: 50, maxMs: 3000 }, floorMs, () => random);
          assert(delay >= floorMs && delay <= floorMs + 3000, String(delay));
        },
      ),
    );
    assert.equal(
      backoffMs(3, { minMs: 100, maxMs: 1000 }, 7, () => 0),
      7,
    );
  });
});

describe('the first of several promises', () => {
  it('settles as Promise.race does, whichever they are and whenever they settle', async () => {
    const late = (ms: number, fails: boolean): Promise<number> =>
      new Promise((resolve, reject) => {
        if (ms === 0) (fails ? reject : resolve)(ms);
        else setTimeout(() => (fails ? reject(ms) : resolve(ms)), ms);
      });
    const told = (promise: Promise<number>): Promise<string> =>
      promise.then(
        (value) => `resolved ${value}`,
        (reason) => `rejected ${reason}`,
      );
    const promises = [late(0, false), late(0, true), late(5, false), late(5, true), late(15, true), late(25, false)];
    for (const promise of promises) promise.catch(() => undefined); // those that lose
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(promises.length - 1), { minLength: 1, maxLength: 4 }), async (places) => {
        const chosen = places.flatMap((place) => promises[place] ?? []);
        assert.equal(await told(firstOf(chosen)), await told(Promise.race(chosen)));
      }),
    );
  });

  it('leaves nothing at a promise that never settles, as Promise.race does', async (t) => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const never = new Promise<never>(() => undefined);
    /** How many of the results are still held when the races are over. */
    const held = async (race: (promises: readonly Promise<object>[]) => Promise<object>): Promise<number> => {
      const results: WeakRef<object>[] = [];
      const once = async (): Promise<void> => {
        const result = await race([Promise.resolve({}), never]);
        results.push(new WeakRef(result));
      };
      for (let count = 0; count < 100; count++) await once();
      // What ran last may still be on the stack for a turn; what a promise holds stays for ever.
      for (let turn = 0; turn < 5; turn++) {
        await new Promise((resolve) => setImmediate(resolve));
        collect();
      }
      return results.filter((result) => result.deref() !== undefined).length;
    };
    t.diagnostic(`Promise.race: ${await held((promises) => Promise.race(promises))} of 100 are held on this Node`);
    assert.equal(await held(firstOf), 0);
    assert.notEqual(never, undefined); // it lives until here
  });
});

describe('sleep', () => {
  it('ends after its time, and leaves no listener behind', async () => {
    const { signal } = new AbortController();
    await sleep(1, signal);
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });

  it('rejects with the reason when the signal aborts, or has', async () => {
    const stop = new AbortController();
    const waiting = sleep(1_000_000, stop.signal);
    const reason = new Error('stop');
    stop.abort(reason);
    await assert.rejects(waiting, (error) => error === reason);
    await assert.rejects(sleep(1, stop.signal), (error) => error === reason);
  });
});

describe('an abort', () => {
  it('is told from a failure', () => {
    const stop = new AbortController();
    const failure = new Error('failure');
    const abortError = new DOMException('aborted', 'AbortError');
    assert.equal(isAbort(abortError, stop.signal), false, 'nobody asked for a stop');
    stop.abort();
    assert.equal(isAbort(stop.signal.reason, stop.signal), true);
    assert.equal(isAbort(abortError, stop.signal), true);
    assert.equal(isAbort(failure, stop.signal), false);
    assert.equal(isAbort('text', stop.signal), false);
  });
});

describe('a wakeup', () => {
  it('lets a wait go that comes after it, once', async () => {
    const { signal } = new AbortController();
    const wakeup = new Wakeup();
    wakeup.set();
    wakeup.set();
    await wakeup.wait(signal);
    let woken = false;
    const second = wakeup.wait(signal).then(() => {
      woken = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(woken, false, 'several sets count as one');
    wakeup.set();
    await second;
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });

  it('a set during the work that follows a wait is not lost', async () => {
    const { signal } = new AbortController();
    const wakeup = new Wakeup();
    wakeup.set();
    await wakeup.wait(signal);
    wakeup.set();
    await wakeup.wait(signal);
  });

  it('ends by itself after the time given', async () => {
    await new Wakeup().wait(new AbortController().signal, 1);
  });

  it('rejects when the signal aborts, or has, and can be waited for again', async () => {
    const stop = new AbortController();
    const wakeup = new Wakeup();
    const waiting = wakeup.wait(stop.signal);
    stop.abort();
    await assert.rejects(waiting, { name: 'AbortError' });
    await assert.rejects(wakeup.wait(stop.signal), { name: 'AbortError' });
    wakeup.set();
    await assert.rejects(wakeup.wait(stop.signal), { name: 'AbortError' }, 'a stop goes before work');
    await wakeup.wait(new AbortController().signal);
  });
});

describe('SerialQueue', () => {
  it('runs one work after the other, also after one that failed, and settles after the last', async () => {
    const queue = new SerialQueue();
    const log: string[] = [];
    const slow = queue.run(async () => {
      log.push('a begins');
      await sleep(5, new AbortController().signal);
      log.push('a ends');
      return 1;
    });
    const failing = queue.run(() => Promise.reject(new Error('b')));
    const last = queue.run(() => log.push('c'));
    await assert.rejects(failing, { message: 'b' });
    assert.deepEqual([await slow, await last], [1, 3]);
    await queue.settled();
    assert.deepEqual(log, ['a begins', 'a ends', 'c']);
  });
});

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
