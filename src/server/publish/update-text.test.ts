import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JsonText } from '../../lib/json/json-text.js';
import { type DataSourceEntry, dataSourceEntry, peerDataConfig, peerUpdate } from '../../wire/data.js';
import { parseKeepingData } from '../../wire/inline-data.js';
import type { LogRecord } from '../log/update-log.js';
import { extendedConfigText, extendedUpdateText, opalConfigText, opalUpdateText } from './update-text.js';

function entry(fields: object): DataSourceEntry {
  return dataSourceEntry.parse({ url: '', topics: ['t'], dst_path: '/a/b', ...fields });
}

function record(...entries: DataSourceEntry[]): LogRecord {
  return { seq: 7, timeMs: 0, id: 'i', publisher: null, reason: 'r', callbacks: ['http://cb'], entries };
}

function opalEntryOf(fields: object): unknown {
  return (JSON.parse(opalUpdateText(record(entry(fields)), () => true)) as { entries: unknown[] }).entries[0];
}

test('OPAL form: its fields in its order, nothing of ours, data as written', () => {
  const data = JsonText.parse('{"n": 12345678901234567890, "f": 1.0}');
  const text = opalUpdateText(
    record(entry({ url: 'http://x', config: { headers: { a: 'b' } }, inline_data: true, data })),
    () => true,
  );
  assert.equal(
    text,
    '{"id":"i","entries":[{"url":"http://x","config":{"headers":{"a":"b"}},"topics":["t"],"dst_path":"/a/b","save_method":"PUT","data":{"n": 12345678901234567890, "f": 1.0}}],"reason":"r","callback":{"callbacks":["http://cb"]}}',
  );
});

test('OPAL form: data is null for a PUT by URL and left out for a PATCH by URL', () => {
  assert.deepEqual(opalEntryOf({ url: 'http://x' }), {
    url: 'http://x',
    config: null,
    topics: ['t'],
    dst_path: '/a/b',
    save_method: 'PUT',
    data: null,
  });
  assert.equal('data' in (opalEntryOf({ url: 'http://x', save_method: 'PATCH' }) as object), false);
});

test('OPAL form: what it does not know becomes a patch of the folder above', () => {
  const cases: [object, object][] = [
    [{ save_method: 'DELETE' }, { dst_path: '/a', save_method: 'PATCH', data: [{ op: 'remove', path: '/b' }] }],
    [
      { save_method: 'DELETE', dst_path: 'x~y%2Fz/' },
      { dst_path: '/', save_method: 'PATCH', data: [{ op: 'remove', path: '/x~0y~1z' }] },
    ],
    [
      { save_method: 'DELETE', dst_path: '/' },
      { dst_path: '/', save_method: 'PUT', data: {} },
    ],
    [
      { data: JsonText.parse('1.50') },
      { dst_path: '/a', save_method: 'PATCH', data: [{ op: 'add', path: '/b', value: 1.5 }] },
    ],
    [
      {
        save_method: 'PATCH',
        data: JsonText.parse(
          '[{"op":"add","path":"/n","value":null},{"op":"replace","path":"/r","value":null},{"op":"add","path":"/k","value":1.0}]',
        ),
      },
      {
        dst_path: '/a/b',
        save_method: 'PATCH',
        data: [
          { op: 'remove', path: '/r' },
          { op: 'add', path: '/k', value: 1 },
        ],
      },
    ],
    [{ data: JsonText.parse('[1]') }, { dst_path: '/a/b', save_method: 'PUT', data: [1] }],
  ];
  for (const [given, expected] of cases) {
    const { dst_path, save_method, data } = opalEntryOf(given) as Record<string, unknown>;
    assert.deepEqual({ dst_path, save_method, data }, expected);
  }
  assert.match(
    opalUpdateText(record(entry({ data: JsonText.parse('1.50') })), () => true),
    /"value":1\.50\}/,
  );
});

test('OPAL form: a DELETE removes what is above and empty, once, and as far as nobody may have anything', () => {
  const held = new Set(['a', 'b']);
  const mayHave = (path: readonly string[]): boolean => held.has(path.join('/'));
  const gone = (dst_path: string, topics = ['t']): DataSourceEntry =>
    entry({ save_method: 'DELETE', dst_path, topics });
  const given = [gone('/a/x/y/z'), gone('/b/y'), gone('/c/x/y'), gone('/c/z/y'), gone('/c/z', ['u']), gone('/c')];
  const { entries } = JSON.parse(opalUpdateText(record(...given), mayHave)) as {
    entries: { dst_path: string; data: unknown; topics: string[] }[];
  };
  const remove = (path: string): object[] => [{ op: 'remove', path }];
  assert.deepEqual(
    entries.map(({ dst_path, data, topics: [topic] }) => [dst_path, data, topic]),
    [
      ['/a', remove('/x'), 't'],
      ['/b', remove('/y'), 't'],
      ['/', remove('/c'), 't'],
      ['/', remove('/c'), 'u'],
    ],
  );
  const between = record(gone('/c/x/y'), entry({ url: 'http://x', dst_path: '/c/x/z' }), gone('/c/x/z'));
  const texts = (JSON.parse(opalUpdateText(between, mayHave)) as { entries: object[] }).entries;
  assert.equal(texts.length, 3, 'what came in between goes, too');
});

