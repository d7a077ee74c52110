import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseJson } from '../lib/json/json.js';
import { JsonText } from '../lib/json/json-text.js';
import { dataUpdate, peerDataConfig, peerEntry, peerUpdate, serverDataSources } from './data.js';
import { fieldProblems } from './field-problems.js';
import { parseKeepingData, parseKeepingSources } from './inline-data.js';

const ENTRY = { url: 'http://source/a', topics: ['t'], dst_path: '/a' };

/** Where a body is refused, as callers are told. */
function refusedAt(body: unknown): string[] {
  const parsed = dataUpdate.safeParse(body);
  return parsed.success ? [] : fieldProblems(parsed.error).map(({ loc }) => loc.join('.'));
}

describe('a data update as people send it', () => {
  it('has defaults for what may be left out', () => {
    assert.deepEqual(dataUpdate.parse({ entries: [ENTRY] }), { entries: [{ ...ENTRY, save_method: 'PUT' }] });
  });

  const TABLE: [string, unknown, string[]][] = [
    ['no entries', {}, ['body.entries']],
    ['an empty list of entries', { entries: [] }, ['body.entries']],
    ['a number as URL', { entries: [{ ...ENTRY, url: 1 }] }, ['body.entries.0.url']],
    ['a number as topic', { entries: [{ ...ENTRY, topics: ['t', 1] }] }, ['body.entries.0.topics.1']],
    ['no topic', { entries: [{ ...ENTRY, topics: [] }] }, ['body.entries.0.topics']],
    ['a topic that is no list', { entries: [{ ...ENTRY, topics: 't' }] }, ['body.entries.0.topics']],
    ['no path', { entries: [{ url: 'x', topics: ['t'] }] }, ['body.entries.0.dst_path']],
    ['a path that climbs', { entries: [{ ...ENTRY, dst_path: '/a/%2e%2e/b' }] }, ['body.entries.0.dst_path']],
    ['a path of half a pair', { entries: [{ ...ENTRY, dst_path: '/\ud800' }] }, ['body.entries.0.dst_path']],
    ['an unknown save method', { entries: [{ ...ENTRY, save_method: 'put' }] }, ['body.entries.0.save_method']],
    ['data in inline_data', { entries: [{ ...ENTRY, inline_data: {} }] }, ['body.entries.0.inline_data']],
    [
      'a header that is a number',
      { entries: [{ ...ENTRY, config: { headers: { a: 1 } } }] },
      ['body.entries.0.config.headers.a'],
    ],
    [
      'a fetch method that there is none',
      { entries: [{ ...ENTRY, config: { method: 'trace' } }] },
      ['body.entries.0.config.method'],
    ],
    [
      'an interval of nothing',
      { entries: [{ ...ENTRY, periodic_update_interval: 0 }] },
      ['body.entries.0.periodic_update_interval'],
    ],
    ['a number as reason', { entries: [ENTRY], reason: 1 }, ['body.reason']],
    [
      'two bad entries',
      {
        entries: [
          { ...ENTRY, url: 1 },
          { ...ENTRY, url: 2 },
        ],
      },
      ['body.entries.0.url', 'body.entries.1.url'],
    ],
    ['a list', [ENTRY], ['body']],
  ];
  for (const [what, body, places] of TABLE) {
    it(`is refused with ${what}, and says where`, () => assert.deepEqual(refusedAt(body), places));
  }

  it('takes fetch methods in any case, and keeps members of the configuration that it does not know', () => {
    const { entries } = dataUpdate.parse({ entries: [{ ...ENTRY, config: { method: 'POST', own: 1 } }] });
    assert.deepEqual(entries[0]?.config, { method: 'post', own: 1 });
  });

  it('leaves the configuration of other fetch providers to these', () => {
    const config = { fetcher: 'PostgresFetchProvider', method: 'any', headers: [1], query: 'select 1' };
    assert.deepEqual(dataUpdate.parse({ entries: [{ ...ENTRY, config }] }).entries[0]?.config, config);
    for (const fetcher of ['HttpFetchProvider', 'HTTP', '', null]) {
      assert.deepEqual(refusedAt({ entries: [{ ...ENTRY, config: { ...config, fetcher } }] }), [
        'body.entries.0.config.headers',
        'body.entries.0.config.method',
      ]);
    }
    assert.deepEqual(refusedAt({ entries: [{ ...ENTRY, config: { fetcher: 1 } }] }), ['body.entries.0.config.fetcher']);
    assert.deepEqual(refusedAt({ entries: [{ ...ENTRY, config: { is_json: 'no' } }] }), [
      'body.entries.0.config.is_json',
    ]);
  });

  it('takes callbacks as URLs and as URLs with a configuration', () => {
    const callbacks = ['http://cb', ['http://cb', { headers: { a: 'b' } }]];
    assert.deepEqual(dataUpdate.parse({ entries: [ENTRY], callback: { callbacks } }).callback, { callbacks });
    assert.deepEqual(refusedAt({ entries: [ENTRY], callback: { callbacks: [['http://cb']] } }), [
      'body.callback.callbacks.0',
    ]);
  });
});

