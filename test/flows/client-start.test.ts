import assert from 'node:assert/strict';
import { dirname } from 'node:path';
import { describe, it } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { cutCable } from '../support/cut-cable.js';
import { startDataSource } from '../support/data-source.js';
import { gitHttpServer } from '../support/git-http-server.js';
import { gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { baseEntries, following, publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const ALLOW =
  'package app\n\nimport rego.v1\n\ndefault allow := false\n\nallow if data.users[input.user].role == "admin"\n';

// One of them waits for a client that a server told to come back later.
describe('a client that starts', { concurrency: true }, () => {
  it('policy and base data reach the engine, and the client says that it is ready and healthy', async () => {
    await using repo = await gitRepo();
    const hash = await repo.commit({ 'app/rbac.rego': ALLOW, 'app/data.json': '{"version":1}' });
    await using source = await startDataSource();
    source.serve('/users', { ann: { role: 'admin' } });
    await using server = await startServer({
      ...following(repo),
      ...baseEntries({ url: `${source.url}/users`, dst_path: '/users' }),
    });
    await using client = await startClient({ serverUrl: server.url });

    await client.healthy();
    await client.answers('/app/allow', { user: 'ann' }, true);
    await client.answers('/app/allow', { user: 'bob' }, false);
    assert.equal(await client.data('/app/version'), 1);
    assert.equal(source.count('/users'), 1);

    const [healthy, ready] = [await client.health(), await client.ready()];
    assert.equal(ready.status, 200);
    assert.deepEqual([field(healthy.json, 'status'), field(healthy.json, 'online')], ['ok', true]);
    assert.equal(field(ready.json, 'status'), 'ok');
    assert.equal(field(healthy.json, 'policy', 'hash'), hash);
    assert.equal(field(healthy.json, 'policy', 'last_transaction', 'success'), true);
    assert.deepEqual(field(healthy.json, 'data', 'last_transaction', 'actions'), ['set_policy_data']);
    assert.deepEqual(field(healthy.json, 'data', 'failing'), []);
    assert.equal(field(healthy.json, 'server', 'connected'), true);
    assert.equal(field(healthy.json, 'server', 'error'), null);
    const { version, since, ...engine } = Object(field(healthy.json, 'engine')) as Record<string, unknown>;
    assert.match(String(version), /^\d+\.\d+\.\d+/);
    assert.match(String(since), /^\d{4}-.*Z$/);
    assert.deepEqual(engine, {
      online: true,
      error: null,
      kind: 'inline',
      policy_mode: 'bundle',
      access: 'token',
      rego: { mode: 'v1', v0: 0, v1: 1 },
      getting: null,
    });
  });

  it('an inline engine is filled once at the start, and neither start nor stop look like a failure', async () => {
    await using repo = await gitRepo();
    await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    await using source = await startDataSource();
    source.serve('/users', { ann: 1 });
    await using server = await startServer({
      ...following(repo),
      ...baseEntries({ url: `${source.url}/users`, dst_path: '/users' }),
    });
    // A busy machine fetches the documents later than a policy waits for them in tests, and says so.
    const env = { SYNC_INLINE_ENGINE_LOG_FORMAT: 'http', SYNC_FIRST_POLICY_WAIT: '60' };
    await using client = await startClient({ serverUrl: server.url, env });
    await client.healthy();
    await publish(server.url, { dst_path: '/mark', data: 1 });
    await client.holds('/mark', 1);
    await client.healthy();
    await client.stop();
    assert.equal(client.log.filter(({ msg }) => msg === 'engine holds our state').length, 1);
    assert.equal(client.log.filter(({ msg }) => msg.includes('PUT /v1/data/users')).length, 1);
    assert.deepEqual(
      client.log
        .filter(({ level }) => Number(level) >= 40)
        .map(({ msg }) => msg)
        // OPA's own advice where the tests run as root.
        .filter((msg) => !msg.includes('running with uid or gid 0')),
      [],
    );
  });

  it('a client without any base data is ready once it has policy', async () => {
    await using repo = await gitRepo();
    await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    await using server = await startServer(following(repo));
    await using client = await startClient({ serverUrl: server.url });
    await client.healthy();
    assert.equal(await client.query('/a/x'), 1);
  });

  it('a client that starts before the server, and before the first clone is done, catches up by itself', async () => {
    await using repo = await gitRepo();
    await repo.commit({ 'app/rbac.rego': ALLOW });
    await using remote = await gitHttpServer(dirname(repo.path));
    await using remoteCable = await cutCable(remote.url);
    remoteCable.freeze();
    await using source = await startDataSource();
    source.serve('/users', { ann: { role: 'admin' } });
    await using cable = await cutCable('http://127.0.0.1:9');
    cable.cut();
    await using client = await startClient({ serverUrl: cable.url });

    const alone = await client.tells('no server', (health) => field(health, 'server', 'error') !== null);
    assert.deepEqual([alone.status, (await client.ready()).status], [503, 503]);
    assert.deepEqual([field(alone.json, 'status'), field(alone.json, 'ready')], ['unavailable', false]);

    await using server = await startServer({
      ...following({ url: `${remoteCable.url}/repo.git` }),
      ...baseEntries({ url: `${source.url}/users`, dst_path: '/users' }),
    });
    cable.connectTo(server.url);
    cable.mend();
    // Data is fetched meanwhile; the engine gets it after the policy.
    await client.tells('the document is here', (health) =>
      isDeepStrictEqual(field(health, 'data', 'awaiting_policy'), { total: 1, paths: ['/users'] }),
    );
    assert.equal(await client.data('/users'), undefined);
    await until(() => remoteCable.connections > 0, { withinMs: 20_000, what: 'the server asks for the repository' });
    const waiting = await client.tells(
      'policy is missing',
      (health) => field(health, 'policy', 'last_transaction') !== null,
    );
    assert.match(String(field(waiting.json, 'policy', 'last_transaction', 'error')), /503/);
    assert.equal((await client.ready()).status, 503);

    remoteCable.mend();
    await client.healthy();
    await client.answers('/app/allow', { user: 'ann' }, true);
  });
});
