import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../../test/support/until.js';
import type { Limits } from '../../auth/caller.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import { Wakeup } from '../../lib/run/async.js';
import type { FleetSummary } from '../../wire/fleet.js';
import { createTraceMemory } from '../changes/change-times.js';
import { newClient } from '../clients/known-client.js';
import { RecentUpdates } from '../clients/recent-updates.js';
import type { AuditRecord } from '../log/update-log.js';
import { CommitAbouts } from './commit-abouts.js';
import type { FeedReader } from './feed.js';
import { FleetFeeds } from './feeds.js';
import type { FleetSources } from './gather.js';

/** Nobody is there; counts looks and listeners. */
function nobody() {
  const counts = { looks: 0, listeners: 0 };
  const listen = () => {
    counts.listeners++;
    return () => {
      counts.listeners--;
      return true;
    };
  };
  const log = {
    epoch: 'e',
    head: 0,
    status: { up: true },
    heads: () => ({}),
    audit: async () => ({ records: [], next: undefined }),
  };
  const commits = { served: () => [], about: async () => new Map() };
  const sources = {
    instance: 'i',
    log: { ...log, onRecord: listen, onPolicy: listen, onSkipped: listen },
    recent: new RecentUpdates(0),
    registry: { watch: listen },
    everyone: async () => {
      counts.looks++;
      return { named: [], connected: new Map(), views: [], incomplete: null, unheard: null };
    },
    memory: createTraceMemory(),
    tracker: undefined,
    commits,
    abouts: new CommitAbouts(commits, silentLogger()),
    instances: { list: () => [] },
    now: Date.now,
    logger: silentLogger(),
  } as unknown as FleetSources;
  return { counts, sources };
}

/** What the data of each event says. */
const dataOf = (frame: string): Record<string, unknown> => JSON.parse(/^data: (.*)$/m.exec(frame)?.[1] ?? '{}');

const WHOLE: Limits = { permittedTopics: undefined, permittedPaths: undefined, isLimited: false };
const limitedTo = (topic: string): Limits => ({ ...WHOLE, permittedTopics: new Set([topic]), isLimited: true });

function reader(): FeedReader & { readonly snapshots: string[] } {
  const snapshots: string[] = [];
  return {
    seesPublisher: true,
    snapshots,
    onSnapshot: (event) => snapshots.push(event.frame(true).toString()),
    onDelta: () => undefined,
  };
}

const WITHIN = { withinMs: 10_000 };

test('nothing is looked at while nobody watches', async () => {
  const { counts, sources } = nobody();
  const feeds = new FleetFeeds(sources, { betweenMs: 1, idleMs: 5 });
  assert.deepEqual(counts, { looks: 0, listeners: 0 });
  const one = reader();
  const watch = feeds.watch(one, { limits: WHOLE, lastEventId: undefined });
  await until(() => one.snapshots.length === 1, { ...WITHIN, what: 'a snapshot' });
  await until(() => counts.looks > 2, { ...WITHIN, what: 'more looks' });
  assert.equal(counts.listeners, 4);
  watch.end();
  await until(() => counts.listeners === 0, { ...WITHIN, what: 'the end of the looks' });
  const { looks } = counts;
  const other = reader();
  feeds.watch(other, { limits: WHOLE, lastEventId: undefined });
  await until(() => other.snapshots.length === 1, { ...WITHIN, what: 'a snapshot after a rest' });
  assert(counts.looks > looks);
  await feeds.close();
  assert.equal(counts.listeners, 0);
});

test('what it takes to list the clients counts: looks leave four fifths of the time to others', async () => {
  const { sources } = nobody();
  const [busyMs, looks] = [20, [] as { fromMs: number; toMs: number }[]];
  const everyone: FleetSources['everyone'] = async (awaiting = (work) => work) => {
    await awaiting(Promise.resolve());
    const fromMs = performance.now();
    while (performance.now() < fromMs + busyMs);
    looks.push({ fromMs, toMs: performance.now() });
    return { named: [], connected: new Map(), views: [], incomplete: null, unheard: null };
  };
  const feeds = new FleetFeeds({ ...sources, everyone }, { betweenMs: 1, idleMs: 1 });
  feeds.watch(reader(), { limits: WHOLE, lastEventId: undefined });
  await until(() => looks.length === 3, { ...WITHIN, what: 'three looks' });
  await feeds.close();
  for (const [index, { fromMs }] of looks.slice(1).entries()) {
    const rest = fromMs - (looks[index]?.toMs ?? 0);
    assert(rest >= busyMs * 4 - 2, `${rest} ms`); // timers may fire a little early
  }
});

