import assert from 'node:assert/strict';
import { after, before, describe, it, test } from 'node:test';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { type FakeOpal, startFakeOpal } from '../support/fake-opal.js';
import { type StartedClient, startClient } from '../support/start-client.js';
import { until } from '../support/until.js';

const HASHES = ['1', '2', '3'].map((digit) => digit.repeat(40));
const [FIRST = '', SECOND = ''] = HASHES;

/** The fields of an entry as OPAL's server writes them. */
function entry(fields: object): object {
  return { url: '', config: null, topics: ['policy_data'], dst_path: '', save_method: 'PUT', data: null, ...fields };
}

/** An update as OPAL's server writes it when the publisher gave no id and no reason. */
function update(...entries: object[]): object {
  return { id: null, entries: entries.map(entry), reason: null, callback: { callbacks: [] } };
}

function complete(hash: string, rego: string, data: object): object {
  return {
    manifest: ['app/rbac.rego', 'app/data.json'],
    hash,
    old_hash: null,
    data_modules: [{ path: 'app', data: `${JSON.stringify(data)}\n` }],
    policy_modules: [{ path: 'app/rbac.rego', package_name: 'app.rbac', rego }],
    deleted_files: null,
  };
}

/** OPAL's servers read Rego v0, and so do their clients. */
const V0 = { SYNC_ENGINE_V0_COMPAT: 'true' };
const RULE = 'package app.rbac\n\ndefault allow = false\n\nallow { data.base[input.user] }\n';

async function startFilled(source: DataSource): Promise<FakeOpal> {
  const opal = await startFakeOpal();
  opal.policy = () => complete(FIRST, RULE, { v: 1 });
  source.serve('/base', { ann: true });
  opal.entries = [entry({ url: `${source.url}/base`, dst_path: '/base' })].map((base) => ({
    ...base,
    periodic_update_interval: null,
  }));
  return opal;
}

/** Ends the connection and waits until the client is back and has read the base data again. */
async function reconnected(opal: FakeOpal): Promise<void> {
  const reads = (): number => opal.requests.filter((path) => path === '/data/config').length;
  const before = reads();
  opal.drop();
  await until(() => reads() > before, { withinMs: 20_000, what: 'the configuration is read again' });
}

function follow(opal: FakeOpal, env: Record<string, string> = {}): Promise<StartedClient> {
  return startClient({ serverUrl: opal.url, env: { ...V0, ...env } });
}

test('follows an OPAL server: policy, base data, notices of both kinds, with no word that it does not know', async () => {
  await using source = await startDataSource();
  await using opal = await startFilled(source);
  await using client = await follow(opal);
  await client.healthy();
  await client.answers('/app/rbac/allow', { user: 'ann' }, true);
  assert.deepEqual(opal.topics().sort(), ['policy:.', 'policy_data']);

  await opal.notify(['policy_data'], update({ dst_path: '/base/bob', data: { x: 1 } }));
  await client.answers('/app/rbac/allow', { user: 'bob' }, true);

  opal.policy = (base) =>
    base === FIRST
      ? {
          manifest: ['app/other.rego'],
          hash: SECOND,
          old_hash: FIRST,
          data_modules: [],
          policy_modules: [{ path: 'app/other.rego', package_name: 'app.other', rego: 'package app.other\nx = 1\n' }],
          deleted_files: { data_modules: ['app'], policy_modules: ['app/rbac.rego'] },
        }
      : undefined;
  const notice = { old_policy_hash: FIRST, new_policy_hash: SECOND, changed_directories: ['.', 'app'] };
  await opal.notify(['policy:.'], notice);
  await client.holds('/app', { other: { x: 1 } });
  await client.holds('/base', { ann: true, bob: { x: 1 } });
  await client.healthy();
  assert.deepEqual(opal.complaints, []);
});

