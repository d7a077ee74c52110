import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { SyncError } from '../../src/lib/errors.js';
import {
  type Appended,
  type DedupLimits,
  type Expectation,
  type LogStore,
  type NewRow,
  PAGE_CHARS,
  SCAN_CHARS,
  type ScanFrom,
  SHORT_ROW,
  type StoredRow,
} from '../../src/server/log/log-store.js';
import { until } from './until.js';

/** One log to test with; disposing of it closes nothing that the test opened, but removes what it is kept in. */
export interface LogStoreWorld extends AsyncDisposable {
  /** Opens a handle on this log; the first one makes it. */
  open(): Promise<LogStore>;
}

/** What the suite has to know of an implementation. */
export interface LogStoreContract {
  /** An empty log, each time another one. */
  newLog(dedup?: DedupLimits): Promise<LogStoreWorld>;
  /** It remembers dedup texts for a time alone, however many rows come. */
  countsNoRows?: boolean;
  /** True where several handles may be open on one log at once: the backbones. */
  shared: boolean;
  /** Why the suite cannot run here; it is then reported as skipped, by name. */
  skip?: string | false;
}

const HOUR_MS = 60 * 60 * 1000;
const TEXT = '{"entries":[],"n":12345678901234567890,"d":1.0,"text":"grüße \\u0000 😀 \\" \\\\"}';

