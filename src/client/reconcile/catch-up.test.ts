import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ACCEPTING_ENGINE } from '../../../test/support/accepting-engine.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import { parseKeepingUpdates, type UpdatesPage, type UpdatesQuery, updatesPage } from '../../wire/catch-up-page.js';
import { type PeerDataConfig, peerDataConfig, peerUpdate } from '../../wire/data.js';
import { parseDocPath } from '../../wire/doc-path.js';
import { parseKeepingData } from '../../wire/inline-data.js';
import { bodyOfText, nodeText } from '../../wire/json-node.js';
import { DataEvents } from '../status/data-events.js';
import { Status } from '../status/status.js';
import { Applier } from './applier.js';
import { DataUpdater } from './data-updater.js';
import type { SessionStart } from './server-said.js';

const never = new AbortController().signal;

interface Entry {
  readonly dst_path: string;
  readonly data?: unknown;
  readonly url?: string;
  readonly save_method?: string;
  readonly [more: string]: unknown;
}

interface Page {
  readonly epoch?: string;
  readonly head: number;
  readonly from: 'tail' | 'fold';
  readonly more?: boolean;
  readonly updates: readonly (readonly [seq: number, ...entries: Entry[]])[];
}

/**
 * A data updater whose server answers what the test says: pages of updates in turn, one
 * configuration.
 */
function scripted(script: {
  pages?: (query: UpdatesQuery) => Page | Promise<Page>;
  topics?: readonly string[];
  /** Last seq by topic, as each page says. */
  heads?: () => Record<string, number>;
  base?: () => object;
  opal?: () => object;
  source?: (url: string) => Promise<string>;
  /** The engine writes once this has settled. */
  engine?: () => Promise<void>;
}) {
  const applier = new Applier(
    { ...ACCEPTING_ENGINE, write: () => script.engine?.() ?? Promise.resolve() },
    { takesPolicy: false },
  );
  const status = new Status({ policyEnabled: false, dataEnabled: true }, () => undefined);
  const events = new DataEvents();
  events.subscribe(status.onData);
  const queries: UpdatesQuery[] = [];
  const config = (value: object): PeerDataConfig => peerDataConfig.parse(parseKeepingData(JSON.stringify(value)));
  const updater = new DataUpdater(
    { topics: script.topics ?? ['policy_data'], backoff: { minMs: 1, maxMs: 2 } },
    {
      applier,
      exclusive: (step) => step(never),
      fetch: async ({ url }) => {
        const body = bodyOfText((await script.source?.(url)) ?? 'null');
        return { outcome: 'body', body };
      },
      fetchConfig: async () => config(script.opal?.() ?? { entries: [] }),
      fetchBase: async () => config(script.base?.() ?? { entries: [], epoch: 'one' }),
      fetchUpdates: async (query): Promise<UpdatesPage> => {
        queries.push(query);
        if (script.pages === undefined) throw new SyncError('server_refused', 'no pages', { retryable: true });
        const { epoch = 'one', more = false, updates, ...page } = await script.pages(query);
        const text = JSON.stringify({
          ...page,
          epoch,
          more,
          heads: script.heads?.() ?? {},
          updates: updates.map(([seq, ...entries]) => ({ id: `u${seq}`, seq, entries: entries.map(filled) })),
        });
        return updatesPage.parse(parseKeepingUpdates(text));
      },
      events,
      log: silentLogger(),
    },
  );
  const value = (path: string): unknown => {
    const node = applier.held.layers.compose(parseDocPath(path));
    return node === undefined ? undefined : JSON.parse(nodeText(node));
  };
  const notify = (seq: number, prev: number, entries: readonly Entry[], epoch = 'one', topic = 'policy_data'): void => {
    const text = JSON.stringify({
      id: `u${seq}`,
      seq,
      epoch,
      prev: { [topic]: prev },
      entries: entries.map(filled),
    });
    updater.receive(peerUpdate.parse(parseKeepingData(text)), topic, text);
  };
  const connect = (head: number, more: Partial<SessionStart> = {}): void =>
    updater.connected({ epoch: 'one', head, heads: { policy_data: head }, spreadMs: 0, ...more });
  return { updater, applier, status, value, notify, connect, queries };
}