test('all with the same limits share one feed, and there is room for fifty limits', async () => {
  const { sources } = nobody();
  const feeds = new FleetFeeds(sources, { betweenMs: 1, idleMs: 5 });
  const watch = (limits: Limits) => feeds.watch(reader(), { limits, lastEventId: undefined });
  const watches = Array.from({ length: 50 }, (_, at) => watch(limitedTo(`t${at}`)));
  watch(limitedTo('t0'));
  watch(WHOLE);
  const isFull = (error: unknown): boolean => error instanceof SyncError && error.code === 'too_many_watchers';
  assert.throws(() => watch(limitedTo('one more')), isFull);
  watches[7]?.end();
  watch(limitedTo('one more'));
  assert.throws(() => watch(limitedTo('and another')), isFull);
  await feeds.close();
});

test('who comes back gets what it missed meanwhile, as one delta or none', async () => {
  const { sources } = nobody();
  const feeds = new FleetFeeds(sources, { betweenMs: 1, idleMs: 5 });
  const one = reader();
  const watch = feeds.watch(one, { limits: WHOLE, lastEventId: undefined });
  await until(() => one.snapshots.length === 1, { ...WITHIN, what: 'a snapshot' });
  const [, id = ''] = /^id: (.*)$/m.exec(one.snapshots[0] ?? '') ?? [];
  watch.end();
  const deltas: string[] = [];
  const back: FeedReader = {
    seesPublisher: true,
    onSnapshot: () => assert.fail('it was told everything again'),
    onDelta: (event) => deltas.push(event.frame(true).toString()),
  };
  feeds.watch(back, { limits: WHOLE, lastEventId: id });
  Object.assign(sources.log, { head: 7 });
  await until(() => deltas.length > 0, { ...WITHIN, what: 'a delta' });
  assert.match(deltas[0] ?? '', /^event: delta\nid: \S+-1\ndata: .*"head":7/);
  await feeds.close();
});

