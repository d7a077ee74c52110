import assert from 'node:assert/strict';
import { it } from 'node:test';
import { JsonText } from '../../lib/json/json-text.js';
import { LargeRows } from './large-rows.js';
import { type LogStore, type StoredRow, scannedRow } from './log-store.js';
import { updateBodyText } from './row.js';
import { TailReader } from './tail-reader.js';

function row(seq: number, chars = 2): StoredRow {
  const data = JsonText.of('x'.repeat(chars));
  const entry = { url: '', topics: ['t'], dst_path: '/a', save_method: 'PUT' as const, data };
  const record = { id: `u${seq}`, publisher: null, reason: null, entries: [entry], callbacks: [] };
  return { seq, timeMs: 0, kind: 'update', body: updateBodyText(record) };
}

/** A store that counts how often it is read. */
function store(rows: StoredRow[]): Pick<LogStore, 'read' | 'scan'> & { reads: number } {
  return {
    reads: 0,
    async read(after, limit) {
      this.reads++;
      return rows.filter(({ seq }) => seq > after).slice(0, limit);
    },
    async scan(from, limit, filter) {
      this.reads++;
      const after = 'after' in from ? from.after : Number.NaN;
      return rows
        .filter(({ seq }) => seq > after)
        .slice(0, limit)
        .map((one) => scannedRow(one, filter));
    },
  };
}

function reader(from: Pick<LogStore, 'read' | 'scan'>, head: () => number): TailReader {
  return new TailReader(from, new LargeRows(from), head);
}

it('what many ask for at once is read once, and what was read is kept', async () => {
  const rows = Array.from({ length: 10 }, (_, at) => row(at + 1));
  const from = store(rows);
  let head = 8;
  const tail = reader(from, () => head);
  const all = await Promise.all(Array.from({ length: 50 }, () => tail.read(2, 100)));
  assert.equal(from.reads, 1);
  for (const page of all) {
    assert.deepEqual(
      page?.records.map(({ id }) => id),
      ['u3', 'u4', 'u5', 'u6', 'u7', 'u8'],
    );
    assert.deepEqual([page?.through, page?.more], [8, false]);
  }
  assert.deepEqual(
    (await tail.read(4, 2))?.records.map(({ id }) => id),
    ['u5', 'u6'],
  );
  assert.deepEqual(await tail.read(8, 100), { records: [], through: 8, more: false, chars: 0 });
  assert.equal(from.reads, 1);
  head = 10;
  assert.deepEqual(
    (await tail.read(6, 100))?.records.map(({ id }) => id),
    ['u7', 'u8', 'u9', 'u10'],
  );
  assert.equal(from.reads, 2);
  assert.deepEqual(
    (await tail.read(0, 3))?.records.map(({ id }) => id),
    ['u1', 'u2', 'u3'],
  );
  assert.equal(await tail.read(11, 3), undefined);
});

it('a tail that has lost rows is none', async () => {
  const tail = reader(store([row(1), row(2), row(5)]), () => 6);
  assert.equal((await tail.read(0, 2))?.through, 2);
  assert.equal(await tail.read(0, 6), undefined);
});

it('a large row is read for those who want it: once for all, and not again for the others', async () => {
  const from = store([row(1), row(2, 5 * 1024 * 1024), row(3, 5 * 1024 * 1024), row(4)]);
  const tail = reader(from, () => 4);
  const ids = async (shows?: (topics: readonly string[]) => boolean): Promise<unknown[]> => {
    const page = await tail.read(0, 10, shows);
    return [page?.records.map(({ id }) => id), page?.through, page?.more];
  };
  const all = await Promise.all(Array.from({ length: 10 }, () => ids()));
  assert.deepEqual(all, Array(10).fill([['u1', 'u2'], 2, true]), 'a page ends after a large row');
  assert.equal(from.reads, 2);
  const none = (topics: readonly string[]): boolean => topics.includes('other');
  assert.deepEqual(await ids(none), [[], 4, false]);
  assert.equal(from.reads, 4, 'the third row is looked at');
  assert.deepEqual(await ids(none), [[], 4, false]);
  assert.equal(from.reads, 5, 'what the large rows are is known: only the scan is repeated');
  assert.deepEqual(await tail.read(2, 10), await tail.read(2, 10));
  assert.equal((await tail.read(2, 10))?.records.length, 2);
});
