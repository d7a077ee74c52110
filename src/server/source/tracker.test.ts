import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../../test/support/until.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/log.js';
import type { PolicyHeadChange, PolicySource } from './source.js';
import { createTracker, type Tracker, type TrackerOptions } from './tracker.js';

const RETRY = { minMs: 1, maxMs: 5 };

/** A source that a test drives by hand. */
class FakeSource implements PolicySource {
  existing: string | undefined;
  head = 'h1';
  problem: Error | undefined;
  /** While set, fetches wait for it. */
  gate: Promise<void> | undefined;
  fetches = 0;
  running = 0;
  mostRunning = 0;
  served: string[] = [];
  distrusted = 0;
  refuse = new Set<string>();
  directories: readonly string[] = ['.', 'a'];

  async open(): Promise<string | undefined> {
    return this.existing;
  }

  async fetch(signal: AbortSignal): Promise<string> {
    this.fetches++;
    this.mostRunning = Math.max(this.mostRunning, ++this.running);
    try {
      await this.gate;
      signal.throwIfAborted();
      if (this.problem !== undefined) throw this.problem;
      return this.head;
    } finally {
      this.running--;
    }
  }

  async markServed(hash: string): Promise<void> {
    this.served.push(hash);
  }

  distrust(): void {
    this.distrusted++;
  }

  async review(hash: string): Promise<{ changedDirectories: readonly string[] }> {
    if (this.refuse.has(hash)) throw new SyncError('policy_commit_refused', `commit ${hash}: x.json is not valid JSON`);
    return { changedDirectories: this.directories };
  }
}

interface Running extends AsyncDisposable {
  source: FakeSource;
  tracker: Tracker;
  changes: PolicyHeadChange[];
}

function start(source = new FakeSource(), options: Partial<TrackerOptions> = {}): Running {
  const changes: PolicyHeadChange[] = [];
  const stop = new AbortController();
  const tracker = createTracker(
    { pollingIntervalMs: 0, retry: RETRY, ...options },
    { source, review: source, log: silentLogger(), onChange: (change) => void changes.push(change) },
  );
  const run = tracker.run(stop.signal);
  return {
    source,
    tracker,
    changes,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await run;
    },
  };
}

test('announces the first head with itself as the old one', async () => {
  await using running = start();
  await until(() => running.changes.length > 0, { withinMs: 2_000, what: 'first head' });
  assert.deepEqual(running.changes, [{ oldHash: 'h1', hash: 'h1', changedDirectories: ['.', 'a'] }]);
  assert.equal(running.tracker.status().state, 'following');
  assert.deepEqual(running.source.served, ['h1']);
});

test('serves what an earlier run left at once, then what it fetches', async () => {
  const source = new FakeSource();
  source.existing = 'h0';
  const stop = new AbortController();
  const changes: PolicyHeadChange[] = [];
  const tracker = createTracker(
    { pollingIntervalMs: 0 },
    { source, review: source, log: silentLogger(), onChange: (change) => void changes.push(change) },
  );
  source.gate = new Promise((resolve) => {
    stop.signal.addEventListener('abort', () => resolve());
  });
  const run = tracker.run(stop.signal);
  await until(() => source.fetches === 1, { withinMs: 2_000, what: 'the fetch' });
  assert.equal(tracker.head(), 'h0');
  stop.abort();
  await run;
  assert.deepEqual(
    changes.map((change) => change.hash),
    ['h0'],
  );
});

test('repeats a failed look until there is a head, and says why there is none', async () => {
  const source = new FakeSource();
  source.problem = new SyncError('git_failed', 'no route to host');
  await using running = start(source);
  await until(() => source.fetches > 3, { withinMs: 2_000, what: 'several looks' });
  assert.deepEqual(
    [running.tracker.status().state, running.tracker.status().error, running.tracker.head()],
    ['starting', 'no route to host', undefined],
  );
  source.problem = undefined;
  await until(() => running.tracker.head() === 'h1', { withinMs: 2_000, what: 'the head' });
  assert.equal(running.tracker.status().error, undefined);
});

test('a failure later on is repeated too, and the last good head stays', async () => {
  await using running = start();
  await until(() => running.tracker.head(), { withinMs: 2_000, what: 'the head' });
  running.source.problem = new SyncError('git_timeout', 'too slow');
  await running.tracker.refresh();
  const successBefore = running.tracker.status().lastSuccessMs;
  assert.deepEqual([running.tracker.status().state, running.tracker.head()], ['failing', 'h1']);
  running.source.problem = undefined;
  running.source.head = 'h2';
  await until(() => running.tracker.head() === 'h2', { withinMs: 2_000, what: 'recovery without being asked' });
  assert((running.tracker.status().lastSuccessMs ?? 0) >= (successBefore ?? 0));
  assert.equal(running.tracker.status().state, 'following');
});

