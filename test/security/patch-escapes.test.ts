import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { postJson } from '../support/http.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { failing, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** A patch writes at and below its document: no pointer of it leads to another one, or out of the data. */

const POINTERS = [
  '/..',
  '/../other',
  '/../other/x',
  '/a/../../other',
  '/.',
  '/./x',
  '/../../policies/app',
  '/..~1other/..',
  '/../system/authz/allow',
];
const ENV = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

test('a publisher of one path writes at no other by the pointers of a patch', async () => {
  await using server = await startServer(withKeys());
  const clientToken = await tokenOf(server.url);
  const full = bearer(await tokenOf(server.url, { type: 'datasource' }));
  const claims = { permitted_topics: ['acme'], permitted_paths: ['/acme'] };
  const limited = bearer(await tokenOf(server.url, { type: 'datasource', claims }));
  const env = { ...ENV, SYNC_CLIENT_TOKEN: clientToken, SYNC_DATA_TOPICS: 'acme,other' };
  await using client = await startClient({ serverUrl: server.url, env });
  const put = (entry: object, by = limited) =>
    postJson(`${server.url}/data/config`, { entries: [{ url: '', topics: ['acme'], ...entry }] }, by);
  assert.equal((await put({ dst_path: '/other', data: { x: 1 }, topics: ['other'] }, full)).status, 200);
  assert.equal((await put({ dst_path: '/acme', data: { '..': { other: 1 }, a: 1 } })).status, 200);
  await client.holds('/acme', { '..': { other: 1 }, a: 1 });
  for (const path of POINTERS) {
    for (const op of [
      { op: 'add', path, value: 2 },
      { op: 'replace', path, value: 2 },
      { op: 'remove', path },
      { op: 'copy', from: '/a', path },
      { op: 'move', from: path, path: '/b' },
    ]) {
      const answer = await put({ dst_path: '/acme', save_method: 'PATCH', data: [op] });
      assert.equal(answer.status, 422, JSON.stringify(op));
      assert.match(answer.text, /no segment \. or \.\./);
    }
  }
  assert.equal((await put({ dst_path: '/acme/a', data: 2 })).status, 200);
  await client.holds('/acme', { '..': { other: 1 }, a: 2 });
  assert.deepEqual(await client.data('/other'), { x: 1 });
});

describe('patches from a source, and large ones', () => {
  let server: StartedServer;
  let source: DataSource;
  let opa: TestOpa;
  let client: StartedClient;
  before(async () => {
    server = await startServer();
    source = await startDataSource();
    opa = await startOpa();
    client = await startClient({ serverUrl: server.url, engineUrl: opa.url, env: ENV });
  });
  after(async () => {
    for (const part of [client, opa, source, server]) await part?.[Symbol.asyncDispose]();
  });

  test('a client applies no such patch from a source', async () => {
    await fetch(`${opa.url}/v1/policies/mine`, { method: 'PUT', body: 'package mine\n\nx := 1\n' });
    await publish(server.url, { dst_path: '/other', data: { x: 1 } });
    await client.holds('/other', { x: 1 });
    for (const [index, path] of [...POINTERS, '/../../policies/mine'].entries()) {
      source.serve(`/${index}`, [{ op: 'remove', path }]);
      await publish(server.url, { url: `${source.url}/${index}`, dst_path: `/acme/d${index}`, save_method: 'PATCH' });
      await client.tells('it is refused', (health) =>
        failing(health).some((text) => text.startsWith(`/acme/d${index}: `) && /has a segment/.test(text)),
      );
    }
    assert.deepEqual(await client.data('/other'), { x: 1 });
    assert.equal((await fetch(`${opa.url}/v1/policies/mine`)).status, 200);
  });

  test('a pointer of a hundred thousand segments is refused by the server, and by a client where it comes from a source', async () => {
    const patch = [{ op: 'add', path: '/a'.repeat(100_000), value: 1 }];
    const entry = { url: '', topics: ['policy_data'], dst_path: '/deep', save_method: 'PATCH' };
    const answer = await postJson(`${server.url}/data/config`, { entries: [{ ...entry, data: patch }] });
    assert.equal(answer.status, 422);
    assert.match(answer.text, /at most 4096 characters and 128 segments/);
    source.serve('/patch', patch);
    await publish(server.url, { ...entry, url: `${source.url}/patch` }, { dst_path: '/mark', data: 1 });
    await client.tells('it is refused', (health) =>
      failing(health).some((text) => /at most 4096 characters/.test(text)),
    );
    await client.holds('/mark', 1);
  });

  test('no patch of many operations holds the server up, and clients have its outcome', async () => {
    await publish(server.url, { dst_path: '/many', data: { l: [], o: {} } });
    const numbers = Array.from({ length: 3000 }, (_, index) => index);
    const patches = [
      numbers.map((value) => ({ op: 'add', path: '/l/-', value })),
      numbers.map((value) => ({ op: 'add', path: `/o/k${value}`, value })),
      numbers.map((value) => ({ op: 'add', path: `/o/j${value}`, value })),
    ];
    const before = process.cpuUsage();
    for (const data of patches) await publish(server.url, { dst_path: '/many', save_method: 'PATCH', data });
    // Of the processor, not of the clock: what else runs on the machine takes none of it.
    const { user, system } = process.cpuUsage(before);
    assert(user + system < 3_000_000, `${user + system} us`);
    const doubling = Array.from({ length: 60 }, () => ({ op: 'copy', from: '', path: '/l/-' }));
    await publish(server.url, { dst_path: '/many', save_method: 'PATCH', data: doubling }).catch((error: unknown) =>
      assert.match(String(error), /copies too much/),
    );
    const o = Object.fromEntries(['k', 'j'].flatMap((prefix) => numbers.map((value) => [`${prefix}${value}`, value])));
    // The last of it first: to look at all of it again and again is more work than the patches.
    await until(async () => (await client.data('/many/o/j2999')) === 2999, {
      withinMs: 60_000,
      what: 'the last value',
    });
    await client.holds('/many', { l: numbers, o });
  });
});
