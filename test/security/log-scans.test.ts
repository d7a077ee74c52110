import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Permitted } from '../../src/auth/caller.js';
import { createHttpApp } from '../../src/http/app.js';
import { JsonText } from '../../src/lib/json/json-text.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { withOverrides } from '../../src/lib/run/with-overrides.js';
import { createTraceMemory } from '../../src/server/changes/change-times.js';
import { findChange } from '../../src/server/changes/find-change.js';
import type { FleetSources } from '../../src/server/live/gather.js';
import { readChanges } from '../../src/server/live/read-changes.js';
import { FoldedLog } from '../../src/server/log/folded-log.js';
import type { LogStore } from '../../src/server/log/log-store.js';
import { openSqliteStore } from '../../src/server/log/sqlite/sqlite-store.js';
import { dataLogRoutes } from '../../src/server/routes/data-log.js';
import { dataUpdatesRoutes } from '../../src/server/routes/data-updates.js';
import { tempDir } from '../support/temp-dir.js';

/** What questions about the update log make a server read, whoever asks them: as little as the answer needs. */

const LARGE = 2 * 1024 * 1024;
/** Large updates of the topic `theirs`, after one small update of the topic `ours`. */
const THEIRS = 12;
const AT_ONCE = 20;
/** Characters of rows that all questions of a test may have carried together. */
const LITTLE = 256 * 1024;

const EVERYTHING: Permitted = { permittedTopics: undefined, permittedPaths: undefined };
const OURS: Permitted = { permittedTopics: new Set(['ours']), permittedPaths: undefined };
const NOBODY: Permitted = { permittedTopics: new Set(['nobody']), permittedPaths: undefined };
const NOTHING: readonly Permitted[] = [
  { permittedTopics: new Set(), permittedPaths: undefined },
  { permittedTopics: undefined, permittedPaths: [] },
];