describe('a client of several topics of an OPAL server', () => {
  let source: DataSource;
  let opal: FakeOpal;
  let client: StartedClient;
  before(async () => {
    source = await startDataSource();
    opal = await startFilled(source);
    client = await follow(opal, { SYNC_DATA_TOPICS: 'policy_data,1,a/b,a' });
    await client.healthy();
  });
  after(async () => {
    for (const part of [client, opal, source]) await part?.[Symbol.asyncDispose]();
  });

  it('updates without ids, with fields that OPAL has coerced and filled in, are applied', async () => {
    const config = { fetcher: null, headers: { a: '1' }, is_json: true, process_data: true, method: 'get', data: null };
    source.serve('/n', { n: 1 });
    await opal.notify(['1'], update({ url: `${source.url}/n`, config, topics: ['1'], dst_path: '1.5' }));
    await client.holds('/1.5', { n: 1 });
    const patch = [
      { op: 'add', path: '/deep/m', value: null, from: null },
      { op: 'remove', path: '/n', value: null, from: null },
      { op: 'add', path: '/list', value: [1, 'True'], from: null },
    ];
    // An update of which this client is concerned by one entry only; the reason was a number once.
    await opal.notify(['policy_data', 'x'], {
      ...update(
        { dst_path: '1.5', save_method: 'PATCH', data: patch },
        { topics: ['x'], dst_path: '/x', data: { x: 1 } },
      ),
      reason: '12',
    });
    await client.holds('/1.5', { deep: { m: null }, list: [1, 'True'] });
    assert.equal(await client.data('/x'), undefined);
    await client.healthy();
    assert.deepEqual(opal.complaints, []);
  });

  it('one update on several topics is applied once, and the same update published again is applied again', async () => {
    source.serve('/users', { ann: 1 });
    const published = update({ url: `${source.url}/users`, topics: ['a', 'a/b'], dst_path: '/users' });
    await opal.notify(['a', 'a/b'], published);
    await client.holds('/users', { ann: 1 });
    await opal.notify(['a'], update({ topics: ['a'], dst_path: '/mark', data: {} }));
    await client.holds('/mark', {});
    assert.equal(source.count('/users'), 1);
    source.serve('/users', { ann: 2 });
    await opal.notify(['a/b', 'a'], published);
    await client.holds('/users', { ann: 2 });
    assert.equal(source.count('/users'), 2);
  });
});

test('reads base data again after a lost connection, asks for a delta, and deletes nothing', async () => {
  await using source = await startDataSource();
  await using opal = await startFilled(source);
  await using client = await follow(opal);
  await client.healthy();
  source.serve('/update', { n: 1 });
  await opal.notify(['policy_data'], update({ url: `${source.url}/update`, dst_path: '/update' }));
  await opal.notify(['policy_data'], update({ dst_path: '/inline', data: { n: 1 } }));
  await client.holds('/update', { n: 1 });
  await client.holds('/inline', { n: 1 });

  source.serve('/base', { ann: false, new: true });
  await reconnected(opal);
  await client.holds('/base', { ann: false, new: true });
  await until(() => opal.requests.some((path) => path.includes(`base_hash=${FIRST}`)), {
    withinMs: 20_000,
    what: 'a delta is asked for',
  });

  // Nothing is there any more: that may be a mistake, and what is served stays.
  opal.entries = [];
  await reconnected(opal);
  await opal.notify(['policy_data'], update({ dst_path: '/mark', data: {} }));
  await client.holds('/mark', {});
  await client.healthy();
  assert.deepEqual(await client.data('/base'), { ann: false, new: true });
  assert.deepEqual([await client.data('/update'), await client.data('/inline')], [{ n: 1 }, { n: 1 }]);
  assert.equal(source.count('/update'), 1);
  assert.deepEqual(opal.complaints, []);
});

test('the base entry that OPAL has by default, an empty root, takes nothing away at a reconnect', async () => {
  await using source = await startDataSource();
  await using opal = await startFilled(source);
  source.serve('/policy-data', {});
  opal.entries = [entry({ url: `${source.url}/policy-data`, dst_path: '' })];
  await using client = await follow(opal);
  await client.healthy();
  await opal.notify(['policy_data'], update({ dst_path: '/users', data: { ann: 1 } }));
  await client.holds('/users', { ann: 1 });
  await reconnected(opal);
  await until(() => source.count('/policy-data') === 2, { withinMs: 20_000, what: 'the source is read again' });
  await opal.notify(['policy_data'], update({ dst_path: '/mark', data: {} }));
  await client.holds('/mark', {});
  await client.healthy();
  assert.deepEqual(await client.data('/users'), { ann: 1 });
});

test('waits for a server that is still cloning, and starts with its first notice', async () => {
  await using opal = await startFakeOpal();
  await using client = await follow(opal, { SYNC_RETRY_MAX: '30' });
  await until(() => opal.requests.filter((path) => path.startsWith('/policy')).length >= 3, {
    withinMs: 20_000,
    what: 'it asks again',
  });
  assert.equal((await client.ready()).status, 503);
  opal.policy = () => complete(FIRST, RULE, { v: 1 });
  await opal.notify(['policy:.'], {
    old_policy_hash: FIRST,
    new_policy_hash: FIRST,
    changed_directories: ['.', 'app'],
  });
  await client.holds('/app', { v: 1, rbac: { allow: false } });
  await client.healthy();
});
