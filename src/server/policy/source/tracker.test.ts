import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryHeads, ownHeads } from '../../../../test/support/shared-policy-head.js';
import { until } from '../../../../test/support/until.js';
import { SyncError } from '../../../lib/errors.js';
import { silentLogger } from '../../../lib/observe/log.js';
import type { CommitProblem } from '../../../wire/commit-problem.js';
import { createTraceMemory, type TraceMemory } from '../../changes/change-times.js';
import { CommitRefused } from './commit-refused.js';
import {
  type CommitGate,
  type GateAnswer,
  type PolicyHeadChange,
  type PolicySource,
  type Reviewed,
  viewOfSource,
} from './source.js';
import { Tracker, type TrackerOptions } from './tracker.js';

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
  warnings: readonly string[] = [];

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
      this.here.add(this.head);
      return this.head;
    } finally {
      this.running--;
    }
  }

  /** Commits of the local copy: those that were fetched, and these. */
  readonly here = new Set<string>();
  /** The history that is known here, oldest first. */
  history: string[] = [];

  async has(hash: string): Promise<boolean> {
    return this.here.has(hash);
  }

  async isSuccessor(hash: string, of: string): Promise<boolean> {
    const [at, before] = [this.history.indexOf(hash), this.history.indexOf(of)];
    return at > before && before >= 0;
  }

  async markServed(hash: string): Promise<void> {
    this.served.push(hash);
  }

  distrust(): void {
    this.distrusted++;
  }

  async review(hash: string): Promise<Reviewed> {
    if (this.refuse.has(hash)) throw new CommitRefused(hash, { file: 'x.json' }, 'is not valid JSON');
    return { changedDirectories: this.directories, warnings: this.warnings };
  }
}

const PROBLEM = { message: 'does not compile: var x is unsafe', file: 'app/a.rego', line: 7 };

/** A gate that a test drives by hand. */
class FakeGate implements CommitGate {
  judge = 'OPA 1';
  /** What becomes of commits that are not simply served. */
  readonly steps = new Map<string, GateAnswer['step']>();
  /** The commits that it was asked about, with `told` if it was told of them. */
  readonly asked: string[] = [];
  /** While set, answers wait for it. */
  hold: Promise<void> | undefined;
  /** How often a commit was expected. */
  expected = 0;

  expect(): void {
    this.expected++;
  }

  async decide(hash: string, told: readonly CommitProblem[] | undefined): Promise<GateAnswer> {
    this.asked.push(told === undefined ? hash : `${hash} told`);
    await this.hold;
    const step = told === undefined ? (this.steps.get(hash) ?? 'serve') : 'refuse';
    const problems = step === 'refuse' || step === 'serve_noted' ? [PROBLEM] : [];
    const error = step === 'wait' ? new SyncError('policy_gate_failed', 'it takes too long') : undefined;
    return { step, problems, error };
  }
}

interface Running extends AsyncDisposable {
  source: FakeSource;
  tracker: Tracker;
  changes: PolicyHeadChange[];
}

function start(
  source = new FakeSource(),
  options: Partial<TrackerOptions> = {},
  heads = ownHeads(),
  times?: TraceMemory['commits'],
  gate?: CommitGate,
): Running {
  const changes: PolicyHeadChange[] = [];
  const stop = new AbortController();
  const tracker = new Tracker(
    { pollingIntervalMs: 0, retry: RETRY, ...options },
    { source, review: source, gate, heads, times, log: silentLogger() },
  );
  const run = tracker.run({ onServed: (change) => changes.push(change) }, stop.signal);
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
  await until(() => running.changes.length > 0, { withinMs: 20_000, what: 'first head' });
  assert.deepEqual(running.changes, [{ oldHash: 'h1', hash: 'h1', changedDirectories: ['.', 'a'] }]);
  assert.equal(running.tracker.status().state, 'following');
  assert.deepEqual(running.source.served, ['h1']);
});

