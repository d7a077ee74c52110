import assert from 'node:assert/strict';
import { test } from 'node:test';
import { peerEntry } from '../../wire/data.js';
import type { KnownEntry } from './entry.js';
import { EntryTable } from './entry-table.js';

function known(more: Partial<KnownEntry> = {}): KnownEntry {
  return {
    id: 'x',
    path: ['a'],
    rank: { era: 1, seq: 1, index: 0 },
    nextRank: undefined,
    origin: 'update',
    epoch: undefined,
    entry: peerEntry.parse({ url: 'http://source/', topics: ['t'], dst_path: '/a' }),
    transaction: 't#1',
    state: { kind: 'fetching', error: undefined },
    fetched: undefined,
    ...more,
  };
}

test('an entry that was dropped does not come back, nor harm the one that took its place', () => {
  const table = new EntryTable();
  const entry = known();
  table.set(entry);
  table.apply(entry, { kind: 'arrived', body: undefined, fetched: undefined });
  const { state } = entry;
  assert(state.kind === 'ready');
  table.apply(entry, { kind: 'dropped' });
  assert.equal(table.get('x'), undefined);
  assert.deepEqual(table.apply(entry, { kind: 'write_failed', error: 'a write that had begun' }).effects, []);
  const next = known();
  table.set(next);
  table.apply(entry, { kind: 'written', of: state, keepsBody: false });
  table.apply(entry, { kind: 'dropped' });
  assert.equal(table.get('x'), next);
  assert.equal(next.state.kind, 'fetching');
});

test('an entry that the engine could not be rid of is back, as it holds it', () => {
  const table = new EntryTable();
  const entry = known();
  table.set(entry);
  table.apply(entry, { kind: 'dropped' });
  table.apply(entry, { kind: 'kept' });
  assert.deepEqual([table.get('x'), entry.state.kind], [entry, 'applied']);
});

test('counts what arrives, and has not failed', () => {
  const table = new EntryTable();
  const entry = known();
  const counted = [table.arriving];
  const count = (): unknown => counted.push(table.arriving);
  table.set(entry);
  count();
  table.apply(entry, { kind: 'fetch_failed', error: 'no answer' });
  count();
  table.apply(entry, { kind: 'arrived', body: undefined, fetched: undefined });
  count();
  const other = known({ id: 'y' });
  table.set(other);
  count();
  table.apply(other, { kind: 'dropped' });
  count();
  assert.deepEqual(counted, [0, 1, 0, 0, 1, 0]);
});

test('a base entry that is listed at another place takes it once its source has something new, and not before', () => {
  const table = new EntryTable();
  const [first, later] = [
    { era: 1, seq: 1, index: 0 },
    { era: 2, seq: 1, index: 0 },
  ];
  const entry = known({ origin: 'base' });
  assert.equal(table.relist(entry, entry.entry, 'other', later), false);
  table.apply(entry, { kind: 'unchanged', fetched: undefined });
  assert.deepEqual(entry.rank, first);
  table.relist(entry, entry.entry, 'other', later);
  table.apply(entry, { kind: 'arrived', body: undefined, fetched: undefined });
  assert.deepEqual([entry.rank, entry.nextRank, entry.epoch], [later, undefined, 'other']);
});

test('a base entry that the log has moved is written there: at once what is inline, all else once it has arrived', () => {
  const table = new EntryTable();
  const moved = { era: 1, seq: 3, index: 0 };
  const read = known({ origin: 'base', fetched: { hash: 'h' } });
  assert.equal(table.relist(read, { ...read.entry, seq: 3 }, undefined, moved), true);
  assert.deepEqual([read.rank.seq, read.nextRank, read.fetched], [1, moved, undefined]);
  const inline = known({ origin: 'base', entry: peerEntry.parse({ url: '', save_method: 'DELETE', dst_path: '/a' }) });
  assert.equal(table.relist(inline, { ...inline.entry, seq: 3 }, undefined, moved), true);
  assert.deepEqual([inline.rank, inline.nextRank], [moved, undefined]);
});
