import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { killProcess } from '../support/kill.js';
import { startOpa } from '../support/opa.js';
import { BOTH_VERSIONS, bothVersionsWork, holdsCommit, regoOf, V0, V1 } from '../support/rego-versions.js';
import { following, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';

describe('SYNC_ENGINE_V0_COMPAT=auto, the default (inline)', () => {
  let repo: GitRepo;
  let server: StartedServer;
  let client: StartedClient;
  before(async () => {
    repo = await gitRepo();
    await repo.commit(BOTH_VERSIONS);
    server = await startServer(following(repo));
    client = await startClient({ serverUrl: server.url, env: { SYNC_ENGINE_V0_COMPAT: '' } });
    await client.healthy();
  });
  after(async () => {
    for (const part of [client, server, repo]) await part?.[Symbol.asyncDispose]();
  });

  test('modules of both versions work in one repository, and /healthy and the log say what counted', async () => {
    await bothVersionsWork({ client, server, repo }, { endEngine: () => killProcess(client.enginePid()) });
  });

  test('what is wrong in both versions is refused with file and line, and the last good commit stays', async () => {
    let good = await repo.commit({ 'old.rego': V0 });
    await holdsCommit(client, good);
    for (const [file, text] of [
      ['young.rego', 'package young\n\nallow if input.x ==\n'],
      ['old.rego', 'package old\n\nallow {\n\tinput.x ==\n}\n'],
    ] as const) {
      await repo.commit({ [file]: text });
      await client.tells('it is refused', (health) =>
        new RegExp(`${file}:\\d`).test(String(field(health, 'policy', 'last_transaction', 'error'))),
      );
      assert.equal(field((await client.health()).json, 'policy', 'hash'), good);
      await client.answers('/young/allow', { x: 1 }, true);
      await repo.git('reset', '--hard', '--quiet', good);
      good = await repo.commit({});
      await holdsCommit(client, good);
    }
  });

  test('is the default: what `opa check` of OPA 1.x accepts is taken', async () => {
    const none = { 'x/hidden*[1].rego': null, 'both.rego': null, 'dropped.rego': null, 'old.rego': null };
    await holdsCommit(client, await repo.commit({ ...none, 'young.rego': V1 }));
    await client.answers('/young/allow', { x: 1 }, true);
    assert.deepEqual(await regoOf(client), { mode: 'auto', v0: 0, v1: 1 });
  });
});

test('by its own name and by that of OPAL, true reads all modules as v0 and false as v1', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'old.rego': V0 });
  await using server = await startServer(following(repo));
  await using old = await startClient({
    serverUrl: server.url,
    env: { SYNC_ENGINE_V0_COMPAT: '', OPAL_OPA_V0_COMPAT: 'True' },
  });
  await old.healthy();
  assert.deepEqual(await regoOf(old), { mode: 'v0', v0: 1, v1: 0 });
  await using young = await startClient({ serverUrl: server.url, env: { SYNC_ENGINE_V0_COMPAT: 'false' } });
  await young.tells('it is refused', (health) =>
    /`if` keyword is required/.test(String(field(health, 'policy', 'last_transaction', 'error'))),
  );
  await repo.commit({ 'old.rego': V1 });
  await young.healthy();
  await old.tells('it is refused', (health) =>
    /rego_parse_error|keyword/.test(String(field(health, 'policy', 'last_transaction', 'error'))),
  );
});

test('an external engine reads modules as whoever runs it wants, and nothing is said of it', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'young.rego': V1 });
  await using server = await startServer(following(repo));
  await using opa = await startOpa();
  await using client = await startClient({
    serverUrl: server.url,
    engineUrl: opa.url,
    env: { SYNC_ENGINE_V0_COMPAT: 'auto' },
  });
  await client.healthy();
  await client.answers('/young/allow', { x: 1 }, true);
  assert.equal(await regoOf(client), null);
});
