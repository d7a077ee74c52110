import assert from 'node:assert/strict';
import { mkdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bearer, keyPair, tokenOf, withKeys } from '../support/auth.js';
import { startDataSource } from '../support/data-source.js';
import { startFakeOpal } from '../support/fake-opal.js';
import { gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { APP, backupOf, isConnected, keepsAndCatchesUp, offlineIn, switchTo } from '../support/offline.js';
import { startOpa } from '../support/opa.js';
import { baseEntries, following, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

for (const kind of ['inline', 'external'] as const) {
  test(`an ${kind} engine: disconnected it keeps what it has and a backup is there; connected again it has all that it missed`, async () => {
    await using dir = await tempDir();
    await using repo = await gitRepo();
    await repo.commit({ 'app/app.rego': APP });
    await using source = await startDataSource();
    source.serve('/users', { ann: true });
    await using server = await startServer({
      ...following(repo),
      ...baseEntries({ url: `${source.url}/users`, dst_path: '/users' }),
    });
    await using opa = kind === 'external' ? await startOpa() : undefined;
    await using client = await startClient({
      serverUrl: server.url,
      env: offlineIn(dir, { SYNC_STORE_BACKUP_INTERVAL: '3600' }),
      ...(opa === undefined ? {} : { engineUrl: opa.url }),
    });
    await keepsAndCatchesUp(client, dir, { repo, source, server });
  });
}

test('enabling asks for the complete bundle, the base data and the subscriptions again', async () => {
  await using dir = await tempDir();
  await using source = await startDataSource();
  source.serve('/users', { ann: true });
  await using opal = await startFakeOpal();
  opal.policy = () => ({
    manifest: ['app.rego'],
    hash: 'one',
    old_hash: null,
    data_modules: [],
    policy_modules: [{ path: 'app.rego', package_name: 'app', rego: APP }],
    deleted_files: null,
  });
  opal.entries = [{ url: `${source.url}/users`, dst_path: '/users', topics: ['policy_data'] }];
  await using client = await startClient({ serverUrl: opal.url, env: offlineIn(dir) });
  await client.healthy();
  await client.answers('/app/allow', { user: 'ann' }, true);
  await switchTo(client, 'disable');
  assert.deepEqual(opal.topics(), []);
  const [requests, asked] = [opal.requests.length, source.count()];

  await switchTo(client, 'enable');
  await until(() => opal.requests.length >= requests + 2 && source.count() > asked, {
    withinMs: 20_000,
    what: 'policy, configuration and source are asked for',
  });
  assert.deepEqual(opal.requests.slice(requests).sort(), ['/data/config', '/policy?path=.']);
  assert.deepEqual(opal.topics().sort(), ['policy:.', 'policy_data']);
});

test('both paths answer, each with its own name, and switches at the same time come one after the other', async () => {
  await using dir = await tempDir();
  await using server = await startServer();
  await using client = await startClient({
    serverUrl: server.url,
    env: offlineIn(dir, { SYNC_POLICY_UPDATER_ENABLED: 'false' }),
  });
  await client.healthy();
  const ours = `${client.url}/sync-server/connectivity`;
  const opal = `${client.url}/opal-server/connectivity`;
  assert.deepEqual((await request(ours)).json, {
    sync_server_connectivity_disabled: false,
    offline_mode_enabled: true,
  });
  assert.deepEqual((await postJson(`${opal}/disable`, '')).json, { status: 'disabled' });
  assert.deepEqual((await request(ours)).json, { sync_server_connectivity_disabled: true, offline_mode_enabled: true });
  assert.deepEqual((await request(opal)).json, { opal_server_connectivity_disabled: true, offline_mode_enabled: true });
  assert.deepEqual((await postJson(`${opal}/enable`, '')).json, { status: 'enabled' });

  const many = await Promise.all(
    Array.from({ length: 20 }, (_, n) => switchTo(client, n % 2 === 0 ? 'disable' : 'enable')),
  );
  assert.deepEqual(many.slice(0, 4), ['disabled', 'enabled', 'disabled', 'enabled']);
  await publish(server.url, { dst_path: '/last', data: 1 });
  await client.holds('/last', 1);
});

test('with offline mode off connectivity is shown and cannot be switched', async () => {
  await using server = await startServer();
  await using client = await startClient({ serverUrl: server.url, env: { SYNC_POLICY_UPDATER_ENABLED: 'false' } });
  for (const [base, name] of [
    ['sync-server', 'sync'],
    ['opal-server', 'OPAL'],
  ] as const) {
    assert.deepEqual((await request(`${client.url}/${base}/connectivity`)).json, {
      [`${name.toLowerCase()}_server_connectivity_disabled`]: false,
      offline_mode_enabled: false,
    });
    for (const action of ['enable', 'disable']) {
      const answer = await postJson(`${client.url}/${base}/connectivity/${action}`, '');
      assert.equal(answer.status, 400);
      assert.deepEqual(answer.json, {
        detail: `Cannot ${action} ${name} server connectivity: offline mode is not enabled`,
      });
    }
  }
  await client.healthy();
});

test('with authentication on only a listener may see or switch connectivity', async () => {
  await using dir = await tempDir();
  const keys = keyPair();
  await using server = await startServer(withKeys(keys));
  const token = await tokenOf(server.url, { type: 'client' });
  await using client = await startClient({
    serverUrl: server.url,
    env: offlineIn(dir, {
      SYNC_POLICY_UPDATER_ENABLED: 'false',
      SYNC_AUTH_PUBLIC_KEY: keys.publicKey,
      SYNC_CLIENT_TOKEN: token,
    }),
  });
  await client.healthy();
  const listener = bearer(await tokenOf(server.url, { type: 'listener' }));
  for (const base of [`${client.url}/sync-server/connectivity`, `${client.url}/opal-server/connectivity`]) {
    for (const headers of [{}, bearer(token), bearer('nonsense')]) {
      assert.equal((await request(base, { headers })).status, 401);
      assert.equal((await postJson(`${base}/disable`, '', headers)).status, 401);
      assert.equal((await postJson(`${base}/enable`, '', headers)).status, 401);
    }
    assert.equal((await request(base, { headers: listener })).status, 200);
  }
  await isConnected(client, true);
  const disabled = await postJson(`${client.url}/sync-server/connectivity/disable`, '', listener);
  assert.deepEqual(disabled.json, { status: 'disabled' });
});

test('a disconnect whose backup cannot be written is refused, and the client goes on following', async () => {
  await using dir = await tempDir();
  await using server = await startServer();
  await using client = await startClient({
    serverUrl: server.url,
    env: offlineIn(dir, { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_STORE_BACKUP_INTERVAL: '3600' }),
  });
  await client.healthy();
  await publish(server.url, { dst_path: '/a', data: 1 });
  await client.holds('/a', 1);
  // Something stands in the place of the file.
  await mkdir(join(backupOf(dir), 'x'), { recursive: true });
  const answer = await postJson(`${client.url}/sync-server/connectivity/disable`, '');
  assert.equal(answer.status, 507);
  assert.equal(answer.headers.get('x-sync-error'), 'backup_unwritable');
  assert(!answer.text.includes(dir.path));
  assert.equal(
    field((await request(`${client.url}/sync-server/connectivity`)).json, 'sync_server_connectivity_disabled'),
    false,
  );
  await publish(server.url, { dst_path: '/a', data: 2 });
  await client.holds('/a', 2);
  await client.tells('the reason', (health) => field(health, 'connectivity', 'backup', 'error') !== null);
  await rm(backupOf(dir), { recursive: true });
  assert.equal(await switchTo(client, 'disable'), 'disabled');
  await stat(backupOf(dir));
  const state = field((await client.health()).json, 'connectivity');
  assert.equal(field(state, 'backup', 'error'), null);
  assert(Number(field(state, 'backup', 'age_seconds')) < 30);
});

test('a disconnect while the engine is away, or a source does not answer, comes to its end', async () => {
  await using dir = await tempDir();
  await using source = await startDataSource();
  source.answer('/slow', { fault: 'silent' });
  await using server = await startServer();
  await using opa = await startOpa();
  await using client = await startClient({
    serverUrl: server.url,
    engineUrl: opa.url,
    env: offlineIn(dir, { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_HTTP_FETCHER_TIMEOUT: '60' }),
  });
  await client.healthy();
  await publish(server.url, { dst_path: '/a', data: 1 });
  await client.holds('/a', 1);
  await publish(server.url, { dst_path: '/slow', url: `${source.url}/slow` });
  await until(() => source.count('/slow') === 1, { withinMs: 20_000, what: 'the source is asked' });
  await opa.kill();
  await publish(server.url, { dst_path: '/b', data: 2 });
  await client.tells('the engine is away', (health) => field(health, 'engine', 'online') === false);
  assert.equal(await switchTo(client, 'disable'), 'disabled');
  assert.equal((await client.health()).status, 503, 'the engine does not serve');

  // Back again, and connected again: what was under way is taken up.
  await using again = await startOpa({ port: opa.port });
  await until(async () => (await client.data('/a')) === 1, { withinMs: 20_000, what: 'the engine is filled' });
  assert.equal(again.url, client.engineUrl);
  source.serve('/slow', 3);
  assert.equal(await switchTo(client, 'enable'), 'enabled');
  await client.holds('/b', 2);
  await client.holds('/slow', 3);
  await client.healthy();
});
