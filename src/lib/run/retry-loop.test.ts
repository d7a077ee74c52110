import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SyncError } from '../errors.js';
import { type Logger, silentLogger } from '../observe/log.js';
import { RetryLoop } from './retry-loop.js';

const FAST = { minMs: 1, maxMs: 2 };

/**
 * A loop whose work is done step by step by the test: each start waits for the outcome that the
 * test gives it.
 */
function steppedLoop(log: Logger = silentLogger(), backoff = FAST) {
  const stop = new AbortController();
  const starts: { succeed(): void; fail(error: Error): void }[] = [];
  let onStart: (() => void) | undefined;
  const loop = new RetryLoop('the work', backoff, log, (signal) => {
    return new Promise<void>((resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      starts.push({ succeed: resolve, fail: reject });
      onStart?.();
    });
  });
  const done = loop.run(stop.signal);
  return {
    loop,
    /** The next time that the work is started. */
    next: async () => {
      while (starts.length === 0) {
        await new Promise<void>((resolve) => {
          onStart = resolve;
        });
      }
      const [first] = starts.splice(0, 1);
      assert(first !== undefined);
      return first;
    },
    isWorking: () => starts.length > 0,
    stop: async () => {
      stop.abort();
      await done;
    },
  };
}

/** Lets everything run that is ready to run. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe('a retry loop', () => {
  it('does nothing until asked', async () => {
    const { loop, isWorking, stop } = steppedLoop();
    await turn();
    assert.deepEqual([isWorking(), loop.idle], [false, true]);
    await stop();
  });

  it('requests before and during the work are one more round, not several', async () => {
    const { loop, next, isWorking, stop } = steppedLoop();
    loop.request();
    loop.request();
    const first = await next();
    loop.request();
    loop.request();
    assert.equal(loop.idle, false);
    first.succeed();
    (await next()).succeed();
    await turn();
    assert.deepEqual([isWorking(), loop.idle], [false, true]);
    await stop();
  });

  it('tries again until it works, and tells the failure until then', async () => {
    const { loop, next, stop } = steppedLoop();
    loop.request();
    for (let attempt = 1; attempt <= 8; attempt++) {
      (await next()).fail(new Error(`no ${attempt}`, { cause: new Error('why') }));
      await turn();
      assert.deepEqual([loop.error, loop.idle], [`no ${attempt}: why`, false]);
    }
    (await next()).succeed();
    await turn();
    assert.deepEqual([loop.error, loop.idle], [undefined, true]);
    await stop();
  });

  it('a request ends the wait', async () => {
    const { loop, next, stop } = steppedLoop(silentLogger(), { minMs: 1e9, maxMs: 1e9 });
    loop.request();
    (await next()).fail(new Error('no'));
    await turn();
    loop.request();
    (await next()).succeed();
    await stop();
  });

  it('waits at least as long as the other side asks for, and gets louder as it lasts', async () => {
    const lines: [string, { attempt: number; retry_in_ms: number; error: string }][] = [];
    const write = (level: string) => (line: (typeof lines)[number][1]) => void lines.push([level, line]);
    const log = {
      ...silentLogger(),
      info: write('info'),
      warn: write('warn'),
      error: write('error'),
    } as unknown as Logger;
    const { loop, next, stop } = steppedLoop(log);
    loop.request();
    for (let attempt = 1; attempt <= 7; attempt++) {
      const retryAfterSeconds = attempt === 2 ? 0.1 : undefined;
      const options = retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
      (await next()).fail(new SyncError('server_refused', 'busy', options));
      await turn();
      loop.request();
    }
    (await next()).succeed();
    assert.deepEqual(
      lines.map(([level]) => level),
      ['info', 'info', 'warn', 'warn', 'warn', 'error', 'error'],
    );
    assert(lines.every(([, line]) => line.error === 'busy'));
    const waits = lines.map(([, line]) => line.retry_in_ms);
    assert((waits[1] ?? 0) >= 100 && waits.every((ms, index) => index === 1 || ms <= 2), String(waits));
    await stop();
  });

  it('keeps to what the other side asks for, however often it is asked meanwhile', async () => {
    const { loop, next, isWorking, stop } = steppedLoop();
    loop.request();
    const failing = await next();
    const failedAt = performance.now();
    failing.fail(new SyncError('policy_not_ready', 'busy', { retryAfterSeconds: 0.3 }));
    for (let asked = 0; !isWorking(); asked++) {
      loop.request();
      await turn();
      assert(asked < 1e9);
    }
    assert(performance.now() - failedAt >= 300);
    (await next()).succeed();
    // It was the floor of that failure alone.
    await turn();
    loop.request();
    (await next()).succeed();
    await stop();
  });

  it('ends at once when it is stopped: while it waits, works, or backs off', async () => {
    const idle = steppedLoop();
    await idle.stop();
    const working = steppedLoop();
    working.loop.request();
    await working.next();
    await working.stop();
    const waiting = steppedLoop(silentLogger(), { minMs: 1e9, maxMs: 1e9 });
    waiting.loop.request();
    (await waiting.next()).fail(new Error('no'));
    await turn();
    await waiting.stop();
  });
});
