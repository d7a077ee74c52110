import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { DataSourceEntry, SaveMethod } from '../../wire/data.js';
import { isAtOrBelow, parseDocPath } from '../../wire/doc-path.js';
import { Fold, type FoldRecord } from './fold.js';

function entry(save_method: SaveMethod, dst_path: string, topics: readonly string[] = ['t']): DataSourceEntry {
  return { url: '', topics: [...topics], dst_path, save_method };
}

function update(seq: number, ...entries: DataSourceEntry[]): FoldRecord {
  return { seq, entries };
}

/** Folds and shows what is live as `seq method path`. */
function folded(records: readonly FoldRecord[]): string[] {
  const fold = new Fold();
  for (const record of records) fold.applyRecord(record);
  return fold.entries().map(({ seq, entry: { save_method, dst_path } }) => `${seq} ${save_method} ${dst_path}`);
}

const TABLE: { name: string; records: FoldRecord[]; live: string[] }[] = [
  {
    name: 'a PUT supersedes an older PUT at its path, however the path is spelled',
    records: [update(1, entry('PUT', '/a/b')), update(2, entry('PUT', 'a//b/'))],
    live: ['2 PUT a//b/'],
  },
  {
    name: 'a PUT supersedes what lies below, not what lies above or beside',
    records: [
      update(1, entry('PUT', '/a')),
      update(2, entry('PUT', '/a/b/c'), entry('PUT', '/ab')),
      update(3, entry('PUT', '/a/b')),
    ],
    live: ['1 PUT /a', '2 PUT /ab', '3 PUT /a/b'],
  },
  {
    name: 'a PUT at the root supersedes everything',
    records: [update(1, entry('PUT', '/a')), update(2, entry('PATCH', '')), update(3, entry('PUT', '/'))],
    live: ['3 PUT /'],
  },
  {
    name: 'PATCHes stack and go with the next PUT at or above',
    records: [
      update(1, entry('PUT', '/a')),
      update(2, entry('PATCH', '/a')),
      update(3, entry('PATCH', '/a')),
      update(4, entry('PATCH', '/b')),
      update(5, entry('PUT', '/b')),
    ],
    live: ['1 PUT /a', '2 PATCH /a', '3 PATCH /a', '5 PUT /b'],
  },
  {
    name: 'a DELETE stays as a tombstone until a PUT at or above',
    records: [
      update(1, entry('PUT', '/a')),
      update(2, entry('DELETE', '/a')),
      update(3, entry('DELETE', '/b')),
      update(4, entry('PUT', '/b')),
    ],
    live: ['2 DELETE /a', '4 PUT /b'],
  },
  {
    name: 'an entry stays until every topic of it is superseded',
    records: [
      update(1, entry('PUT', '/a', ['x', 'y'])),
      update(2, entry('PUT', '/b', ['x', 'y'])),
      update(3, entry('PUT', '/a', ['x'])),
      update(4, entry('PUT', '/b', ['x'])),
      update(5, entry('PUT', '', ['y', 'z'])),
      update(6, entry('PUT', '/a', ['z'])),
    ],
    live: ['3 PUT /a', '4 PUT /b', '5 PUT ', '6 PUT /a'],
  },
  {
    name: 'a topic that is named twice counts once',
    records: [update(1, entry('PUT', '/a', ['x', 'x'])), update(2, entry('PUT', '/a', ['x']))],
    live: ['2 PUT /a'],
  },
  {
    name: 'later entries of one record supersede earlier ones',
    records: [update(1, entry('PUT', '/a/b'), entry('PUT', '/a'), entry('PUT', '/a/c'))],
    live: ['1 PUT /a', '1 PUT /a/c'],
  },
];

for (const { name, records, live } of TABLE) {
  test(name, () => assert.deepEqual(folded(records), live));
}

test('a record is reported once, when its last entry is superseded', () => {
  const fold = new Fold();
  const unused = (record: FoldRecord): number[] => {
    fold.applyRecord(record);
    return fold.refs.takeUnused().sort((a, b) => a - b);
  };
  assert.deepEqual(unused(update(1, entry('PUT', '/a'), entry('PUT', '/b'))), []);
  assert.deepEqual(unused(update(2, entry('PUT', '/a'))), []);
  assert.deepEqual(unused(update(3, entry('PUT', '/b'))), [1]);
  assert.deepEqual(unused(update(4, entry('PUT', ''))), [2, 3]);
  assert.deepEqual(unused(update(5)), [5]);
});

