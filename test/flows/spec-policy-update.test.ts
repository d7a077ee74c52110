import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gitRepo } from '../support/git-repo.js';
import { field, request } from '../support/http.js';
import { startOpa } from '../support/opa.js';
import { recorder } from '../support/recorder.js';
import { following, type StartedClient, startClient } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** The policy flows of the specification with real git, server, client and OPA: what is asked for when, and the file rules. */

async function holdsPolicy(client: StartedClient, hash: string): Promise<void> {
  await client.tells(`it holds ${hash}`, (health) => field(health, 'policy', 'hash') === hash);
}

test('a client asks for the complete bundle at its start, and for deltas from what it holds after a notice and after a reconnect', async () => {
  await using repo = await gitRepo();
  const first = await repo.commit({ 'a.rego': 'package a\n\nx := 1\n', 'b.rego': 'package b\n\nx := 1\n' });
  await using server = await startServer(following(repo));
  await until(async () => (await request(`${server.url}/policy`)).status === 200, { withinMs: 10_000, what: 'policy' });
  await using between = await recorder(server.url);
  const asked = (): string[] => between.seen.map(({ path }) => path).filter((path) => path.startsWith('/policy'));
  await using client = await startClient({ serverUrl: between.url });
  await client.healthy();
  assert.equal(asked()[0], '/policy?path=.');

  const atStart = asked().length;
  const second = await repo.commit({ 'a.rego': 'package a\n\nx := 2\n' });
  await holdsPolicy(client, second);
  await client.answers('/a/x', {}, 2);
  const afterNotice = asked().slice(atStart);
  assert(afterNotice.includes(`/policy?path=.&base_hash=${first}`), String(afterNotice));
  assert(!afterNotice.includes('/policy?path=.'), String(afterNotice));

  const beforeDrop = asked().length;
  between.dropSockets();
  await until(() => asked().length > beforeDrop, { withinMs: 10_000, what: 'the policy is asked for again' });
  assert.deepEqual([...new Set(asked().slice(beforeDrop))], [`/policy?path=.&base_hash=${second}`]);
  const third = await repo.commit({ 'b.rego': null });
  await holdsPolicy(client, third);
  await client.answers('/b/x', {}, undefined);
  assert.equal(await client.query('/a/x'), 2);
});

test('a commit of neither modules nor data is announced to nobody', async () => {
  await using repo = await gitRepo();
  const first = await repo.commit({ 'a/a.rego': 'package a\n' });
  await using server = await startServer(following(repo));
  const serves = (hash: string): Promise<unknown> =>
    until(async () => field((await request(`${server.url}/healthcheck`)).json, 'policy', 'head') === hash, {
      withinMs: 10_000,
      what: `commit ${hash} is served`,
    });
  await serves(first);
  await using peer = await startPeer(server.url);
  await peer.call('subscribe', { topics: ['default:policy:.', 'default:policy:a'] });
  await serves(await repo.commit({ 'a/README.md': 'x', 'a/other.json': '{}' }));
  const third = await repo.commit({ 'a/data.json': '{}' });
  assert.deepEqual(await peer.notified(1), [third]);
});

test('file rules: data lies under its folder and is replaced whole, SYNC_BUNDLE_IGNORE leaves out, the manifest orders', async () => {
  await using repo = await gitRepo();
  await repo.commit({
    'roles/data.json': '{"admin":["write"],"reader":["read"]}',
    'users/eu/user_data.json': '{"ann":"admin"}',
    'other.json': '{"never":"loaded"}',
    'private/data.json': '{"never":"loaded"}',
    'private/p.rego': 'package p\n\nx := 1\n',
    'app/allow.rego': 'package app\n\nimport data.lib\n\nallow := lib.may(input.user)\n',
    'lib/may.rego': 'package lib\n\nmay(user) := data.roles[data.users.eu[user]]\n',
    'order/.manifest': 'first.rego\n',
    'order/first.rego': 'package first\n\nx := 1\n',
  });
  await using server = await startServer({
    ...following(repo),
    SYNC_BUNDLE_IGNORE: 'private/**',
    SYNC_POLICY_REPO_MANIFEST_PATH: 'order',
  });
  await using client = await startClient({ serverUrl: server.url });
  await client.healthy();
  assert.deepEqual(await client.data('/roles'), { admin: ['write'], reader: ['read'] });
  assert.deepEqual(await client.data('/users'), { eu: { ann: 'admin' } });
  assert.deepEqual(await client.query('/app/allow', { user: 'ann' }), ['write']);
  for (const path of ['/never', '/private', '/p', '/other']) assert.equal(await client.data(path), undefined, path);
  const { json } = await request(`${server.url}/policy`);
  assert.deepEqual(field(json, 'manifest'), [
    'order/first.rego',
    'app/allow.rego',
    'lib/may.rego',
    'roles/data.json',
    'users/eu/user_data.json',
  ]);

  await repo.commit({ 'roles/data.json': '{"admin":["everything"]}' });
  await client.holds('/roles', { admin: ['everything'] });
});

const USES_LIB = 'package app\n\nimport data.lib\n\nx := lib.twice(2)\n';

for (const mode of ['inline', 'external'] as const) {
  test(`a module that is listed before what it imports is loaded all the same; without it the commit is refused by name (${mode})`, async () => {
    await using opa = mode === 'external' ? await startOpa() : undefined;
    await using repo = await gitRepo();
    await repo.commit({
      '.manifest': 'a.rego\nz.rego\n',
      'a.rego': USES_LIB,
      'z.rego': 'package lib\n\ntwice(n) := n * 2\n',
    });
    await using server = await startServer(following(repo));
    const engine = opa === undefined ? {} : { engineUrl: opa.url };
    await using client = await startClient({ serverUrl: server.url, ...engine });
    await client.answers('/app/x', {}, 4);
    await client.healthy();

    await repo.commit({ 'z.rego': null });
    const told = await client.tells('it is refused', (health) =>
      String(field(health, 'policy', 'last_transaction', 'error')).includes('a.rego'),
    );
    assert.equal(told.status, 503);
    assert.match(
      String(field(told.json, 'policy', 'last_transaction', 'error')),
      /undefined function data\.lib\.twice/,
    );
    assert.equal(await client.query('/app/x'), 4, 'the last good policy keeps serving');
  });
}

test('an engine that is given a module before what it imports raises an error', async () => {
  await using opa = await startOpa();
  const answer = await request(`${opa.url}/v1/policies/a.rego`, { method: 'PUT', body: USES_LIB });
  assert.equal(answer.status, 400);
  assert.match(answer.text, /undefined function data\.lib\.twice/);
});
