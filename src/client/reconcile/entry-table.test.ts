import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KnownEntry } from './entry.js';
import { EntryTable } from './entry-table.js';

function known(id: string): KnownEntry {
  return {
    id,
    path: ['a'],
    rank: { era: 1, seq: 1, index: 0 },
    later: undefined,
    origin: 'update',
    epoch: undefined,
    entry: { url: '', topics: ['t'], dst_path: '/a', save_method: 'PUT' },
    transaction: 't#1',
    state: { kind: 'fetching', error: undefined },
    fetched: undefined,
    reads: undefined,
  };
}

test('nobody is told of what becomes of an entry that was forgotten', () => {
  const told: string[] = [];
  const table = new EntryTable({
    onSettled: ({ state }) => told.push(state.kind),
    onForgotten: () => told.push('forgotten'),
    discard: () => undefined,
    onStoppedFetching: () => told.push('stopped fetching'),
  });
  const entry = known('x');
  table.set(entry);
  table.settle(entry, { kind: 'ready', body: undefined, error: undefined });
  table.forget(entry);
  table.settle(entry, { kind: 'ready', body: undefined, error: 'a write that had begun has failed' });
  const next = known('x');
  table.set(next);
  table.settle(entry, { kind: 'applied' });
  assert.deepEqual(told, ['ready', 'stopped fetching', 'forgotten']);
});
