import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { peerEntry } from '../../wire/data.js';
import type { KnownEntry } from '../desired/entry.js';
import type { EntryState } from '../desired/entry-state.js';
import { type FinishedTransaction, Status } from './status.js';

function start(enabled: { policy?: boolean; data?: boolean } = {}): {
  status: Status;
  finished: FinishedTransaction[];
} {
  const finished: FinishedTransaction[] = [];
  const { policy = true, data = true } = enabled;
  const status = new Status({ policyEnabled: policy, dataEnabled: data }, (done) => finished.push(done));
  return { status, finished };
}

function entry(id: string, transaction: string): KnownEntry {
  return {
    id,
    path: ['p', id],
    rank: { era: 1, seq: 1, index: 0 },
    later: undefined,
    origin: 'update',
    epoch: 'e',
    entry: peerEntry.parse({ url: '' }),
    transaction,
    state: { kind: 'fetching', error: undefined },
    fetched: undefined,
  };
}

/** Entries that joined a new transaction, which is sealed. */
function transaction(status: Status, id: string, ...ids: string[]): KnownEntry[] {
  const key = status.begin(id, `reason of ${id}`);
  const entries = ids.map((each) => entry(each, key));
  for (const each of entries) status.joined(key, each);
  status.sealed(key);
  return entries;
}

function settle(status: Status, each: KnownEntry | undefined, state: EntryState): void {
  assert(each !== undefined);
  Object.assign(each, { state });
  status.settled(each);
}

const APPLIED = { kind: 'applied' } as const;
const failing = (error: string): EntryState => ({ kind: 'fetching', error });
const blocked = (error: string): EntryState => ({ kind: 'blocked', error });

/** All that makes a client healthy but the data. */
function good(status: Status): void {
  status.engineSeen(true);
  status.policyResult('c1', '');
}

describe('ready', () => {
  it('needs policy and data once, each only where it is enabled', () => {
    for (const policy of [true, false]) {
      for (const data of [true, false]) {
        const { status } = start({ policy, data });
        assert.equal(status.ready, !policy && !data);
        if (policy) status.policyResult('c1', '');
        assert.equal(status.ready, !data);
        if (data) status.configRead(0);
        assert.equal(status.ready, true);
      }
    }
  });

  it('stays when policy or data fail later', () => {
    const { status } = start();
    status.policyResult('c1', '');
    status.configRead(0);
    status.policyResult('c2', 'does not compile');
    const [a] = transaction(status, 'u', 'a');
    settle(status, a, blocked('rule'));
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
    const { status } = start({ policy: false });
    const [a, b] = transaction(status, 'initial-load', 'a', 'b');
    status.configRead(2);
    settle(status, a, APPLIED);
    assert.equal(status.ready, false);
    settle(status, b, failing('404'));
    assert.equal(status.ready, false);
    settle(status, b, APPLIED);
    assert.equal(status.ready, true);
  });

  it('or when a later update was in before them, or nothing is left of them to load', () => {
    const one = start({ policy: false }).status;
    transaction(one, 'initial-load', 'a');
    const [b] = transaction(one, 'u', 'b');
    settle(one, b, APPLIED);
    assert.equal(one.ready, true);
    const other = start({ policy: false }).status;
    transaction(other, 'initial-load');
    assert.equal(other.ready, true);
  });
});

describe('what fails', () => {
  it('has its parts, whatever is in a path', () => {
    const { status } = start();
    const [odd] = transaction(status, 'u', 'a: b');
    settle(status, odd, failing('answered 503: later'));
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
    const { status } = start();
    good(status);
    const [a, b] = transaction(status, 'u1', 'a', 'b');
    settle(status, a, APPLIED);
    settle(status, b, failing('404'));
    assert.deepEqual(
      [status.failures.map(({ path, error }) => [path, error]), status.lastData?.success],
      [[['/p/b', '404']], false],
    );
    const [c] = transaction(status, 'u2', 'c');
    settle(status, c, APPLIED);
    assert.deepEqual([status.lastData?.success, status.healthy], [true, false], 'a later good one heals nothing');
    settle(status, b, APPLIED);
    assert.equal(status.healthy, true);
  });

  it('an entry that is no longer wanted does not fail', () => {
    const { status } = start();
    good(status);
    status.configRead(0);
    const [a] = transaction(status, 'u1', 'a');
    settle(status, a, failing('404'));
    assert(a !== undefined);
    status.forgotten(a);
    assert.deepEqual([status.failing.size, status.healthy], [0, true]);
  });
});

describe('a data transaction', () => {
  it('is told once, when its last entry is settled', () => {
    const { status, finished } = start();
    const [a, b] = transaction(status, 'u1', 'a', 'b');
    settle(status, a, APPLIED);
    assert.deepEqual(finished, []);
    settle(status, b, APPLIED);
    settle(status, b, APPLIED);
    assert.deepEqual(
      finished.map(({ id, success, error, reason, entries }) => ({ id, success, error, reason, entries })),
      [{ id: 'u1', success: true, error: '', reason: 'reason of u1', entries: 2 }],
    );
  });

  it('is not over before all its entries have joined', () => {
    const { status, finished } = start();
    const key = status.begin('u1', '');
    const a = entry('a', key);
    status.joined(key, a);
    settle(status, a, APPLIED);
    assert.equal(finished.length, 0);
    status.sealed(key);
    assert.equal(finished.length, 1);
  });

  it('that failed on the way and went well in the end is a success; what is withheld is not', () => {
    const { status, finished } = start();
    const [a] = transaction(status, 'u1', 'a');
    settle(status, a, failing('503'));
    settle(status, a, APPLIED);
    const [b, c] = transaction(status, 'u2', 'b', 'c');
    settle(status, b, blocked('a rule is there'));
    settle(status, c, APPLIED);
    assert.deepEqual(
      finished.map(({ id, success, error }) => [id, success, error]),
      [
        ['u1', true, ''],
        ['u2', false, 'a rule is there'],
      ],
    );
    assert.equal(status.lastData?.id, 'u2');
  });

  it('two with the same id are two', () => {
    const { status, finished } = start();
    const [a] = transaction(status, 'u', 'a');
    const [b] = transaction(status, 'u', 'b');
    settle(status, b, APPLIED);
    settle(status, a, APPLIED);
    assert.equal(finished.length, 2);
  });

  it('without entries says nothing, and is no success to wait for', () => {
    const { status, finished } = start();
    transaction(status, 'u');
    assert.deepEqual([finished.length, status.lastData, status.ready], [0, undefined, false]);
  });

  it('what belongs to none is no harm', () => {
    const { status, finished } = start();
    const stray = entry('x', 'gone#1');
    status.joined('gone#1', stray);
    settle(status, stray, failing('no'));
    status.forgotten(stray);
    status.sealed('gone#1');
    assert.deepEqual([finished.length, status.failing.size], [0, 0]);
  });
});
