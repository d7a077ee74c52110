import assert from 'node:assert/strict';
import { test } from 'node:test';
import { engineWrites } from '../support/engine-writes.js';
import { gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { startOpa } from '../support/opa.js';
import { following, publish, type StartedClient, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** Longer than the test waits for anything: no heartbeat helps. */
const RARE_HEARTBEATS = { SYNC_HEARTBEAT_INTERVAL: '300' };
const POLICY = { 'app/rbac.rego': 'package app.rbac\n\nallow := true\n', 'app/data.json': '{"roles":{"a":1}}' };

/** Policies that the engine was made to take, by the client's own count. */
async function activations(client: StartedClient): Promise<number> {
  const { text } = await request(`${client.url}/metrics`);
  const found = /^policysync_engine_write_duration_seconds_count\{[^}]*kind="policy"[^}]*\} (\d+)/m.exec(text);
  return Number(found?.[1] ?? 0);
}

for (const kind of ['inline', 'external'] as const) {
  test(`a commit that changes no policy is known to the client of an ${kind} engine at once, and activates nothing`, async () => {
    await using repo = await gitRepo();
    await repo.commit(POLICY);
    await using server = await startServer({ ...following(repo), ...RARE_HEARTBEATS });
    await using opa = kind === 'external' ? await startOpa() : undefined;
    await using writes = opa && (await engineWrites(opa.url));
    await using client = await startClient({
      serverUrl: server.url,
      ...(writes && { engineUrl: writes.url }),
      env: { SYNC_METRICS_ACCESS: 'everyone' },
    });
    await client.healthy();
    const [before, written] = [await activations(client), writes?.all.length ?? 0];
    assert(before >= 1, 'the first policy counts');

    const hash = await repo.commit({ 'README.md': 'words\n', 'docs/more.md': 'more\n' });
    const health = await client.tells('the new commit is held', (json) => field(json, 'policy', 'hash') === hash);
    assert.deepEqual([field(health.json, 'policy', 'wanted'), field(health.json, 'policy', 'error')], [hash, null]);
    await until(
      async () => field((await request(`${server.url}/clients`)).json, 'clients', 0, 'policy', 'current') === true,
      { withinMs: 20_000, what: 'the server knows' },
    );
    await publish(server.url, { dst_path: '/last', data: 1 });
    await client.holds('/last', 1);
    assert.equal(await activations(client), before);
    assert.deepEqual(writes?.since(written).filter((line) => line.includes('/v1/policies')) ?? [], []);

    // The next one builds on it.
    await repo.commit({ 'app/rbac.rego': 'package app.rbac\n\nallow := false\n' });
    await client.answers('/app/rbac/allow', {}, false);
    assert.equal(await activations(client), before + 1);
  });
}

test('a client that subscribes to some directories learns of a commit to others at once', async () => {
  await using repo = await gitRepo();
  await repo.commit({ ...POLICY, 'other/x.rego': 'package other.x\n\ny := 1\n' });
  await using server = await startServer({ ...following(repo), ...RARE_HEARTBEATS });
  await using client = await startClient({
    serverUrl: server.url,
    env: { SYNC_POLICY_SUBSCRIPTION_DIRS: 'app', SYNC_METRICS_ACCESS: 'everyone' },
  });
  await client.healthy();
  const before = await activations(client);
  const hash = await repo.commit({ 'other/x.rego': 'package other.x\n\ny := 2\n' });
  await client.tells('the new commit is held', (json) => field(json, 'policy', 'hash') === hash);
  assert.equal(await activations(client), before);
});
