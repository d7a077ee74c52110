import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { announced, byWebhook } from '../support/announced.js';
import { type EngineWrites, engineWrites } from '../support/engine-writes.js';
import { type FileContent, type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { startOpa, type TestOpa } from '../support/opa.js';
import { failing, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** The health document's line about the last policy. */
function policyError(health: unknown): string {
  return String(field(health, 'policy', 'last_transaction', 'error'));
}

async function holdsPolicy(client: StartedClient, hash: string): Promise<void> {
  await client.tells(`it holds ${hash}`, (health) => field(health, 'policy', 'hash') === hash);
}

/** Policies that the engine was made to take, by the client's own count. */
async function activations(client: StartedClient): Promise<number> {
  const { text } = await request(`${client.url}/metrics`);
  const found = /^policysync_engine_write_duration_seconds_count\{[^}]*kind="policy"[^}]*\} (\d+)/m.exec(text);
  return Number(found?.[1] ?? 0);
}

/** Longer than any case waits: what a client knows at once, no heartbeat has told it. */
const RARE_HEARTBEATS = { SYNC_HEARTBEAT_INTERVAL: '300' };
const ENV = { SYNC_METRICS_ACCESS: 'everyone' };

/** One server and repository, which each case uses folders of its own of, and two clients with different engines. */
describe('the policy of a client of an inline engine, and of one of an external engine', () => {
  let repo: GitRepo;
  let server: StartedServer;
  let opa: TestOpa;
  let writes: EngineWrites;
  let inline: StartedClient;
  let external: StartedClient;
  let both: readonly StartedClient[] = [];
  const commit = (files: Record<string, FileContent>): Promise<string> => announced(server, repo, files);

  before(async () => {
    repo = await gitRepo();
    await repo.commit({ 'start.rego': 'package start\n\nx := 1\n' });
    server = await startServer({ ...byWebhook(repo), ...RARE_HEARTBEATS });
    opa = await startOpa();
    writes = await engineWrites(opa.url);
    inline = await startClient({ serverUrl: server.url, env: ENV });
    external = await startClient({ serverUrl: server.url, engineUrl: writes.url, env: ENV });
    both = [inline, external];
    for (const client of both) await client.healthy();
  });
  after(async () => {
    for (const part of [...both, writes, opa, server, repo]) await part[Symbol.asyncDispose]();
  });

  it('a commit that does not compile leaves the last good policy, and is told with its place', async () => {
    const good = await commit({
      'bad/a.rego': 'package a\n\nx := 1\n',
      'bad/b.rego': 'package b\n\ny := 1\n',
      's/data.json': '{"s":1}',
    });
    for (const client of both) await holdsPolicy(client, good);
    await publish(server.url, { dst_path: '/d', data: 1 });
    const bad = await commit({
      'bad/a.rego': 'package a\n\nx := 2\n',
      'bad/b.rego': 'package b\n\n\ny := nothing(1)\n',
      's/data.json': '{"s":2}',
    });
    for (const client of both) {
      const health = await client.tells('it says so', (json) => policyError(json).includes('b.rego'));
      assert.equal(health.status, 503);
      assert.match(policyError(health.json), /bad\/b\.rego:4: .*undefined function nothing/);
      assert.equal(field(health.json, 'policy', 'last_transaction', 'id'), bad);
      assert.equal(field(health.json, 'policy', 'hash'), good);
      assert.equal((await client.ready()).status, 200);
      assert.deepEqual([await client.query('/a/x'), await client.query('/b/y'), await client.data('/s/s')], [1, 1, 1]);
    }
    // Data goes on all the same, and does not make it well.
    await publish(server.url, { dst_path: '/d', data: 2 });
    for (const client of both) {
      await client.holds('/d', 2);
      assert.equal((await client.health()).status, 503);
    }

    await commit({ 'bad/b.rego': 'package b\n\ny := := 1\n' });
    for (const client of both) {
      const again = await client.tells('it says so again', (json) => policyError(json).includes('b.rego:3'));
      assert.match(policyError(again.json), /^bad\/b\.rego:3: .*unexpected assign token/);
      assert.equal(await client.query('/b/y'), 1);
    }
    const healed = await commit({ 'bad/b.rego': 'package b\n\ny := 3\n' });
    for (const client of both) {
      await holdsPolicy(client, healed);
      await client.healthy();
      assert.deepEqual([await client.query('/a/x'), await client.query('/b/y'), await client.data('/s/s')], [2, 3, 2]);
    }
  });

  it('a rule at the place of a published document wins, and the document comes back with its removal', async () => {
    await publish(
      server.url,
      { dst_path: '/users/admins', data: ['ann'] },
      { dst_path: '/users/guests', data: ['eve'] },
    );
    for (const client of both) await client.holds('/users', { admins: ['ann'], guests: ['eve'] });

    const collides = await commit({ 'u/users.rego': 'package users\n\nadmins := "from a rule"\n' });
    for (const client of both) {
      const health = await client.tells('it is withheld', (json) => failing(json).length > 0);
      await holdsPolicy(client, collides);
      assert.equal(health.status, 503);
      assert.match(failing(health.json)[0] ?? '', /^\/users\/admins: .*rule.*u\/users\.rego:3/);
      await client.holds('/users', { admins: 'from a rule', guests: ['eve'] });
    }
    // Another document for the same place is withheld, too; one beside it is not.
    await publish(server.url, { dst_path: '/users/admins', data: ['bob'] }, { dst_path: '/users/others', data: [] });
    for (const client of both) {
      await client.holds('/users', { admins: 'from a rule', guests: ['eve'], others: [] });
      await client.tells('the new one is withheld', (json) =>
        failing(json).some((line) => line.includes('users.rego')),
      );
    }

    await commit({ 'u/users.rego': null });
    for (const client of both) {
      await client.holds('/users', { admins: ['bob'], guests: ['eve'], others: [] });
      await client.healthy();
    }
  });

  it('a commit that changes no policy is known at once, and activates nothing', async () => {
    const policy = await commit({
      'same/rbac.rego': 'package same.rbac\n\nallow := true\n',
      'same/data.json': '{"roles":{"a":1}}',
    });
    for (const client of both) await holdsPolicy(client, policy);
    const [before, written] = [await Promise.all(both.map(activations)), writes.all.length];
    assert(
      before.every((count) => count >= 1),
      'policies count',
    );

    const hash = await commit({ 'README.md': 'words\n', 'docs/more.md': 'more\n' });
    for (const client of both) {
      const health = await client.tells('the new commit is held', (json) => field(json, 'policy', 'hash') === hash);
      assert.deepEqual([field(health.json, 'policy', 'wanted'), field(health.json, 'policy', 'error')], [hash, null]);
    }
    const isKnown = async (): Promise<boolean> => {
      const { json } = await request(`${server.url}/clients`);
      return [0, 1].every((index) => field(json, 'clients', index, 'policy', 'current') === true);
    };
    await until(isKnown, { withinMs: 20_000, what: 'the server knows' });
    await publish(server.url, { dst_path: '/last', data: 1 });
    for (const client of both) await client.holds('/last', 1);
    assert.deepEqual(await Promise.all(both.map(activations)), before);
    assert.deepEqual(
      writes.since(written).filter((line) => line.includes('/v1/policies')),
      [],
    );

    // The next one builds on it.
    await commit({ 'same/rbac.rego': 'package same.rbac\n\nallow := false\n' });
    for (const client of both) await client.answers('/same/rbac/allow', {}, false);
    assert.deepEqual(
      await Promise.all(both.map(activations)),
      before.map((count) => count + 1),
    );
  });

  it('a client gets the directories that it subscribes to, and of other commits their names at once', async () => {
    const first = await commit({
      'dirs/a/a.rego': 'package dirs.a\n\nx := 1\n',
      'dirs/a/deep/data.json': '{"d":1}',
      'dirs/ab/ab.rego': 'package dirs.ab\n\nx := 1\n',
      'dirs/b/b.rego': 'package dirs.b\n\nx := 1\n',
      'dirs/data.json': '{"above":1}',
    });
    await holdsPolicy(inline, first);
    const env = { ...ENV, SYNC_POLICY_SUBSCRIPTION_DIRS: './dirs/a/:dirs/a/deep' };
    await using client = await startClient({ serverUrl: server.url, env });
    await client.healthy();
    const others = ['/dirs/ab', '/dirs/b', '/dirs/above', '/start'];
    assert.deepEqual(await client.data('/dirs/a'), { x: 1, deep: { d: 1 } });
    for (const path of others) assert.equal(await client.data(path), undefined, path);
    const applied = (): number => client.log.filter(({ msg }) => msg === 'policy applied').length;
    assert.equal(applied(), 1);
    const before = await activations(client);

    const elsewhere = await commit({
      'dirs/ab/ab.rego': 'package dirs.ab\n\nx := 2\n',
      'dirs/data.json': '{"above":2}',
    });
    await holdsPolicy(inline, elsewhere);
    await publish(server.url, { dst_path: '/mark', data: 1 });
    await client.holds('/mark', 1);
    await holdsPolicy(client, elsewhere);
    assert.equal(applied(), 1, 'nothing of a commit elsewhere reaches it');
    assert.equal(await activations(client), before);

    const deep = await commit({
      'dirs/a/deep/data.json': '{"d":2}',
      'dirs/b/b.rego': 'package dirs.b\n\nx := 2\n',
    });
    await holdsPolicy(client, deep);
    assert.deepEqual(await client.data('/dirs/a'), { x: 1, deep: { d: 2 } });
    for (const path of others) assert.equal(await client.data(path), undefined, path);
    assert.equal(applied(), 2);
    await commit({
      'dirs/a/deep/data.json': null,
      'dirs/a/a.rego': null,
      'dirs/a/new.rego': 'package dirs.a\n\ny := 1\n',
    });
    await client.holds('/dirs/a', { y: 1 });
    await client.healthy();
  });

  it('a subscribed directory that is not there counts as empty and is named, until it appears', async () => {
    const APP = { 'part/app/a.rego': 'package part.app\n\nx := 1\n' };
    const TEAM = { 'part/team/t.rego': 'package part.team\n\nx := 1\n' };
    await holdsPolicy(inline, await commit({ ...APP, ...TEAM }));
    const start = (): Promise<StartedClient> =>
      startClient({ serverUrl: server.url, env: { SYNC_POLICY_SUBSCRIPTION_DIRS: 'part/app:part/team' } });
    const missing = (health: unknown): unknown => field(health, 'policy', 'missing_directories');
    const packages = async (client: StartedClient): Promise<unknown> => client.data('/part');
    await using running = await start();
    await running.healthy();
    assert.deepEqual(await packages(running), { app: { x: 1 }, team: { x: 1 } });

    // Its last file goes, and what is beside it changes.
    const gone = await commit({ 'part/team/t.rego': null, 'part/app/a.rego': 'package part.app\n\nx := 2\n' });
    await holdsPolicy(running, gone);
    await using restarted = await start();
    for (const client of [running, restarted]) {
      const { json } = await client.tells('it is named', (health) => missing(health) !== undefined);
      assert.deepEqual(missing(json), ['part/team']);
      await client.healthy();
      assert.deepEqual(await packages(client), { app: { x: 2 } });
      const warned = client.log.filter(({ msg }) => String(msg).startsWith('subscribed directories are not in'));
      assert.deepEqual(
        warned.map((line) => line.missing),
        [['part/team']],
      );
    }
    // OPAL's clients get OPAL's answer.
    const opal = await request(`${server.url}/policy?path=part/app&path=part/team`);
    assert.deepEqual(
      [opal.status, opal.json],
      [404, { detail: 'requested path part/team was not found in the policy repo!' }],
    );

    await commit(TEAM);
    for (const client of [running, restarted]) {
      await client.tells('it is there again', (health) => missing(health) === undefined);
      await client.healthy();
      assert.deepEqual(await packages(client), { app: { x: 2 }, team: { x: 1 } });
    }
  });

  it('a document that was published decides nothing before there is a policy', async () => {
    // The repository is broken: nobody who starts now gets a policy.
    const broken = await commit({ 'first/f.rego': 'package first\n\nallow := nothing(1)\n' });
    await inline.tells('it is refused', (health) => field(health, 'policy', 'last_transaction', 'id') === broken);
    await publish(server.url, { dst_path: '/first/allow', data: true }, { dst_path: '/first/users', data: ['ann'] });
    await using fresh = await startOpa();
    // A document of an earlier run, which no log has any more, where the rule will come.
    const left = { method: 'PUT', body: '"a document"', headers: { 'content-type': 'application/json' } };
    assert.equal((await request(`${fresh.url}/v1/data/first/old`, left)).status, 204);
    await using ofExternal = await startClient({ serverUrl: server.url, engineUrl: fresh.url, env: ENV });
    await using ofEmbedded = await startClient({ serverUrl: server.url, engine: 'embedded', env: ENV });
    await using ofInline = await startClient({ serverUrl: server.url, env: ENV });
    const clients = [ofExternal, ofEmbedded, ofInline];
    for (const client of clients) {
      const { json } = await client.tells('the policy is refused, and the documents wait', (health) => {
        const paths = field(health, 'data', 'awaiting_policy', 'paths');
        const areHere = Array.isArray(paths) && paths.includes('/first/allow') && paths.includes('/first/users');
        return areHere && field(health, 'policy', 'last_transaction') !== null;
      });
      assert.match(policyError(json), /first\/f\.rego/);
      assert.equal((await client.ready()).status, 503);
      assert.deepEqual([await client.query('/first/allow'), await client.data('/first/users')], [undefined, undefined]);
    }
    await commit({ 'first/f.rego': 'package first\n\ndefault allow := false\n\nold := "a rule"\n' });
    for (const client of clients) {
      await client.tells('none waits', (health) => field(health, 'data', 'awaiting_policy') === undefined);
      await client.tells('the one is withheld', (json) =>
        failing(json).some((line) => line.startsWith('/first/allow:')),
      );
      await client.tells('it is ready', (health) => field(health, 'ready') === true);
      await client.holds('/first', { allow: false, old: 'a rule', users: ['ann'] });
    }
    const cleared = ofExternal.log.filter(({ msg }) => msg.startsWith('documents of somebody else'));
    assert.deepEqual(
      cleared.map(({ paths }) => paths),
      [['/first/old']],
    );
    await commit({ 'first/f.rego': null });
    await publish(server.url, { dst_path: '/first', save_method: 'DELETE' });
    for (const client of both) await client.healthy();
  });

  it('while policies change, no published document is ever absent', async () => {
    const first = await commit({
      'app/rbac.rego': 'package app.rbac\n\nx := 0\n',
      'app/data.json': '{"s":0,"t":{"a":0}}',
    });
    const places = ['/app/rbac/dynamic', '/app/t', '/beside'];
    for (const client of both) await holdsPolicy(client, first);
    await publish(server.url, ...places.map((dst_path) => ({ dst_path, data: { d: 1 } })));
    for (const client of both) for (const path of places) await client.holds(path, { d: 1 });

    const seen: unknown[][] = both.map(() => []);
    let done = false;
    const watching = both.map(async (client, index) => {
      while (!done) for (const path of places) seen[index]?.push(await client.data(path));
    });
    try {
      for (let n = 1; n <= 4; n++) {
        const more = n % 2 === 0 ? null : `package app.rbac.more\n\ny := ${n}\n`;
        const hash = await commit({
          'app/rbac.rego': `package app.rbac\n\nx := ${n}\n`,
          'app/more.rego': more,
          'app/data.json': n === 3 ? null : `{"s":${n},"t":{"a":${n}}}`,
        });
        for (const client of both) {
          await holdsPolicy(client, hash);
          assert.equal(await client.query('/app/rbac/x'), n);
        }
        const isWatched = (): boolean => seen.every((looks) => looks.length >= 15 * n);
        await until(isWatched, { withinMs: 20_000, what: 'the documents were looked at' });
      }
    } finally {
      done = true;
      await Promise.all(watching);
    }
    for (const looks of seen) {
      assert.deepEqual(new Set(looks.map((value) => JSON.stringify(value))), new Set(['{"d":1}']));
    }
  });

  it('a force-push reaches the engine as the new head has it', async () => {
    await commit({ 'forced/a.rego': 'package fa\n\nx := 1\n', 'fs/data.json': '{"s":1}' });
    const second = await commit({ 'forced/b.rego': 'package fb\n\nx := 1\n', 'fs/data.json': null });
    for (const client of both) await holdsPolicy(client, second);
    await repo.git('checkout', '--quiet', '--orphan', 'fresh');
    await repo.git('branch', '--delete', '--force', 'master');
    await repo.git('branch', '--move', 'master');
    const forced = await commit({ 'forced/a.rego': 'package fa\n\nx := 3\n', 'forced/b.rego': null });
    for (const client of both) {
      await holdsPolicy(client, forced);
      assert.deepEqual(
        [await client.query('/fa/x'), await client.data('/fb'), await client.data('/fs')],
        [3, undefined, undefined],
      );
      await client.healthy();
    }
  });
});
