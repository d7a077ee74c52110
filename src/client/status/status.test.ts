import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DataStory, type StoryEntry } from '../../../test/support/data-story.js';
import { Status } from './status.js';
import type { TransactionResult } from './transactions.js';

type Finished = TransactionResult & { readonly reason: string; readonly entries: number };

function start(enabled: { policy?: boolean; data?: boolean } = {}) {
  const finished: Finished[] = [];
  const { policy = true, data = true } = enabled;
  const status = new Status({ policyEnabled: policy, dataEnabled: data }, (result, { update, joined }) =>
    finished.push({ ...result, reason: update.reason, entries: joined }),
  );
  const story = new DataStory();
  story.events.subscribe(status.onData);
  return { status, story, finished };
}

/** Entries that joined a new transaction, which is sealed. */
function transaction(story: DataStory, id: string, ...ids: string[]): StoryEntry[] {
  const entries = ids.map((each) => story.entry(each));
  story.update(id, ...entries);
  return entries;
}

function settle(story: DataStory, each: StoryEntry | undefined, state: StoryEntry['state']): void {
  assert(each !== undefined);
  story.settle(each, state);
}

const APPLIED = { kind: 'applied' } as const;
const failing = (error: string): StoryEntry['state'] => ({ kind: 'fetching', error });
const blocked = (error: string): StoryEntry['state'] => ({ kind: 'blocked', error });

/** All that makes a client healthy but the data. */
function good(status: Status): void {
  status.engineSeen(true);
  status.policyResult('c1', '');
}

describe('ready', () => {
  it('needs policy and data once, each only where it is enabled', () => {
    for (const policy of [true, false]) {
      for (const data of [true, false]) {
        const { status, story } = start({ policy, data });
        assert.equal(status.ready, !policy && !data);
        if (policy) status.policyResult('c1', '');
        assert.equal(status.ready, !data);
        if (data) story.update('initial-load');
        assert.equal(status.ready, true);
      }
    }
  });

  it('stays when policy or data fail later', () => {
    const { status, story } = start();
    status.policyResult('c1', '');
    story.update('initial-load');
    status.policyResult('c2', 'does not compile');
    const [a] = transaction(story, 'u', 'a');
    settle(story, a, blocked('rule'));
    assert.deepEqual([status.ready, status.healthy], [true, false]);
  });

  it('a policy that was refused first does not count', () => {
    const { status } = start({ data: false });
    status.policyResult('c1', 'does not compile');
    assert.equal(status.ready, false);
    status.policyResult('c2', '');
    assert.equal(status.ready, true);
  });

  it('data is there when all initial sources are in', () => {
    const { status, story } = start({ policy: false });
    const [a, b] = transaction(story, 'initial-load', 'a', 'b');
    story.configRead();
    settle(story, a, APPLIED);
    assert.equal(status.ready, false);
    settle(story, b, failing('404'));
    assert.equal(status.ready, false);
    settle(story, b, APPLIED);
    assert.equal(status.ready, true);
  });

  it('or when a later update was in before them, or nothing is left of them to load', () => {
    const one = start({ policy: false });
    transaction(one.story, 'initial-load', 'a');
    const [b] = transaction(one.story, 'u', 'b');
    settle(one.story, b, APPLIED);
    assert.equal(one.status.ready, true);
    const other = start({ policy: false });
    transaction(other.story, 'initial-load');
    assert.equal(other.status.ready, true);
  });
});

describe('what fails', () => {
  it('has its parts, whatever is in a path', () => {
    const { status, story } = start();
    const [odd] = transaction(story, 'u', 'a: b');
    settle(story, odd, failing('answered 503: later'));
    assert.deepEqual(
      status.failures.map(({ path, error, kind }) => ({ path, error, kind })),
      [{ path: '/p/a: b', error: 'answered 503: later', kind: 'source' }],
    );
  });

  it('says which commit is wanted, which is held, and where the wanted one fails', () => {
    const { status } = start();
    status.policyResult('c1', '');
    status.policyResult('c2', 'a.rego:3: no', { file: 'a.rego', row: 3 });
    const { wanted, held, error } = status.policy;
    assert.deepEqual([wanted, held, error], ['c2', 'c1', { message: 'a.rego:3: no', file: 'a.rego', line: 3 }]);
  });
});

