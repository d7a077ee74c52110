import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecentUpdates } from '../clients/recent-updates.js';
import type { AuditRecord } from '../log/update-log.js';
import { EventRing, type FeedDeps, FleetFeed } from './feed.js';
import type { Gathered } from './gathered.js';
import { Slices } from './slices.js';

const WHOLE = { permittedTopics: undefined, permittedPaths: undefined, isLimited: false };
const DEPS = {
  ...{ instance: 'i', environment: undefined, recent: new RecentUpdates(0), now: Date.now },
  log: { epoch: 'e', head: 0, heads: () => ({}), audit: async () => ({ records: [], next: undefined }) },
} as unknown as FeedDeps;
const GATHERED: Gathered = {
  ...{ atMs: 1, epoch: 'e', head: 0, named: [], incomplete: null, memories: [], commits: [], source: null },
  ...{ policy: { commit: undefined, order: [], timesOf: () => undefined }, instances: [] },
};

/** An update with 20 topics and paths, each of 500 characters. */
function large(seq: number): AuditRecord {
  const entries = Array.from({ length: 20 }, (_, at) => ({
    ...{ topics: [`${at}${'t'.repeat(500)}`], dst_path: `/${at}${'p'.repeat(500)}`, url: '', save_method: 'PUT' },
  }));
  const about = { id: `u${seq}`, timeMs: seq, publisher: null, reason: 'r'.repeat(10_000), callbacks: [] };
  return { seq, ...about, entries } as unknown as AuditRecord;
}

test('events are kept by what they hold: of large changes only the last few', async () => {
  const feed = new FleetFeed(WHOLE, DEPS);
  const ids: string[] = [];
  const noteId = (event: { frame(seesPublisher: boolean): Buffer }): void => {
    ids.push(/^id: (.*)$/m.exec(String(event.frame(true)))?.[1] ?? '');
  };
  feed.watch({ seesPublisher: true, onSnapshot: noteId, onDelta: noteId }, undefined);
  await feed.update({ gathered: GATHERED, touched: undefined, dataHead: 0 }, new Slices());
  const looks = 8;
  for (let look = 1; look <= looks; look++) {
    for (let at = 0; at < 50; at++) feed.recorded(large(look * 50 + at));
    const gathered = { ...GATHERED, atMs: 1 + look };
    await feed.update({ gathered, touched: new Set(), dataHead: 0 }, new Slices());
  }
  assert.equal(ids.length, 1 + looks);
  const missed = (lastEventId: string | undefined) => {
    const told = { snapshots: 0, deltas: 0 };
    feed.watch(
      { seesPublisher: true, onSnapshot: () => told.snapshots++, onDelta: () => told.deltas++ },
      lastEventId,
    )();
    return told;
  };
  assert.deepEqual(missed(ids.at(-2)), { snapshots: 0, deltas: 1 });
  assert.deepEqual(missed(ids[0]), { snapshots: 1, deltas: 0 }, 'eight of them have more than 4 MB');
});

const ring = (events: number, size = 1000): EventRing<string> => {
  const made = new EventRing<string>({ events: 3, size });
  for (let at = 1; at <= events; at++) made.add(`e${at}`, 10);
  return made;
};

test('who has seen an event gets those after it', () => {
  assert.deepEqual(ring(2).after(0), ['e1', 'e2']);
  assert.deepEqual(ring(2).after(1), ['e2']);
  assert.deepEqual(ring(2).after(2), []);
});

test('of a number that is not known, or too old, nothing is said', () => {
  assert.equal(ring(2).after(3), undefined);
  assert.equal(ring(5).after(1), undefined);
  assert.deepEqual(ring(5).after(2), ['e3', 'e4', 'e5']);
});

test('it is bounded by size, too', () => {
  assert.equal(ring(3, 25).after(0), undefined);
  assert.deepEqual(ring(3, 25).after(1), ['e2', 'e3']);
  assert.deepEqual(ring(3, 5).after(3), []);
});
