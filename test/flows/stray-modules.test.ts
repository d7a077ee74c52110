import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson } from '../support/http.js';
import { startOpa } from '../support/opa.js';
import { following, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

const POLICY = { 'app/rbac.rego': 'package app.rbac\n\nimport rego.v1\n\ndefault allow := false\n' };
const EVIL = 'package evil\n\nimport rego.v1\n\nallow := true\n';

async function put(client: StartedClient, id: string, rego: string): Promise<void> {
  const answer = await fetch(`${client.engineUrl}/v1/policies/${id}`, { method: 'PUT', body: rego });
  assert.equal(answer.status, 200, await answer.text());
}

async function modules(client: StartedClient): Promise<string[]> {
  const answer = (await (await fetch(`${client.engineUrl}/v1/policies`)).json()) as { result: { id: string }[] };
  return answer.result.map(({ id }) => id.replace(/^policy\//, '')).sort();
}

async function holdsModules(client: StartedClient, ...wanted: string[]): Promise<void> {
  await until(async () => JSON.stringify(await modules(client)) === JSON.stringify(wanted.sort()), {
    withinMs: 20_000,
    what: `exactly the modules ${wanted.join(', ')}`,
  });
}

/** Waits for so many comparisons with the engine. */
async function compared(client: StartedClient, times: number): Promise<void> {
  const checkedAt = async (): Promise<unknown> => field((await client.health()).json, 'data', 'drift', 'checked_at');
  for (let round = 0; round < times; round++) {
    const before = await checkedAt();
    await until(async () => (await checkedAt()) !== before, { withinMs: 20_000, what: 'a comparison' });
  }
}

describe('a module that is not ours', () => {
  let repo: GitRepo;
  let server: StartedServer;
  before(async () => {
    repo = await gitRepo();
    await repo.commit(POLICY);
    server = await startServer(following(repo));
  });
  after(async () => {
    for (const part of [server, repo]) await part?.[Symbol.asyncDispose]();
  });

  const env = { SYNC_INLINE_ENGINE_OPEN: 'true' };
  for (const kind of ['inline', 'external'] as const) {
    test(`a module that somebody put into the ${kind} engine goes with the trigger, and with the next commit`, async () => {
      await using opa = kind === 'external' ? await startOpa() : undefined;
      await using client = await startClient({ serverUrl: server.url, ...(opa && { engineUrl: opa.url }), env });
      await client.healthy();
      await put(client, 'by/hand.rego', EVIL);
      await client.answers('/evil/allow', {}, true);
      await put(client, 'system/kept.rego', 'package system.kept\n\nx := 1\n');
      assert.equal((await postJson(`${client.url}/policy-updater/trigger`, {})).status, 200);
      await holdsModules(client, 'app/rbac.rego', 'system/kept.rego');
      assert.equal(await client.data('/evil'), undefined);
      await client.healthy();

      // With the next commit, also one of the same package.
      await put(client, 'by/hand.rego', EVIL);
      await put(client, 'by/other.rego', 'package other\n\nx := 1\n');
      await repo.commit({ 'evil.rego': 'package evil\n\nimport rego.v1\n\nallow := false\n' });
      await client.answers('/evil/allow', {}, false);
      await holdsModules(client, 'app/rbac.rego', 'evil.rego', 'system/kept.rego');
      await client.healthy();

      // One that would make the commit's own package impossible.
      await put(client, 'by/hand.rego', 'package team\n\nusers := ["mallory"]\n');
      await repo.commit({ 'team.rego': 'package team.users\n\nx := 1\n' });
      await client.answers('/team/users/x', {}, 1);
      await holdsModules(client, 'app/rbac.rego', 'evil.rego', 'system/kept.rego', 'team.rego');

      // And with one that changes no policy.
      await put(client, 'by/hand.rego', 'package third\n\nx := 1\n');
      await repo.commit({ 'README.md': `words about ${kind}\n` });
      await holdsModules(client, 'app/rbac.rego', 'evil.rego', 'system/kept.rego', 'team.rego');
      await client.healthy();
      await repo.commit({ 'evil.rego': null, 'team.rego': null });
      await holdsModules(client, 'app/rbac.rego', 'system/kept.rego');
    });

    test(`a module that somebody put into the ${kind} engine goes with the drift check, and is counted`, async () => {
      await using opa = kind === 'external' ? await startOpa() : undefined;
      await using client = await startClient({
        serverUrl: server.url,
        ...(opa && { engineUrl: opa.url }),
        env: { ...env, SYNC_DRIFT_CHECK_INTERVAL: '0.2' },
      });
      await client.healthy();
      // A policy that was applied is followed by a look of its own at the modules, which counts nothing.
      await compared(client, 2);
      await put(client, 'by/hand.rego', EVIL);
      await holdsModules(client, 'app/rbac.rego');
      await client.tells('it is counted', (health) => field(health, 'data', 'drift', 'repaired') === 1);
      if (kind === 'inline') return;
      // What is ours comes back, too.
      await put(client, 'app/rbac.rego', 'package app.rbac\n\nallow := true\n');
      await client.answers('/app/rbac/allow', {}, false);
    });
  }

  test('what the inline engine loads by itself stays: files of its configuration, and its authorization policy', async () => {
    await using dir = await tempDir();
    await writeFile(join(dir.path, 'loaded.rego'), 'package loaded\n\nx := 1\n');
    await using client = await startClient({
      serverUrl: server.url,
      env: {
        SYNC_INLINE_ENGINE_CONFIG: JSON.stringify({ files: [join(dir.path, 'loaded.rego')] }),
        SYNC_DRIFT_CHECK_INTERVAL: '0.2',
      },
    });
    await client.healthy();
    assert.equal((await postJson(`${client.url}/policy-updater/trigger`, {})).status, 200);
    await compared(client, 3);
    await client.answers('/loaded/x', {}, 1);
    await client.answers('/app/rbac/allow', {}, false);
    // The door is still there.
    const answer = await fetch(`${client.engineUrl}/v1/policies/by/hand`, { method: 'PUT', body: EVIL });
    assert.equal(answer.status, 401);
    assert.equal(field((await client.health()).json, 'data', 'drift', 'repaired'), 0);
  });
});