/** The promises of {@link LogStore}, for every implementation. Call it where a test file describes its tests. */
export function logStoreContract(name: string, contract: LogStoreContract): void {
  const { newLog, shared, countsNoRows = false, skip = false } = contract;

  describe(`log store: ${name}`, { skip }, () => {
    test('rows get positions from 1 without gaps and come back in order, bodies as written', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      assert.deepEqual(await store.read(0, 10), []);
      const before = Date.now();
      const first = await append(store, [{ kind: 'update', body: TEXT }]);
      assert.deepEqual(first, [{ seq: 1, duplicate: false }]);
      const more = await append(store, [row('b', 'base'), row('c', 'policy'), row('d')]);
      assert.deepEqual(
        more.map(({ seq }) => seq),
        [2, 3, 4],
      );
      assert.deepEqual(await append(store, []), []);
      const rows = await store.read(0, 10);
      assert.deepEqual(rows.map(shown), [`1 update ${TEXT}`, '2 base "b"', '3 policy "c"', '4 update "d"']);
      for (const { timeMs } of rows) {
        assert.ok(Number.isSafeInteger(timeMs), `${timeMs}`);
        assert.ok(Math.abs(timeMs - before) < HOUR_MS, `${timeMs} is the time of the append`);
      }
      assert.deepEqual((await store.read(1, 2)).map(shown), ['2 base "b"', '3 policy "c"']);
      assert.deepEqual(await store.read(4, 10), []);
      assert.deepEqual(await store.read(400, 10), []);
    });

    test('a scan looks at rows upwards and downwards, and says where it is', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      await append(
        store,
        ['a', 'b', 'c', 'd', 'e'].map((text) => row(text)),
      );
      const down = async (before: number, limit: number) => seqs(await store.scan({ before }, limit, []));
      const up = async (after: number, limit: number) => seqs(await store.scan({ after }, limit, []));
      assert.deepEqual([await down(6, 2), await down(4, 10), await down(1, 10)], [[5, 4], [3, 2, 1], []]);
      assert.deepEqual(await down(Number.MAX_SAFE_INTEGER, 1), [5]);
      assert.deepEqual([await up(0, 2), await up(3, 10), await up(5, 10), await up(400, 1)], [[1, 2], [4, 5], [], []]);
    });

    test('a scan brings short rows that have one text of each list, and of all others how they are', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      const long = (text: string) => row(text.padEnd(SHORT_ROW + 1));
      await append(store, [row('a 100%'), row('b_"q"\\ \u0000'), row('grüße a', 'base'), long('a'), long('b')]);
      for (const [filter, fitting] of [
        [[], [1, 2, 3, 4, 5]],
        [[['a']], [1, 3, 4]],
        [[['a', 'b']], [1, 2, 3, 4, 5]],
        [
          [['a'], ['%', 'ü']],
          [1, 3],
        ],
        [[['_'], ['\\\\']], [2]],
        [[['\\"q\\"'], ['\\u0000']], [2]],
        [[['A']], []],
        [[['a_']], []],
        [[['[a-z]', '(', '%a']], []],
        [[[]], []],
      ] as const) {
        for (const from of [{ after: 0 }, { before: 6 }]) {
          const rows = await store.scan(from, 10, filter);
          const ordered = 'after' in from ? rows : rows.toReversed();
          const what = JSON.stringify([filter, from]);
          assert.deepEqual(seqs(ordered), [1, 2, 3, 4, 5], what);
          assert.deepEqual(seqs(ordered.filter(({ fits }) => fits)), fitting, what);
          for (const { seq, kind, fits, body, chars, timeMs } of ordered) {
            const isBrought = fits && seq <= 3;
            assert.equal(typeof body, isBrought ? 'string' : 'undefined', what);
            assert.equal(kind, seq === 3 ? 'base' : 'update', what);
            assert(seq <= 3 ? chars < 100 : chars >= SHORT_ROW, `${what}: ${chars}`);
            assert(Math.abs(timeMs - Date.now()) < HOUR_MS, what);
          }
        }
      }
      assert.deepEqual(
        (await store.scan({ after: 0 }, 2, [])).map(({ body }) => body),
        (await store.read(0, 2)).map(({ body }) => body),
      );
    });

    test('a scan ends its page after some MiB of rows, whether they fit or not', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      const large = randomBytes(768 * 1024).toString('base64');
      const count = Math.ceil((1.5 * SCAN_CHARS) / large.length);
      for (let index = 0; index < count; index++) await append(store, [row(`${index} ${large}`)]);
      for (const filter of [[], [['nothing has this']]]) {
        for (const begin of [{ after: 0 }, { before: count + 1 }]) {
          const found: number[] = [];
          for (let from: ScanFrom = begin; ; ) {
            const page = await store.scan(from, 1000, filter);
            const last = page.at(-1);
            if (last === undefined) break;
            assert(page.length < count, `${page.length} rows of ${count}`);
            assert(page.every(({ body }) => body === undefined));
            found.push(...seqs(page));
            from = 'after' in begin ? { after: last.seq } : { before: last.seq };
          }
          const all = Array.from({ length: count }, (_, index) => index + 1);
          assert.deepEqual('after' in begin ? found : found.reverse(), all);
        }
      }
    });

    test('many rows in one call, and a row of 9 MiB, are kept whole', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      const rows = Array.from({ length: 1000 }, (_, index) => row(`row ${index}`));
      const places = await append(store, rows);
      assert.deepEqual(
        places.map(({ seq }) => seq),
        Array.from(rows, (_, index) => index + 1),
      );
      const large = JSON.stringify('x'.repeat(9 * 1024 * 1024));
      await append(store, [{ kind: 'update', body: large }]);
      const read = await readAll(store);
      assert.equal(read.length, 1001);
      assert.ok(read.at(-1)?.body === large, 'the large row came back as it was');
      assert.deepEqual(
        read.slice(0, 1000).map(({ body }) => body),
        rows.map(({ body }) => body),
      );
    });

    test('large rows are answered in pages of some MiB, whatever number was asked for', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      const large = randomBytes(768 * 1024).toString('base64');
      const count = Math.ceil((1.3 * PAGE_CHARS) / large.length);
      for (let index = 0; index < count; index++) await append(store, [row(`${index} ${large}`)]);
      const first = await store.read(0, 1000);
      assert.ok(first.length > 0 && first.length < count, `${first.length} rows of ${count}`);
      const all = Array.from({ length: count }, (_, index) => index + 1);
      assert.deepEqual(seqs(await readAll(store)), all);
      const pages: (readonly StoredRow[])[] = [];
      for await (const page of (await store.load()).rows) pages.push(page);
      assert.deepEqual(pages.flatMap(seqs), all);
      assert.ok(pages.length > 1);
    });

    test('a probe writes and leaves nothing behind', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      await append(store, [row('a')]);
      for (const bytes of [1, 300_000]) await store.probe(bytes);
      assert.deepEqual((await store.read(0, 10)).map(shown), ['1 update "a"']);
      assert.equal((await store.load()).head, 1);
      assert.deepEqual(await append(store, [row('b')]), [{ seq: 2, duplicate: false }]);
      await store.retire([1]);
      assert.equal(await store.dropRetired(Date.now() + HOUR_MS), 1);
    });

    test('appends that are under way together get places one after the other', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      const answers = await Promise.all(
        Array.from({ length: 50 }, (_, call) => append(store, [row(`${call} one`), row(`${call} two`)])),
      );
      const rows = await readAll(store);
      assert.deepEqual(
        seqs(rows),
        Array.from({ length: 100 }, (_, index) => index + 1),
      );
      for (const [call, places] of answers.entries()) {
        const [one, two] = places;
        assert.ok(
          one !== undefined && two !== undefined && two.seq === one.seq + 1,
          'places of one call are consecutive',
        );
        assert.equal(rows[one.seq - 1]?.body, JSON.stringify(`${call} one`));
        assert.equal(rows[two.seq - 1]?.body, JSON.stringify(`${call} two`));
      }
    });

    test('a start gets the head and the rows that are not retired, in order, also of a log of many pages', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      assert.deepEqual(await loaded(store), { head: 0, rows: [] });
      for (let call = 0; call < 3; call++) {
        await append(
          store,
          Array.from({ length: 1000 }, (_, index) => row(`${call} ${index}`)),
        );
      }
      await store.retire(Array.from({ length: 2990 }, (_, index) => index + 1));
      await store.retire([2999, 3000]);
      const { head, rows } = await loaded(store);
      assert.equal(head, 3000);
      assert.deepEqual(seqs(rows), [2991, 2992, 2993, 2994, 2995, 2996, 2997, 2998]);
    });

    test('retired rows stay for readers until they are dropped; the last row always stays', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      await append(
        store,
        ['a', 'b', 'c', 'd', 'e'].map((text) => row(text)),
      );
      await store.retire([1, 2, 4, 5]);
      await store.retire([2, 4]);
      await store.retire([]);
      assert.deepEqual(seqs((await loaded(store)).rows), [3]);
      assert.deepEqual(seqs(await readAll(store)), [1, 2, 3, 4, 5]);
      assert.deepEqual(seqs(await store.scan({ before: 4 }, 2, [])), [3, 2]);

      assert.equal(await store.dropRetired(Date.now() - HOUR_MS), 0, 'they were retired just now');
      assert.equal(await dropAll(store), 3);
      assert.deepEqual(seqs(await readAll(store)), [3, 5]);
      assert.deepEqual(seqs(await store.scan({ before: 6 }, 10, [])), [5, 3]);
      assert.deepEqual(await loaded(store).then(({ head, rows }) => [head, seqs(rows)]), [5, [3]]);
      assert.deepEqual(
        (await append(store, [row('f')])).map(({ seq }) => seq),
        [6],
      );
      assert.equal(await dropAll(store), 1, 'what was the last row goes once another one is there');
      assert.deepEqual(seqs(await readAll(store)), [3, 6]);
    });

    test('after a reopening epoch, head, rows and what is retired are the same, and positions go on', async () => {
      await using world = await newLog();
      let epoch: string;
      {
        await using store = await opened(world);
        epoch = store.epoch;
        assert.match(epoch, /^\S{8,}$/);
        await append(
          store,
          ['a', 'b', 'c'].map((text) => row(text)),
        );
        await store.retire([1, 3]);
        await dropAll(store);
      }
      await using store = await opened(world);
      assert.equal(store.epoch, epoch);
      const { head, rows } = await loaded(store);
      assert.deepEqual([head, rows.map(shown)], [3, ['2 update "b"']]);
      assert.deepEqual(await append(store, [row('d')]), [{ seq: 4, duplicate: false }]);
    });

    test('another log has another epoch', async () => {
      await using one = await newLog();
      await using other = await newLog();
      await using first = await opened(one);
      await using second = await opened(other);
      assert.notEqual(first.epoch, second.epoch);
    });

    test('a row with a dedup text that is known is not written again; its answer names the first one', async () => {
      await using world = await newLog();
      {
        await using store = await opened(world);
        await append(store, [row('a')]);
        assert.deepEqual(await append(store, [{ ...row('b'), dedup: 'key 1 "é" / *>' }]), [
          { seq: 2, duplicate: false },
        ]);
        await append(store, [row('c')]);
        assert.deepEqual(await append(store, [{ ...row('other'), dedup: 'key 1 "é" / *>' }]), [
          { seq: 2, duplicate: true },
        ]);
        const mixed = await append(store, [
          row('d'),
          { ...row('again'), dedup: 'key 1 "é" / *>' },
          { ...row('e'), dedup: 'key 2' },
        ]);
        assert.deepEqual(mixed, [
          { seq: 4, duplicate: false },
          { seq: 2, duplicate: true },
          { seq: 5, duplicate: false },
        ]);
        await store.retire([2]);
      }
      await using store = await opened(world);
      assert.deepEqual(await append(store, [{ ...row('later'), dedup: 'key 1 "é" / *>' }]), [
        { seq: 2, duplicate: true },
      ]);
      assert.deepEqual((await readAll(store)).map(shown), [
        '1 update "a"',
        '2 update "b"',
        '3 update "c"',
        '4 update "d"',
        '5 update "e"',
      ]);
    });

    test('what one row of an append is given does not count for the next: dedup text, expectation', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      const mixed = await append(store, [{ ...row('a'), dedup: 'key' }, row('b'), row('c')]);
      assert.deepEqual(
        mixed,
        [1, 2, 3].map((seq) => ({ seq, duplicate: false })),
      );
      const guarded = await append(store, [row('base 1', 'base'), row('base 2', 'base'), row('d')], {
        kind: 'base',
        lastSeq: 0,
      });
      assert.deepEqual(
        guarded,
        [4, 5, 6].map((seq) => ({ seq, duplicate: false })),
      );
      assert.deepEqual(seqs(await readAll(store)), [1, 2, 3, 4, 5, 6]);
    });

    test('a dedup text is forgotten with so many rows after it, and counts anew', { skip: countsNoRows }, async () => {
      await using world = await newLog({ ms: 24 * HOUR_MS, rows: 10 });
      await using store = await opened(world);
      const once = { ...row('once'), dedup: 'key' };
      await append(store, [once, ...Array.from({ length: 8 }, () => row('other'))]);
      assert.deepEqual(await append(store, [row('another'), once]), [
        { seq: 10, duplicate: false },
        { seq: 1, duplicate: true },
      ]);
      assert.deepEqual(await append(store, [row('one more'), once]), [
        { seq: 11, duplicate: false },
        { seq: 12, duplicate: false },
      ]);
      for (let seq = 13; seq <= 21; seq++) await append(store, [{ ...row('other'), dedup: `key ${seq}` }]);
      assert.deepEqual(await append(store, [once]), [{ seq: 12, duplicate: true }]);
      await append(store, [row('the tenth')]);
      assert.deepEqual(await append(store, [once]), [{ seq: 23, duplicate: false }]);
    });

    test('a dedup text counts also when its row was dropped', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      await append(store, [{ ...row('a'), dedup: 'key' }]);
      await append(store, [row('b')]);
      await store.retire([1]);
      const wasDropped = async () => {
        await store.dropRetired(Date.now() + HOUR_MS);
        return (await readAll(store)).length === 1;
      };
      await until(wasDropped, { withinMs: 20_000, what: 'the row is dropped' });
      assert.deepEqual(await append(store, [{ ...row('a'), dedup: 'key' }]), [{ seq: 1, duplicate: true }]);
    });

    test('of appends with one dedup text that race, one is written', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      const answers = await Promise.all(
        Array.from({ length: 10 }, (_, index) => append(store, [{ ...row(`try ${index}`), dedup: 'key' }])),
      );
      assert.deepEqual(new Set(answers.map(([place]) => place?.seq)), new Set([1]));
      assert.equal(answers.filter(([place]) => place?.duplicate === false).length, 1);
      assert.deepEqual(seqs(await readAll(store)), [1]);
    });

    test('compare-and-append: what somebody else was faster with is refused, and nothing is written', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      assert.deepEqual(await append(store, [row('base 1', 'base')], { kind: 'base', lastSeq: 0 }), [
        { seq: 1, duplicate: false },
      ]);
      await append(store, [row('update')]);
      assert.deepEqual(await append(store, [row('policy 1', 'policy')], { kind: 'policy', lastSeq: 0 }), [
        { seq: 3, duplicate: false },
      ]);
      await assert.rejects(
        append(store, [row('base 2', 'base')], { kind: 'base', lastSeq: 0 }),
        refused('log_conflict'),
      );
      await assert.rejects(
        append(store, [row('base 2', 'base')], { kind: 'base', lastSeq: 3 }),
        refused('log_conflict'),
      );
      assert.deepEqual(await append(store, [row('base 2', 'base')], { kind: 'base', lastSeq: 1 }), [
        { seq: 4, duplicate: false },
      ]);
      await assert.rejects(append(store, [row('late', 'base')], { kind: 'base', lastSeq: 1 }), refused('log_conflict'));
      assert.deepEqual(seqs(await readAll(store)), [1, 2, 3, 4]);
    });

    test('compare-and-append on the head: a row of any kind that came first refuses all rows', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      assert.deepEqual(await append(store, [row('a'), row('b')], { kind: 'any', lastSeq: 0 }), [
        { seq: 1, duplicate: false },
        { seq: 2, duplicate: false },
      ]);
      for (const kind of ['update', 'base', 'policy'] as const) {
        const [{ seq } = { seq: 0 }] = await append(store, [row(kind, kind)]);
        const late = append(store, [row('late'), row('later')], { kind: 'any', lastSeq: seq - 1 });
        await assert.rejects(late, refused('log_conflict'));
        await assert.rejects(append(store, [row('early')], { kind: 'any', lastSeq: seq + 1 }), refused('log_conflict'));
      }
      await store.retire([5]);
      await dropAll(store);
      assert.deepEqual(await append(store, [row('c')], { kind: 'any', lastSeq: 5 }), [{ seq: 6, duplicate: false }]);
      assert.deepEqual(seqs(await readAll(store)), [1, 2, 3, 4, 5, 6]);
    });

    test('an expectation holds for a row that is retired or dropped, too', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      await append(store, [row('base 1', 'base'), row('update')]);
      await store.retire([1]);
      await dropAll(store);
      await assert.rejects(
        append(store, [row('base 2', 'base')], { kind: 'base', lastSeq: 0 }),
        refused('log_conflict'),
      );
      assert.deepEqual(await append(store, [row('base 2', 'base')], { kind: 'base', lastSeq: 1 }), [
        { seq: 3, duplicate: false },
      ]);
    });

    test('of appends with the same expectation that race, one is written', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      const outcomes = await Promise.allSettled(
        Array.from({ length: 8 }, (_, index) =>
          append(store, [row(`${index}`, 'policy')], { kind: 'policy', lastSeq: 0 }),
        ),
      );
      assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 1);
      for (const outcome of outcomes) if (outcome.status === 'rejected') refused('log_conflict')(outcome.reason);
      assert.deepEqual(seqs(await readAll(store)), [1]);
    });

    test('its size, where it can tell, grows with its rows', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      await append(store, [row('first')]);
      const before = await store.sizeBytes?.();
      if (before === undefined) return; // Redis cannot tell cheaply
      // Stores may compress.
      const body = (): string => JSON.stringify(randomBytes(192 * 1024).toString('base64'));
      for (let count = 0; count < 8; count++) await append(store, [{ kind: 'update', body: body() }]);
      const grown = ((await store.sizeBytes?.()) ?? 0) - before;
      assert.ok(before > 0 && grown > 1024 * 1024 && grown < 16 * 1024 * 1024, `${before} bytes, then ${grown} more`);
    });

    test('a watcher is called after an append, and not any more once it has ended', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      let calls = 0;
      const end = store.watch(() => calls++);
      await append(store, [row('a')]);
      await until(() => calls > 0, { withinMs: 20_000, what: 'the watcher is called' });
      end();
      end();
      const before = calls;
      let others = 0;
      store.watch(() => others++);
      await append(store, [row('b')]);
      await until(() => others > 0, { withinMs: 20_000, what: 'the other watcher is called' });
      assert.equal(calls, before);
    });

    test('presence: what an instance says is listed, replaced, and gone when its time is up', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      const { presence } = store;
      assert.deepEqual(await presence.list(), new Map());
      await presence.put('one', 'first', 60_000);
      await presence.put('two / *>', '{"clients":["é"]}', 60_000);
      await presence.put('one', 'second', 60_000);
      assert.deepEqual(
        new Map([...(await textsOf(store))].sort()),
        new Map([
          ['one', 'second'],
          ['two / *>', '{"clients":["é"]}'],
        ]),
      );
      const leftMs = async (): Promise<number> => (await presence.list()).get('one')?.leftMs ?? Number.NaN;
      const first = await leftMs();
      assert(first > 30_000 && first <= 60_000, `${first} ms are left`);
      await until(async () => (await leftMs()) < first, { withinMs: 20_000, what: 'less is left than before' });
      await presence.put('two / *>', 'soon gone', 300);
      await until(async () => !(await presence.list()).has('two / *>'), {
        withinMs: 20_000,
        what: 'an instance that says nothing is gone',
      });
      assert.deepEqual(await textsOf(store), new Map([['one', 'second']]));
    });

    test('parts of what an instance says are read by number, replaced, counted, and gone with it', async () => {
      await using world = await newLog();
      await using store = await opened(world);
      const { presence } = store;
      const read = async (instance: string, ...numbers: number[]): Promise<string> =>
        [...(await presence.parts(instance, numbers))]
          .sort(([a], [b]) => a - b)
          .map(([number, text]) => `${number} ${text.length > 20 ? text.length : text}`)
          .join();
      assert.equal(await read('one', 0, 1), '');
      // Before the text that names them.
      await presence.putParts('one', new Map([0, 1, 2, 7].map((number) => [number, `part ${number}`])), 60_000);
      await presence.putParts('two / *>', new Map([[0, '{"é":"\u0001"}']]), 60_000);
      assert.equal(await presence.put('one', 'text', 60_000, 8), 4);
      assert.equal(await presence.put('two / *>', 'text', 60_000, 1), 1);
      assert.equal(await read('one', 7, 0, 5), '0 part 0,7 part 7');
      assert.equal(await read('two / *>', 0), '0 {"é":"\u0001"}');
      await presence.putParts('one', new Map([[0, 'other']]), 60_000);
      assert.equal(await presence.put('one', 'text', 60_000, 2), 2, 'and those that are no more are removed');
      assert.equal(await read('one', 0, 1, 2, 7), '0 other,1 part 1');
      assert.deepEqual([...(await presence.list()).keys()].sort(), ['one', 'two / *>'], 'no part is an instance');
      const many = new Map(Array.from({ length: 250 }, (_, number) => [number, `${number}`.padStart(16_000, '.')]));
      await presence.putParts('one', many, 60_000);
      assert.equal(await presence.put('one', 'text', 60_000, 250), 250);
      const found = await presence.parts('one', [...many.keys()]);
      assert.deepEqual(new Map([...found].sort(([a], [b]) => a - b)), many);
      assert.equal(await presence.put('one', 'text', 300), 0);
      assert.equal(await read('one', 0, 1), '');
      await presence.put('two / *>', 'soon gone', 300, 1);
      const isGone = async (): Promise<boolean> => {
        await presence.put('three', 'text', 60_000); // stores look at others when somebody writes
        return !(await presence.list()).has('two / *>');
      };
      await until(isGone, { withinMs: 20_000, what: 'an instance that says nothing is gone' });
    });

    test('a store that was opened is up and says how durable it is; closed, it refuses', async () => {
      await using world = await newLog();
      const store = await world.open();
      assert.deepEqual(store.status, { up: true });
      assert.ok(store.durability.level === 'durable' || store.durability.reason !== '');
      await store.close();
      await store.close();
      await assert.rejects(append(store, [row('a')]), SyncError);
      await assert.rejects(store.read(0, 1), SyncError);
    });

    if (shared) sharedContract(newLog);
  });
}

