import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { backboneOffer } from '../support/backbone-servers.js';
import { cutCable } from '../support/cut-cable.js';
import { clientSettings } from '../support/engine.js';
import { field, request } from '../support/http.js';
import { CLIENT_SETTINGS, createClient, loadSettings } from '../support/library.js';
import { runHere } from '../support/run-here.js';
import { startClient } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** `SYNC_CLIENT_LABELS`: what clients say they are, from the setting to whoever looks. */

const OURS = { 'x-sync-protocol': '2' };
const LABELS = { app: 'billing', zone: 'a' };
const WITHIN = { withinMs: 20_000 };
const redis = await backboneOffer('Redis');

/** The labels of a client in GET /clients; undefined: it is not listed. */
async function labelsAt(url: string, id: string, headers: Record<string, string> = {}): Promise<unknown> {
  const { json } = await request(`${url}/clients?id=${id}`, { headers });
  return field(json, 'clients', 0, 'labels');
}

describe('labels of clients', () => {
  it('are shown by the server and in the terminal, also when the client is away', async () => {
    await using server = await startServer();
    await using cable = await cutCable(server.url);
    await using _client = await startClient({
      serverUrl: cable.url,
      env: { SYNC_CLIENT_ID: 'c', SYNC_CLIENT_LABELS: 'zone=a, app=billing' },
    });
    await until(async () => (await labelsAt(server.url, 'c')) !== undefined, { ...WITHIN, what: 'it is listed' });
    assert.deepEqual(await labelsAt(server.url, 'c'), LABELS);
    const run = async (...args: string[]) =>
      (await runHere('policysync', [...args, '--server-url', server.url])).stdout;
    const say = async (command: string): Promise<void> => {
      const [text, json] = await Promise.all([run(command), run(command, '--json')]);
      assert.match(text, /LABELS[\s\S]*app=billing,zone=a/, command);
      assert.deepEqual(field(JSON.parse(json), 'clients', 0, 'labels'), LABELS, command);
    };
    await Promise.all(['clients', 'status'].map(say));
    cable.cut();
    const away = async () => field((await request(`${server.url}/clients`)).json, 'clients', 0, 'connected') === false;
    await until(away, { ...WITHIN, what: 'it is away' });
    assert.deepEqual(await labelsAt(server.url, 'c'), LABELS);
  });

  it('are those of the last subscription; wrong or missing ones are none, and withhold no update', async () => {
    await using server = await startServer();
    const wrong = [undefined, null, 'app=billing', { 'a b': 'x' }, { app: 'x'.repeat(64) }, { app: 1 }];
    for (const [index, labels] of wrong.entries()) {
      await using peer = await startPeer(server.url, OURS);
      const client_id = `wrong-${index}`;
      const answer = await peer.call('subscribe', { topics: ['policy_data'], client_id, labels });
      assert.equal(field(answer, 'accepted'), true, JSON.stringify(labels));
      assert.deepEqual(await labelsAt(server.url, client_id), {}, JSON.stringify(labels));
    }
    await using peer = await startPeer(server.url, OURS);
    for (const labels of [{ app: 'one' }, { app: 'two' }]) {
      await peer.call('subscribe', { topics: ['policy_data'], client_id: 'c', labels });
      assert.deepEqual(await labelsAt(server.url, 'c'), labels);
    }
  });

  it('of a visible client are visible to a token that is limited to topics', async () => {
    await using server = await startServer(withKeys());
    const limited = { type: 'listener', claims: { permitted_topics: ['a'] } };
    const headers = bearer(await tokenOf(server.url, limited));
    const own = bearer(await tokenOf(server.url, { type: 'client' }));
    await using peer = await startPeer(server.url, { ...OURS, ...own });
    await peer.call('subscribe', { topics: ['a', 'b'], client_id: 'seen', labels: LABELS });
    await using other = await startPeer(server.url, { ...OURS, ...own });
    await other.call('subscribe', { topics: ['b'], client_id: 'unseen', labels: LABELS });
    assert.deepEqual(await labelsAt(server.url, 'seen', headers), LABELS);
    assert.equal(await labelsAt(server.url, 'unseen', headers), undefined);
  });

  it('that are not allowed stop the client at its start, with what is wrong and what is allowed', async () => {
    const run = (labels: string) => runHere('client', ['run'], { SYNC_CLIENT_LABELS: labels });
    const { code, stderr } = await run('app=billing,the zone=a');
    assert.equal(code, 2, stderr);
    assert.match(stderr, /SYNC_CLIENT_LABELS has a label that is not allowed: "the zone" is no key: a key is a letter/);
    const load = (text: string) => loadSettings(CLIENT_SETTINGS, { env: { SYNC_CLIENT_LABELS: text } });
    assert.throws(
      () => load('billing'),
      /SYNC_CLIENT_LABELS must be labels such as app=billing,zone=a; "billing" has no =/,
    );
    assert.deepEqual(load('').values.clientLabels, {});
    assert.deepEqual(clientSettings({ SYNC_CLIENT_LABELS: 'app=billing' }).clientLabels, { app: 'billing' });
    // A program that embeds the client gives an object.
    assert.throws(
      () => createClient({ clientLabels: { 'a b': 'x' } }),
      /clientLabels has a label that is not allowed: "a b"/,
    );
    createClient({ clientLabels: LABELS });
  });
});

describe('labels of a client of another instance', { skip: redis.missing ?? false }, () => {
  it('are shown by each instance', async () => {
    await using backbone = await redis.start();
    const env = { SYNC_BROADCAST_URI: backbone.uri };
    await using one = await startServer(env);
    await using other = await startServer(env);
    await using peer = await startPeer(other.url, OURS);
    await peer.call('subscribe', { topics: ['policy_data'], client_id: 'far', labels: LABELS });
    await using plain = await startPeer(other.url, OURS);
    await plain.call('subscribe', { topics: ['policy_data'], client_id: 'plain' });
    await until(async () => (await labelsAt(one.url, 'plain')) !== undefined, { ...WITHIN, what: 'they are listed' });
    assert.deepEqual(await labelsAt(one.url, 'far'), LABELS);
    assert.deepEqual(await labelsAt(one.url, 'plain'), {});
  });
});