describe('an entry as OPAL peers send it', () => {
  it('has defaults for all that they leave out', () => {
    assert.deepEqual(peerEntry.parse({ url: '' }), {
      url: '',
      topics: ['policy_data'],
      dst_path: '',
      save_method: 'PUT',
    });
  });

  it('any method but PUT and DELETE is a patch, as in OPAL', () => {
    for (const [given, read] of [
      ['PUT', 'PUT'],
      ['DELETE', 'DELETE'],
      ['PATCH', 'PATCH'],
      ['put', 'PATCH'],
      [null, 'PATCH'],
      [1, 'PATCH'],
    ]) {
      assert.equal(peerEntry.parse({ url: '', save_method: given }).save_method, read);
    }
  });

  it('an interval that is none is ignored, one as text is read', () => {
    for (const [given, read] of [
      [0, null],
      [-1, null],
      ['x', null],
      ['2.5', 2.5],
      [3, 3],
      [null, null],
    ]) {
      assert.equal(
        peerEntry.parse({ url: '', periodic_update_interval: given }).periodic_update_interval,
        read,
        String(given),
      );
    }
  });

  it('numbers where a text is due are read as they are meant (strict types are for requests)', () => {
    const read = peerEntry.parse({ url: 'http://x', dst_path: 7, topics: [1], config: { headers: { n: 1, s: 's' } } });
    assert.deepEqual([read.dst_path, read.topics, read.config], ['7', ['1'], { headers: { n: '1', s: 's' } }]);
    assert.equal(peerEntry.safeParse({ url: 'http://x', config: { headers: { n: {} } } }).success, false);
  });

  it('a path that climbs is refused from them, too', () => {
    assert.equal(peerUpdate.safeParse({ entries: [{ url: '', dst_path: '../x' }] }).success, false);
  });

  it('a configuration without entries has none', () => assert.deepEqual(peerDataConfig.parse({}), { entries: [] }));
});

describe('data sources of a server', () => {
  it('are exactly one of a configuration and a URL', () => {
    assert.deepEqual(serverDataSources.parse({ config: {} }), { config: { entries: [] } });
    assert.deepEqual(serverDataSources.parse({ external_source_url: 'https://x/y' }), {
      external_source_url: 'https://x/y',
    });
    const entry = { url: 'https://x/y', config: null, topics: ['policy_data'], dst_path: '', save_method: 'PUT' };
    const printed = { ...entry, data: null, periodic_update_interval: null };
    const parsed = serverDataSources.parse({ config: { entries: [printed] }, external_source_url: null });
    assert.deepEqual(Object.keys(parsed), ['config']);
    const fetcher = { fetcher: null, headers: null, is_json: true, process_data: true, method: 'get', data: null };
    const entries = [{ ...printed, config: fetcher }];
    assert('config' in serverDataSources.parse({ config: { entries }, external_source_url: null }));
    assert.deepEqual(serverDataSources.parse({ config: null, external_source_url: 'https://x/y' }), {
      external_source_url: 'https://x/y',
    });
    for (const bad of [
      {},
      { config: null, external_source_url: null },
      { config: {}, external_source_url: 'https://x' },
      { external_source_url: 'ftp://x' },
      { entries: [] },
      null,
    ]) {
      assert.equal(serverDataSources.safeParse(bad).success, false, JSON.stringify(bad));
    }
  });
});

describe('inline data', () => {
  function dataOf(text: string): (string | undefined)[] {
    return dataUpdate.parse(parseKeepingData(text)).entries.map(({ data }) => data?.text);
  }
  const entry = (data: string): string => `{"url":"","topics":["t"],"dst_path":"/a",${data}}`;

  it('stays as it was written', () => {
    for (const data of [
      '12345678901234567890',
      '1.0',
      '{ "a" : [ 1e400 ] }',
      '""',
      'false',
      '0',
      '"\\u0041\\/"',
      '{"a":1,"a":2}',
      '{"__proto__":1}',
    ]) {
      assert.deepEqual(dataOf(`{"entries":[${entry(`"data" : ${data} `)}]}`), [data]);
    }
  });

  it('null is no data, nor is a missing one; others of the update keep theirs', () => {
    assert.deepEqual(
      dataOf(`{"entries":[${entry('"data":null')},${entry('"inline_data":true')},${entry('"data":1.0')}]}`),
      [undefined, undefined, '1.0'],
    );
  });

  it('of repeated names the last counts, for the schema and for the text', () => {
    assert.deepEqual(dataOf(`{"entries":[],"entries":[${entry('"data":1,"d\\u0061ta":2.0')}]}`), ['2.0']);
    assert.deepEqual(dataOf(`{"entries":[${entry('"data":2.0,"data":null')}]}`), [undefined]);
  });

  it('that was parsed and not kept is refused: digits would be lost', () => {
    assert.equal(dataUpdate.safeParse({ entries: [{ ...ENTRY, data: { a: 1 } }] }).success, false);
  });

  it('apart from data a text reads as JSON.parse reads it, whatever it is', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const body = `{"x":${text},"entries":[{"a":${text}},${text}]}`;
        for (const each of [text, `{"x":${text}}`, `{"entries":${text}}`, body]) {
          assert.deepEqual(parseKeepingData(each), parseJson(each));
          assert.deepEqual(parseKeepingSources(each), parseJson(each));
        }
      }),
    );
  });

  it('text that is not JSON is a syntax error', () => {
    for (const bad of ['', '{', '{"entries":[{"data":1}]', '{"entries":[]} x']) {
      assert.throws(() => parseKeepingData(bad), SyntaxError, bad);
      assert.throws(() => parseKeepingSources(bad), SyntaxError, bad);
    }
  });

  it('is kept in the configuration of a server', () => {
    const value = serverDataSources.parse(parseKeepingSources(` {"config":{"entries":[${entry('"data":1.0')}]}} `));
    assert('config' in value);
    assert.deepEqual(value.config.entries[0]?.data, JsonText.trusted('1.0'));
    assert.equal(parseKeepingSources('{"config":null}') === null, false);
  });
});
