import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { killProcess } from '../support/kill.js';
import { startOpa } from '../support/opa.js';
import { following, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';

const V0 = 'package old\n\nallow {\n\tinput.x == 1\n}\n\ndeny[msg] {\n\tmsg := "no"\n}\n';
/** Only v0 reads this, and nothing at the beginning of a line shows it. */
const HIDDEN_V0 = 'package hidden\n\nimport data.old\n\n  allow   { old.allow }\n';
const V1 = 'package young\n\nallow if input.x == 1\n\ndeny contains "no" if not input.x\n';
const BOTH = 'package both\n\nimport rego.v1\n\nallow if data.old.allow\n';
/** Both versions parse it; v1 has dropped the function. */
const DROPPED = 'package dropped\n\nx := any([true])\n';

const rego = async (client: StartedClient): Promise<unknown> => field((await client.health()).json, 'engine', 'rego');

/** Waits until the engine holds this commit. */
async function holdsCommit(client: StartedClient, hash: string): Promise<void> {
  await client.tells(`it holds ${hash}`, (health) => field(health, 'policy', 'hash') === hash);
}

/** What is set; nothing says the same as `auto`. */
const SETTING = { inline: '', embedded: 'auto' };

for (const engine of ['inline', 'embedded'] as const)
  describe(`SYNC_ENGINE_V0_COMPAT=auto, ${engine === 'inline' ? 'the default' : 'set'} (${engine})`, () => {
    let repo: GitRepo;
    let server: StartedServer;
    let client: StartedClient;
    before(async () => {
      repo = await gitRepo();
      await repo.commit({
        'old.rego': V0,
        'x/hidden*[1].rego': HIDDEN_V0,
        'young.rego': V1,
        'both.rego': BOTH,
        'dropped.rego': DROPPED,
      });
      server = await startServer(following(repo));
      const env = { SYNC_ENGINE_V0_COMPAT: SETTING[engine] };
      client = await startClient({ serverUrl: server.url, engine, env });
      await client.healthy();
    });
    after(async () => {
      for (const part of [client, server, repo]) await part?.[Symbol.asyncDispose]();
    });

    test('modules of both versions work in one repository, and /healthy and the log say what counted', async () => {
      await client.answers('/old/allow', { x: 1 }, true);
      await client.answers('/hidden/allow', { x: 1 }, true);
      await client.answers('/young/allow', { x: 1 }, true);
      await client.answers('/both/allow', { x: 1 }, true);
      await client.answers('/dropped/x', {}, true);
      assert.deepEqual(await rego(client), { mode: 'auto', v0: 3, v1: 2 });
      const line = client.log.findLast(({ msg }) => msg.startsWith('modules by the version of Rego'));
      assert.deepEqual([line?.v0, line?.v1], [3, 2]);

      // A deleted static document under a published one is judged by the program: with the same versions.
      await publish(server.url, { dst_path: '/old/d', data: { n: 1 } });
      await client.holds('/old/d', { n: 1 });
      await holdsCommit(client, await repo.commit({ 'old/d/data.json': '{"n":2}' }));

      // After the engine ended, all of it comes back.
      if (engine === 'inline') killProcess(client.enginePid());
      await client.healthy();
      await client.answers('/hidden/allow', { x: 1 }, true);
      await client.answers('/young/allow', { x: 1 }, true);

      // A module that moves to v1.
      await holdsCommit(
        client,
        await repo.commit({ 'old.rego': V0.replaceAll(' {', ' if {').replace('[msg]', ' contains msg') }),
      );
      assert.deepEqual(await rego(client), { mode: 'auto', v0: 2, v1: 3 });
      await client.answers('/both/allow', { x: 1 }, true);
    });

    if (engine !== 'inline') return;

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
      assert.deepEqual(await rego(client), { mode: 'auto', v0: 0, v1: 1 });
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
  assert.deepEqual(await rego(old), { mode: 'v0', v0: 1, v1: 0 });
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
  assert.equal(await rego(client), null);
});
