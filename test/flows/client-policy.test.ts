import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { startOpa } from '../support/opa.js';
import { failing, following, publish, type StartedClient, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** The health document's line about the last policy. */
function policyError(health: unknown): string {
  return String(field(health, 'policy', 'last_transaction', 'error'));
}

async function holdsPolicy(client: StartedClient, hash: string): Promise<void> {
  await client.tells(`it holds ${hash}`, (health) => field(health, 'policy', 'hash') === hash);
}

for (const mode of ['inline', 'external'] as const) {
  test(`a commit that does not compile leaves the last good policy, and is told with its place (${mode})`, async () => {
    await using opa = mode === 'external' ? await startOpa() : undefined;
    await using repo = await gitRepo();
    const good = await repo.commit({
      'a.rego': 'package a\n\nx := 1\n',
      'b.rego': 'package b\n\ny := 1\n',
      's/data.json': '{"s":1}',
    });
    await using server = await startServer(following(repo));
    const engine = opa === undefined ? {} : { engineUrl: opa.url };
    await using client = await startClient({ serverUrl: server.url, ...engine });
    await client.healthy();
    await publish(server.url, { dst_path: '/d', data: 1 });

    const bad = await repo.commit({
      'a.rego': 'package a\n\nx := 2\n',
      'b.rego': 'package b\n\n\ny := nothing(1)\n',
      's/data.json': '{"s":2}',
    });
    const health = await client.tells('it says so', (json) => policyError(json).includes('b.rego'));
    assert.equal(health.status, 503);
    assert.match(policyError(health.json), /b\.rego:4: .*undefined function nothing/);
    assert.equal(field(health.json, 'policy', 'last_transaction', 'id'), bad);
    assert.equal(field(health.json, 'policy', 'hash'), good);
    assert.equal((await client.ready()).status, 200);
    assert.deepEqual([await client.query('/a/x'), await client.query('/b/y'), await client.data('/s/s')], [1, 1, 1]);
    // Data goes on all the same, and does not make it well.
    await publish(server.url, { dst_path: '/d', data: 2 });
    await client.holds('/d', 2);
    assert.equal((await client.health()).status, 503);

    await repo.commit({ 'b.rego': 'package b\n\ny := := 1\n' });
    const again = await client.tells('it says so again', (json) => policyError(json).includes('b.rego:3'));
    assert.match(policyError(again.json), /^b\.rego:3: .*unexpected assign token/);
    assert.equal(await client.query('/b/y'), 1);
    const healed = await repo.commit({ 'b.rego': 'package b\n\ny := 3\n' });
    await holdsPolicy(client, healed);
    await client.healthy();
    assert.deepEqual([await client.query('/a/x'), await client.query('/b/y'), await client.data('/s/s')], [2, 3, 2]);
  });

  test(`a rule at the place of a published document wins, and the document comes back with its removal (${mode})`, async () => {
    await using opa = mode === 'external' ? await startOpa() : undefined;
    await using repo = await gitRepo();
    await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
    await using server = await startServer(following(repo));
    const engine = opa === undefined ? {} : { engineUrl: opa.url };
    await using client = await startClient({ serverUrl: server.url, ...engine });
    await client.healthy();
    await publish(
      server.url,
      { dst_path: '/users/admins', data: ['ann'] },
      { dst_path: '/users/guests', data: ['eve'] },
    );
    await client.holds('/users', { admins: ['ann'], guests: ['eve'] });

    const collides = await repo.commit({ 'u/users.rego': 'package users\n\nadmins := "from a rule"\n' });
    const health = await client.tells('it is withheld', (json) => failing(json).length > 0);
    await holdsPolicy(client, collides);
    assert.equal(health.status, 503);
    assert.match(failing(health.json)[0] ?? '', /^\/users\/admins: .*rule.*u\/users\.rego:3/);
    await client.holds('/users', { admins: 'from a rule', guests: ['eve'] });
    // Another document for the same place is withheld, too; one beside it is not.
    await publish(server.url, { dst_path: '/users/admins', data: ['bob'] }, { dst_path: '/users/others', data: [] });
    await client.holds('/users', { admins: 'from a rule', guests: ['eve'], others: [] });
    await client.tells('the new one is withheld', (json) => failing(json).some((line) => line.includes('users.rego')));

    await repo.commit({ 'u/users.rego': null });
    await client.holds('/users', { admins: ['bob'], guests: ['eve'], others: [] });
    await client.healthy();
  });
}

test('a client gets the directories that it subscribes to, and other commits do not reach it', async () => {
  await using repo = await gitRepo();
  await repo.commit({
    'a/a.rego': 'package a\n\nx := 1\n',
    'a/deep/data.json': '{"d":1}',
    'ab/ab.rego': 'package ab\n\nx := 1\n',
    'b/b.rego': 'package b\n\nx := 1\n',
    'data.json': '{"root":1}',
  });
  await using server = await startServer(following(repo));
  // A client that is there before would be told of the first commit, too, and might ask for it a second time later.
  await until(async () => (await request(`${server.url}/policy`)).status === 200, {
    withinMs: 20_000,
    what: 'the first commit is served',
  });
  const env = { SYNC_POLICY_SUBSCRIPTION_DIRS: './a/:a/deep' };
  await using client = await startClient({ serverUrl: server.url, env });
  await using whole = await startClient({ serverUrl: server.url });
  await client.healthy();
  await whole.healthy();
  assert.deepEqual(await client.data('/a'), { x: 1, deep: { d: 1 } });
  for (const path of ['/ab', '/b', '/root']) assert.equal(await client.data(path), undefined, path);
  const applied = (): number => client.log.filter(({ msg }) => msg === 'policy applied').length;
  assert.equal(applied(), 1);

  const elsewhere = await repo.commit({ 'ab/ab.rego': 'package ab\n\nx := 2\n', 'data.json': '{"root":2}' });
  await holdsPolicy(whole, elsewhere);
  await publish(server.url, { dst_path: '/mark', data: 1 });
  await client.holds('/mark', 1);
  assert.equal(applied(), 1, 'it was not told of a commit elsewhere');

  const deep = await repo.commit({ 'a/deep/data.json': '{"d":2}', 'b/b.rego': 'package b\n\nx := 2\n' });
  await holdsPolicy(client, deep);
  assert.deepEqual(await client.data('/a'), { x: 1, deep: { d: 2 } });
  for (const path of ['/ab', '/b', '/root']) assert.equal(await client.data(path), undefined, path);
  assert.equal(applied(), 2);
  await repo.commit({ 'a/deep/data.json': null, 'a/a.rego': null, 'a/new.rego': 'package a\n\ny := 1\n' });
  await client.holds('/a', { y: 1 });
  await client.healthy();
});

test('a subscription to a directory that does not exist is told, and starts when it appears', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'a/a.rego': 'package a\n\nx := 1\n' });
  await using server = await startServer(following(repo));
  await using client = await startClient({ serverUrl: server.url, env: { SYNC_POLICY_SUBSCRIPTION_DIRS: 'later' } });
  const health = await client.tells('it says so', (json) => /answered 404 /.test(policyError(json)));
  assert.match(policyError(health.json), /later/);
  assert.equal((await client.ready()).status, 503);
  await repo.commit({ 'later/l.rego': 'package l\n\nx := 1\n' });
  await client.healthy();
  assert.equal(await client.query('/l/x'), 1);
});

