import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { JsonText } from '../../lib/json/json-text.js';
import { silentLogger } from '../../lib/observe/log.js';
import { TaskSet } from '../../lib/run/async.js';
import { type PeerEntry, peerEntry } from '../../wire/data.js';
import { bodyOfText } from '../../wire/json-node.js';
import type { EntryEvent } from '../desired/entry-state.js';
import { EntryTable, type KnownEntry } from '../desired/entry-table.js';
import type { FetchRequest, FetchResult } from '../fetch/provider.js';
import type { Applier } from './applier.js';
import { EntryFetcher } from './entry-fetcher.js';

describe('fetching entries', () => {
  /** Everything that happened, in order: reads, and the timers that a test sets to compare with. */
  let events: string[];
  let tasks: TaskSet;
  let ends: (() => void)[];
  beforeEach(() => {
    events = [];
    tasks = new TaskSet(silentLogger());
    ends = [];
  });
  afterEach(async () => {
    for (const end of ends) end();
    await tasks.settled();
  });

  type Source = (request: FetchRequest, count: number) => Promise<FetchResult> | FetchResult;

  /** A fetcher over a source; everything that arrives is in the engine at once. */
  function fetcherOver(
    source: Source,
    pollMinMs = 10,
  ): {
    fetcher: EntryFetcher;
    known: (fields: object) => KnownEntry;
    written: string[];
    reads: () => number;
    segmentsAsked: unknown[];
  } {
    const written: string[] = [];
    const layers = new Map<string, object>();
    let reads = 0;
    const segmentsAsked: unknown[] = [];
    const table = new EntryTable();
    const apply = (entry: KnownEntry, event: EntryEvent): void => {
      table.apply(entry, event);
      if (event.kind !== 'arrived' || entry.state.kind !== 'ready') return;
      written.push(event.body?.text() ?? 'none');
      layers.set(entry.id, { content: { kind: 'put', body: event.body } });
      table.apply(entry, { kind: 'written', of: entry.state, keepsBody: true });
    };
    const fetcher = new EntryFetcher(
      { backoff: { minMs: 1, maxMs: 2 }, pollMinMs },
      {
        applier: { held: { layers } } as unknown as Applier,
        table,
        tasks,
        fetch: async (request, _signal, _onLarge, segments) => {
          segmentsAsked.push(segments);
          reads++;
          events.push('read');
          return source(request, reads);
        },
        apply,
        log: silentLogger(),
      },
    );
    const known = (fields: object): KnownEntry => {
      const entry = entryWith(fields);
      ends.push(() => fetcher.stop(entry));
      return entry;
    };
    return { fetcher, known, written, reads: () => reads, segmentsAsked };
  }

  function entryWith(fields: object): KnownEntry {
    return {
      id: 'e',
      path: ['a'],
      rank: { era: 1, seq: 1, index: 0 },
      nextRank: undefined,
      origin: 'base',
      epoch: undefined,
      entry: peerEntry.parse({ url: 'http://source/', dst_path: '/a', ...fields }),
      transaction: 't',
      state: { kind: 'fetching', error: undefined },
      fetched: undefined,
    };
  }

  /** The entry is listed with something else in it. */
  function relist(known: KnownEntry, fields: Partial<PeerEntry>): void {
    new EntryTable().relist(known, { ...known.entry, ...fields }, known.epoch, known.rank);
  }

  function document(text: string, etag?: string): FetchResult {
    const body = bodyOfText(text);
    return {
      outcome: 'body',
      body,
      ...(etag === undefined ? {} : { etag }),
    };
  }

  /** Waits until the source was read `count` times. */
  async function readTimes(count: number): Promise<void> {
    while (events.filter((event) => event === 'read').length < count) await pause(1);
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, ms));
  }

  /**
   * Puts a mark among the events when a timer of that length, set now, is due. Timers keep their
   * order under any load.
   */
  function mark(name: string, ms: number): Promise<void> {
    return pause(ms).then(() => void events.push(name));
  }

  it('are nested as deep below their path as engines read: inline data that is deeper fails, and the source is told', async () => {
    const { fetcher, known, written, segmentsAsked } = fetcherOver(() => document('1'));
    const nested = (levels: number) => JsonText.trusted('['.repeat(levels) + ']'.repeat(levels));
    const inline = (levels: number) => known({ url: '', data: nested(levels) });
    const deep = inline(10_000);
    fetcher.fetch(deep);
    assert(deep.state.kind === 'fetching');
    assert.match(deep.state.error ?? '', /10000 levels deep, and 1 of them are its path/);
    fetcher.fetch(inline(9_999));
    assert.equal(written.length, 1);
    fetcher.fetch(known({}));
    await readTimes(1);
    await tasks.settled();
    fetcher.fetch(known({ save_method: 'PATCH' }));
    await readTimes(2);
    assert.deepEqual(segmentsAsked, [1, 0]);
  });

  describe('a source that is read at an interval', () => {
    it('keeps its rhythm when connections come and go: no timer starts anew, none is added', async () => {
      const { fetcher, known, reads } = fetcherOver((_request, count) => document(String(count)));
      const entry = known({ periodic_update_interval: 2 });
      fetcher.fetch(entry);
      await readTimes(1);
      await pause(500);
      for (let reconnects = 1; reconnects <= 5; reconnects++) {
        fetcher.fetch(entry);
        await readTimes(reconnects + 1);
      }
      const before = reads();
      const restarted = mark('an interval after the last reconnect', 2000);
      await readTimes(before + 1);
      await restarted;
      // Exactly one poll is due between: six timers would read six times, a restarted one after the
      // mark.
      assert.deepEqual(events.slice(before), ['read', 'an interval after the last reconnect']);
    });

    it('is polled once when its interval is over, also where a timer comes a moment early', async () => {
      const times: number[] = [];
      const { fetcher, known } = fetcherOver((_request, count) => {
        times.push(performance.now());
        return document(String(count));
      });
      fetcher.fetch(known({ periodic_update_interval: 0.0209 }));
      // A timer counts whole milliseconds, of the clock and of the wait: some of these come more
      // than one too early.
      await readTimes(80);
      const gaps = times.slice(1).map((time, index) => time - (times[index] ?? 0));
      assert.deepEqual(
        gaps.filter((gapMs) => gapMs < 10),
        [],
      );
    });

    it('is asked with what it said of its document, and what has not changed is not written', async () => {
      const asked: (string | undefined)[] = [];
      const { fetcher, known, written } = fetcherOver((request, count) => {
        asked.push(request.previous?.etag);
        if (count <= 2) return count === 1 ? document('1', 'v1') : { outcome: 'unchanged' };
        return count === 3 ? document('1') : document('2', 'v2');
      });
      const entry = known({ periodic_update_interval: 0.01 });
      fetcher.fetch(entry);
      await readTimes(5);
      assert.deepEqual(asked.slice(0, 5), [undefined, 'v1', 'v1', undefined, 'v2']);
      assert.deepEqual(written, ['1', '2']);
      assert.equal(entry.state.kind, 'applied');
    });

    it('is read by its new interval once that is known, and no more when it has none', async () => {
      const { fetcher, known, reads } = fetcherOver((_request, count) => document(String(count)));
      const entry = known({ periodic_update_interval: 3600 });
      fetcher.fetch(entry);
      await readTimes(1);
      relist(entry, { periodic_update_interval: 0.01 });
      fetcher.fetch(entry);
      await readTimes(4);
      relist(entry, { periodic_update_interval: null });
      fetcher.fetch(entry);
      const before = reads();
      await tasks.settled();
      assert(reads() <= before + 1);
    });

    it('is not read more often than allowed, whatever its entry asks for', async () => {
      const { fetcher, known } = fetcherOver((_request, count) => document(String(count)), 60);
      fetcher.fetch(known({ periodic_update_interval: 0.001 }));
      await readTimes(1);
      await Promise.all([mark('shorter', 50), readTimes(2)]);
      assert.deepEqual(events, ['read', 'shorter', 'read']);
    });

    it('may have an interval that is longer than a timer can be', async () => {
      const { fetcher, known, reads } = fetcherOver((_request, count) => document(String(count)));
      fetcher.fetch(known({ periodic_update_interval: 1e9 }));
      await readTimes(1);
      await pause(30);
      assert.equal(reads(), 1);
    });
  });

  describe('a read that is asked for', () => {
    it('while one is under way follows it: a slow source is read although connections come and go', async () => {
      let finish: () => void = () => undefined;
      const slow = new Promise<void>((resolve) => {
        finish = resolve;
      });
      const { fetcher, known, written } = fetcherOver(async (_request, count) => {
        if (count === 1) await slow;
        return document(String(count));
      });
      const entry = known({});
      fetcher.fetch(entry);
      await readTimes(1);
      for (let reconnects = 0; reconnects < 5; reconnects++) fetcher.fetch(entry);
      finish();
      await tasks.settled();
      assert.deepEqual(written, ['1', '2']);
    });

    it('with other headers is not asked with what the source said to the ones before', async () => {
      const asked: unknown[] = [];
      const { fetcher, known, written } = fetcherOver(({ config, previous }) => {
        asked.push([config?.headers, previous?.etag]);
        return previous === undefined
          ? document(JSON.stringify(config?.headers ?? null), 'v1')
          : { outcome: 'unchanged' };
      });
      const entry = known({ config: { headers: { tenant: 'a' } } });
      fetcher.fetch(entry);
      await readTimes(1);
      await tasks.settled();
      fetcher.fetch(entry);
      await tasks.settled();
      relist(entry, { config: { headers: { tenant: 'b' } } });
      fetcher.fetch(entry);
      await tasks.settled();
      assert.deepEqual(asked, [
        [{ tenant: 'a' }, undefined],
        [{ tenant: 'a' }, 'v1'],
        [{ tenant: 'b' }, undefined],
      ]);
      assert.deepEqual(written, ['{"tenant":"a"}', '{"tenant":"b"}']);
    });

    it('ends the one under way where that asks for something else', async () => {
      const { fetcher, known, written } = fetcherOver(async ({ config }, count) => {
        if (config === null) await pause(20);
        return document(String(count));
      });
      const entry = known({});
      fetcher.fetch(entry);
      await readTimes(1);
      relist(entry, { config: { headers: { a: '1' } } });
      fetcher.fetch(entry);
      await tasks.settled();
      assert.deepEqual(written, ['2']);
    });

    it('waits as long as the source has asked for', async () => {
      const { fetcher, known, written } = fetcherOver((_request, count) => {
        if (count === 1) throw new SyncError('fetch_failed', 'later', { retryable: true, retryAfterSeconds: 0.1 });
        return document(String(count));
      });
      const entry = known({});
      fetcher.fetch(entry);
      await readTimes(1);
      const early = mark('still early', 80);
      fetcher.fetch(entry);
      await Promise.all([early, tasks.settled()]);
      assert.deepEqual([events, written], [['read', 'still early', 'read'], ['2']]);
    });

    it('is not tried again where its entry cannot be read as it is', async () => {
      const { fetcher, known, reads } = fetcherOver(() => {
        throw new SyncError('fetch_config_invalid', 'no such provider');
      });
      const entry = known({ periodic_update_interval: 0.01 });
      fetcher.fetch(entry);
      await tasks.settled();
      assert.equal(reads(), 1);
      assert.deepEqual(entry.state, { kind: 'fetching', error: 'no such provider' });
    });
  });
});
