import assert from 'node:assert/strict';
import { test } from 'node:test';
import { announced, byWebhook } from '../support/announced.js';
import { startDataSource } from '../support/data-source.js';
import { freeze, isStopped } from '../support/frozen-process.js';
import { gitRepo } from '../support/git-repo.js';
import { field, postJson } from '../support/http.js';
import { startOpa } from '../support/opa.js';
import { publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const ROUNDS = 20;

test('an engine that stands still stops neither its client from fetching nor other clients, and gets everything in order', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'app/rule.rego': 'package app\n\nversion := 1\n' });
  await using source = await startDataSource();
  await using server = await startServer(byWebhook(repo));
  await using opa = await startOpa({ args: ['--v0-compatible=false'] });
  const env = {
    SYNC_POLICY_STORE_LIVENESS_PROBE_TIMEOUT_SECONDS: '0.2',
    SYNC_POLICY_STORE_TIMEOUT: '1',
  };
  await using hit = await startClient({
    serverUrl: server.url,
    engineUrl: opa.url,
    env: { ...env, SYNC_CLIENT_ID: 'hit' },
  });
  await using other = await startClient({ serverUrl: server.url, env: { ...env, SYNC_CLIENT_ID: 'other' } });
  for (const client of [hit, other]) {
    await client.healthy();
    await client.answers('/app/version', {}, 1);
  }
  await publish(server.url, { dst_path: '/counter', data: { n: 0 } });
  for (const client of [hit, other]) await client.holds('/counter', { n: 0 });

  await using frozen = await freeze(opa.pid);
  await hit.tells('its engine does not answer', (health) => field(health, 'engine', 'online') === false);
  for (let round = 1; round <= ROUNDS; round++) {
    source.serve(`/doc/${round}`, { round });
    await publish(
      server.url,
      { dst_path: '/counter', save_method: 'PATCH', data: [{ op: 'replace', path: '/n', value: round }] },
      { dst_path: '/same', data: round },
      { url: `${source.url}/doc/${round}`, dst_path: `/docs/${round}` },
    );
  }
  await announced(server, repo, { 'app/rule.rego': 'package app\n\nversion := 2\n' });
  const documents = Object.fromEntries(
    Array.from({ length: ROUNDS }, (_, index) => [String(index + 1), { round: index + 1 }]),
  );
  await other.holds('/counter', { n: ROUNDS });
  await other.holds('/same', ROUNDS);
  await other.holds('/docs', documents);
  await other.answers('/app/version', {}, 2);
  await until(() => source.count() === 2 * ROUNDS, { withinMs: 15_000, what: 'both clients have read every document' });
  assert.equal(hit.log.filter(({ msg }) => msg === 'data update received').length, ROUNDS + 1);
  const late = await postJson(`${server.url}/data/config?wait=applied&timeout=1s`, {
    entries: [{ url: '', topics: ['policy_data'], dst_path: '/waited', data: 1 }],
    reason: 'test',
  });
  assert.equal(late.status, 202);
  assert.equal(field(late.json, 'applied'), 1);
  assert.equal(field(late.json, 'lagging', 0, 'client_id'), 'hit');
  assert.equal((await hit.health()).status, 503);
  assert.equal((await other.health()).status, 200);
  assert(isStopped(opa.pid), 'all of it while the engine stood still');

  const seen: number[] = [];
  frozen.thaw();
  await until(
    async () => {
      seen.push(Number(field(await hit.data('/counter'), 'n')));
      return seen.at(-1) === ROUNDS;
    },
    { withinMs: 15_000, what: 'the engine has the last patch' },
  );
  assert.deepEqual(
    seen,
    seen.toSorted((a, b) => a - b),
    'it never went back',
  );
  await hit.healthy();
  await hit.holds('/same', ROUNDS);
  await hit.holds('/docs', documents);
  await hit.holds('/waited', 1);
  await hit.answers('/app/version', {}, 2);
  assert.equal(source.count(), 2 * ROUNDS, 'nothing was read again for it');
});
