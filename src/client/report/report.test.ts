import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { JsonText } from '../../lib/json/json-text.js';
import { peerEntry } from '../../wire/data.js';
import { updateReport } from '../../wire/report.js';
import { dataReport, policyReport, reportedEntry } from './report.js';

const entry = peerEntry.parse({
  url: 'https://users.example/all',
  config: { headers: { Authorization: 'Bearer abc' }, method: 'post', data: { q: 'body' } },
  topics: ['policy_data'],
  dst_path: '/users',
});

test('a report has the members of OPAL in its order, and the entry without header values, body and data', () => {
  const outcome = { entry, fetched: true, saved: true, hash: 'f00', superseded: false };
  assert.equal(
    JSON.stringify(dataReport('u1', [outcome])),
    '{"update_id":"u1","reports":[{"entry":{"url":"https://users.example/all",' +
      '"config":{"fetcher":null,"method":"post","headers":{"Authorization":"***"}},"topics":["policy_data"],' +
      '"dst_path":"/users","save_method":"PUT","inline_data":false,"data":null},"fetched":true,"saved":true,' +
      '"hash":"f00"}],"policy_hash":null,"user_data":{}}',
  );
  assert.equal(
    JSON.stringify(policyReport('c0ffee')),
    '{"update_id":null,"reports":[],"policy_hash":"c0ffee","user_data":{}}',
  );
});

test('a report says that data was inline, that an entry was superseded, and which interval it has', () => {
  const inline = { ...entry, config: null, data: JsonText.of({ secret: 1 }), periodic_update_interval: 5 };
  const [report] = dataReport('u', [
    { entry: inline, fetched: true, saved: false, hash: 'h', superseded: true },
  ]).reports;
  assert.equal(report?.superseded, true);
  assert.deepEqual(report?.entry, {
    url: 'https://users.example/all',
    config: null,
    topics: ['policy_data'],
    dst_path: '/users',
    save_method: 'PUT',
    inline_data: true,
    data: null,
    periodic_update_interval: 5,
  });
});

test('a URL is reported as it was written, but without credentials and query', () => {
  const url = (text: string): string => reportedEntry({ ...entry, url: text }).url;
  for (const plain of ['https://a.example', 'http://a/b%20c#d', '']) assert.equal(url(plain), plain);
  assert.equal(url('https://u:p@a.example/x?sig=s'), 'https://***@a.example/x?***');
  assert.equal(url('postgresql://u:p@db:5432/x'), 'postgresql://***@db:5432/x');
});

test('no header value, request body, provider option, query, password or inline data is in any report', () => {
  const SECRET = 'S3CRET';
  const secret = fc.string({ maxLength: 8 }).map((text) => text + SECRET);
  const name = fc.stringMatching(/^[a-z][a-z-]{0,9}$/);
  const json = fc.jsonValue({ maxDepth: 2 });
  const config = fc.oneof(
    fc.record(
      {
        headers: fc.dictionary(name, secret),
        method: fc.constantFrom('get', 'post', 'PUT'),
        data: fc.oneof(secret, fc.dictionary(name, secret), fc.array(secret)),
        process_data: fc.boolean(),
        other: secret,
      },
      { requiredKeys: [] },
    ),
    fc.record({
      fetcher: fc.constant('PostgresFetchProvider'),
      query: secret,
      headers: fc.dictionary(name, secret),
      method: secret,
      connection_params: fc.record({ password: secret, host: secret }),
    }),
    fc.constant(null),
  );
  const drawn = fc.record({
    config,
    url: fc.constantFrom(
      `https://a/x?token=${SECRET}`,
      `https://u:${SECRET}@a/x`,
      `postgresql://u:${SECRET}@h/db?password=${SECRET}`,
      `//u:${SECRET}@a:99999/x?${SECRET}`,
      'https://a/x',
    ),
    data: fc.oneof(
      secret,
      fc.dictionary(name, secret),
      json.map((value) => [value, SECRET]),
    ),
    inline: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(drawn, { maxLength: 3 }), (items) => {
      const outcomes = items.map(({ config: given, url, data, inline }) => ({
        entry: {
          ...peerEntry.parse({ url, config: given, topics: ['t'], dst_path: '/x' }),
          ...(inline ? { data: JsonText.of(data) } : {}),
        },
        fetched: true,
        saved: true,
        hash: null,
        superseded: false,
      }));
      const text = JSON.stringify(dataReport('u', outcomes));
      assert(!text.includes(SECRET), text);
      assert(updateReport.safeParse(JSON.parse(text)).success);
    }),
  );
});
