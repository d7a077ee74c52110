import assert from 'node:assert/strict';
import { test } from 'node:test';
import { announced, byWebhook } from '../support/announced.js';
import { gitRepo } from '../support/git-repo.js';
import { field } from '../support/http.js';
import { type LossyWire, lossyWire } from '../support/lossy-wire.js';
import { publish, startClient } from '../support/start-client.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** Between real programs: a notice that is lost on the way is noticed within one heartbeat, and healed by asking. */

const DATA_ONLY = { SYNC_POLICY_UPDATER_ENABLED: 'false' };

function method(frame: unknown): unknown {
  return field(frame, 'request', 'method');
}

/** Seq of a notified data update. */
function seqOf(frame: unknown): unknown {
  return field(frame, 'request', 'arguments', 'data', 'seq');
}

function pulls(wire: LossyWire): string[] {
  return wire.requests.filter((line) => line.startsWith('GET /data/updates'));
}

test('the last notice of all is lost: the next heartbeat tells, and the client asks for just what is missing', async () => {
  await using server = await startServer({ SYNC_HEARTBEAT_INTERVAL: '1' });
  await using wire = await lossyWire(server.url);
  await using client = await startClient({ serverUrl: wire.url, env: DATA_ONLY });
  const first = await publish(server.url, { dst_path: '/a', data: 1 });
  await client.holds('/a', 1);
  await client.healthy();
  const before = pulls(wire).length;

  let beats = 0;
  const beatsAtLoss = new Map<unknown, number>();
  wire.lose = (frame) => {
    if (method(frame) === 'heartbeat') beats++;
    if (method(frame) !== 'notify') return false;
    beatsAtLoss.set(seqOf(frame), beats);
    return true;
  };
  for (let n = 2; n <= 3; n++) {
    const seq = await publish(server.url, { dst_path: '/a', data: n }, { dst_path: `/a${n}`, data: n });
    await until(() => beatsAtLoss.has(seq), { withinMs: 20_000, what: 'the notice is lost' });
    await client.holds('/a', n);
    await client.holds(`/a${n}`, n);
    // One heartbeat that was sent before the update may still have been on its way.
    const needed = beats - (beatsAtLoss.get(seq) ?? 0);
    assert(needed >= 1 && needed <= 2, `${needed} heartbeats`);
  }
  assert.equal(wire.lost.length, 2);
  assert.equal(pulls(wire).length, before + 2, pulls(wire).join('\n'));
  assert.match(pulls(wire).at(-1) ?? '', new RegExp(`after=${first + 1}&`));
  assert.equal(field((await client.health()).json, 'server', 'connections') ?? 1, 1, 'the connection stays');

  wire.lose = (frame) => {
    if (method(frame) === 'heartbeat') beats++;
    return false;
  };
  const now = beats;
  await until(() => beats >= now + 2, { withinMs: 20_000, what: 'two heartbeats' });
  assert.equal(pulls(wire).length, before + 2, 'who has everything asks for nothing');
});

test('a notice in the midst of others is lost: the next one tells, and order per path holds', async () => {
  await using server = await startServer({ SYNC_HEARTBEAT_INTERVAL: '60' });
  await using wire = await lossyWire(server.url);
  const env = { ...DATA_ONLY, SYNC_DATA_TOPICS: 'policy_data,other' };
  await using client = await startClient({ serverUrl: wire.url, env });
  await publish(server.url, { dst_path: '/doc', data: { n: 0 } });
  await client.holds('/doc', { n: 0 });

  const lost = await publish(server.url, { dst_path: '/elsewhere', data: 1, topics: ['nobody'] });
  wire.lose = (frame) => seqOf(frame) === lost + 1 || seqOf(frame) === lost + 2;
  await publish(server.url, { dst_path: '/doc', data: { n: 1 } });
  await publish(server.url, { dst_path: '/doc/m', save_method: 'DELETE' });
  await publish(server.url, { dst_path: '/other', data: 1, topics: ['other'] });
  await client.holds('/other', 1);
  assert.equal(wire.lost.length, 2);
  await publish(server.url, { dst_path: '/doc', save_method: 'PATCH', data: [{ op: 'add', path: '/k', value: 1 }] });
  await client.holds('/doc', { n: 1, k: 1 });
  await client.healthy();
});

test('the notice of a commit is lost: the next heartbeat tells', async () => {
  await using repo = await gitRepo();
  await repo.commit({ 'a.rego': 'package a\n\nx := 1\n' });
  await using server = await startServer({ ...byWebhook(repo), SYNC_HEARTBEAT_INTERVAL: '1' });
  await using wire = await lossyWire(server.url);
  await using client = await startClient({ serverUrl: wire.url });
  await client.answers('/a/x', {}, 1);
  wire.lose = (frame) => method(frame) === 'notify';
  await announced(server, repo, { 'a.rego': 'package a\n\nx := 2\n' });
  await client.answers('/a/x', {}, 2);
  assert.equal(wire.lost.length, 1);
  assert.equal(client.log.filter(({ msg }) => msg === 'subscribed').length, 1);
});