test('an update that comes amid a look counts from the next look on: no row is older than what it is held against', async () => {
  const { sources } = nobody();
  const listeners = new Set<(record: AuditRecord) => void>();
  const heads: Record<string, number> = {};
  const appended = (seq: number): void => {
    Object.assign(sources.log, { head: seq });
    heads.t = seq;
    sources.recent.add({ seq, timeMs: seq, topics: ['t'] });
    const entries = [{ topics: ['t'], dst_path: '/a' }];
    const record = { seq, timeMs: seq, entries, id: `${seq}`, reason: '', publisher: null } as unknown as AuditRecord;
    for (const listener of listeners) listener(record);
  };
  Object.assign(sources.log, {
    heads: () => heads,
    onRecord: (listener: (record: AuditRecord) => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  });
  const spans = [{ from: 0, until: null }];
  const peer = { host: 'h', port: 1, topics: ['t'], connectedAtMs: 0 };
  const about = { instance: 'i', claimedMs: 0, spans };
  const position = { epoch: 'e', applied_through: 0, applied_beyond: [], unresolved: [] };
  const client = { ...newClient({ kind: 'session', subject: null, clientId: 'c' }, peer, about), position };
  let amid = (): void => undefined;
  const everyone = async () => {
    const found = { named: [['c', client] as const], connected: new Map(), views: [], incomplete: null, unheard: null };
    amid();
    return found;
  };
  const feeds = new FleetFeeds({ ...sources, everyone }, { betweenMs: 1, idleMs: 5 });
  const one = reader();
  const summaries: FleetSummary[] = [];
  const deltas: FeedReader = {
    ...one,
    onDelta: (event) => {
      const { summary } = dataOf(event.frame(true).toString());
      if (summary !== undefined) summaries.push(summary as FleetSummary);
    },
  };
  feeds.watch(deltas, { limits: WHOLE, lastEventId: undefined });
  await until(() => one.snapshots.length === 1, { ...WITHIN, what: 'a snapshot' });
  amid = () => {
    amid = () => undefined;
    appended(1);
  };
  await until(() => summaries.length > 0, { ...WITHIN, what: 'the update' });
  await feeds.close();
  for (const { data } of summaries) assert.deepEqual([data.head, data.counts], [1, { behind: 1 }]);
});

test('updates with very many topics are not kept until the next look: the log is read again', async (t) => {
  const { sources } = nobody();
  const listeners = new Set<(record: AuditRecord) => void>();
  let reads = 0;
  const audit = async () => {
    reads++;
    return { records: [], next: undefined };
  };
  Object.assign(sources.log, {
    head: 1,
    audit,
    onRecord: (listener: (record: AuditRecord) => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  });
  const feeds = new FleetFeeds(sources, { betweenMs: 1, idleMs: 5 });
  t.after(() => feeds.close());
  const one = reader();
  feeds.watch(one, { limits: WHOLE, lastEventId: undefined });
  await until(() => one.snapshots.length === 1, { ...WITHIN, what: 'a snapshot' });
  assert.equal(reads, 1);
  for (let seq = 1; seq <= 3; seq++) {
    const topics = Array.from({ length: 40_000 }, (_, at) => `${seq}/${at}`);
    const about = { seq, timeMs: seq, id: `${seq}`, reason: '', publisher: null };
    const record = { ...about, entries: [{ topics, dst_path: '/a' }] } as unknown as AuditRecord;
    for (const listener of listeners) listener(record);
  }
  await until(() => reads === 2, { ...WITHIN, what: 'the log is read again' });
});

test('the served commit stays among the changes, however many updates came since', async () => {
  const { sources } = nobody();
  const record = (seq: number) => ({
    ...{ seq, timeMs: 1_000_000 + seq, id: `${seq}`, reason: '', publisher: null },
    entries: [{ topics: ['t'], dst_path: '/a' }],
  });
  const records = Array.from({ length: 200 }, (_, at) => record(200 - at));
  Object.assign(sources.log, { head: 200, audit: async () => ({ records, next: undefined }) });
  const hash = 'a'.repeat(40);
  Object.assign(sources.commits, { served: () => [hash] });
  sources.memory.commits.reached(hash, 'found', 1);
  sources.memory.commits.reached(hash, 'served', 2);
  const tracker = { wanted: () => hash, status: () => ({ state: 'following', head: hash, warnings: [] }) };
  const feeds = new FleetFeeds({ ...sources, tracker } as unknown as FleetSources, { betweenMs: 1, idleMs: 5 });
  const one = reader();
  feeds.watch(one, { limits: WHOLE, lastEventId: undefined });
  await until(() => one.snapshots.length === 1, { ...WITHIN, what: 'a snapshot' });
  await feeds.close();
  const { changes } = dataOf(one.snapshots[0] ?? '') as { changes: { kind: string; id: string }[] };
  assert.deepEqual([changes.length, changes[0]?.id, changes.at(-1)?.id], [50, '200', hash]);
});

test('a rest amid a look is not undone by its end: who comes next gets what is known anew', async () => {
  const { counts, sources } = nobody();
  const gate = new Wakeup();
  const never = new AbortController().signal;
  let reads = 0;
  const audit = async () => {
    if (++reads === 1) await gate.wait(never);
    return { records: [], next: undefined };
  };
  Object.assign(sources.log, { head: 1, audit });
  const feeds = new FleetFeeds(sources, { betweenMs: 1, idleMs: 5 });
  const watch = feeds.watch(reader(), { limits: WHOLE, lastEventId: undefined });
  await until(() => reads === 1, { ...WITHIN, what: 'a look that waits for the log' });
  watch.end();
  gate.set();
  await until(() => counts.listeners === 0, { ...WITHIN, what: 'the end of the looks' });
  const other = reader();
  const again = feeds.watch(other, { limits: WHOLE, lastEventId: undefined });
  assert.deepEqual(other.snapshots, [], 'what was known may be old');
  await until(() => other.snapshots.length === 1, { ...WITHIN, what: 'a snapshot' });
  again.end();
  await feeds.close();
});
