import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { JsonText } from '../../lib/json-text.js';
import { type PeerEntry, peerEntry } from '../../wire/data.js';
import { concerns, entryIdentity, entryPath, entryReplaces } from './entry.js';

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
      assert.equal(concerns(entry({ topics }), new Set(own)), result);
    });
  }
});