async function textsOf({ presence }: LogStore): Promise<Map<string, string>> {
  return new Map([...(await presence.list())].map(([instance, { text }]) => [instance, text]));
}

/** The promises that need several handles on one log. */
function sharedContract(newLog: LogStoreContract['newLog']): void {
  test('handles on one log share its epoch, its rows and its presence, and wake each other', async () => {
    await using world = await newLog();
    await using one = await opened(world);
    await one.load();
    const ahead = Math.abs(one.clockAheadMs ?? Number.NaN);
    assert.ok(ahead < 1000, `one machine has one clock, and its time is known once it was asked: ${ahead}`);
    await using other = await opened(world);
    assert.equal(one.epoch, other.epoch);
    let calls = 0;
    other.watch(() => calls++);
    await append(one, [row('a')]);
    await until(() => calls > 0, { withinMs: 20_000, what: 'the watcher is called' });
    assert.deepEqual((await other.read(0, 10)).map(shown), ['1 update "a"']);
    assert.deepEqual(await append(other, [row('b')]), [{ seq: 2, duplicate: false }]);
    assert.deepEqual(seqs(await one.read(0, 10)), [1, 2]);
    await one.presence.putParts('one', new Map([[3, 'a part']]), 60_000);
    await one.presence.put('one', 'here', 60_000, 4);
    assert.deepEqual(await textsOf(other), new Map([['one', 'here']]));
    assert.deepEqual(await other.presence.parts('one', [3, 4]), new Map([[3, 'a part']]));
    await one.retire([1]);
    assert.deepEqual(seqs((await loaded(other)).rows), [2]);
  });

  test('mail reaches every handle whole, whatever its length, beside rows, and not after the watch has ended', async () => {
    await using world = await newLog();
    await using one = await opened(world);
    await using other = await opened(world);
    const [here, there]: [string[], string[]] = [[], []];
    one.mail.watch((text) => here.push(text));
    const stop = other.mail.watch((text) => there.push(text));
    let calls = 0;
    other.watch(() => calls++);
    const mails = ['a', 'b'.repeat(7_000), 'c'.repeat(150_000), '+/='];
    for (const text of mails) await one.mail.send(text);
    for (const got of [here, there]) {
      await until(() => got.length === mails.length, { withinMs: 20_000, what: 'all of the mail' });
      assert.deepEqual(got, mails);
    }
    const before = calls;
    await append(one, [row('a')]);
    await until(() => calls > before, { withinMs: 20_000, what: 'the watcher of rows is called' });
    stop();
    await other.mail.send('last');
    await until(() => here.at(-1) === 'last', { withinMs: 20_000, what: 'the last mail' });
    assert.equal(there.length, mails.length);
  });

  test('a reader never sees a row before a lower one, while two handles append', async () => {
    await using world = await newLog();
    await using one = await opened(world);
    await using other = await opened(world);
    await using reader = await opened(world);
    const each = 150;
    const writers = [one, one, other, other].map(async (store, writer) => {
      const places: number[] = [];
      for (let count = 0; count < each; count++) {
        const appended = await append(
          store,
          Array.from({ length: 1 + (count % 3) }, (_, index) => row(`${writer} ${count} ${index}`)),
        );
        places.push(...appended.map(({ seq }) => seq));
      }
      return places;
    });
    const total = 4 * (50 * 1 + 50 * 2 + 50 * 3);
    let at = 0;
    while (at < total) {
      const rows = await reader.read(at, 100);
      for (const { seq } of rows) {
        assert.equal(seq, at + 1, 'no gap');
        at = seq;
      }
    }
    const places = (await Promise.all(writers)).flat();
    assert.deepEqual(
      places.sort((a, b) => a - b),
      Array.from({ length: total }, (_, index) => index + 1),
    );
    assert.deepEqual(await reader.read(at, 10), []);
  });

  test('of two handles with the same expectation, or the same dedup text, one writes', async () => {
    await using world = await newLog();
    await using one = await opened(world);
    await using other = await opened(world);
    const heads = await Promise.allSettled(
      [one, other, one, other].map((store) => append(store, [row('head', 'policy')], { kind: 'policy', lastSeq: 0 })),
    );
    assert.equal(heads.filter(({ status }) => status === 'fulfilled').length, 1);
    for (const head of heads) if (head.status === 'rejected') refused('log_conflict')(head.reason);
    const same = await Promise.all(
      [one, other, one, other].map((store) => append(store, [{ ...row('update'), dedup: 'key' }])),
    );
    assert.deepEqual(
      same.map(([place]) => place?.seq),
      [2, 2, 2, 2],
    );
    assert.equal(same.filter(([place]) => place?.duplicate === false).length, 1);
    assert.deepEqual(seqs(await readAll(one)), [1, 2]);
  });

  test('handles that open a new log together agree on its epoch', async () => {
    await using world = await newLog();
    const stores = await Promise.all([world.open(), world.open(), world.open()]);
    try {
      assert.equal(new Set(stores.map(({ epoch }) => epoch)).size, 1);
    } finally {
      for (const store of stores) await store.close();
    }
  });
}

