import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { field, postJson, request } from '../support/http.js';
import { startServer } from '../support/start-server.js';

/** What one publisher made long is answered in pages, to whoever asks. */

const MIB = 1024 * 1024;
const COUNT = 12;

test('pages of the log are bounded by everything that a publisher chooses the length of', async () => {
  await using server = await startServer(withKeys());
  const claims = { permitted_topics: ['acme'], permitted_paths: ['/acme'] };
  const headers = bearer(await tokenOf(server.url, { type: 'datasource', claims }));
  const put = (update: object) => postJson(`${server.url}/data/config`, update, headers);
  const entry = { url: 'http://127.0.0.1:9/', topics: ['acme'], dst_path: '/acme/x' };
  assert.equal((await put({ id: 'x'.repeat(257), entries: [entry] })).status, 422);
  assert.equal((await put({ reason: 'x'.repeat(10_001), entries: [entry] })).status, 422);
  for (let index = 0; index < COUNT; index++) {
    const [url, config] =
      index % 2 === 0
        ? [`http://127.0.0.1:9/?${'u'.repeat(MIB)}`, undefined]
        : [entry.url, { method: 'post', data: 'd'.repeat(MIB) }];
    assert.equal((await put({ entries: [{ ...entry, url, ...(config && { config }) }] })).status, 200);
  }

  const seen: unknown[] = [];
  for (let next: unknown = null, first = true; first || next !== null; first = false) {
    const page = await request(
      `${server.url}/data/log?limit=1000&include=secrets${next === null ? '' : `&before=${next}`}`,
      { headers },
    );
    assert(page.text.length < 8 * MIB, `${page.text.length} characters`);
    seen.push(...seqs(page.json));
    next = field(page.json, 'next');
  }
  assert.deepEqual(
    seen,
    Array.from({ length: COUNT }, (_, index) => COUNT - index),
  );

  const epoch = field((await request(`${server.url}/data/log?limit=1`, { headers })).json, 'epoch');
  const read: unknown[] = [];
  for (let more = true; more; ) {
    const url = `${server.url}/data/updates?epoch=${epoch}&after=${read.at(-1) ?? 0}&limit=1000`;
    const page = await request(url, { headers });
    assert(page.text.length < 8 * MIB, `${page.text.length} characters`);
    read.push(...seqs(page.json));
    more = field(page.json, 'more') === true;
  }
  assert.deepEqual(
    read,
    Array.from({ length: COUNT }, (_, index) => index + 1),
  );
});

function seqs(page: unknown): unknown[] {
  const updates = field(page, 'updates');
  assert(Array.isArray(updates));
  return updates.map((update) => field(update, 'seq'));
}
