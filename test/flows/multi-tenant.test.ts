import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { repoRoot } from '../support/repo.js';
import { baseEntries, following, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const TENANTS = 1000;

/** The policy of examples/multi-tenant. */
async function tenantPolicy(): Promise<string> {
  return readFile(join(repoRoot(), 'examples/multi-tenant/policies/app/tenants.rego'), 'utf8');
}

test('a thousand tenants on one topic are added to a running client, each readable, none decides for another', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'app/tenants.rego': await tenantPolicy() });
  await using source = await startDataSource();
  source.serve('/t0', { alice: ['read', 'write'] });
  await using server = await startServer({
    ...following(repo),
    ...baseEntries({ url: `${source.url}/t0`, dst_path: '/acl/t0' }),
  });
  await using client = await startClient({ serverUrl: server.url });
  await client.answers('/app/tenants/allow', { tenant: 't0', user: 'alice', action: 'write' }, true);
  const [pid, url] = [client.enginePid(), client.url];

  const names = Array.from({ length: TENANTS }, (_, index) => `t${index + 1}`);
  for (const [index, name] of names.entries())
    source.serve(`/${name}`, { [`user${index}`]: ['read'], alice: ['read'] });
  // As tenants come: one by one, some of them together.
  for (let at = 0; at < TENANTS; ) {
    const count = at % 3 === 0 ? 1 : 25;
    await publish(
      server.url,
      ...names.slice(at, at + count).map((name) => ({ url: `${source.url}/${name}`, dst_path: `/acl/${name}` })),
    );
    at += count;
  }
  await until(() => source.count() > TENANTS, { withinMs: 60_000, what: 'every source is read' });
  const expected = Object.fromEntries(
    names.map((name, index) => [name, { [`user${index}`]: ['read'], alice: ['read'] }]),
  );
  await client.holds('/acl', { t0: { alice: ['read', 'write'] }, ...expected });
  await client.healthy();

  const ask = (tenant: unknown, user: string, action: string): Promise<unknown> =>
    client.query('/app/tenants/allow', { tenant, user, action });
  assert.equal(await ask('t1000', 'user999', 'read'), true);
  assert.equal(await ask('t999', 'user999', 'read'), false, 'a user of one tenant is nobody at another');
  assert.equal(await ask('t7', 'alice', 'write'), false, 'what alice may do at t0 does not count at t7');
  for (const tenant of [undefined, null, 't9999', '', ['t1'], '../t1']) {
    assert.equal(await ask(tenant, 'alice', 'read'), false, JSON.stringify(tenant));
  }

  await publish(server.url, { dst_path: '/acl/t5', save_method: 'DELETE' });
  await client.answers('/app/tenants/allow', { tenant: 't5', user: 'alice', action: 'read' }, false);
  assert.equal(await ask('t6', 'alice', 'read'), true);
  assert.deepEqual([client.enginePid(), client.url], [pid, url], 'nothing was restarted');
  assert.equal(client.log.filter(({ msg }) => msg === 'engine started').length, 1);
});

test('with one topic per tenant a client holds its own tenants only, also when it comes later', async () => {
  await using source = await startDataSource();
  await using server = await startServer();
  for (const name of ['acme', 'globex', 'initech']) source.serve(`/${name}`, { of: name });
  const env = (topics: string): Record<string, string> => ({
    SYNC_POLICY_UPDATER_ENABLED: 'false',
    SYNC_DATA_TOPICS: topics,
  });
  await using one = await startClient({ serverUrl: server.url, env: env('tenant/acme') });
  await using two = await startClient({ serverUrl: server.url, env: env('tenant/acme,tenant/globex') });
  await one.healthy();
  await two.healthy();
  for (const name of ['initech', 'globex', 'acme']) {
    await publish(server.url, { url: `${source.url}/${name}`, dst_path: `/acl/${name}`, topics: [`tenant/${name}`] });
  }
  await one.holds('/acl', { acme: { of: 'acme' } });
  await two.holds('/acl', { acme: { of: 'acme' }, globex: { of: 'globex' } });
  await using later = await startClient({ serverUrl: server.url, env: env('tenant/initech') });
  await later.holds('/acl', { initech: { of: 'initech' } });
  await using all = await startClient({ serverUrl: server.url, env: env('tenant') });
  await publish(server.url, { dst_path: '/acl/hooli', data: { of: 'hooli' }, topics: ['tenant/hooli'] });
  await all.holds('/acl/hooli', { of: 'hooli' });
  assert.deepEqual(await one.data('/acl'), { acme: { of: 'acme' } });
  assert.deepEqual(await later.data('/acl'), { initech: { of: 'initech' } });
});
