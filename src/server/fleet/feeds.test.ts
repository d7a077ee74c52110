import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../../test/support/until.js';
import type { Limits } from '../../auth/caller.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/log.js';
import { RecentUpdates } from '../sessions/recent-updates.js';
import { createTraceMemory } from '../trace/change-times.js';
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
    sessions: {
      onClient: listen,
      everyone: async () => {
        counts.looks++;
        return { named: [], connected: new Map(), views: [], incomplete: null, unheard: null };
      },
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
  const everyone: FleetSources['sessions']['everyone'] = async (awaiting = (work) => work) => {
    await awaiting(Promise.resolve());
    const fromMs = performance.now();
    while (performance.now() < fromMs + busyMs);
    looks.push({ fromMs, toMs: performance.now() });
    return { named: [], connected: new Map(), views: [], incomplete: null, unheard: null };
  };
  const feeds = new FleetFeeds(
    { ...sources, sessions: { ...sources.sessions, everyone } },
    { betweenMs: 1, idleMs: 1 },
  );
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
