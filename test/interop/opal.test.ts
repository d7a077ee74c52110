import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { startOpa } from '../support/opa.js';
import { baseEntries } from '../support/start-client.js';
import { tempDir } from '../support/temp-dir.js';
import {
  allowing,
  data,
  publish,
  reaches,
  sharedStage,
  startOpalClient,
  startOpalServer,
  startOurClient,
  startOurServer,
} from './stage.js';

/** Both ways with OPAL 0.9.9: its client follows our server, our client follows its server, each with a real OPA. */

const opalPrograms = sharedStage(async (opalBin) => ({ opalBin }));

test('a Python OPAL client gets base data, updates, and what it missed while it was away, from our server', async (context) => {
  const opal = opalPrograms(context);
  if (opal === undefined) return;
  await using folder = await tempDir();
  await using source = await startDataSource();
  source.serve('/base', { from: 'base' });
  await using opa = await startOpa();
  const base = { url: `${source.url}/base`, dst_path: '/base' };
  await using server = await startOurServer(folder.path, baseEntries(base));
  const at = { serverUrl: server.url, engine: opa };
  const client = await startOpalClient(opal.opalBin, folder.path, at);
  const programs = [client.output, server.output];
  await using _client = client;
  await reaches(opa, '/base', { from: 'base' }, programs);
  await publish(server.url, { dst_path: '/users', data: { alice: { role: 'viewer' } } });
  await reaches(opa, '/users', { alice: { role: 'viewer' } }, programs);
  await publish(server.url, {
    dst_path: '/users/alice',
    save_method: 'PATCH',
    data: [{ op: 'replace', path: '/role', value: 'admin' }],
  });
  await reaches(opa, '/users', { alice: { role: 'admin' } }, programs);
  await publish(server.url, { dst_path: '/remote', url: base.url });
  await reaches(opa, '/remote', { from: 'base' }, programs);
  await publish(server.url, { dst_path: '/users/alice', save_method: 'DELETE' });
  await reaches(opa, '/users', {}, programs);

  await client.stop();
  await publish(server.url, { dst_path: '/missed', data: { n: 1 } });
  await using again = await startOpalClient(opal.opalBin, folder.path, at);
  await reaches(opa, '/missed', { n: 1 }, [again.output, server.output]);
});

test('a Python OPAL client gets policy and pushed commits from our server', async (context) => {
  const opal = opalPrograms(context);
  if (opal === undefined) return;
  await using folder = await tempDir();
  await using repo = await gitRepo();
  await repo.commit(allowing('admin'));
  await using opa = await startOpa();
  await using server = await startOurServer(folder.path, {
    SYNC_POLICY_REPO_URL: repo.url,
    SYNC_POLICY_REPO_POLLING_INTERVAL: '0.5',
  });
  await using client = await startOpalClient(opal.opalBin, folder.path, { serverUrl: server.url, engine: opa });
  const programs = [client.output, server.output];
  await reaches(opa, '/app/rbac/allow', false, programs, { user: 'alice' });
  await publish(server.url, { dst_path: '/users', data: { alice: { role: 'viewer' } } });
  await reaches(opa, '/users', { alice: { role: 'viewer' } }, programs);
  await repo.commit(allowing('viewer'));
  await reaches(opa, '/app/rbac/allow', true, programs, { user: 'alice' });
});

test('our client gets base data, updates, policy and pushed commits from a Python OPAL server', async (context) => {
  const opal = opalPrograms(context);
  if (opal === undefined) return;
  await using folder = await tempDir();
  await using repo = await gitRepo();
  await repo.commit(allowing('admin'));
  await using source = await startDataSource();
  source.serve('/base', { from: 'base' });
  await using server = await startOpalServer(opal.opalBin, folder.path, {
    OPAL_POLICY_REPO_URL: repo.url,
    OPAL_DATA_CONFIG_SOURCES: baseEntries({ url: `${source.url}/base`, dst_path: '/base' }).SYNC_DATA_CONFIG_SOURCES,
  });
  await using client = await startOurClient(server.url);
  const { engine } = client;
  const programs = [client.command.stderr, server.output];
  await reaches(engine, '/base', { from: 'base' }, programs);
  await reaches(engine, '/app/rbac/allow', false, programs, { user: 'alice' });
  await publish(server.url, { dst_path: '/users', data: { alice: { role: 'viewer' } } });
  await reaches(engine, '/users', { alice: { role: 'viewer' } }, programs);
  await repo.commit(allowing('viewer'));
  await reaches(engine, '/app/rbac/allow', true, programs, { user: 'alice' });
  assert.deepEqual(await data(engine, '/base'), { from: 'base' });
});
