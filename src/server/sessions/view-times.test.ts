import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WELL } from '../../../test/support/session-report.js';
import { createTraceMemory } from '../trace/change-times.js';
import { newClient } from './known-client.js';
import { InstanceMemory } from './other-instances.js';
import { printView, readView } from './presence-text.js';
import { viewInOurTime } from './view-times.js';

const HOUR = 3_600_000;
const VITALS = {
  ...{ name: 'a', version: '1', startedMs: 0, memory: 1, loopMs: null, isUp: true, backboneMs: null },
  ...{ isDraining: false, source: 'none' },
};
const INFO = { host: 'h', port: 1, topics: ['t'] };

/** The announcement of an instance at a time by its own clock. */
async function announcement(now: number) {
  const memory = createTraceMemory();
  const spans = [{ from: 1, until: 2, fromMs: now - 900, untilMs: now - 800 }];
  const client = {
    ...newClient(
      { kind: 'session', subject: null, clientId: 'c' },
      { ...INFO, connectedAtMs: now - 700 },
      { ...{ instance: 'a', claimedMs: now - 1000 }, spans },
    ),
    awaySinceMs: now - 100,
    reportedAtMs: now - 200,
    lastError: { path: '/a', error: 'E', atMs: now - 300 },
    state: {
      ...{ ...WELL, since: now - 400 },
      policy: { wanted: 'c', held: 'c', error: null, since: now - 500 },
      engine: { kind: 'opa', version: null, online: true, since: now - 600 },
      failing: [{ path: '/a', error: 'E', since: now - 650 }],
    },
  };
  memory.updates.reached(7, 'received', now - 50);
  memory.updates.reached(7, 'announced', now - 40);
  memory.updates.said(7, client.key, { heard: now - 35, applied: now - 30, appliedSeen: now - 20 });
  return await readView(await printView({ instance: 'a', atMs: now, seen: 7, clients: [client], leftOut: 0, memory }));
}

test('what another instance says is the same by our clock, whatever clock it has', async () => {
  const NOW = 50 * HOUR;
  const wanted = await announcement(NOW);
  for (const ahead of [0, HOUR, -HOUR]) {
    const seen = viewInOurTime(await announcement(NOW + ahead), { by: -ahead, seenMs: NOW + 900 });
    assert.deepEqual(seen, wanted, `${ahead} ms ahead`);
  }
});

test('how clocks differ follows from that of the log, and stays while it changes by little', async () => {
  const NOW = 50 * HOUR;
  const memory = new InstanceMemory(1000);
  let nowMs = 0;
  /** When an announcement counts as made whose instance knows the clock of the log to be that far ahead. */
  const made = async (theirs: number | undefined, ours: number | undefined): Promise<number> => {
    const view = { ...(await announcement(NOW)), vitals: { ...VITALS, clockAheadMs: theirs } };
    const said = memory.byOurClock('two', view, { ours, seenMs: NOW + 2 * HOUR });
    memory.take(new Map([['two', { text: String(nowMs), leftMs: 1000, ...said }]]), [], nowMs++);
    return (said.view?.atMs ?? 0) - NOW;
  };
  assert.equal(await made(undefined, 5), 2 * HOUR, 'when it was seen');
  assert.equal(await made(5, undefined), 2 * HOUR);
  assert.equal(await made(HOUR + 5, 5), HOUR);
  assert.equal(await made(HOUR + 15, 0), HOUR);
  assert.equal(await made(HOUR + 30, 0), HOUR + 30);
  assert.equal(await made(undefined, HOUR), 2 * HOUR);
  assert.equal(await made(-HOUR, HOUR), -2 * HOUR);
  assert.equal(await made(-HOUR + 10, HOUR), -2 * HOUR, 'what was known before stays while it is not told');
  // With the instance, its clock is forgotten.
  nowMs += 100_000;
  memory.take(new Map(), [], nowMs);
  assert.equal(await made(-HOUR + 10, HOUR), -2 * HOUR + 10);
});

test('an announcement counts as made when it was seen where clocks are not known, and never later', async () => {
  const NOW = 50 * HOUR;
  assert.equal(viewInOurTime(await announcement(NOW - HOUR), { by: undefined, seenMs: NOW }).atMs, NOW);
  assert.equal(viewInOurTime(await announcement(NOW + 30), { by: 0, seenMs: NOW }).atMs, NOW);
});
