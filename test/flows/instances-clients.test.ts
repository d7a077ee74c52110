import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { backboneOffer } from '../support/backbone-servers.js';
import { bareClient } from '../support/bare-client.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { startInstance } from '../support/instance.js';
import { startPeer } from '../support/start-peer.js';
import { until } from '../support/until.js';

/** What one instance says of the clients of another one, over one of the backbones: all of them pass one suite of stores. */

const TOPIC = 'policy_data';
const redis = await backboneOffer('Redis');
/** What an instance says of its clients counts for ten seconds after its end; the rest is for a slow machine. */
const GONE_MS = 20_000;

function publishWaiting(url: string, timeout: string): Promise<Answer> {
  const entries = [{ url: '', topics: [TOPIC], dst_path: '/waited', data: { at: Date.now() } }];
  return postJson(`${url}/data/config?wait=applied&timeout=${timeout}`, { entries, reason: 'test' });
}

/** What GET /clients answers: the ids of those that are connected, and the rest. */
async function clientsAt(
  url: string,
): Promise<{ ids: string; instances: unknown[]; own: unknown; incomplete: unknown }> {
  const { json } = await request(`${url}/clients`);
  const clients = field(json, 'clients');
  assert(Array.isArray(clients));
  const here = clients.filter((client) => field(client, 'connected') === true);
  return {
    ids: here.map((client) => field(client, 'client_id')).join(),
    instances: here.map((client) => field(client, 'instance')),
    own: field(json, 'instance'),
    incomplete: field(json, 'incomplete'),
  };
}

function shown(url: string, ids: string): Promise<unknown> {
  return until(async () => (await clientsAt(url)).ids === ids, { withinMs: GONE_MS, what: `the clients ${ids}` });
}

describe('clients of another instance', { skip: redis.missing ?? false }, () => {
  it('are waited for and shown; when their instance is killed that is said, and they are gone in a bounded time', async () => {
    await using backbone = await redis.start();
    const env = { SYNC_BROADCAST_URI: backbone.uri };
    await using one = await startInstance(env);
    await using other = await startInstance(env);
    await using far = bareClient('far', [TOPIC]);
    await far.connect(other.url);
    await shown(one.url, 'far');
    const { instances, own } = await clientsAt(one.url);
    assert.notEqual(instances[0], own);
    const applied = await publishWaiting(one.url, '20s');
    assert.deepEqual([applied.status, field(applied.json, 'applied')], [200, 1], applied.text);
    assert.equal(field(applied.json, 'seq'), far.seqs.at(-1));
    assert.equal(field(applied.json, 'subscribers'), 1);

    // What became of it, also by the memory of the other instance: it alone got the report.
    const { json: trace } = await until(
      async () => {
        const answer = await request(`${one.url}/trace/${field(applied.json, 'seq')}`);
        return field(answer.json, 'clients', '0', 'applied_seen_at') === null ? undefined : answer;
      },
      { withinMs: GONE_MS, what: 'the other instance tells when its client applied it' },
    );
    const stages = field(trace, 'stages') as { stage: string; instance: string | null }[];
    const announced = stages.filter(({ stage }) => stage === 'announced').map(({ instance }) => instance);
    assert.deepEqual(announced.toSorted(), [own, instances[0]].toSorted());
    assert.deepEqual(
      stages.filter(({ stage }) => stage === 'received').map(({ instance }) => instance),
      [own],
    );
    assert.deepEqual([field(trace, 'counts'), field(trace, 'convergence', 'clients')], [{ applied: 1 }, 1]);

    const mute = await startPeer(other.url, { 'x-sync-protocol': '2' });
    try {
      await mute.call('subscribe', { topics: [TOPIC], client_id: 'mute' });
      await shown(one.url, 'far,mute');
      const lagging = await publishWaiting(one.url, '3s');
      assert.deepEqual([lagging.status, field(lagging.json, 'lagging', 0, 'client_id')], [202, 'mute'], lagging.text);
      await other.kill();
    } finally {
      await mute[Symbol.asyncDispose]();
    }
    const killedMs = performance.now();
    const unsure = await publishWaiting(one.url, '500ms');
    assert.equal(unsure.status, 202, unsure.text);
    assert.match(String(field(unsure.json, 'incomplete')), /^server instance \S+ has not said who is connected to it$/);
    await until(async () => /has said nothing for \d+ s/.test(String((await clientsAt(one.url)).incomplete)), {
      withinMs: GONE_MS,
      what: 'the views say that an instance is silent',
    });
    await shown(one.url, '');
    assert(performance.now() - killedMs < GONE_MS);
    // They may still be connected to it, where nobody hears of them.
    assert.match(
      String((await clientsAt(one.url)).incomplete),
      /^server instance \S+ is gone, and not all of its clients /,
    );
    const nobody = await publishWaiting(one.url, '5s');
    assert.deepEqual([nobody.status, field(nobody.json, 'applied')], [200, 0], nobody.text);

    await far.connect(one.url);
    await shown(one.url, 'far');
    assert.equal(far.seqs.at(-1), field(nobody.json, 'seq'), 'it has what it missed');
    assert.match(
      String((await clientsAt(one.url)).incomplete),
      /is gone, and not all of its clients have come to another one$/,
    );
  });
});
