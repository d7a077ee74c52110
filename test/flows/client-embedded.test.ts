import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { baseEntries, following, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const RBAC = 'package app.rbac\n\nimport rego.v1\n\ndefault allow := false\n\nallow if data.base[input.user]\n';

test('a client with an embedded engine follows a server, and answers over REST', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'app/rbac.rego': RBAC, 'app/data.json': '{"static":1}', 'other/data.json': '{"static":2}' });
  await using source = await startDataSource();
  source.serve('/base', { ann: true });
  source.serve('/large', { pad: 'x'.repeat(2_000_000) });
  await using server = await startServer({
    ...following(repo),
    ...baseEntries({ url: `${source.url}/base`, dst_path: '/base' }),
  });
  await using cache = await tempDir();
  await using client = await startClient({
    serverUrl: server.url,
    engine: 'embedded',
    programEnv: { ...process.env, XDG_CACHE_HOME: cache.path },
  });
  await client.healthy();
  await client.answers('/app/rbac/allow', { user: 'ann' }, true);
  await publish(server.url, { dst_path: '/update', data: { n: 1 } }, { dst_path: '/app/rbac/dynamic', data: 3 });
  await publish(server.url, { url: `${source.url}/large`, dst_path: '/large' });
  await publish(server.url, {
    dst_path: '/base',
    save_method: 'PATCH',
    data: [{ op: 'add', path: '/eve', value: true }],
  });
  await client.answers('/app/rbac/allow', { user: 'eve' }, true);
  await client.holds('/app', { static: 1, rbac: { allow: false, dynamic: 3 } });
  await client.holds('/update', { n: 1 });
  await client.holds('/large', { pad: 'x'.repeat(2_000_000) });

  // A path that was asked for is compiled, and nothing changes by that.
  const engine = async () => field((await request(`${client.url}/healthy`)).json, 'engine', 'embedded');
  await until(async () => field(await engine(), 'compiled') === 1, { withinMs: 20_000, what: 'the path is compiled' });
  await client.answers('/app/rbac/allow', { user: 'eve' }, true);
  await client.answers('/app/rbac/allow', { user: 'bob' }, false);
  assert.notEqual(field(await engine(), 'decisions', 'compiled'), 0);

  await repo.commit({ 'app/rbac.rego': 'package app.rbac\n\nallow := nope(1)\n' });
  await until(async () => field((await request(`${client.url}/healthy`)).json, 'policy', 'error') !== null, {
    withinMs: 20_000,
    what: 'the policy is refused',
  });
  await client.answers('/app/rbac/allow', { user: 'eve' }, true);
  await repo.commit({ 'app/rbac.rego': RBAC.replace('data.base[input.user]', 'input.user == "bob"') });
  await client.answers('/app/rbac/allow', { user: 'bob' }, true);
  await client.answers('/app/rbac/allow', { user: 'eve' }, false);

  const metrics = (await request(`${client.url}/metrics`)).text;
  assert.match(metrics, /policysync_engine_decisions_total\{by="compiled"\} [1-9]/);
});
