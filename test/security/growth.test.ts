import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { ChangeFeed } from '../../src/client/decisions/change-feed.js';
import { LastAnswers } from '../../src/client/decisions/decisions.js';
import { Questions } from '../../src/client/decisions/question.js';
import { UpdateReader } from '../../src/client/reconcile/update-reader.js';
import { EntrypointTable } from '../../src/embedded/entrypoints.js';
import { SyncError } from '../../src/lib/errors.js';
import { JsonText } from '../../src/lib/json/json-text.js';
import { type Logger, silentLogger } from '../../src/lib/observe/log.js';
import { Tarpit } from '../../src/pubsub/tarpit.js';
import { IdClaims } from '../../src/server/clients/id-claims.js';
import { RecentUpdates } from '../../src/server/clients/recent-updates.js';
import { AwayClients } from '../../src/server/clients/registry.js';
import { CommitAbouts } from '../../src/server/live/commit-abouts.js';
import { Fold } from '../../src/server/log/fold.js';
import { FoldedLog } from '../../src/server/log/folded-log.js';
import { LargeRows } from '../../src/server/log/large-rows.js';
import { type LogStore, scannedRow } from '../../src/server/log/log-store.js';
import { updateBodyText } from '../../src/server/log/row.js';
import { RowRefs } from '../../src/server/log/row-refs.js';
import { TailReader } from '../../src/server/log/tail-reader.js';
import { createSnapshots } from '../../src/server/policy/bundle/snapshot.js';
import { PolicyFreshness } from '../../src/server/policy/policy-freshness.js';
import { MemoryLog } from '../support/memory-log-store.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/**
 * What a peer can make a program remember is bounded: each list, map and set that it can grow is fed with more names than it may keep, and
 * the heap says what stayed. `test/kept.test.ts` has the table of all of them.
 */

const MIB = 1024 * 1024;
const NAME_CHARS = 400;
/** Names that are fed, and what may stay of their four megabytes. */
const USUAL = { names: 10_000, stays: 1.3 * MIB };
/** Where ten thousand may stay, and where names are short. */
const OTHERWISE: Readonly<Record<string, typeof USUAL>> = {
  'src/server/log/tail-reader.ts #kept': { names: 15_000, stays: 4 * MIB },
  'src/server/log/fold.ts #passing': { names: 30_000, stays: 9 * MIB },
  'src/pubsub/tarpit.ts #addresses': { names: 30_000, stays: 9 * MIB },
  'src/server/policy/policy-freshness.ts #unknown': { names: 20_000, stays: 1 * MIB },
};

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

/** Feeds one name. */
type Feed = (name: string, index: number) => unknown;

const fetching = { url: '', topics: ['t'], save_method: 'PUT' as const };

/** What is fed, by the place in the table of `test/kept.test.ts`. */
const FED: Readonly<Record<string, () => Feed>> = {
  'src/server/log/fold.ts #passing': () => {
    const fold = new Fold(new RowRefs());
    return (name) => fold.passed([{ ...fetching, dst_path: `/${name}` }]);
  },
  'src/server/log/tail-reader.ts #kept': () => {
    const body = (id: string): string =>
      updateBodyText({ id, publisher: null, reason: null, callbacks: [], entries: [{ ...fetching, dst_path: '/a' }] });
    let last = '';
    const store = {
      scan: async (from) =>
        'after' in from ? [scannedRow({ seq: from.after + 1, timeMs: 0, kind: 'update', body: body(last) }, [])] : [],
      read: async () => [],
    } satisfies Pick<LogStore, 'scan' | 'read'>;
    const reader = new TailReader(store, new LargeRows(store), () => 15_001);
    return async (name, index) => {
      last = name;
      await reader.read(index, 1);
    };
  },
  'src/server/clients/recent-updates.ts #updates': () => {
    const recent = new RecentUpdates(0, 1000);
    return (name, index) => recent.add({ seq: index + 1, timeMs: 0, topics: [name] });
  },
  'src/server/clients/registry.ts #subjectOf': () => {
    const away = new AwayClients(1000);
    return (name) => {
      away.add(name, null);
      away.trim(
        () => false,
        () => undefined,
      );
    };
  },
  'src/server/clients/id-claims.ts #kept': () => {
    const claims = new IdClaims({ memoryMs: 1e9 });
    return (name) => {
      claims.use(name, 'somebody', 0);
      claims.release(name, 'somebody', 0);
    };
  },
  'src/server/policy/bundle/snapshot.ts createSnapshots.kept': () => {
    const objects = {
      files: async (name: string) => [{ path: `${name}/data.json`, blob: name }],
      blobs: async () => new Map(),
    };
    const snapshots = createSnapshots(
      { policyExtensions: ['.rego'], manifestPath: '', ignore: [] },
      { objects: objects as unknown as Parameters<typeof createSnapshots>[1]['objects'] },
    );
    return (name) => snapshots.get(name);
  },
  'src/server/live/commit-abouts.ts #asked': () => {
    const abouts = new CommitAbouts({ served: () => [], about: async () => new Map() } as never, silentLogger());
    return (name) => abouts.read([name]);
  },
  'src/server/policy/policy-freshness.ts #unknown': () => {
    const freshness = new PolicyFreshness({
      tracker: { head: () => 'h', wanted: () => 'h', refresh: async () => undefined } as never,
      heads: { look: () => ({ head: undefined }) } as never,
      objects: { hasCommit: async () => false },
      source: { isSuccessor: async () => false },
      isLogUp: () => true,
    });
    return (_name, index) => freshness.check(index.toString(16).padStart(64, '0'), false);
  },
  'src/client/decisions/question.ts #paths': () => {
    const questions = new Questions();
    return (name) => questions.path(name);
  },
  'src/client/decisions/decisions.ts #kept': () => {
    const answers = new LastAnswers({ count: 1000, maxAgeMs: 1e9 });
    return (name) => answers.keep({ path: name, input: undefined }, {} as never);
  },
  'src/client/decisions/change-feed.ts #written': () => {
    const feed = new ChangeFeed({ reads: () => [], log: silentLogger() });
    feed.subscribe('a', () => undefined);
    return (name) => feed.documentsChanged([[name]]);
  },
  'src/client/reconcile/update-reader.ts #recent': () => {
    const deps = {
      log: silentLogger(),
      cursor: { place: () => 1 },
      entries: {},
      topics: [],
      events: { emit: () => undefined },
    };
    const reader = new UpdateReader({ backoff: { minMs: 1, maxMs: 1 } }, deps as never);
    reader.take = () => undefined;
    return (name, index) => reader.takeUnplaced({} as never, name, String(index));
  },
  'src/embedded/entrypoints.ts #entries': () => {
    const table = new EntrypointTable(100, { fixed: [], known: [] });
    return (name) => table.use(name);
  },
  'src/pubsub/tarpit.ts #addresses': () => {
    const tarpit = new Tarpit(0);
    const socket = {
      destroyed: false,
      readableEnded: false,
      once: () => socket,
      off: () => socket,
      resume: () => socket,
    };
    return (name) => void tarpit.hold(name, socket as never); // it waits for nobody where it is full
  },
};

