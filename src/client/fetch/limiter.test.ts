import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Limiter } from './limiter.js';

const never = new AbortController().signal;

/** Jobs that run until told to end, and the order in which they started. */
class Jobs {
  readonly started: string[] = [];
  readonly #ends = new Map<string, { resolve: () => void; reject: (error: Error) => void }>();
  readonly #results = new Map<string, Promise<void>>();
  readonly #limiter: Limiter;

  constructor(limiter: Limiter) {
    this.#limiter = limiter;
  }

  add(host: string, name: string, signal: AbortSignal = never, most?: number): Promise<void> {
    const job = (): Promise<void> => {
      this.started.push(name);
      return new Promise<void>((resolve, reject) => this.#ends.set(name, { resolve, reject }));
    };
    const result = this.#limiter.run(host, signal, job, most);
    result.catch(() => undefined); // looked at by end()
    this.#results.set(name, result);
    return result;
  }

  async end(name: string, error?: Error): Promise<void> {
    const end = this.#ends.get(name);
    assert.ok(end, `${name} has not started`);
    if (error) end.reject(error);
    else end.resolve();
    await Promise.allSettled([this.#results.get(name)]);
    await settled();
  }
}

/** Lets all promise reactions run. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

describe('limiter', () => {
  it('runs at most as many jobs as allowed, overall and per host, and gives their results', async () => {
    const jobs = new Jobs(new Limiter({ concurrency: 3, perHost: 2 }));
    for (const name of ['a1', 'a2', 'a3']) void jobs.add('a', name);
    for (const name of ['b1', 'b2']) void jobs.add('b', name);
    await settled();
    assert.deepEqual(jobs.started, ['a1', 'a2', 'b1']);
    await jobs.end('b1');
    assert.deepEqual(jobs.started, ['a1', 'a2', 'b1', 'b2']);
    const limiter = new Limiter({ concurrency: 1, perHost: 1 });
    assert.equal(await limiter.run('a', never, () => Promise.resolve(7)), 7);
    await assert.rejects(
      limiter.run('a', never, () => Promise.reject(new Error('no'))),
      { message: 'no' },
    );
    assert.equal(await limiter.run('a', never, () => Promise.resolve(8)), 8);
  });

  it('runs fewer jobs of a host that bears fewer, and no more where it bears more', async () => {
    const limiter = new Limiter({ concurrency: 9, perHost: 4 });
    const running = (most: number | undefined, host: string): number => {
      let started = 0;
      for (let index = 0; index < 9; index++) {
        const job = (): Promise<never> => {
          started++;
          return new Promise(() => undefined);
        };
        // Without a wait: a free slot is taken at once.
        limiter.run(host, never, job, most).catch(() => undefined);
      }
      return started;
    };
    assert.equal(running(2, 'few'), 2);
    assert.equal(running(undefined, 'as said'), 4);
    assert.equal(running(8, 'many'), 3, 'nine in all');
  });

  it('keeps to the least that the jobs of a host ask for', async () => {
    const jobs = new Jobs(new Limiter({ concurrency: 9, perHost: 4 }));
    void jobs.add('a', 'a1');
    for (const name of ['few1', 'few2']) void jobs.add('a', name, never, 2);
    void jobs.add('a', 'a2');
    await settled();
    assert.deepEqual(jobs.started, ['a1', 'few1']);
  });

  it('starts jobs of one host in order and lets hosts take turns', async () => {
    const jobs = new Jobs(new Limiter({ concurrency: 1, perHost: 1 }));
    for (const name of ['a1', 'a2', 'a3']) void jobs.add('a', name);
    for (const name of ['b1', 'b2']) void jobs.add('b', name);
    void jobs.add('c', 'c1');
    await settled();
    for (const name of ['a1', 'a2', 'b1', 'c1', 'a3', 'b2']) await jobs.end(name);
    assert.deepEqual(jobs.started, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2']);
  });

  it('leaves a slot to others when one host hangs, even with the per-host limit at the overall one', async () => {
    const jobs = new Jobs(new Limiter({ concurrency: 4, perHost: 4 }));
    for (let index = 0; index < 10; index++) void jobs.add('dead', `dead${index}`);
    void jobs.add('live', 'live1');
    await settled();
    assert.deepEqual(jobs.started, ['dead0', 'dead1', 'dead2', 'live1']);
  });

  it('keeps half of the slots free of hosts whose last job failed, however many they are', async () => {
    const jobs = new Jobs(new Limiter({ concurrency: 4, perHost: 1 }));
    for (let index = 0; index < 6; index++) {
      void jobs.add(`dead${index}`, `first${index}`);
      await settled();
      await jobs.end(`first${index}`, new Error('dead'));
    }
    for (let index = 0; index < 6; index++) void jobs.add(`dead${index}`, `again${index}`);
    for (const host of ['x', 'y', 'z']) void jobs.add(host, host);
    await settled();
    assert.deepEqual(jobs.started.slice(6), ['again0', 'again1', 'x', 'y']);
    await jobs.end('again0');
    assert.equal(jobs.started.at(-1), 'again2', 'a host that failed has its turn too');
    await jobs.end('x');
    assert.equal(jobs.started.at(-1), 'z');
    void jobs.add('dead0', 'healed');
    await jobs.end('y');
    assert.equal(jobs.started.at(-1), 'healed', 'one success ends the restriction');
  });

  it('counts right when jobs of one host end in the same instant, one well and one not', async () => {
    const limiter = new Limiter({ concurrency: 4, perHost: 2 });
    for (let round = 0; round < 5; round++) {
      let open = (): void => undefined;
      const gate = new Promise<void>((resolve) => {
        open = resolve;
      });
      const bad = limiter.run('a', never, () => gate.then(() => Promise.reject(new Error('bad'))));
      const good = limiter.run('a', never, () => gate.then(() => undefined).then(() => undefined));
      const next = limiter.run('a', never, () => Promise.resolve());
      open();
      await Promise.allSettled([bad, good, next]);
    }
    for (const host of ['a', 'b', 'c']) {
      await assert.rejects(limiter.run(host, never, () => Promise.reject(new Error('dead'))));
    }
    const jobs = new Jobs(limiter);
    for (const host of ['a', 'b', 'c']) void jobs.add(host, host);
    await settled();
    assert.deepEqual(jobs.started, ['a', 'b'], 'half of the slots, as at the beginning');
  });

  it('gives the slots of overdue jobs to others, up to a bound, and counts right after it', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const jobs = new Jobs(new Limiter({ concurrency: 2, perHost: 2, overdueAfterMs: 1000 }));
    const pass = async (ms: number): Promise<number> => {
      t.mock.timers.tick(ms);
      await settled();
      return jobs.started.length;
    };
    for (let index = 0; index < 40; index++) void jobs.add(`host${index}`, `job${index}`);
    await settled();
    assert.equal(await pass(999), 2);
    assert.equal(await pass(1), 4, 'two overdue ones run on beside two others');
    for (let seconds = 2; seconds <= 12; seconds++) assert.equal(await pass(1000), 2 + 2 * seconds);
    assert.equal(await pass(1000), 26, 'with 24 overdue ones the next two keep their slots');
    await jobs.end('job0');
    assert.equal(jobs.started.length, 27, 'until one has ended');
    for (let index = 1; index < 40; index++) await jobs.end(`job${index}`);
    for (const name of ['x1', 'x2', 'x3']) void jobs.add(name, name);
    await settled();
    assert.deepEqual(jobs.started.slice(40), ['x1', 'x2']);
  });

  it('treats a host with an overdue job as failing, until one of its jobs succeeds', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const jobs = new Jobs(new Limiter({ concurrency: 4, perHost: 4, overdueAfterMs: 1000 }));
    for (let index = 0; index < 10; index++) void jobs.add('slow', `slow${index}`);
    await settled();
    assert.equal(jobs.started.length, 3);
    t.mock.timers.tick(1000);
    for (const host of ['x', 'y', 'z', 'w']) void jobs.add(host, host);
    await settled();
    assert.deepEqual(
      jobs.started.slice(3),
      ['x', 'y', 'z', 'w'],
      'nothing more of the slow host, all slots for others',
    );
    await jobs.end('slow0');
    await jobs.end('x');
    assert.deepEqual(jobs.started.slice(7), ['slow3'], 'it has its turn again once one was read');
  });

  it('forgets a waiting job when its signal aborts, and leaves a running one alone', async () => {
    const jobs = new Jobs(new Limiter({ concurrency: 1, perHost: 1 }));
    const stop = new AbortController();
    const running = jobs.add('a', 'a1', stop.signal);
    const waiting = jobs.add('a', 'a2', stop.signal);
    void jobs.add('a', 'a3');
    await settled();
    const reason = new Error('stop');
    stop.abort(reason);
    await assert.rejects(waiting, reason);
    await assert.rejects(jobs.add('a', 'a4', stop.signal), reason);
    assert.deepEqual(jobs.started, ['a1']);
    await jobs.end('a1');
    await running;
    assert.deepEqual(jobs.started, ['a1', 'a3']);
  });

  it('remembers a failing host for an hour and ten thousand of them, and no other', async () => {
    let now = 0;
    const limiter = new Limiter({ concurrency: 2, perHost: 1, now: () => now });
    const fail = (host: string): Promise<void> =>
      limiter.run(host, never, () => Promise.reject(new Error('no'))).catch(() => undefined);
    await limiter.run('well', never, () => Promise.resolve());
    assert.equal(limiter.size, 0);
    for (let host = 0; host < 10_050; host++) await fail(`dead${host}`);
    assert.equal(limiter.size, 10_000);
    now = 60 * 60 * 1000 - 1;
    await fail('dead10049');
    now++;
    await fail('another');
    assert.equal(limiter.size, 2, 'the one that failed again a moment ago, and another');
  });

  it('still shares half of the slots among failing hosts that it remembers', async () => {
    const limiter = new Limiter({ concurrency: 2, perHost: 1 });
    const jobs = new Jobs(limiter);
    for (const host of ['a', 'b']) {
      void jobs.add(host, `${host}1`);
      await settled();
      await jobs.end(`${host}1`, new Error('no'));
    }
    void jobs.add('a', 'a2');
    void jobs.add('b', 'b2');
    void jobs.add('c', 'c1');
    await settled();
    assert.deepEqual(jobs.started, ['a1', 'b1', 'a2', 'c1']);
  });
});
