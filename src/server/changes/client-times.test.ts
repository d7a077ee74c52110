import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WELL } from '../../../test/support/session-report.js';
import { type KnownClient, newClient } from '../clients/known-client.js';
import { RecentUpdates } from '../clients/recent-updates.js';
import { createTraceMemory } from './change-times.js';
import { ClientTimesKeeper } from './client-times.js';

const INFO = { host: 'h', port: 1, topics: ['t'], connectedAtMs: 0 };
const SPANS = [{ from: 0, until: null }];

/** A keeper at a time that stands still, and what it measured in seconds. */
function world(servedCommits: readonly string[] = []) {
  const measured: number[] = [];
  const recent = new RecentUpdates(0);
  const memory = createTraceMemory();
  const clock = { now: 10_000 };
  const times = new ClientTimesKeeper({
    ...{ recent, memory, servedCommits: () => servedCommits },
    feed: (stage) => measured.push(stage.of === 'apply' ? stage.tookMs / 1000 : Number.NaN),
    now: () => clock.now,
  });
  return { times, recent, memory, measured, clock };
}

function client(through: number): KnownClient {
  const made = newClient({ kind: 'session', subject: null, clientId: 'c' }, INFO, {
    ...{ instance: 'i', claimedMs: 0, spans: SPANS },
  });
  const position = { epoch: 'e', applied_through: through, applied_beyond: [], unresolved: [] };
  return { ...made, position, state: { ...WELL, policy_hash: null } };
}

test('measured is until the client had applied an update, not until its report of that arrived', () => {
  const { times, recent, memory, measured, clock } = world();
  for (const seq of [1, 2, 3]) {
    recent.add({ seq, timeMs: 10_000, topics: ['t'] });
    memory.updates.reached(seq, 'received', 9999);
  }
  clock.now = 10_600;
  times.said(client(0), [
    { seq: 1, heard: 10_001, fetched: 10_002, applied: 10_004 },
    { seq: 2, heard: 10_001, replaced: 10_003 },
  ]);
  times.changed(client(3), client(0));
  assert.deepEqual(measured, [0.004, 0.003, 0.6], 'of the last one only its report tells');
  const { applied, appliedSeen } = memory.updates.get(1)?.clients.get(client(0).key) ?? {};
  assert.deepEqual([applied, appliedSeen], [10_004, 10_600]);
});

test('what a client says of commits from before the start is remembered, of those that were served', () => {
  const { times, memory } = world(['now', 'before']);
  times.said(client(0), [
    { commit: 'before', heard: 10, refused: 20 },
    { commit: 'of another branch', heard: 10, applied: 20 },
  ]);
  assert.equal(memory.commits.get('before')?.clients.get(client(0).key)?.refused, 20);
  assert.equal(memory.commits.get('of another branch'), undefined);
});

test('what became of a commit says nothing of when it comes again', () => {
  const { times, memory } = world(['c']);
  memory.commits.reached('c', 'found', 9000);
  memory.commits.reached('c', 'served', 9001);
  times.said(client(0), [{ commit: 'c', heard: 10, applied: 20 }]);
  assert.equal(memory.commits.get('c')?.clients.size, 0);
  times.said(client(0), [{ commit: 'c', heard: 9002, applied: 9010 }]);
  assert.equal(memory.commits.get('c')?.clients.get(client(0).key)?.applied, 9010);
});