test('looks never overlap, and all that ask during one share the next', async () => {
  await using running = start();
  await until(() => running.tracker.head(), { withinMs: 2_000, what: 'the head' });
  let open: () => void = () => undefined;
  running.source.gate = new Promise((resolve) => {
    open = resolve;
  });
  const before = running.source.fetches;
  const first = running.tracker.refresh();
  await until(() => running.source.fetches === before + 1, { withinMs: 2_000, what: 'the first look' });
  let laterDone = false;
  const later = Promise.all(Array.from({ length: 50 }, () => running.tracker.refresh())).then(() => {
    laterDone = true;
  });
  running.source.gate = undefined;
  open();
  await first;
  assert.equal(laterDone, false, 'a look that began before the call does not answer it');
  await later;
  assert.deepEqual([running.source.fetches, running.source.mostRunning], [before + 2, 1]);
});

test('a look that is asked for without waiting begins after the call; all that ask during one share the next', async () => {
  const source = new FakeSource();
  const stop = new AbortController();
  const tracker = createTracker(
    { pollingIntervalMs: 0 },
    { source, review: source, log: silentLogger(), onChange: () => undefined },
  );
  const looks = async (count: number): Promise<void> => {
    await until(() => source.fetches === count && source.running === 0, { withinMs: 2_000, what: `${count} looks` });
  };
  const ask = (times: number): void => {
    for (let time = 0; time < times; time++) tracker.requestLook();
  };
  let open: () => void = () => undefined;
  source.gate = new Promise((resolve) => {
    open = resolve;
  });
  const run = tracker.run(stop.signal);
  await until(() => source.running === 1, { withinMs: 2_000, what: 'the first copy is being made' });
  ask(1_000);
  source.gate = undefined;
  source.head = 'h1';
  open();
  await looks(2);
  ask(1_000);
  await looks(3);
  // Nothing is left over: the next look is that of the next call.
  await tracker.refresh();
  assert.deepEqual([source.fetches, source.mostRunning, tracker.head()], [4, 1, 'h1']);
  stop.abort();
  await run;
  tracker.requestLook();
  assert.equal(source.fetches, 4);
});

test('a look that is asked for before the tracker runs, or after a failure, is not lost', async () => {
  const source = new FakeSource();
  source.problem = new SyncError('git_failed', 'away');
  const stop = new AbortController();
  const tracker = createTracker(
    { pollingIntervalMs: 0, retry: { minMs: 1e6, maxMs: 1e6 } },
    { source, review: source, log: silentLogger(), onChange: () => undefined },
  );
  tracker.requestLook();
  const run = tracker.run(stop.signal);
  await until(() => source.fetches === 2, { withinMs: 2_000, what: 'the look of the call' });
  source.problem = undefined;
  tracker.requestLook();
  await until(() => tracker.head() === 'h1', { withinMs: 2_000, what: 'the head' });
  stop.abort();
  await run;
});

test('a refused commit changes nothing, is not looked at again by itself, and a later good one is served', async () => {
  await using running = start();
  await until(() => running.tracker.head(), { withinMs: 2_000, what: 'the head' });
  running.source.refuse.add('bad');
  running.source.head = 'bad';
  await running.tracker.refresh();
  await running.tracker.refresh();
  assert.deepEqual([running.tracker.head(), running.tracker.status().state], ['h1', 'failing']);
  assert.match(running.tracker.status().error ?? '', /x\.json is not valid JSON/);
  running.source.head = 'h2';
  await running.tracker.refresh();
  assert.deepEqual([running.tracker.head(), running.tracker.status().error], ['h2', undefined]);
  assert.deepEqual(running.changes.at(-1), { oldHash: 'h1', hash: 'h2', changedDirectories: ['.', 'a'] });
});

test('a commit with nothing relevant moves the head without a notice', async () => {
  await using running = start();
  await until(() => running.tracker.head(), { withinMs: 2_000, what: 'the head' });
  running.source.directories = [];
  running.source.head = 'h2';
  await running.tracker.refresh();
  assert.deepEqual([running.tracker.head(), running.changes.length], ['h2', 1]);
});

test('polls in its interval', async () => {
  await using running = start(new FakeSource(), { pollingIntervalMs: 5 });
  await until(() => running.source.fetches > 3, { withinMs: 2_000, what: 'several polls' });
  running.source.head = 'h2';
  await until(() => running.tracker.head() === 'h2', { withinMs: 2_000, what: 'the new head' });
});

test('a stop ends a look under way and lets go of everyone who waits', async () => {
  const source = new FakeSource();
  source.gate = Promise.resolve();
  const running = start(source);
  await until(() => running.tracker.head(), { withinMs: 2_000, what: 'the head' });
  let open: () => void = () => undefined;
  source.gate = new Promise((resolve) => {
    open = resolve;
  });
  const asked = running.tracker.refresh();
  await until(() => source.running === 1, { withinMs: 2_000, what: 'the look' });
  const during = running.tracker.refresh();
  const stopped = running[Symbol.asyncDispose]();
  open();
  await Promise.all([stopped, asked, during, running.tracker.refresh()]);
});

test('reported damage distrusts the copy and looks again', async () => {
  await using running = start();
  await until(() => running.tracker.head(), { withinMs: 2_000, what: 'the head' });
  const before = running.source.fetches;
  running.tracker.reportDamage();
  await until(() => running.source.fetches > before, { withinMs: 2_000, what: 'another look' });
  assert.equal(running.source.distrusted, 1);
});