test('an answer that was given does not change with later records', () => {
  const fold = new Fold();
  fold.applyRecord(update(1, entry('PUT', '/a')));
  const before = fold.entries();
  fold.applyRecord(update(2, entry('PUT', '/a')));
  assert.deepEqual(
    before.map(({ seq }) => seq),
    [1],
  );
  assert.equal(fold.entries(), fold.entries());
});

test('it has another version after each change, and entries by topic', () => {
  const fold = new Fold();
  const seqs = (...topics: string[]): number[] => fold.entriesOn(topics).map(({ seq }) => seq);
  const versions = [fold.version];
  fold.applyRecord(update(1, entry('PUT', '/a', ['x'])));
  versions.push(fold.version);
  fold.applyRecord({ ...update(2, entry('PUT', '/b', ['x', 'y'])), expiresMs: 5 });
  versions.push(fold.version);
  assert.deepEqual([seqs('x'), seqs('y'), seqs('y', 'x', 'z'), seqs()], [[1, 2], [2], [1, 2], []]);
  assert(!fold.expire(4));
  assert.equal(fold.version, versions.at(-1), 'nothing has changed');
  assert(fold.expire(5));
  assert.deepEqual([seqs('x'), seqs('y')], [[1], []]);
  versions.push(fold.version);
  assert.equal(new Set(versions).size, 4);
});

const anyEntry = fc
  .record({
    save_method: fc.constantFrom<SaveMethod>('PUT', 'PUT', 'PATCH', 'DELETE'),
    path: fc.array(fc.constantFrom('a', 'b', 'a%2Fb'), { maxLength: 3 }),
    topics: fc.array(fc.constantFrom('x', 'y', 'z'), { minLength: 1, maxLength: 3 }),
  })
  .map(({ save_method, path, topics }) => entry(save_method, path.join('/'), topics));
const anyRecords = fc.array(fc.array(anyEntry, { minLength: 1, maxLength: 3 }), { maxLength: 25, size: 'max' });

/** The rule of design D17, word by word. */
function naive(entries: readonly DataSourceEntry[]): DataSourceEntry[] {
  return entries.filter((older, at) => {
    const covers = (topic: string) =>
      entries
        .slice(at + 1)
        .some(
          (later) =>
            later.save_method !== 'PATCH' &&
            later.topics.includes(topic) &&
            isAtOrBelow(parseDocPath(older.dst_path), parseDocPath(later.dst_path)),
        );
    return !older.topics.every(covers);
  });
}

test('property: the fold equals the rule applied to all entries at once', () => {
  fc.assert(
    fc.property(anyRecords, (lists) => {
      const fold = new Fold();
      const emptied: number[] = [];
      const all: DataSourceEntry[] = [];
      for (const [index, entries] of lists.entries()) {
        fold.applyRecord(update(index + 1, ...entries));
        emptied.push(...fold.refs.takeUnused());
        all.push(...entries);
        assert.deepEqual(
          fold.entries().map((item) => item.entry),
          naive(all),
        );
      }
      const live = new Set(fold.entries().map(({ seq }) => seq));
      assert.deepEqual(
        [...emptied].sort((a, b) => a - b),
        lists.map((_, index) => index + 1).filter((seq) => !live.has(seq)),
      );
    }),
    { numRuns: 200 },
  );
});

test('property: a fold of the records that are still live is the same fold', () => {
  fc.assert(
    fc.property(anyRecords, (lists) => {
      const all = new Fold();
      const kept = new Map<number, FoldRecord>();
      for (const [index, entries] of lists.entries()) {
        const record = update(index + 1, ...entries);
        kept.set(record.seq, record);
        all.applyRecord(record);
        for (const seq of all.refs.takeUnused()) kept.delete(seq);
      }
      const again = new Fold();
      for (const record of kept.values()) again.applyRecord(record);
      assert.deepEqual(again.entries(), all.entries());
    }),
    { numRuns: 200 },
  );
});

test('20,000 updates on 100 paths leave 100 entries', () => {
  const fold = new Fold();
  for (let seq = 1; seq <= 20_000; seq++) {
    fold.applyRecord(update(seq, entry('PUT', `/users/u${seq % 100}`, ['policy_data', 'policy_data/users'])));
  }
  assert.deepEqual(
    fold.entries().map(({ seq }) => seq),
    Array.from({ length: 100 }, (_, index) => 19_901 + index),
  );
});
