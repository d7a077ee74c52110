import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { JsonText } from '../../lib/json/json-text.js';
import { type PeerEntry, peerEntry } from '../../wire/data.js';
import { baseIdentity } from './base-entry.js';
import { readUpdateRow, updateBodyText } from './row.js';
import type { LogRecord } from './update-log.js';

test('a record comes back from its row as it was, numbers as written', () => {
  const record: LogRecord = {
    seq: 7,
    timeMs: 1_700_000_000_000,
    id: 'an "id"\u0000',
    publisher: null,
    reason: 'grüße',
    entries: [
      {
        url: '',
        topics: ['a'],
        dst_path: '/n',
        save_method: 'PUT',
        data: JsonText.parse('{"n":12345678901234567890, "d":1.0}'),
      },
      { url: 'http://x', topics: ['a', 'b'], dst_path: '', save_method: 'DELETE', config: { headers: { h: 'v' } } },
    ],
    callbacks: ['http://cb', ['http://cb2', { method: 'put' }]],
    traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
  };
  const body = updateBodyText(record);
  assert.match(body, /12345678901234567890, "d":1\.0/);
  const read = readUpdateRow({ seq: record.seq, kind: 'update', timeMs: record.timeMs, body });
  assert.deepEqual(read, { kind: 'record', record, digest: undefined });
});

test('a row that is not what was written is refused with its position', () => {
  for (const body of ['{"id":"x"', '{"id":"x","entries":[]}']) {
    assert.throws(
      () => readUpdateRow({ seq: 3, kind: 'update', timeMs: 0, body }),
      (error) => error instanceof SyncError && error.code === 'log_damaged' && /record 3/.test(error.message),
    );
  }
});

function base(fields: object): PeerEntry {
  const { data, ...rest } = { data: undefined, ...fields };
  return peerEntry.parse({ url: 'http://a', ...rest, ...(data === undefined ? {} : { data: JsonText.of(data) }) });
}

const SAME: [string, object, object][] = [
  ['headers', { config: { headers: { a: '1' } } }, { config: { headers: { a: '2' } } }],
  ['the default method spelled out', { config: {} }, { config: { method: 'GET' } }],
  ['the spelling of the path', { dst_path: '/a/b' }, { dst_path: 'a/b/' }],
  ['the order of topics', { topics: ['x', 'y'] }, { topics: ['y', 'x', 'x'] }],
  ['the interval', {}, { periodic_update_interval: 5 }],
  [
    'the credentials of a database',
    { config: { fetcher: 'postgres', query: 'q', connection_params: { user: 'a', password: 'a', database: 'd' } } },
    { config: { connection_params: { database: 'd', user: 'b' }, query: 'q', fetcher: 'Postgres' } },
  ],
];
for (const [what, one, other] of SAME) {
  test(`a base entry keeps its identity with ${what}`, () => {
    assert.equal(baseIdentity(base(one)), baseIdentity(base(other)));
  });
}

const DIFFERENT: [string, object, object][] = [
  ['url', { url: 'http://a' }, { url: 'http://b' }],
  ['method', { config: { method: 'post' } }, { config: { method: 'put' } }],
  ['request body', { config: { data: { a: 1 } } }, { config: { data: { a: 2 } } }],
  ['inline data', { data: { a: 1 } }, { data: { a: 2 } }],
  ['dst_path', { dst_path: '/a' }, { dst_path: '/b' }],
  ['topics', { topics: ['x'] }, { topics: ['x', 'y'] }],
  ['save_method', { save_method: 'PUT' }, { save_method: 'PATCH' }],
  ['reading as text', { config: {} }, { config: { is_json: false } }],
  ['provider', { config: {} }, { config: { fetcher: 'other' } }],
  ['query', { config: { fetcher: 'postgres', query: 'a' } }, { config: { fetcher: 'postgres', query: 'b' } }],
  [
    'database',
    { config: { fetcher: 'postgres', connection_params: { database: 'a' } } },
    { config: { fetcher: 'postgres', connection_params: { database: 'b' } } },
  ],
];
for (const [what, one, other] of DIFFERENT) {
  test(`another ${what} makes another base entry`, () => {
    assert.notEqual(baseIdentity(base(one)), baseIdentity(base(other)));
  });
}
