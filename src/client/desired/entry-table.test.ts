import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { JsonText } from '../../lib/json/json-text.js';
import { type PeerEntry, peerEntry } from '../../wire/data.js';
import { EntryTable, entryConcerns, entryIdentity, entryPath, entryReplaces, type KnownEntry } from './entry-table.js';

function entry(more: object = {}): PeerEntry {
  return peerEntry.parse({ url: 'http://s/a', topics: ['t'], dst_path: '/a', ...more });
}

function identity(more: object): string {
  const read = entry(more);
  return entryIdentity(read, entryPath(read));
}

describe('the identity of an entry', () => {
  const same: Record<string, object> = {
    'other headers': { config: { headers: { authorization: 'new' } } },
    'other topics': { topics: ['u', 'v'] },
    'the path in other words': { dst_path: 'a/' },
    'the default method, written out': { config: { method: 'GET' } },
    'another place in the log': { seq: 7 },
    'another interval': { periodic_update_interval: 5 },
  };
  for (const [what, more] of Object.entries(same)) {
    it(`stays with ${what}`, () => assert.equal(identity(more), identity({})));
  }

  const other: Record<string, object> = {
    'another URL': { url: 'http://s/b' },
    'another path': { dst_path: '/a/b' },
    'a slash inside a segment': { dst_path: '/%2Fa' },
    'another save method': { save_method: 'PATCH' },
    'another method': { config: { method: 'POST' } },
    'a body to send': { config: { data: 'x' } },
    'inline data': { data: JsonText.trusted('1') },
  };
  for (const [what, more] of Object.entries(other)) {
    it(`is another one with ${what}`, () => assert.notEqual(identity(more), identity({})));
  }

  it('inline data counts as written', () => {
    const [one, float] = ['1', '1.0'].map((text) => identity({ data: JsonText.trusted(text) }));
    assert.notEqual(one, float);
  });

  it('no two members run into each other', () => {
    assert.notEqual(identity({ url: 'a', dst_path: 'b/c' }), identity({ url: 'a', dst_path: 'b%2Fc' }));
    assert.notEqual(
      identity({ url: 'http://s/a","', dst_path: '/b' }),
      identity({ url: 'http://s/a', dst_path: '/","/b' }),
    );
  });
});

describe('an entry', () => {
  it('replaces everything below its path unless it is a patch', () => {
    assert.deepEqual(
      ['PUT', 'DELETE', 'PATCH'].map((save_method) => entryReplaces(entry({ save_method }))),
      [true, true, false],
    );
  });

  const TABLE: [string[], string[], boolean][] = [
    [['t'], ['t'], true],
    [['t', 'u'], ['u'], true],
    [['t'], ['u'], false],
    [['t'], [], false],
    [['data:a/b'], ['scope:data:a/b'], true],
    [['data:a'], ['scope:data:a/b'], false],
    [['a'], ['scope:data:a'], false],
    [['data:a'], ['xdata:a'], false],
    [['scope:data:a'], ['data:a'], false],
  ];
  for (const [topics, own, result] of TABLE) {
    it(`of ${topics} ${result ? 'concerns' : 'does not concern'} a client of ${own}`, () => {
      assert.equal(entryConcerns(entry({ topics }), new Set(own)), result);
    });
  }
});

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