test('OPAL form: a patch of nothing but null values is left out, the rest of the update stays', () => {
  const nulls = entry({ save_method: 'PATCH', data: JsonText.parse('[{"op":"add","path":"/n","value":null}]') });
  const update = JSON.parse(opalUpdateText(record(nulls, entry({ url: 'http://x' })), () => true)) as {
    entries: unknown[];
  };
  assert.equal(update.entries.length, 1);
});

test('our form: keeps DELETE, says whether data is present whatever was claimed, and adds the position', () => {
  const text = extendedUpdateText(
    record(entry({ save_method: 'DELETE' }), entry({ data: JsonText.parse('1.0'), inline_data: false })),
    'e1',
  );
  const update = peerUpdate.parse(parseKeepingData(text));
  assert.equal(update.seq, 7);
  assert.equal(update.epoch, 'e1');
  assert.deepEqual(
    update.entries.map((each) => [each.save_method, each.inline_data, each.data?.text]),
    [
      ['DELETE', false, undefined],
      ['PUT', true, '1.0'],
    ],
  );
});

test('what patches have made on their way in a document is told to our clients, and to no OPAL client', () => {
  const worked = { ...entry({ data: JsonText.parse('{"a":{"b":1}}') }), implied: ['/a'] };
  const fold = [{ seq: 1, origin: 'update' as const, entry: worked }];
  const [found] = peerDataConfig.parse(parseKeepingData(extendedConfigText(fold, { baseSet: false }))).entries;
  assert.deepEqual(found?.implied, ['/a']);
  assert(!opalConfigText(fold, () => true).includes('implied'));
});

test('the span that announces an update is told to our clients, and to no OPAL client', () => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
  const traced = { ...record(entry({})), traceparent };
  assert.equal((JSON.parse(extendedUpdateText(traced, 'e')) as { traceparent?: string }).traceparent, traceparent);
  assert(!extendedUpdateText(record(entry({})), 'e').includes('traceparent'));
  assert(!opalUpdateText(traced, () => true).includes('traceparent'));
});

test('configuration: both forms have the polling interval, only ours has positions', () => {
  const fold = [
    { seq: 2, origin: 'base', entry: { ...entry({ url: 'http://b' }), periodic_update_interval: 5 } },
    { seq: 9, origin: 'update', entry: entry({ save_method: 'DELETE' }) },
  ] as const;
  const opal = JSON.parse(opalConfigText(fold, () => true)) as { entries: Record<string, unknown>[] };
  assert.deepEqual(Object.keys(opal), ['entries']);
  assert.deepEqual(
    opal.entries.map((each) => [each.save_method, each.periodic_update_interval, each.seq]),
    [
      ['PUT', 5, undefined],
      ['PATCH', null, undefined],
    ],
  );
  const ours = peerDataConfig.parse(JSON.parse(extendedConfigText(fold, { epoch: 'e', head: 9, baseSet: true })));
  assert.deepEqual(
    ours.entries.map((each) => [each.save_method, each.periodic_update_interval, each.seq]),
    [
      ['PUT', 5, 2],
      ['DELETE', null, 9],
    ],
  );
  assert.deepEqual([ours.epoch, ours.head, ours.base_set], ['e', 9, true]);
});

test('an interval in a data update counts for nobody, whether he was there or comes later: only base entries are polled', () => {
  const polled = { ...entry({ url: 'http://b' }), periodic_update_interval: 5 };
  const fold = [{ seq: 1, origin: 'update' as const, entry: polled }];
  for (const text of [
    opalConfigText(fold, () => true),
    extendedConfigText(fold, { baseSet: false }),
    opalUpdateText(record(polled), () => true),
    extendedUpdateText(record(polled), 'e'),
  ]) {
    const { entries } = JSON.parse(text) as { entries: { periodic_update_interval?: number | null }[] };
    assert.equal(entries[0]?.periodic_update_interval ?? null, null, text);
  }
});
