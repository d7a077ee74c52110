import assert from 'node:assert/strict';
import { it } from 'node:test';
import { gitRepo } from '../support/git-repo.js';
import { field, postJson } from '../support/http.js';
import { startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';

/** Names with a bare percent sign, which an OPA with an authorization policy decodes once more than one without. */
const NAMES = ['50%', '%', '100%', 'a%b', 'a%zz'];

it('names with bare percent signs, of documents, folders and modules, are in an inline engine, and no commit suffers from them', async () => {
  await using repo = await gitRepo();
  await repo.commit({
    'app.rego': 'package app\n\nn := 1\n',
    '100%.rego': 'package hundred\n\nx := 1\n',
    'd/7%/p.rego': 'package seven\n\nx := 1\n',
    'data.json': '{"5%":{"x":1},"d":{"6%":{"x":1}}}',
    '8%/data.json': '{"x":1}',
  });
  await using server = await startServer({
    SYNC_POLICY_REPO_URL: repo.path,
    SYNC_POLICY_REPO_POLLING_INTERVAL: '0.2',
  });
  await using client = await startClient({ serverUrl: server.url });
  await client.healthy();
  const entries = NAMES.flatMap((name) =>
    [`/${name}/x`, `/m/${name}`, `/n/${name}/y`].map((path) => ({
      ...{ url: '', topics: ['policy_data'], data: { name } },
      dst_path: path.replaceAll('%', '%25'),
    })),
  );
  for (const entry of entries.slice(0, 3)) {
    const { status, text } = await postJson(`${server.url}/data/config?wait=applied`, { entries: [entry] });
    assert.equal(status, 200, text);
  }
  const { status, text } = await postJson(`${server.url}/data/config?wait=applied`, { entries: entries.slice(3) });
  assert.equal(status, 200, text);
  const named = (of: (name: string) => object) => Object.fromEntries(NAMES.map((name) => [name, of(name)]));
  const documents = {
    ...named((name) => ({ x: { name } })),
    m: named((name) => ({ name })),
    n: named((name) => ({ y: { name } })),
    ...{ '5%': { x: 1 }, '8%': { x: 1 }, d: { '6%': { x: 1 } }, hundred: { x: 1 }, seven: { x: 1 } },
  };
  const holds = async (n: number): Promise<void> => {
    await client.holds('/app/n', n);
    const found = (await client.query('')) as Record<string, unknown>;
    const { app: _app, system: _system, ...rest } = found;
    assert.deepEqual(rest, documents);
    assert.equal(field((await client.health()).json, 'healthy'), true);
  };
  await holds(1);
  await repo.commit({ 'app.rego': 'package app\n\nn := 2\n' });
  await holds(2);
  await repo.commit({ '100%.rego': 'package hundred\n\nx := y\n' });
  const told = await client.tells('the file is named', (health) => field(health, 'policy', 'error') !== null);
  assert.deepEqual(field(told.json, 'policy', 'error', 'file'), '100%.rego');
  await repo.commit({ '100%.rego': 'package hundred\n\nx := 1\n', 'app.rego': 'package app\n\nn := 3\n' });
  await holds(3);
});