/** A handle that `await using` closes. */
async function opened(world: LogStoreWorld): Promise<LogStore & AsyncDisposable> {
  const store = await world.open();
  return Object.assign(store, { [Symbol.asyncDispose]: () => store.close() });
}

/** Appends and answers the places without their times, which not every store knows. */
async function append(store: LogStore, rows: readonly NewRow[], expect?: Expectation): Promise<Appended[]> {
  const places = await store.append(rows, expect);
  return places.map(({ seq, duplicate }) => ({ seq, duplicate }));
}

function row(text: string, kind: NewRow['kind'] = 'update'): NewRow {
  return { kind, body: JSON.stringify(text) };
}

function shown({ seq, kind, body }: StoredRow): string {
  return `${seq} ${kind} ${body}`;
}

function seqs(rows: readonly { readonly seq: number }[]): number[] {
  return rows.map(({ seq }) => seq);
}

async function readAll(store: LogStore): Promise<StoredRow[]> {
  const rows: StoredRow[] = [];
  for (;;) {
    const page = await store.read(rows.at(-1)?.seq ?? 0, 300);
    if (page.length === 0) return rows;
    rows.push(...page);
  }
}

async function loaded(store: LogStore): Promise<{ head: number; rows: StoredRow[] }> {
  const { head, rows } = await store.load();
  const all: StoredRow[] = [];
  for await (const page of rows) all.push(...page);
  return { head, rows: all };
}

/** Drops all that is retired by now, also where a call drops only some. Answers how many. */
async function dropAll(store: LogStore): Promise<number> {
  let dropped = 0;
  for (;;) {
    const some = await store.dropRetired(Date.now() + HOUR_MS);
    if (some === 0) return dropped;
    dropped += some;
  }
}

function refused(code: string) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof SyncError, String(error));
    assert.equal(error.code, code);
    return true;
  };
}