describe('a question about the log carries no more out of the store than its answer needs', () => {
  let dir: Awaited<ReturnType<typeof tempDir>>;
  let log: FoldedLog;
  /** Calls of the store that read, and the characters of rows that they gave. */
  const read = { calls: 0, chars: 0 };

  before(async () => {
    dir = await tempDir();
    const store = counted(await openSqliteStore({ stateDir: dir.path }), read);
    const retention = { maxAgeMs: 1e9, maxRows: 1e6 };
    log = await FoldedLog.open(store, { exclusive: true, retention, patchesPerPath: 100 }, { log: silentLogger() });
    const publish = async (id: string, topic: string, text: string): Promise<void> => {
      const data = JsonText.of(text);
      const entries = [{ url: '', topics: [topic], dst_path: `/${id}`, save_method: 'PUT' as const, data }];
      await log.append({ id, publisher: 'p', reason: 'why', entries, callbacks: [] });
    };
    await publish('small', 'ours', 'x');
    for (let at = 0; at < THEIRS; at++) await publish(`large${at}`, 'theirs', 'y'.repeat(LARGE));
  });
  after(async () => {
    await log?.close();
    await dir?.[Symbol.asyncDispose]();
  });

  async function during<T>(ask: () => Promise<T>): Promise<{ answers: T[]; calls: number; chars: number }> {
    Object.assign(read, { calls: 0, chars: 0 });
    const answers = await Promise.all(Array.from({ length: AT_ONCE }, ask));
    return { answers, ...read };
  }

  async function get(path: string, limits: Permitted): Promise<{ updates: { id: string }[]; next?: unknown }> {
    const app = createHttpApp({ bodyLimitBytes: 1000, authenticator: as(limits) }, { log: silentLogger() });
    dataUpdatesRoutes(app, { updatesRetained: true, isShared: false }, { updateLog: log });
    dataLogRoutes(app, { updateLog: log, log: silentLogger() });
    const answer = await app.inject({ url: path, headers: { authorization: 'Bearer x' } });
    await app.close();
    assert.equal(answer.statusCode, 200, answer.body);
    return answer.json();
  }

  const changes = (limits: Permitted, topic?: string) => async (): Promise<string[]> => {
    const sources = {
      instance: 'i',
      log,
      everyone: async () => ({ named: [], views: [], incomplete: null }),
      memory: createTraceMemory(),
      tracker: undefined,
      commits: { served: () => [] },
      abouts: { known: new Map(), read: () => undefined },
      instances: { list: () => [] },
      now: Date.now,
    } as unknown as FleetSources;
    const query = { limit: 50, topic, limits: { ...limits, isLimited: true }, seesPublisher: true };
    return (await readChanges(sources, query)).changes.map(({ id }) => id);
  };
  const trace = (id: string, limits: Permitted) => async (): Promise<unknown> => {
    const found = await findChange(id, { log, memories: [], commits: [], limits });
    return found.kind === 'update' ? found.record.id : undefined;
  };
  const ids = async (path: string, limits: Permitted): Promise<string[]> =>
    (await get(path, limits)).updates.map(({ id }) => id);
  const tail = (): string => `/data/updates?epoch=${log.epoch}&after=0`;

  it('nothing at all where the token permits nothing, or nothing that was ever published', async () => {
    for (const limits of [...NOTHING, NOBODY]) {
      for (const ask of [
        () => ids('/data/log', limits),
        () => ids('/data/log?topic=theirs', limits),
        changes(limits),
        changes(limits, 'theirs'),
        ...(limits.permittedTopics === undefined ? [] : [() => ids(tail(), limits)]),
      ]) {
        const { answers, calls } = await during(ask);
        assert.deepEqual(answers, Array(AT_ONCE).fill([]));
        assert.equal(calls, 0, String(ask));
      }
      const { answers, calls } = await during(trace('no-such-update', limits));
      assert.deepEqual(answers, Array(AT_ONCE).fill(undefined));
      assert.equal(calls, 0);
    }
  });

  it('nothing of what the question does not ask for, by topic, by publisher and by id', async () => {
    for (const [ask, expected] of [
      [() => ids('/data/log', OURS), ['small']],
      [() => ids('/data/log?topic=ours', EVERYTHING), ['small']],
      [() => ids('/data/log?publisher=nobody', EVERYTHING), []],
      [changes(OURS), ['1']],
      [changes(EVERYTHING, 'ours'), ['1']],
      [trace('no-such-update', EVERYTHING), undefined],
      [trace('small', EVERYTHING), 'small'],
    ] as const) {
      const { answers, chars } = await during<unknown>(ask);
      assert.deepEqual(answers, Array(AT_ONCE).fill(expected), String(ask));
      assert(chars < LITTLE, `${String(ask)}: ${chars} characters`);
    }
  });

  it('no inline data that is not shown: each large row is read once for all who ask', async () => {
    const everything = Array.from({ length: THEIRS }, (_, at) => `large${THEIRS - 1 - at}`);
    const { answers, chars } = await during(() => ids('/data/log', EVERYTHING));
    assert.deepEqual(answers, Array(AT_ONCE).fill([...everything, 'small']));
    assert(chars < (THEIRS + 1) * LARGE, `${chars} characters`);
    for (const ask of [changes(EVERYTHING), () => ids('/data/log', EVERYTHING), trace('large3', EVERYTHING)]) {
      const again = await during<unknown>(ask);
      assert(again.chars < LITTLE, `${String(ask)}: ${again.chars} characters`);
    }
    const secrets = await during(() => ids('/data/log?include=secrets&topic=ours', EVERYTHING));
    assert.deepEqual(secrets.answers, Array(AT_ONCE).fill(['small']));
    assert(secrets.chars < LITTLE, `${secrets.chars} characters`);
  });

  it('values that were asked for come page by page, and those of one answer are no more than it may have', async () => {
    const found: string[] = [];
    for (let query = '/data/log?include=secrets'; query !== ''; ) {
      read.chars = 0;
      const { updates, next } = await get(query, EVERYTHING);
      assert(read.chars < 4 * LARGE, `${read.chars} characters`);
      found.push(...updates.map(({ id }) => id));
      query = next === null ? '' : `/data/log?include=secrets&before=${String(next)}`;
    }
    assert.equal(found.length, THEIRS + 1);
  });

  it('GET /data/updates carries the rows of the page', async () => {
    const limited = await during(() => ids(tail(), OURS));
    assert.deepEqual(limited.answers, Array(AT_ONCE).fill(['small']));
    assert(limited.chars < (THEIRS + 1) * LARGE, `${limited.chars} characters`);
    const again = await during(() => ids(tail(), OURS));
    assert(again.chars < LITTLE, `${again.chars} characters`);
    read.chars = 0;
    const page = await ids(`/data/updates?epoch=${log.epoch}&after=1`, EVERYTHING);
    assert(page.length >= 1 && page.length <= 2, `${page.length} updates`);
    assert(read.chars < 3 * LARGE, `${read.chars} characters`);
  });
});

/** An authenticator that lets in one caller. */
function as(limits: Permitted) {
  const caller = { subject: 'x', peerType: 'datasource' as const, claims: {}, token: undefined, ...limits };
  return { enabled: true, authenticate: async () => caller };
}

/** A store whose reads are counted. */
function counted(store: LogStore, read: { calls: number; chars: number }): LogStore {
  const names = ['read', 'readBack', 'scan'] as const;
  const reads = names.flatMap((name) => {
    const own = Reflect.get(store, name) as ((...args: unknown[]) => Promise<readonly { body?: string }[]>) | undefined;
    if (own === undefined) return [];
    const call = async (...args: unknown[]): Promise<readonly object[]> => {
      read.calls++;
      const rows = await own.apply(store, args);
      for (const { body = '' } of rows) read.chars += body.length;
      return rows;
    };
    return [[name, call] as const];
  });
  return withOverrides(store, Object.fromEntries(reads) as Partial<LogStore>);
}