test('serves what an earlier run left at once, then what it fetches', async () => {
  const source = new FakeSource();
  source.existing = 'h0';
  const stop = new AbortController();
  const changes: PolicyHeadChange[] = [];
  const tracker = new Tracker(
    { pollingIntervalMs: 0 },
    { source, review: source, heads: ownHeads(), log: silentLogger() },
  );
  source.gate = new Promise((resolve) => {
    stop.signal.addEventListener('abort', () => resolve());
  });
  const run = tracker.run({ onServed: (change) => changes.push(change) }, stop.signal);
  await until(() => source.fetches === 1, { withinMs: 20_000, what: 'the fetch' });
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
  await until(() => source.fetches > 3, { withinMs: 20_000, what: 'several looks' });
  assert.deepEqual(
    [running.tracker.status().state, running.tracker.status().error, running.tracker.head()],
    ['starting', 'no route to host', undefined],
  );
  source.problem = undefined;
  await until(() => running.tracker.head() === 'h1', { withinMs: 20_000, what: 'the head' });
  assert.equal(running.tracker.status().error, undefined);
});

test('a fetch that does not end is told with its beginning, once it takes long', async () => {
  await using running = start();
  await until(() => running.tracker.head(), { withinMs: 20_000, what: 'the head' });
  assert.equal(running.tracker.status().fetchingSinceMs, undefined);
  let open = (): void => undefined;
  running.source.gate = new Promise((resolve) => {
    open = resolve;
  });
  const before = Date.now();
  const done = running.tracker.refresh();
  const since = await until(() => running.tracker.status().fetchingSinceMs, { withinMs: 20_000, what: 'the fetch' });
  assert(since >= before && since <= Date.now());
  const view = (afterMs: number) => viewOfSource(running.tracker.status(), since + afterMs);
  assert.equal(view(2_999).fetching_since, undefined);
  assert.equal(view(3_000).fetching_since, new Date(since).toISOString());
  open();
  await done;
  assert.equal(view(60_000).fetching_since, undefined);
});

test('a commit that a webhook names before the source shows it is looked for until it is served, with polling off', async () => {
  await using running = start(undefined, { awaiting: { retry: RETRY, forMs: 60_000 } });
  const { source, tracker } = running;
  await until(() => tracker.head(), { withinMs: 20_000, what: 'the head' });
  const before = source.fetches;
  tracker.requestRefresh({ hash: 'h2', before: 'h1' });
  await until(() => source.fetches > before + 3, { withinMs: 20_000, what: 'several looks' });
  const { state, head, awaited, error } = tracker.status();
  assert.deepEqual(
    [state, head, awaited?.hash, awaited?.givenUpMs, error],
    ['following', 'h1', 'h2', undefined, undefined],
  );
  assert.equal(viewOfSource(tracker.status()).awaited?.commit, 'h2');
  source.head = 'h2';
  await until(() => tracker.head() === 'h2', { withinMs: 20_000, what: 'the named commit' });
  assert.equal(tracker.status().awaited, undefined);
});

test('a webhook that names a commit to which the branch is moved back is waited for, too', async () => {
  await using running = start(undefined, { awaiting: { retry: RETRY, forMs: 60_000 } });
  const { source, tracker } = running;
  await until(() => tracker.head(), { withinMs: 20_000, what: 'the head' });
  source.head = 'h2';
  await tracker.refresh();
  tracker.requestRefresh({ hash: 'h1', before: 'h2' });
  await until(() => tracker.status().awaited?.hash === 'h1', { withinMs: 20_000, what: 'it is awaited' });
  source.head = 'h1';
  await until(() => tracker.head() === 'h1', { withinMs: 20_000, what: 'the earlier commit' });
  assert.equal(tracker.status().awaited, undefined);
});

test('looking for a commit that never comes ends, and that is said', async () => {
  await using running = start(undefined, { awaiting: { retry: RETRY, forMs: 30 } });
  const { source, tracker } = running;
  await until(() => tracker.head(), { withinMs: 20_000, what: 'the head' });
  tracker.requestRefresh({ hash: 'lost' });
  await until(() => tracker.status().awaited?.givenUpMs, { withinMs: 20_000, what: 'the end' });
  const { fetches } = source;
  assert.match(viewOfSource(tracker.status()).awaited?.given_up ?? '', /^\d{4}-/);
  source.head = 'h2';
  await tracker.refresh();
  assert.deepEqual([source.fetches, tracker.head(), tracker.status().awaited], [fetches + 1, 'h2', undefined]);
});

