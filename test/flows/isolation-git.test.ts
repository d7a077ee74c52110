import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { type GitHttpServer, gitHttpServer } from '../support/git-http-server.js';
import { gitRepoAt } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { publish, startClient } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { tempDir } from '../support/temp-dir.js';
import { until } from '../support/until.js';

/** How often everything is asked while the remote hangs. */
const ROUNDS = 20;

/** Lets nothing of a git server through until `open` is called. */
function hold(git: GitHttpServer): { readonly held: number; open(): void } {
  let held = 0;
  const { promise, resolve } = deferred();
  git.hold = () => {
    held++;
    return promise;
  };
  return {
    get held() {
      return held;
    },
    open: () => {
      git.hold = undefined;
      resolve();
    },
  };
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

test('a git remote that hangs holds up no publisher, no bundle, no client, no health check and no webhook', async () => {
  await using dir = await tempDir();
  const repo = await gitRepoAt(`${dir.path}/repo`);
  const first = await repo.commit({ 'app/rule.rego': 'package app\n\nversion := 1\n' });
  const second = await repo.commit({ 'app/rule.rego': 'package app\n\nversion := 2\n' });
  await using git = await gitHttpServer(dir.path);
  const url = `${git.url}/repo/.git`;
  await using server = await startServer({
    ...{ SYNC_POLICY_REPO_URL: url, SYNC_POLICY_REPO_POLLING_INTERVAL: '0.1' },
    SYNC_POLICY_REPO_SILENCE_TIMEOUT: '120',
  });
  await using early = await startClient({ serverUrl: server.url });
  await early.answers('/app/version', {}, 2);

  const gate = hold(git);
  await until(() => gate.held > 0, { withinMs: 20_000, what: 'a look at the remote hangs' });
  const third = await repo.commit({ 'app/rule.rego': 'package app\n\nversion := 3\n' });
  const { held } = gate;
  await using peer = await startPeer(server.url);
  await peer.call('subscribe', { topics: ['policy_data'] });
  for (let round = 1; round <= ROUNDS; round++) {
    await publish(server.url, { dst_path: `/round/${round}`, data: round });
    for (const query of ['', '?path=app', `?base_hash=${first}`, `?base_hash=${'0'.repeat(40)}`]) {
      const bundle = await request(`${server.url}/policy${query}`);
      assert.deepEqual([bundle.status, field(bundle.json, 'hash')], [200, second], query);
    }
    const body = { ref: 'refs/heads/master', repository: { clone_url: url, full_name: 'repo' } };
    const webhook = await postJson(`${server.url}/webhook`, body, { 'x-github-event': 'push' });
    assert.equal(webhook.status, 200);
    assert.equal((await request(`${server.url}/healthcheck`)).status, 200);
  }
  await peer.notified(ROUNDS);
  const rounds = Object.fromEntries(Array.from({ length: ROUNDS }, (_, index) => [String(index + 1), index + 1]));
  await early.holds('/round', rounds);
  await using late = await startClient({ serverUrl: server.url });
  await late.answers('/app/version', {}, 2);
  await late.holds('/round', rounds);
  assert.equal(gate.held, held, 'the same look hangs all the time');

  gate.open();
  await until(async () => field((await request(`${server.url}/policy`)).json, 'hash') === third, {
    withinMs: 15_000,
    what: 'the commit that came meanwhile is served',
  });
  for (const client of [early, late]) await client.answers('/app/version', {}, 3);
});

test('a git remote that hangs from the start keeps nobody from data', async () => {
  await using dir = await tempDir();
  const repo = await gitRepoAt(`${dir.path}/repo`);
  await repo.commit({ 'app/rule.rego': 'package app\n\nversion := 1\n' });
  await using git = await gitHttpServer(dir.path);
  const gate = hold(git);
  const silence = { SYNC_POLICY_REPO_SILENCE_TIMEOUT: '120' };
  await using server = await startServer({ SYNC_POLICY_REPO_URL: `${git.url}/repo/.git`, ...silence });
  await using client = await startClient({ serverUrl: server.url });
  await using dataOnly = await startClient({
    serverUrl: server.url,
    env: { SYNC_POLICY_UPDATER_ENABLED: 'false' },
  });
  await until(() => gate.held > 0, { withinMs: 20_000, what: 'the first fetch hangs' });
  for (let round = 1; round <= ROUNDS; round++) await publish(server.url, { dst_path: '/round', data: round });
  await dataOnly.holds('/round', ROUNDS);
  // Where rules may come, the engine gets no document before them; all of it is here.
  const waits = (health: unknown): boolean =>
    isDeepStrictEqual(field(health, 'data', 'awaiting_policy'), { total: 1, paths: ['/round'] });
  await client.tells('the last one waits for the policy', waits);
  assert.equal(await client.data('/round'), undefined);
  assert.equal((await request(`${server.url}/policy`)).status, 503);
  assert.equal((await request(`${server.url}/`)).status, 200);
  gate.open();
  await client.answers('/app/version', {}, 1);
  await client.holds('/round', ROUNDS);
});