function filled(entry: Entry): object {
  return { url: '', topics: ['policy_data'], save_method: 'PUT', ...entry };
}

async function settled(condition: () => boolean, what = 'it does not come to pass'): Promise<void> {
  for (const giveUp = Date.now() + 20_000; !condition(); ) {
    assert(Date.now() < giveUp, what);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

async function runs(updater: DataUpdater, story: () => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const run = updater.run(stop.signal);
  try {
    await story();
  } finally {
    stop.abort();
    await run;
  }
}

describe('catching up with updates', () => {
  it('that failed is over with the first whole answer, also where that took two questions', async () => {
    const log = [1, 2, 3, 5].map(
      (seq) => [seq, { dst_path: `/n${seq}`, data: seq, topics: [seq === 2 ? 'b' : 'a'] }] as const,
    );
    let [head, fails] = [0, 0];
    const { updater, status, value, connect, notify, queries } = scripted({
      topics: ['a', 'b'],
      heads: () => (head === 0 ? {} : { a: 5, b: 2 }),
      pages: ({ after }) => {
        if (fails > 0) {
          fails--;
          status.configFailed('502');
          throw new SyncError('server_refused', 'answered 502', { retryable: true });
        }
        return { head, from: 'tail', updates: log.filter(([seq]) => seq > after && seq <= head) };
      },
    });
    await runs(updater, async () => {
      connect(0, { heads: {} });
      await settled(() => updater.pending.length === 0);
      const notice = (seq: number, before: number): void =>
        notify(seq, before, [{ dst_path: `/n${seq}`, data: seq, topics: ['a'] }], 'one', 'a');
      // What was published on the other topic in between is lost, and nothing tells so.
      notice(1, 0);
      notice(3, 1);
      await settled(() => value('/n3') === 3);
      // A gap on this topic: the first question fails, the answer to the second shows that it did
      // not ask for enough.
      [head, fails] = [5, 1];
      notice(5, 4);
      await settled(() => value('/n2') === 2 && updater.pending.length === 0);
      assert.deepEqual(
        queries.slice(-3).map(({ after }) => after),
        [3, 3, 0],
      );
      assert.deepEqual([...status.failing.values()], []);
    });
  });

  it('removes nothing that came in a page of the tail after a page of the fold', async () => {
    let head = 0;
    const { updater, value, connect } = scripted({
      pages: ({ after }) =>
        head === 0
          ? { head, from: 'tail', updates: [] }
          : after === 0
            ? { head, from: 'fold', more: true, updates: [[1, { dst_path: '/a', data: 1 }]] }
            : { head, from: 'tail', updates: [[2, { dst_path: '/b', data: 2 }]] },
    });
    await runs(updater, async () => {
      connect(0);
      await settled(() => updater.pending.length === 0);
      head = 2;
      connect(2);
      await settled(() => value('/b') === 2);
      await settled(() => updater.pending.length === 0);
      await updater.refresh();
      await settled(() => updater.pending.length === 0);
      assert.deepEqual([value('/a'), value('/b')], [1, 2]);
    });
  });

  it('compares with all that is left where the tail does not go back so far: what is not there is gone', async () => {
    let [head, isDropped] = [2, false];
    const { updater, value, connect, queries } = scripted({
      pages: ({ after }) =>
        isDropped
          ? { head, from: 'fold', updates: [[2, { dst_path: '/b', data: 2 }]] }
          : {
              ...{ head, from: 'tail' },
              updates: after > 0 ? [] : [1, 2].map((seq) => [seq, { dst_path: seq === 1 ? '/a' : '/b', data: seq }]),
            },
      heads: () => ({ policy_data: head }),
    });
    await runs(updater, async () => {
      connect(2);
      await settled(() => updater.pending.length === 0 && value('/a') === 1);
      // A heartbeat tells of a deletion that the log has forgotten: no load is open.
      [head, isDropped] = [3, true];
      updater.heartbeat({ epoch: 'one', heads: { policy_data: 3 } });
      await settled(() => value('/a') === undefined, 'what was deleted stays');
      await settled(() => updater.pending.length === 0);
      assert.deepEqual([value('/b'), updater.logPosition?.applied_through], [2, 3]);
      assert.deepEqual([queries.at(-1)?.after, queries.at(-1)?.from], [2, undefined]);
    });
  });

  it('forgets a deletion that stands over nothing once everything before it is known', async () => {
    const { updater, applier, value, connect, notify } = scripted({
      pages: () => ({ head: 0, from: 'tail', updates: [] }),
    });
    const removes = (dst_path: string): Entry => ({ dst_path, save_method: 'DELETE', only_removes: true });
    const beat = (head: number): void => updater.heartbeat({ epoch: 'one', heads: { policy_data: head } });
    const held = (): string[] => [...applier.held.layers.all()].map(({ path }) => path.join('/')).sort();
    await runs(updater, async () => {
      connect(0);
      await settled(() => updater.pending.length === 0);
      for (let at = 0; at < 50; at++) {
        notify(2 * at + 1, 2 * at, [{ dst_path: `/gone/d${at}`, data: 1 }]);
        notify(2 * at + 2, 2 * at + 1, [removes(`/gone/d${at}`)]);
      }
      notify(101, 100, [{ dst_path: '/a', data: { b: 1, c: 2 } }]);
      notify(102, 101, [removes('/a/b'), { dst_path: '/d', save_method: 'DELETE' }]);
      await settled(() => updater.pending.length === 0 && updater.logPosition?.applied_through === 102);
      assert.equal(held().length, 53, 'one before each may be missing');
      beat(102);
      await settled(() => held().length === 3);
      assert.deepEqual(held(), ['a', 'a/b', 'd'], 'what stands over a document, or over data of a commit');
      assert.deepEqual([value('/a'), updater.applyStatus(100)], [{ c: 2 }, 'applied']);
      notify(103, 102, [{ dst_path: '/gone/d7', data: 7 }]);
      await settled(() => value('/gone/d7') === 7);
    });
  });

  it('reads a fold on where it broke, and then what came meanwhile', async () => {
    let [isDropped, fails] = [false, 1];
    const asked: (string | number)[][] = [];
    const { updater, value, connect } = scripted({
      pages: ({ after, from = 'position' }) => {
        if (!isDropped) {
          const updates = [1, 2, 3].map((seq) => [seq, { dst_path: `/n${seq}`, data: seq }] as const);
          return { head: 3, from: 'tail', updates: after > 0 ? [] : updates };
        }
        asked.push([from, after]);
        if (from === 'position' && after === 3) {
          return { head: 5, from: 'fold', more: true, updates: [[2, { dst_path: '/n2', data: 2 }]] };
        }
        if (from === 'fold') {
          if (fails-- > 0) throw new SyncError('server_refused', 'no', { retryable: true });
          return { head: 6, from: 'fold', updates: [[5, { dst_path: '/n5', data: 5 }]] };
        }
        // What the first page had is deleted since, and the last one does not say so.
        return { head: 6, from: 'tail', updates: [[6, { dst_path: '/n2', save_method: 'DELETE' }]] };
      },
    });
    await runs(updater, async () => {
      connect(3);
      await settled(() => updater.pending.length === 0 && value('/n3') === 3);
      isDropped = true;
      connect(6);
      await settled(() => value('/n5') === 5 && value('/n2') === undefined && updater.pending.length === 0);
      assert.deepEqual(asked, [
        ['position', 3],
        ['fold', 2],
        ['fold', 2],
        ['position', 5],
      ]);
      assert.deepEqual(['/n1', '/n2', '/n3'].map(value), [undefined, undefined, undefined]);
      assert.equal(updater.logPosition?.applied_through, 6);
    });
  });

  it('an instance that has not seen the position yet is not taken for another log', async () => {
    let head = 2;
    const log: [number, ...Entry[]][] = [
      [1, { dst_path: '/a/b', data: 'one' }],
      [2, { dst_path: '/c', data: 2 }],
      [3, { dst_path: '/a', data: { b: 'three' } }],
      [4, { dst_path: '/d', data: 4 }],
    ];
    const { updater, value, connect, notify } = scripted({
      pages: ({ epoch, after }) => {
        const from = epoch === 'one' && after <= head ? after : 0;
        return { head, from: from > 0 ? 'tail' : 'fold', updates: log.filter(([seq]) => seq > from && seq <= head) };
      },
    });
    await runs(updater, async () => {
      connect(2);
      await settled(() => updater.logPosition?.applied_through === 2 && updater.pending.length === 0);
      notify(3, 2, [{ dst_path: '/a', data: { b: 'three' } }]);
      await settled(() => updater.logPosition?.applied_through === 3 && updater.pending.length === 0);
      // The socket is at an instance that has 4, the requests go to one that has 2.
      connect(4, { resumes: true });
      await new Promise((resolve) => setTimeout(resolve, 50));
      assert.deepEqual(value('/a'), { b: 'three' }, 'it went back');
      head = 4;
      await settled(() => value('/d') === 4);
      await settled(() => updater.pending.length === 0);
      assert.deepEqual([value('/a'), updater.orphans.length], [{ b: 'three' }, 0]);
    });
  });

  it('a base entry that the log has moved up counts again, although its source has what it had', async () => {
    let base: object = {
      epoch: 'one',
      head: 1,
      entries: [{ url: 'http://s/', dst_path: '/a', topics: ['policy_data'], seq: 1, origin: 'base' }],
    };
    let head = 1;
    const { updater, value, connect, notify } = scripted({
      base: () => base,
      pages: () => ({ head, from: 'fold', updates: [] }),
      source: async () => '"base"',
    });
    await runs(updater, async () => {
      connect(1);
      await settled(() => value('/a') === 'base');
      notify(2, 0, [{ dst_path: '/a', data: 'update' }]);
      await settled(() => value('/a') === 'update');
      // Away meanwhile: POST /data/refresh gave the base entry the place 3. It returns by fold.
      head = 3;
      base = {
        epoch: 'one',
        head: 3,
        entries: [{ url: 'http://s/', dst_path: '/a', topics: ['policy_data'], seq: 3, origin: 'base' }],
      };
      connect(3);
      await settled(() => updater.pending.length === 0 && updater.logPosition?.applied_through === 3);
      await updater.refresh();
      await settled(() => updater.pending.length === 0);
      assert.equal(value('/a'), 'base');
    });
  });

  it('what the log has put below a base entry by moving it up is gone, whatever their sources have', async () => {
    const entry = { topics: ['policy_data'], origin: 'base' };
    const place = (first: number, second: number): object => ({
      epoch: 'one',
      head: second,
      entries: [
        { ...entry, url: 'http://s/', dst_path: '/a', seq: first },
        { ...entry, url: '', dst_path: '/a/in', data: 'inline', seq: second },
      ],
    });
    let base = place(1, 1);
    let head = 1;
    const { updater, value, connect, notify } = scripted({
      base: () => base,
      pages: () => ({ head, from: 'fold', updates: [] }),
      source: async () => '{"b":"base","in":0}',
    });
    await runs(updater, async () => {
      connect(1);
      await settled(() => updater.pending.length === 0 && updater.logPosition?.applied_through === 1);
      notify(2, 0, [{ dst_path: '/a/b', data: 'update' }]);
      await settled(() => updater.pending.length === 0);
      assert.deepEqual(value('/a'), { b: 'update', in: 'inline' });
      head = 4;
      base = place(3, 4);
      connect(4);
      await updater.refresh();
      await settled(() => updater.pending.length === 0);
      assert.deepEqual(value('/a'), { b: 'base', in: 'inline' });
    });
  });

  it('an update that is still being fetched outlives a base entry that has nothing new (OPAL)', async () => {
    let answer: (text: string) => void = () => undefined;
    const slow = new Promise<string>((resolve) => (answer = resolve));
    const { updater, value } = scripted({
      opal: () => ({ entries: [{ url: 'http://base/', dst_path: '/a', topics: ['policy_data'] }] }),
      source: async (url) => (url === 'http://slow/' ? slow : '"base"'),
    });
    const live = (id: string, entry: Entry): void => {
      const text = JSON.stringify({ id, entries: [filled(entry)] });
      updater.receive(peerUpdate.parse(parseKeepingData(text)), 'policy_data', text);
    };
    await runs(updater, async () => {
      updater.connected(undefined);
      await settled(() => value('/a') === 'base');
      live('u1', { dst_path: '/a', data: 'update' });
      await settled(() => value('/a') === 'update');
      live('u2', { dst_path: '/a', url: 'http://slow/' });
      updater.connected(undefined);
      await updater.refresh();
      await settled(() => updater.pending.every((line) => line.includes('PUT')));
      await new Promise((resolve) => setTimeout(resolve, 20));
      answer('"slow"');
      await settled(() => value('/a') === 'slow', 'the update is lost');
    });
  });

  it('what is unresolved stays so when the log goes back under the same name', async () => {
    let epochHead = 3;
    const log: [number, ...Entry[]][] = [
      [1, { dst_path: '/slow', url: 'http://slow/' }],
      [2, { dst_path: '/b', data: 2 }],
      [3, { dst_path: '/c', data: 3 }],
    ];
    const { updater, value, connect } = scripted({
      pages: ({ epoch, after }) => {
        const from = epoch === 'one' && after <= epochHead ? after : 0;
        return { head: epochHead, from: 'fold', updates: log.filter(([seq]) => seq > from && seq <= epochHead) };
      },
      source: () => new Promise(() => undefined),
    });
    const stop = new AbortController();
    void updater.run(stop.signal);
    connect(3);
    await settled(() => value('/c') === 3);
    assert.deepEqual(updater.logPosition?.unresolved, [1]);
    epochHead = 2;
    connect(2, { resumes: false });
    await settled(() => updater.logPosition?.applied_through === 2);
    assert.deepEqual(updater.logPosition?.unresolved, [1]);
    assert.equal(updater.applyStatus(1), 'pending');
    stop.abort();
  });

  it('what a load does not name is not in while what may have replaced it is not', async () => {
    let answer: (text: string) => void = () => undefined;
    const { updater, value, connect, notify } = scripted({
      // Update 3 put /doc, too, and 4 patched what 3 had put: the fold has one document of both.
      pages: () => ({
        head: 6,
        from: 'fold',
        updates: [
          [2, { dst_path: '/a', data: 2 }],
          [5, { dst_path: '/doc', url: 'http://slow/' }],
          [6, { dst_path: '/b', data: 6 }],
        ],
      }),
      source: () => new Promise((resolve) => (answer = resolve)),
    });
    const stop = new AbortController();
    void updater.run(stop.signal);
    connect(6);
    await settled(() => value('/a') === 2 && value('/b') === 6);
    const status = () => [2, 3, 4, 5, 6].map((seq) => updater.applyStatus(seq));
    assert.deepEqual(status(), ['applied', 'pending', 'pending', 'pending', 'applied']);
    notify(7, 6, [{ dst_path: '/c', data: 7 }]);
    await settled(() => value('/c') === 7);
    assert.equal(updater.applyStatus(7), 'applied');
    answer('5');
    await settled(() => value('/doc') === 5);
    assert.deepEqual(status(), ['applied', 'applied', 'applied', 'applied', 'applied']);
    stop.abort();
  });

  it('a patch that the fold has worked into its document is not applied once more', async () => {
    let goOn: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => (goOn = resolve));
    let isFirst = true;
    const { updater, value, connect, notify } = scripted({
      pages: async ({ after }) => {
        if (isFirst) {
          isFirst = false;
          return { head: 1, from: 'tail', updates: [[1, { dst_path: '/x', data: 0 }]] };
        }
        await gate;
        assert.equal(after, 1);
        return { head: 3, from: 'fold', updates: [[3, { dst_path: '/a', data: { list: [1, 2, 3] } }]] };
      },
    });
    await runs(updater, async () => {
      connect(1);
      await settled(() => updater.pending.length === 0);
      // Away meanwhile: 2 is PUT /a {"list":[1,2]}. Back again, 3 arrives before the fold is read.
      connect(2);
      notify(3, 2, [{ dst_path: '/a/list', save_method: 'PATCH', data: [{ op: 'add', path: '/-', value: 3 }] }]);
      goOn();
      await settled(() => updater.logPosition?.applied_through === 3);
      await settled(() => updater.pending.length === 0);
      assert.deepEqual(value('/a'), { list: [1, 2, 3] });
    });
  });

  it('a patch that a whole configuration has worked into its document stays in until that document is', async () => {
    const written: unknown[] = [];
    const { updater, value, connect } = scripted({
      pages: () => ({
        head: 2,
        from: 'tail',
        updates: [
          [1, { dst_path: '/a', data: { n: 1 } }],
          [2, { dst_path: '/a', save_method: 'PATCH', data: [{ op: 'add', path: '/x', value: 2 }] }],
        ],
      }),
      opal: () => ({
        epoch: 'one',
        head: 2,
        base_set: true,
        entries: [filled({ dst_path: '/a', data: { n: 1, x: 2 }, seq: 2, origin: 'update' })],
      }),
      engine: async () => void written.push(value('/a')),
    });
    await runs(updater, async () => {
      connect(2);
      await settled(() => updater.pending.length === 0 && JSON.stringify(value('/a')) === '{"n":1,"x":2}');
      const before = written.length;
      updater.connected(undefined);
      await updater.refresh();
      await settled(() => updater.pending.length === 0);
      assert.deepEqual(value('/a'), { n: 1, x: 2 });
      for (const now of written.slice(before)) assert.deepEqual(now, { n: 1, x: 2 });
    });
  });

  it('a late notice of a patch that the fold has worked into its document is none', async () => {
    let pages = 0;
    const { updater, value, connect, notify } = scripted({
      pages: () =>
        pages++ === 0
          ? { head: 1, from: 'tail', updates: [[1, { dst_path: '/x', data: 0 }]] }
          : { head: 4, from: 'fold', updates: [[4, { dst_path: '/a', data: { list: [1, 2, 3] } }]] },
    });
    await runs(updater, async () => {
      connect(1);
      await settled(() => updater.pending.length === 0);
      connect(2);
      await settled(() => updater.logPosition?.applied_through === 4 && updater.pending.length === 0);
      // Both were on their way while the fold was read; 3 is superseded there, 4 a part of the
      // document.
      notify(3, 2, [{ dst_path: '/a', data: { list: [1, 2] } }]);
      notify(4, 3, [{ dst_path: '/a/list', save_method: 'PATCH', data: [{ op: 'add', path: '/-', value: 3 }] }]);
      await settled(() => updater.pending.length === 0);
      assert.deepEqual(value('/a'), { list: [1, 2, 3] });
    });
  });
});

describe('pruning orphans', () => {
  it('leaves alone what is listed again meanwhile', async () => {
    let entries = ['/a', '/b'].map((dst_path) => filled({ dst_path, data: dst_path }));
    let write = Promise.resolve();
    const { updater, value } = scripted({ opal: () => ({ entries }), engine: () => write });
    const listed = entries;
    await runs(updater, async () => {
      updater.connected(undefined);
      await settled(() => value('/b') === '/b' && updater.pending.length === 0);
      entries = [];
      await updater.refresh();
      assert.equal(updater.orphans.length, 2);
      let goOn: () => void = () => undefined;
      write = new Promise((resolve) => (goOn = resolve));
      const pruned = updater.prune();
      entries = listed;
      await updater.refresh();
      goOn();
      assert.deepEqual(
        (await pruned).map(({ path }) => path),
        [['a']],
      );
      await settled(() => updater.pending.length === 0 && value('/a') === '/a');
      assert.equal(value('/b'), '/b');
    });
  });
});

describe('a client that was started from a backup of another log', () => {
  it('loads the log that a notice names, and is not told of each update in it', async () => {
    const { updater, status, value, connect, notify } = scripted({
      base: () => ({ entries: [], epoch: 'two', head: 2 }),
      pages: () => ({
        epoch: 'two',
        head: 2,
        from: 'tail',
        updates: [
          [1, { dst_path: '/a', data: 1 }],
          [2, { dst_path: '/b', data: 2 }],
        ],
      }),
    });
    const log = { epoch: 'one', topics: ['policy_data'], applied_through: 7, applied_beyond: [], unresolved: [] };
    updater.adopt({ epoch: 'one', era: 1, next: 8, lastSeq: 7, seen: new Map(), log }, []);
    await runs(updater, async () => {
      connect(2, { epoch: 'two', resumes: false });
      notify(2, 1, [{ dst_path: '/b', data: 2 }], 'two');
      await settled(() => value('/a') === 1 && updater.pending.length === 0);
      assert.equal(status.transactions.data.counts.successful, 2, 'the notice, and the load');
    });
  });
});