test('a failure later on is repeated too, and the last good head stays', async () => {
  await using running = start();
  await until(() => running.tracker.head(), { withinMs: 20_000, what: 'the head' });
  running.source.problem = new SyncError('git_timeout', 'too slow');
  await running.tracker.refresh();
  const successBefore = running.tracker.status().lastSuccessMs;
  assert.deepEqual([running.tracker.status().state, running.tracker.head()], ['failing', 'h1']);
  running.source.problem = undefined;
  running.source.head = 'h2';
  await until(() => running.tracker.head() === 'h2', { withinMs: 20_000, what: 'recovery without being asked' });
  assert((running.tracker.status().lastSuccessMs ?? 0) >= (successBefore ?? 0));
  assert.equal(running.tracker.status().state, 'following');
});

test('looks never overlap, and all that ask during one share the next', async () => {
  await using running = start();
  await until(() => running.tracker.head(), { withinMs: 20_000, what: 'the head' });
  let open: () => void = () => undefined;
  running.source.gate = new Promise((resolve) => {
    open = resolve;
  });
  const before = running.source.fetches;
  const first = running.tracker.refresh();
  await until(() => running.source.fetches === before + 1, { withinMs: 20_000, what: 'the first look' });
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
  const tracker = new Tracker(
    { pollingIntervalMs: 0 },
    { source, review: source, heads: ownHeads(), log: silentLogger() },
  );
  const looks = async (count: number): Promise<void> => {
    await until(() => source.fetches === count && source.running === 0, { withinMs: 20_000, what: `${count} looks` });
  };
  const ask = (times: number): void => {
    for (let time = 0; time < times; time++) tracker.requestRefresh();
  };
  let open: () => void = () => undefined;
  source.gate = new Promise((resolve) => {
    open = resolve;
  });
  const run = tracker.run({ onServed: () => undefined }, stop.signal);
  await until(() => source.running === 1, { withinMs: 20_000, what: 'the first copy is being made' });
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
  tracker.requestRefresh();
  assert.equal(source.fetches, 4);
});

test('a look that is asked for before the tracker runs, or after a failure, is not lost', async () => {
  const source = new FakeSource();
  source.problem = new SyncError('git_failed', 'away');
  const stop = new AbortController();
  const tracker = new Tracker(
    { pollingIntervalMs: 0, retry: { minMs: 1e6, maxMs: 1e6 } },
    { source, review: source, heads: ownHeads(), log: silentLogger() },
  );
  tracker.requestRefresh();
  const run = tracker.run({ onServed: () => undefined }, stop.signal);
  await until(() => source.fetches === 2, { withinMs: 20_000, what: 'the look of the call' });
  source.problem = undefined;
  tracker.requestRefresh();
  await until(() => tracker.head() === 'h1', { withinMs: 20_000, what: 'the head' });
  stop.abort();
  await run;
});

