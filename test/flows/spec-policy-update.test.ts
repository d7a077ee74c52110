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

/** The policy flows of specification "Client policy-fetch sequence" with real git, server, client and OPA: what is asked for, and when. */

async function holdsPolicy(client: StartedClient, hash: string): Promise<void> {
  await client.tells(`it holds ${hash}`, (health) => field(health, 'policy', 'hash') === hash);
}

test('a client asks for the complete bundle at its start, and for deltas from what it holds after a notice and after a reconnect', async () => {
  await using repo = await gitRepo();
  const first = await repo.commit({ 'a.rego': 'package a\n\nx := 1\n', 'b.rego': 'package b\n\nx := 1\n' });
  await using server = await startServer(following(repo));
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
  await until(() => asked().length > beforeDrop, { withinMs: 20_000, what: 'the policy is asked for again' });
  assert.deepEqual([...new Set(asked().slice(beforeDrop))], [`/policy?path=.&base_hash=${second}`]);
  const third = await repo.commit({ 'b.rego': null });
  await holdsPolicy(client, third);
  await client.answers('/b/x', {}, undefined);
  assert.equal(await client.query('/a/x'), 2);
});

test('a commit of neither modules nor data is announced to nobody', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'a/a.rego': 'package a\n' });
  await using server = await startServer(following(repo));
  const serves = (hash: string): Promise<unknown> =>
    until(async () => field((await request(`${server.url}/healthcheck`)).json, 'policy', 'head') === hash, {
      withinMs: 20_000,
      what: `commit ${hash} is served`,
    });
  await using peer = await startPeer(server.url);
  await peer.call('subscribe', { topics: ['default:policy:.', 'default:policy:a'] });
  await serves(await repo.commit({ 'a/README.md': 'x', 'a/other.json': '{}' }));
  const third = await repo.commit({ 'a/data.json': '{}' });
  assert.deepEqual(await peer.notified(1), [third]);
});

test('an engine that is given a module before what it imports raises an error', async () => {
  await using opa = await startOpa();
  const body = 'package app\n\nimport data.lib\n\nx := lib.twice(2)\n';
  const answer = await request(`${opa.url}/v1/policies/a.rego`, { method: 'PUT', body });
  assert.equal(answer.status, 400);
  assert.match(answer.text, /undefined function data\.lib\.twice/);
});
