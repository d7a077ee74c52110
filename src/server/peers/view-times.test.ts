import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WELL } from '../../../test/support/session-report.js';
import { ToldInstance } from '../../../test/support/told-view.js';
import { createTraceMemory } from '../changes/change-times.js';
import { newClient } from '../clients/known-client.js';
import type { SaidOfItself } from './presence-journal.js';
import type { InstanceView } from './presence-text.js';

const HOUR = 3_600_000;
const VITALS = {
  ...{ name: 'a', version: '1', startedMs: 0, memory: 1, loopMs: null, isUp: true, backboneMs: null },
  ...{ isDraining: false, source: 'none' },
};
const INFO = { host: 'h', port: 1, topics: ['t'] };

/** What an instance says at a time by its own clock, which that of the log is so far ahead of. */
function announcement(now: number, clockAheadMs: number | undefined): SaidOfItself {
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
  const vitals = { ...VITALS, startedMs: now - 5000, ...(clockAheadMs !== undefined && { clockAheadMs }) };
  return { seen: 7, clients: [client], memory, vitals };
}

/** What is read of it at once, by a clock that that of the log is so far ahead of. */
async function readAt(told: ToldInstance, now: number, theirs?: number, ours?: number): Promise<InstanceView> {
  told.nowMs = now - 1000;
  told.clockAheadMs = ours;
  await told.say(announcement(now, theirs));
  return await told.read();
}

test('what another instance says is the same by our clock, whatever clock it has', async () => {
  const NOW = 50 * HOUR;
  const wanted = await readAt(new ToldInstance(), NOW, 0, 0);
  assert.deepEqual(
    [wanted.atMs, wanted.vitals?.startedMs, wanted.clients[0]?.claimedMs],
    [NOW, NOW - 5000, NOW - 1000],
  );
  for (const ahead of [HOUR, -HOUR]) {
    const seen = await readAt(new ToldInstance(), NOW + ahead, -ahead, 0);
    assert.deepEqual(seen, { ...wanted, vitals: { ...wanted.vitals, clockAheadMs: -ahead } }, `${ahead} ms ahead`);
  }
});

test('how clocks differ follows from that of the log, and stays while it changes by little', async () => {
  const NOW = 50 * HOUR;
  const told = new ToldInstance();
  told.readMs = NOW + 2 * HOUR;
  /**
   * When an announcement counts as made whose instance knows the clock of the log to be that far
   * ahead.
   */
  const made = async (theirs: number | undefined, ours: number | undefined): Promise<number> =>
    (await readAt(told, NOW, theirs, ours)).atMs - NOW;
  assert.equal(await made(undefined, 5), 2 * HOUR, 'when it was seen');
  assert.equal(await made(5, undefined), 2 * HOUR);
  assert.equal(await made(HOUR + 5, 5), HOUR);
  assert.equal(await made(HOUR + 15, 0), HOUR);
  assert.equal(await made(HOUR + 30, 0), HOUR + 30);
  assert.equal(await made(undefined, HOUR), 2 * HOUR);
  assert.equal(await made(-HOUR, HOUR), -2 * HOUR);
  assert.equal(await made(-HOUR + 10, HOUR), -2 * HOUR, 'what was known before stays while it is not told');
  // With the instance, its clock is forgotten.
  told.readMs += 100_000;
  assert.equal(await made(-HOUR + 10, HOUR), -2 * HOUR + 10);
});

test('an announcement counts as made when it was seen where clocks are not known, and never later', async () => {
  const NOW = 50 * HOUR;
  const told = new ToldInstance();
  told.readMs = NOW;
  assert.equal((await readAt(told, NOW - HOUR)).atMs, NOW);
  assert.equal((await readAt(told, NOW + 30, 0, 0)).atMs, NOW);
});