test('a refused commit changes nothing, is not looked at again by itself, and a later good one is served', async () => {
  await using running = start();
  await until(() => running.tracker.head(), { withinMs: 20_000, what: 'the head' });
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

test('a source that goes back to the served commit is well again, whatever failed in between', async () => {
  for (const isShared of [false, true]) {
    const heads = isShared ? new MemoryHeads().handle(true) : ownHeads();
    await using running = start(new FakeSource(), {}, heads);
    const { source, tracker } = running;
    await until(() => tracker.head(), { withinMs: 20_000, what: 'the head' });
    const away = new SyncError('git_failed', 'no route to host');
    const refused = new SyncError('bundle_archive_refused', 'it is no archive');
    source.refuse.add('bad');
    source.history = ['h1', 'bad'];
    for (const failures of [['bad'], [away], [refused], ['bad', away], [away, 'bad'], ['bad', refused, 'bad']]) {
      for (const failure of failures) {
        source.problem = failure instanceof Error ? failure : undefined;
        if (typeof failure === 'string') source.head = failure;
        await tracker.refresh();
        assert.equal(tracker.status().state, 'failing');
      }
      source.problem = undefined;
      source.head = 'h1';
      await tracker.refresh();
      const { state, error, refused: left, failingSinceMs, lastResult } = tracker.status();
      const told = [tracker.head(), state, error, left, failingSinceMs, lastResult];
      assert.deepEqual(told, ['h1', 'following', undefined, undefined, undefined, 'same'], failures.join(', '));
    }
  }
});

test('a commit with nothing relevant moves the head without a notice', async () => {
  await using running = start();
  await until(() => running.tracker.head(), { withinMs: 20_000, what: 'the head' });
  running.source.directories = [];
  running.source.head = 'h2';
  await running.tracker.refresh();
  assert.equal(running.tracker.head(), 'h2');
  assert.deepEqual(running.changes.slice(1), [{ oldHash: 'h1', hash: 'h2', changedDirectories: [] }]);
});

test('polls in its interval', async () => {
  await using running = start(new FakeSource(), { pollingIntervalMs: 5 });
  await until(() => running.source.fetches > 3, { withinMs: 20_000, what: 'several polls' });
  running.source.head = 'h2';
  await until(() => running.tracker.head() === 'h2', { withinMs: 20_000, what: 'the new head' });
});

test('a stop ends a look under way and lets go of everyone who waits', async () => {
  const source = new FakeSource();
  source.gate = Promise.resolve();
  const running = start(source);
  await until(() => running.tracker.head(), { withinMs: 20_000, what: 'the head' });
  let open: () => void = () => undefined;
  source.gate = new Promise((resolve) => {
    open = resolve;
  });
  const asked = running.tracker.refresh();
  await until(() => source.running === 1, { withinMs: 20_000, what: 'the look' });
  const during = running.tracker.refresh();
  const stopped = running[Symbol.asyncDispose]();
  open();
  await Promise.all([stopped, asked, during, running.tracker.refresh()]);
});

test('reported damage distrusts the copy and looks again', async () => {
  await using running = start();
  await until(() => running.tracker.head(), { withinMs: 20_000, what: 'the head' });
  const before = running.source.fetches;
  running.tracker.reportDamage();
  await until(() => running.source.fetches > before, { withinMs: 20_000, what: 'another look' });
  assert.equal(running.source.distrusted, 1);
});

/** Two instances that agree on heads, each with its own view of one history. */
function fleet(options: Partial<TrackerOptions> = {}): {
  heads: MemoryHeads;
  instance(shows: string): Running;
} {
  const heads = new MemoryHeads();
  const history = ['h0', 'h1', 'h2', 'h3'];
  return {
    heads,
    instance: (shows) => {
      const source = new FakeSource();
      source.history = history;
      source.head = shows;
      return start(source, { staleHead: { movedMs: 1e6, unseenMs: 1e6 }, ...options }, heads.handle(true));
    },
  };
}

async function serve(hash: string, ...instances: Running[]): Promise<void> {
  await until(() => instances.every(({ tracker }) => tracker.head() === hash), {
    withinMs: 20_000,
    what: `all serve ${hash}: ${JSON.stringify(instances.map(({ tracker }) => tracker.status()))}`,
  });
}

test('a new commit that one instance sees is proposed once; the other one fetches it and serves it too', async () => {
  const { heads, instance } = fleet();
  await using one = instance('h1');
  await using other = instance('h1');
  await serve('h1', one, other);
  one.source.head = 'h2';
  other.source.head = 'h2';
  await one.tracker.refresh(); // a webhook that one of them got
  await serve('h2', one, other);
  assert.deepEqual(heads.all, ['h1', 'h2']);
  assert.deepEqual(
    other.changes.map(({ oldHash, hash }) => [oldHash, hash]),
    [
      ['h1', 'h1'],
      ['h1', 'h2'],
    ],
    'each tells its own subscribers',
  );
});

test('two instances that see a new commit at once: one proposes it, the other finds it agreed on', async () => {
  const { heads, instance } = fleet();
  await using one = instance('h1');
  await using other = instance('h1');
  await serve('h1', one, other);
  one.source.head = 'h2';
  other.source.head = 'h3';
  await Promise.all([one.tracker.refresh(), other.tracker.refresh()]);
  await until(() => heads.head?.hash === 'h3', { withinMs: 20_000, what: 'the newest commit is agreed on' });
  assert.equal(one.tracker.head() === 'h3', false, 'it has not got it yet');
  assert.equal(one.tracker.wanted(), 'h3');
  one.source.head = 'h3';
  await serve('h3', one, other);
  assert.deepEqual(heads.all.filter((hash) => hash === 'h3').length, 1);
});

test('an instance with a source that lags proposes nothing, serves nothing newer than it has, and says what it waits for', async () => {
  const { heads, instance } = fleet();
  await using one = instance('h2');
  await serve('h2', one);
  await using lagging = instance('h1');
  await until(() => lagging.source.fetches > 5, { withinMs: 20_000, what: 'it looks again and again' });
  const { state, head, wanted, doubted, error } = lagging.tracker.status();
  assert.deepEqual([state, head, wanted, doubted], ['starting', undefined, 'h2', 'h1']);
  assert.match(error ?? '', /commit h2, .* is not at the policy source yet \(it shows h1\)/);
  assert.deepEqual(heads.all, ['h2']);
  lagging.source.head = 'h2';
  await serve('h2', lagging);
  assert.equal(lagging.tracker.status().doubted, undefined);
});

test('one answer of a load-balanced source that is older changes nothing; a branch that was moved back does', async () => {
  const { heads, instance } = fleet({ staleHead: { movedMs: 60, unseenMs: 1e6 }, pollingIntervalMs: 5 });
  await using one = instance('h2');
  await using other = instance('h2');
  await serve('h2', one, other);
  one.source.head = 'h1';
  await one.tracker.refresh();
  one.source.head = 'h2';
  await one.tracker.refresh();
  assert.deepEqual([one.tracker.head(), one.tracker.status().doubted, heads.all], ['h2', undefined, ['h2']]);
  one.source.head = 'h1';
  other.source.head = 'h1';
  await serve('h1', one, other);
  assert.deepEqual(heads.all, ['h2', 'h1']);
});

test('a source that lags when a branch was moved back does not bring the commit back that was taken away', async () => {
  const { heads, instance } = fleet({ staleHead: { movedMs: 30, unseenMs: 1e6 }, pollingIntervalMs: 5 });
  await using one = instance('h1');
  await using lagging = instance('h1');
  await serve('h1', one, lagging);
  for (const { source } of [one, lagging]) source.head = 'h2';
  await serve('h2', one, lagging);
  one.source.head = 'h1';
  await serve('h1', one, lagging);
  const looks = lagging.source.fetches;
  await until(() => lagging.source.fetches > looks + 20, { withinMs: 20_000, what: 'many looks at h2' });
  assert.deepEqual(heads.all, ['h1', 'h2', 'h1']);
  lagging.source.head = 'h1';
  await until(() => lagging.tracker.status().doubted === undefined, { withinMs: 20_000, what: 'it has caught up' });
  lagging.source.head = 'h2';
  await serve('h2', one, lagging);
});

test('an agreed commit that is here already is served though the source is away', async () => {
  const { heads, instance } = fleet();
  await using one = instance('h1');
  await serve('h1', one);
  one.source.here.add('h2');
  one.source.problem = new SyncError('git_failed', 'away');
  heads.set('h2');
  await serve('h2', one);
});

test('a commit is not served while it cannot be agreed on, and then by itself', async () => {
  const { heads, instance } = fleet();
  await using one = instance('h1');
  await serve('h1', one);
  heads.problem = new SyncError('backbone_unavailable', 'the backbone is away', { retryable: true });
  one.source.head = 'h2';
  await one.tracker.refresh();
  assert.deepEqual([one.tracker.head(), one.tracker.status().error], ['h1', 'the backbone is away']);
  heads.problem = undefined;
  await serve('h2', one);
});

test('an instance that was away serves what the others agreed on, not what it left', async () => {
  const { heads, instance } = fleet();
  await using one = instance('h2');
  await serve('h2', one);
  const source = new FakeSource();
  source.history = ['h1', 'h2'];
  source.existing = 'h1';
  source.here.add('h1');
  source.head = 'h2';
  await using back = start(source, {}, heads.handle(true));
  await serve('h2', back);
  assert.deepEqual(heads.all, ['h2']);
});

test('an instance alone follows its source wherever it leads, and remembers the head', async () => {
  const heads = new MemoryHeads();
  await using running = start(new FakeSource(), {}, heads.handle(false));
  await serve('h1', running);
  running.source.head = 'h0';
  await running.tracker.refresh();
  assert.deepEqual([running.tracker.head(), heads.all], ['h0', ['h1', 'h0']]);
});

test('a failing source says since when and with which code, until it is well again', async () => {
  await using running = start();
  await until(() => running.tracker.head() === 'h1', { withinMs: 20_000, what: 'first head' });
  const { source, tracker } = running;
  assert.deepEqual([tracker.status().failingSinceMs, tracker.status().code], [undefined, undefined]);
  source.head = 'h2';
  source.refuse.add('h2');
  const beforeMs = Date.now();
  await tracker.refresh();
  const { failingSinceMs = 0, code, head } = tracker.status();
  assert.deepEqual([head, code], ['h1', 'policy_commit_refused']);
  assert(failingSinceMs >= beforeMs && failingSinceMs <= Date.now());
  source.problem = new SyncError('git_failed', 'the remote is away');
  await tracker.refresh();
  assert.deepEqual([tracker.status().failingSinceMs, tracker.status().code], [failingSinceMs, 'git_failed']);
  source.problem = undefined;
  source.head = 'h3';
  await tracker.refresh();
  assert.deepEqual([tracker.status().failingSinceMs, tracker.status().code], [undefined, undefined]);
});

test('what a review warns of is told while that commit is served', async () => {
  await using running = start();
  await until(() => running.tracker.head() === 'h1', { withinMs: 20_000, what: 'first head' });
  const { source, tracker } = running;
  source.head = 'h2';
  source.warnings = ['a/data.json is replaced by data.json'];
  await tracker.refresh();
  assert.deepEqual(tracker.status().warnings, ['a/data.json is replaced by data.json']);
  source.head = 'h3';
  source.warnings = ['never served'];
  source.refuse.add('h3');
  await tracker.refresh();
  assert.deepEqual(tracker.status().warnings, ['a/data.json is replaced by data.json']);
});

test('a commit that is served again comes as a new one: nobody has said anything of it yet', async () => {
  const { commits } = createTraceMemory();
  await using running = start(new FakeSource(), {}, ownHeads(), commits);
  const { source, tracker, changes } = running;
  const serve = async (hash: string): Promise<void> => {
    source.head = hash;
    tracker.requestRefresh();
    await until(() => changes.at(-1)?.hash === hash, { withinMs: 20_000, what: hash });
  };
  await serve('h1');
  commits.said('h1', 'client', { appliedSeen: 1 });
  const first = commits.get('h1')?.stages.served;
  await serve('h2');
  assert.equal(commits.get('h1')?.clients.size, 1);
  await serve('h1');
  const again = commits.get('h1');
  assert.deepEqual(again?.clients.size, 0);
  assert.deepEqual(Object.keys(again?.stages ?? {}), ['found', 'checked', 'agreed', 'served']);
  assert((again?.stages.found ?? 0) >= (first ?? Number.POSITIVE_INFINITY));
});

const SOON = { withinMs: 20_000 };

/** One instance with a gate. */
function gated(heads: MemoryHeads, isShared: boolean, gate = new FakeGate(), source = new FakeSource()) {
  const running = start(source, {}, heads.handle(isShared), undefined, gate);
  return Object.assign(running, {
    gate,
    /** The source shows a commit, and somebody says so. */
    shows: async (hash: string): Promise<void> => {
      source.head = hash;
      await running.tracker.refresh();
    },
  });
}

test('the gate expects a commit from the webhook that names it on, and any commit that the source shows for the first time', async () => {
  await using one = gated(new MemoryHeads(), false);
  const { gate, tracker } = one;
  await until(() => tracker.head() === 'h1', { ...SOON, what: 'h1' });
  assert.equal(gate.expected, 1);
  await one.shows('h1');
  await tracker.refreshWithin(20_000, { hash: 'h1' });
  assert.equal(gate.expected, 1, 'it is served already');
  one.source.head = 'h2';
  tracker.requestRefresh({ hash: 'h2' });
  assert.equal(gate.expected, 2, 'before the source is asked');
  await until(() => tracker.head() === 'h2', { ...SOON, what: 'h2' });
  gate.steps.set('h3', 'refuse');
  await one.shows('h3');
  const before = gate.expected;
  await one.shows('h3');
  assert.equal(gate.expected, before, 'what is refused is not checked again');
});

test('what the gate refuses nobody gets: the former commit stays, and the status has file and line', async () => {
  const heads = new MemoryHeads();
  await using one = gated(heads, false);
  await until(() => one.tracker.head() === 'h1', { ...SOON, what: 'h1' });
  one.gate.steps.set('h2', 'refuse');
  await one.shows('h2');
  const { state, head, refused, error, code, problems } = one.tracker.status();
  assert.deepEqual(
    { state, head, refused, error, code, problems },
    {
      state: 'failing',
      head: 'h1',
      refused: 'h2',
      error: 'commit h2: app/a.rego:7 does not compile: var x is unsafe',
      code: 'policy_commit_refused',
      problems: [PROBLEM],
    },
  );
  assert.deepEqual([one.source.served, heads.all], [['h1'], ['h1']]);
});

test('a refused commit is asked about once; the next one is judged by itself; moving back to the former one mends it', async () => {
  const heads = new MemoryHeads();
  await using one = gated(heads, false);
  await until(() => one.tracker.head() === 'h1', { ...SOON, what: 'h1' });
  one.gate.steps.set('h2', 'refuse').set('h3', 'refuse');
  for (const hash of ['h2', 'h2', 'h3']) await one.shows(hash);
  assert.equal(one.tracker.status().refused, 'h3');
  await one.shows('h1');
  assert.deepEqual([one.tracker.status().state, one.tracker.status().problems], ['following', []]);
  await one.shows('h4');
  assert.equal(one.tracker.head(), 'h4');
  assert.deepEqual(one.gate.asked, ['h1', 'h2', 'h3', 'h4']);
});

test('one instance checks, all others believe it: what is served and what is refused', async () => {
  const heads = new MemoryHeads();
  await using one = gated(heads, true);
  await until(() => one.tracker.head() === 'h1', { ...SOON, what: 'h1' });
  one.gate.steps.set('h2', 'refuse');
  one.source.history = ['h1', 'h2'];
  await one.shows('h2');
  await using other = gated(heads, true);
  other.source.history = ['h1', 'h2'];
  other.source.here.add('h1');
  await other.shows('h2');
  await until(() => other.tracker.status().refused === 'h2', { ...SOON, what: 'the other one refuses it, too' });
  const { head, problems } = other.tracker.status();
  assert.deepEqual([head, problems, other.gate.asked], ['h1', [PROBLEM], ['h2 told']]);
});

test('an instance that nobody told of a commit hears that it is refused', async () => {
  const heads = new MemoryHeads();
  await using one = gated(heads, true);
  await until(() => one.tracker.head() === 'h1', { ...SOON, what: 'h1' });
  await using other = gated(heads, true);
  await until(() => other.tracker.head() === 'h1', { ...SOON, what: 'h1, there, too' });
  one.gate.steps.set('h2', 'refuse');
  for (const { source } of [one, other]) source.history = ['h1', 'h2'];
  other.source.head = 'h2'; // it does not poll
  await one.shows('h2');
  await until(() => other.tracker.status().refused === 'h2', { ...SOON, what: 'the other one says it' });
  assert.deepEqual(other.gate.asked, ['h2 told']);
});

test('a commit that another instance refuses meanwhile is not served, whatever the own check says', async () => {
  const heads = new MemoryHeads();
  await using one = gated(heads, true);
  await until(() => one.tracker.head() === 'h1', { ...SOON, what: 'h1' });
  let letGo: () => void = () => undefined;
  one.gate.hold = new Promise((resolve) => {
    letGo = resolve;
  });
  one.source.history = ['h1', 'h2'];
  one.source.head = 'h2';
  one.tracker.requestRefresh();
  await until(() => one.gate.asked.includes('h2'), { ...SOON, what: 'it is being checked' });
  assert.equal(one.tracker.status().checking, 'h2');
  const stranger = heads.handle(true);
  await stranger.refuse({ hash: 'h2', judge: 'OPA 1', problems: [PROBLEM] }, stranger.look());
  letGo();
  await until(() => one.tracker.status().refused === 'h2', { ...SOON, what: 'it is refused' });
  assert.deepEqual([heads.all, one.source.served, one.tracker.status().checking], [['h1'], ['h1'], undefined]);
});

test('a verdict that was not announced, because somebody was faster, is announced by the next look', async () => {
  const heads = new MemoryHeads();
  await using one = gated(heads, true);
  await until(() => one.tracker.head() === 'h1', { ...SOON, what: 'h1' });
  let letGo: () => void = () => undefined;
  one.gate.hold = new Promise((resolve) => {
    letGo = resolve;
  });
  one.gate.steps.set('h2', 'refuse');
  one.source.history = ['h1', 'h2'];
  one.source.head = 'h2';
  one.tracker.requestRefresh();
  await until(() => one.gate.asked.includes('h2'), { ...SOON, what: 'it is being checked' });
  heads.place++; // a row of another source
  letGo();
  await until(() => heads.verdicts.has('h2'), { ...SOON, what: 'the verdict is announced' });
  assert.deepEqual(one.gate.asked, ['h1', 'h2']);
});

test('the verdict of another kind of gate does not count, and goes when the commit is served', async () => {
  const heads = new MemoryHeads();
  const stranger = heads.handle(true);
  await stranger.refuse({ hash: 'h1', judge: 'OPA 0', problems: [PROBLEM] }, stranger.look());
  await using one = gated(heads, true);
  await until(() => one.tracker.head() === 'h1', { ...SOON, what: 'h1' });
  assert.deepEqual([one.gate.asked, heads.verdicts.size, one.tracker.status().warnings], [['h1'], 0, []]);
});

test('a commit that is served in spite of what was found says it, at every instance', async () => {
  const heads = new MemoryHeads();
  const gate = new FakeGate();
  gate.steps.set('h1', 'serve_noted');
  await using one = gated(heads, true, gate);
  await using other = gated(heads, true);
  const noted = ['app/a.rego:7 does not compile: var x is unsafe'];
  for (const { tracker } of [one, other]) {
    await until(() => tracker.head() === 'h1', { ...SOON, what: 'h1' });
    assert.deepEqual(tracker.status().warnings, noted);
  }
});

test('a gate that cannot say keeps the former commit, says why, and is asked again', async () => {
  const heads = new MemoryHeads();
  await using one = gated(heads, false);
  await until(() => one.tracker.head() === 'h1', { ...SOON, what: 'h1' });
  one.gate.steps.set('h2', 'wait');
  await one.shows('h2');
  const { state, head, refused, error, code } = one.tracker.status();
  assert.deepEqual(
    [state, head, refused, error, code],
    ['failing', 'h1', undefined, 'it takes too long', 'policy_gate_failed'],
  );
  one.gate.steps.delete('h2');
  await until(() => one.tracker.head() === 'h2', { ...SOON, what: 'h2, by itself' });
  assert.equal(heads.verdicts.size, 0);
});

test('a first commit that the gate refuses, or cannot check, is not served either', async () => {
  for (const step of ['refuse', 'wait'] as const) {
    const gate = new FakeGate();
    gate.steps.set('h1', step);
    await using one = gated(new MemoryHeads(), false, gate);
    await until(() => one.tracker.status().error !== undefined, { ...SOON, what: 'it says why' });
    const { state, head } = one.tracker.status();
    assert.deepEqual([state, head, one.source.served], ['starting', undefined, []]);
  }
});

test('after a restart the former commit is served, and the refused one is not checked again', async () => {
  const heads = new MemoryHeads();
  {
    await using one = gated(heads, false);
    await until(() => one.tracker.head() === 'h1', { ...SOON, what: 'h1' });
    one.gate.steps.set('h2', 'refuse');
    await one.shows('h2');
  }
  const left = new FakeSource();
  Object.assign(left, { existing: 'h1', head: 'h2' });
  await using again = gated(heads, false, new FakeGate(), left);
  await until(() => again.tracker.status().refused === 'h2', { ...SOON, what: 'it is refused again' });
  assert.deepEqual([again.tracker.head(), again.gate.asked], ['h1', ['h2 told']]);
});

test('a look with a limit says whether it has ended, and leaves nothing behind', async () => {
  const source = new FakeSource();
  await using one = gated(new MemoryHeads(), false, new FakeGate(), source);
  await until(() => one.tracker.head() === 'h1', { ...SOON, what: 'h1' });
  assert.equal(await one.tracker.refreshWithin(20_000), true);
  let letGo: () => void = () => undefined;
  source.gate = new Promise((resolve) => {
    letGo = resolve;
  });
  assert.equal(await one.tracker.refreshWithin(5), false);
  letGo();
  assert.equal(await one.tracker.refreshWithin(20_000), true);
});