describe('healthy', () => {
  it('needs the engine, the latest policy, and that no entry fails', () => {
    const { status } = start({ data: false });
    assert.equal(status.healthy, false);
    good(status);
    assert.equal(status.healthy, true);
    status.engineSeen(false, 'gone');
    assert.deepEqual([status.healthy, status.engine.error], [false, 'gone']);
    status.engineSeen(true);
    assert.deepEqual([status.healthy, status.engine.online, status.engine.error], [true, true, undefined]);
    status.policyResult('c2', 'does not compile');
    assert.equal(status.healthy, false);
    status.policyResult('c3', '');
    assert.equal(status.healthy, true);
  });

  it('counts a failure from the first attempt, and heals only when nothing fails any more', () => {
    const { status, story } = start();
    good(status);
    const [a, b] = transaction(story, 'u1', 'a', 'b');
    settle(story, a, APPLIED);
    settle(story, b, failing('404'));
    assert.deepEqual(
      [status.failures.map(({ path, error }) => [path, error]), status.transactions.data.last?.success],
      [[['/p/b', '404']], false],
    );
    const [c] = transaction(story, 'u2', 'c');
    settle(story, c, APPLIED);
    assert.deepEqual(
      [status.transactions.data.last?.success, status.healthy],
      [true, false],
      'a later good one heals nothing',
    );
    settle(story, b, APPLIED);
    assert.equal(status.healthy, true);
  });

  it('an entry that is no longer wanted does not fail', () => {
    const { status, story } = start();
    good(status);
    story.update('initial-load');
    const [a] = transaction(story, 'u1', 'a');
    settle(story, a, failing('404'));
    assert(a !== undefined);
    story.forget(a);
    assert.deepEqual([status.failing.size, status.healthy], [0, true]);
  });
});

describe('a data transaction', () => {
  it('is told once, when its last entry is settled', () => {
    const { story, finished } = start();
    const [a, b] = transaction(story, 'u1', 'a', 'b');
    settle(story, a, APPLIED);
    assert.deepEqual(finished, []);
    settle(story, b, APPLIED);
    settle(story, b, APPLIED);
    assert.deepEqual(
      finished.map(({ id, success, error, reason, entries }) => ({ id, success, error, reason, entries })),
      [{ id: 'u1', success: true, error: '', reason: 'reason of u1', entries: 2 }],
    );
  });

  it('is not over before all its entries have joined', () => {
    const { story, finished } = start();
    const key = story.begin('u1');
    const a = story.entry('a');
    story.join(key, a);
    settle(story, a, APPLIED);
    assert.equal(finished.length, 0);
    story.seal(key);
    assert.equal(finished.length, 1);
  });

  it('that failed on the way and went well in the end is a success; what is withheld is not', () => {
    const { status, story, finished } = start();
    const [a] = transaction(story, 'u1', 'a');
    settle(story, a, failing('503'));
    settle(story, a, APPLIED);
    const [b, c] = transaction(story, 'u2', 'b', 'c');
    settle(story, b, blocked('a rule is there'));
    settle(story, c, APPLIED);
    assert.deepEqual(
      finished.map(({ id, success, error }) => [id, success, error]),
      [
        ['u1', true, ''],
        ['u2', false, 'a rule is there'],
      ],
    );
    assert.equal(status.transactions.data.last?.id, 'u2');
  });

  it('two with the same id are two', () => {
    const { story, finished } = start();
    const [a] = transaction(story, 'u', 'a');
    const [b] = transaction(story, 'u', 'b');
    settle(story, b, APPLIED);
    settle(story, a, APPLIED);
    assert.equal(finished.length, 2);
  });

  it('without entries says nothing, and is no success to wait for', () => {
    const { status, story, finished } = start();
    transaction(story, 'u');
    assert.deepEqual([finished.length, status.transactions.data.last, status.ready], [0, undefined, false]);
  });

  it('what belongs to none is no harm', () => {
    const { status, story, finished } = start();
    const stray = story.entry('x');
    story.join('gone#1', stray);
    settle(story, stray, failing('no'));
    story.forget(stray);
    story.seal('gone#1');
    assert.deepEqual([finished.length, status.failing.size], [0, 0]);
  });
});

it('the state began when it became ready or healthy, or ceased to be, not with any other change', (t) => {
  t.mock.timers.enable({ apis: ['Date'], now: 1000 });
  const later = (): void => t.mock.timers.tick(1000);
  const { status, story } = start();
  assert.equal(status.sinceMs, 1000);
  later();
  good(status);
  const [first, other] = transaction(story, 'u1', 'a', 'b');
  settle(story, first, APPLIED);
  settle(story, other, APPLIED);
  assert.deepEqual([status.healthy, status.sinceMs], [true, 2000]);
  later();
  status.policyResult('c2', '');
  const [third, fourth] = transaction(story, 'u2', 'c', 'd');
  settle(story, third, APPLIED);
  settle(story, fourth, APPLIED);
  assert.deepEqual([status.healthy, status.sinceMs], [true, 2000], 'it holds other things');
  later();
  const [fifth, sixth] = transaction(story, 'u3', 'e', 'f');
  settle(story, fifth, failing('no answer'));
  assert.deepEqual([status.healthy, status.sinceMs], [false, 4000]);
  later();
  settle(story, sixth, failing('no answer'));
  assert.deepEqual([status.healthy, status.sinceMs], [false, 4000], 'more fails');
  later();
  settle(story, fifth, APPLIED);
  settle(story, sixth, APPLIED);
  assert.deepEqual([status.healthy, status.sinceMs], [true, 6000]);
});
