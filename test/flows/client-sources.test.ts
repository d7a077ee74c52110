import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type SourceAnswer, startDataSource } from '../support/data-source.js';
import { field } from '../support/http.js';
import { baseEntries, failing, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';

/** Each way to fail, and what the client has to say about it. */
const FAULTS: readonly { what: string; answer: SourceAnswer; says: RegExp }[] = [
  {
    what: 'missing',
    answer: { status: 404, type: 'text/plain', text: 'nobody here' },
    says: /answered 404: nobody here/,
  },
  { what: 'broken', answer: { status: 500, text: '{"error":"oh"}' }, says: /answered 500: \{"error":"oh"\}/ },
  { what: 'html', answer: { type: 'text/html', text: '<!doctype html><p>hi' }, says: /text\/html.*not JSON/ },
  { what: 'late', answer: { after: new Promise(() => undefined) }, says: /no answer within 0\.3 s/ },
  { what: 'endless', answer: { text: `[${' '.repeat(50_000)}]`, fault: 'trickling' }, says: /not read within 2\.5 s/ },
  { what: 'invalid', answer: { text: '{"a":1,}' }, says: /not JSON/ },
  { what: 'two', answer: { text: '{"a":1} {"b":2}' }, says: /not JSON/ },
  {
    what: 'truncated',
    answer: { text: `{"a":"${'x'.repeat(500)}"}`, fault: 'truncated' },
    says: /terminated|closed|aborted/,
  },
  { what: 'oversized', answer: { text: `"${'x'.repeat(70_000)}"` }, says: /more than 65536/ },
];

const ENV = {
  SYNC_POLICY_UPDATER_ENABLED: 'false',
  SYNC_HTTP_FETCHER_TIMEOUT: '0.3',
  SYNC_FETCH_TOTAL_TIMEOUT: '2.5',
  SYNC_FETCH_LIMIT_BYTES: '65536',
  SYNC_FETCHING_WORKER_COUNT: '20',
  SYNC_FETCH_PER_HOST: '20',
  SYNC_PERIODIC_UPDATE_INTERVAL_MIN: '0.05',
};

test('failing sources, of base entries and of updates, are named, leave the others alone, and heal by themselves', async () => {
  await using source = await startDataSource();
  source.serve('/good', { good: 1 });
  for (const { what, answer } of FAULTS) source.answer(`/${what}?token=hush-hush`, answer);
  const entries = FAULTS.map(({ what }) => ({
    url: `${source.url}/${what}?token=hush-hush`,
    dst_path: `/bad/${what}`,
  }));
  await using server = await startServer(baseEntries({ url: `${source.url}/good`, dst_path: '/good' }, ...entries));
  // What was good before it fails keeps serving.
  for (const { what } of FAULTS) source.serve(`/docs/${what}`, { good: what });
  const updates = FAULTS.map(({ what }) => ({ url: `${source.url}/docs/${what}`, dst_path: `/docs/${what}` }));
  await publish(server.url, ...updates);
  await using client = await startClient({ serverUrl: server.url, env: ENV });
  const docs = (member: string): object => Object.fromEntries(FAULTS.map(({ what }) => [what, { [member]: what }]));
  await client.holds('/docs', docs('good'));
  await client.holds('/good', { good: 1 });
  for (const { what, answer } of FAULTS) source.answer(`/docs/${what}`, answer);
  await publish(server.url, ...updates);

  const health = await client.tells('all are named', (json) => failing(json).length === 2 * FAULTS.length);
  assert.equal(health.status, 503);
  assert.equal((await client.ready()).status, 503);
  assert.equal(field(health.json, 'data', 'last_transaction', 'success'), false);
  for (const { what, says } of FAULTS) {
    for (const [path, url] of [
      [`/bad/${what}`, `${source.url}/${what}`],
      [`/docs/${what}`, `${source.url}/docs/${what}`],
    ] as const) {
      const line = failing(health.json).find((text) => text.startsWith(`${path}: `)) ?? '';
      assert.match(line, says, path);
      assert(line.includes(url), line);
    }
  }
  assert(!health.text.includes('hush-hush'), 'no secret is shown');
  assert.equal(await client.data('/bad'), undefined);
  assert.deepEqual(await client.data('/docs'), docs('good'));
  // An update that goes well does not hide that others still fail.
  await publish(server.url, { dst_path: '/other', data: 1 });
  await client.holds('/other', 1);
  assert.equal((await client.health()).status, 503);

  for (const { what } of FAULTS) {
    source.serve(`/${what}?token=hush-hush`, { healed: what });
    source.serve(`/docs/${what}`, { healed: what });
  }
  await client.healthy();
  assert.equal((await client.ready()).status, 200);
  for (const path of ['/bad', '/docs']) assert.deepEqual(await client.data(path), docs('healed'), path);
});

test('a source that nobody can read is told by name', async () => {
  await using server = await startServer(
    baseEntries(
      { url: 'http://127.0.0.1:1/nobody', dst_path: '/nobody' },
      { url: 'ftp://example.com/x', dst_path: '/ftp' },
      { url: 'http://x', dst_path: '/provider', config: { fetcher: 'LdapFetchProvider' } },
    ),
  );
  await using client = await startClient({ serverUrl: server.url, env: ENV });
  const health = await client.tells('all are named', (json) => failing(json).length === 3);
  const [nobody = '', ftp = '', provider = ''] = ['/nobody', '/ftp', '/provider'].map((path) =>
    failing(health.json).find((line) => line.startsWith(`${path}: `)),
  );
  assert.match(nobody, /127\.0\.0\.1:1\/nobody.*ECONNREFUSED/);
  assert.match(ftp, /only http and https/);
  assert.match(provider, /"LdapFetchProvider" is not known; known are HttpFetchProvider, PostgresFetchProvider$/);
});

test('a data configuration that cannot be read is told, holds up no update, and is read when it can', async () => {
  await using source = await startDataSource();
  source.serve('/base', { base: 1, below: 0 });
  await using server = await startServer();
  const env = { ...ENV, SYNC_DEFAULT_DATA_SOURCES_CONFIG_URL: `${source.url}/config` };
  await using client = await startClient({ serverUrl: server.url, env });
  for (const [answer, says] of [
    [{ status: 500, text: 'no database' }, /500.*no database/],
    [{ text: '<p>hi' }, /not JSON/],
    [{ text: '{"entries":[{"url":5}]}' }, /entries\.0\.url/],
  ] as const) {
    source.answer('/config', answer);
    await client.tells(`it says ${says}`, (json) => says.test(JSON.stringify(field(json, 'data'))));
    assert.deepEqual([(await client.health()).status, (await client.ready()).status], [503, 503]);
  }
  await publish(server.url, { dst_path: '/base/below', data: 1 });
  await client.holds('/base', { below: 1 });
  source.serve('/config', { entries: [{ url: `${source.url}/base`, dst_path: '/other' }] });
  await client.holds('/other', { base: 1, below: 0 });
  await client.healthy();
  assert.deepEqual(await client.data('/base'), { below: 1 });
});