test('a force-push reaches the engine as the new head has it', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'a.rego': 'package a\n\nx := 1\n', 's/data.json': '{"s":1}' });
  await using server = await startServer(following(repo));
  await using client = await startClient({ serverUrl: server.url });
  await client.healthy();
  const second = await repo.commit({ 'b.rego': 'package b\n\nx := 1\n', 's/data.json': null });
  await holdsPolicy(client, second);
  await repo.git('checkout', '--quiet', '--orphan', 'fresh');
  await repo.git('branch', '--delete', '--force', 'master');
  await repo.git('branch', '--move', 'master');
  const forced = await repo.commit({ 'a.rego': 'package a\n\nx := 3\n', 'b.rego': null });
  await holdsPolicy(client, forced);
  assert.deepEqual(
    [await client.query('/a/x'), await client.data('/b'), await client.data('/s')],
    [3, undefined, undefined],
  );
  await client.healthy();
});

for (const mode of ['inline', 'external'] as const) {
  test(`while policies change, no published document is ever absent (${mode})`, async () => {
    await using opa = mode === 'external' ? await startOpa() : undefined;
    await using repo = await gitRepo();
    await repo.commit({ 'app/rbac.rego': 'package app.rbac\n\nx := 0\n', 'app/data.json': '{"s":0,"t":{"a":0}}' });
    await using server = await startServer(following(repo));
    const engine = opa === undefined ? {} : { engineUrl: opa.url };
    await using client = await startClient({ serverUrl: server.url, ...engine });
    await client.healthy();
    const places = ['/app/rbac/dynamic', '/app/t', '/beside'];
    await publish(server.url, ...places.map((dst_path) => ({ dst_path, data: { d: 1 } })));
    for (const path of places) await client.holds(path, { d: 1 });

    const seen: unknown[] = [];
    let done = false;
    const watching = (async () => {
      while (!done) for (const path of places) seen.push(await client.data(path));
    })();
    try {
      for (let n = 1; n <= 4; n++) {
        const more = n % 2 === 0 ? null : `package app.rbac.more\n\ny := ${n}\n`;
        const hash = await repo.commit({
          'app/rbac.rego': `package app.rbac\n\nx := ${n}\n`,
          'app/more.rego': more,
          'app/data.json': n === 3 ? null : `{"s":${n},"t":{"a":${n}}}`,
        });
        await holdsPolicy(client, hash);
        assert.equal(await client.query('/app/rbac/x'), n);
      }
    } finally {
      done = true;
      await watching;
    }
    assert(seen.length > 50, `${seen.length} looks`);
    assert.deepEqual(new Set(seen.map((value) => JSON.stringify(value))), new Set(['{"d":1}']));
  });
}