for (const [place, make] of Object.entries(FED)) {
  test(`what peers name is bounded: ${place}`, async () => {
    const feed = make();
    for (let index = -50; index < 0; index++) await feed(nameOf(index), Math.abs(index)); // what is made once
    collect();
    const before = process.memoryUsage().heapUsed;
    const { names, stays: most } = OTHERWISE[place] ?? USUAL;
    for (let index = 100; index < names; index++) await feed(nameOf(index), index);
    const stays = (): number => {
      collect();
      return process.memoryUsage().heapUsed - before;
    };
    // What promises leave behind goes a few turns later.
    await until(() => stays() < most, { withinMs: 3000, what: 'the names are forgotten' });
    await feed(nameOf(-1), names); // it is still there
  });
}

test('the topics of a log have a bound; a topic that it knows is taken', async () => {
  const log = await FoldedLog.open(
    new MemoryLog().handle(),
    {
      exclusive: true,
      patchesPerPath: 10,
      retention: { maxAgeMs: 1e9, maxRows: 10 },
      topics: { count: 100, chars: 1000 },
    },
    { log: silentLogger() },
  );
  const publish = (...topics: string[]) =>
    log.append({
      ...{ id: 'u', publisher: null, reason: null, callbacks: [] },
      entries: [{ ...fetching, topics, dst_path: '/a', data: JsonText.of(1) }],
    });
  const refused = (error: unknown): boolean => error instanceof SyncError && error.code === 'too_many_topics';
  for (let at = 0; at < 100; at++) await publish(`t${at}`);
  await assert.rejects(publish('one more'), refused);
  await assert.rejects(publish('t1', 'one more'), refused);
  await publish('t1', 't99');
  await log.close();
});

test('a connection subscribes to as many topics as it may, and complains of as much as it may', async () => {
  const said: string[] = [];
  const log = { ...silentLogger(), warn: (_fields: object, text: string) => void said.push(text) } as unknown as Logger;
  log.child = () => log;
  await using server = await startServer({}, { log });
  const subscribed = async (count: number, chars: number): Promise<boolean[]> => {
    await using peer = await startPeer(server.url);
    const answers: boolean[] = [];
    for (let batch = 0; batch < 12; batch++) {
      const topics = Array.from({ length: count }, (_, at) => `${batch}/${at}`.padEnd(chars, 'x'));
      answers.push((await peer.call('subscribe', { topics })) as boolean);
    }
    return answers;
  };
  assert.deepEqual(await subscribed(1000, 1), [...Array(10).fill(true), false, false]);
  assert.deepEqual(await subscribed(50, 1000), [...Array(5).fill(true), ...Array(7).fill(false)]);
  assert.deepEqual(await subscribed(1, 1025), Array(12).fill(false));
  const before = said.length;
  await using peer = await startPeer(server.url);
  for (let at = 0; at < 40; at++) await peer.call(`unknown${at}`, {});
  const complaints = said.slice(before).filter((text) => text === 'call not carried out');
  assert.equal(complaints.length, 20);
});

/** A flat text, so that nothing is shared between two of them. */
function nameOf(index: number): string {
  const bytes = Buffer.alloc(NAME_CHARS, 'x');
  bytes.write(`n${index}_`);
  return bytes.toString('latin1');
}
