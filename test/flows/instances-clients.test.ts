import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { backboneOffer } from '../support/backbone-servers.js';
import { bareClient } from '../support/bare-client.js';
import { cutCable } from '../support/cut-cable.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { startInstance } from '../support/instance.js';
import { runHere } from '../support/run-here.js';
import { startClient } from '../support/start-client.js';
import { patience, until } from '../support/until.js';

/** What one instance says of the clients of another one, over one of the backbones: all of them pass one suite of stores. */

const TOPIC = 'policy_data';
const redis = await backboneOffer('Redis');
/** An instance is silent after seven seconds; the rest is for a slow machine. */
const GONE_MS = 20_000;

function publishWaiting(url: string, timeout: string): Promise<Answer> {
  const entries = [{ url: '', topics: [TOPIC], dst_path: '/waited', data: { at: Date.now() } }];
  return postJson(`${url}/data/config?wait=applied&timeout=${timeout}`, { entries, reason: 'test' });
}

/** The numbers of GET /stats. */
async function brief(url: string): Promise<unknown> {
  const { json } = await request(`${url}/stats`);
  return { client_count: field(json, 'client_count'), server_count: field(json, 'server_count') };
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

describe('clients of another instance', { skip: redis.missing ?? false, concurrency: true }, () => {
  it('are waited for and shown; while their instance is cut off no answer says that all have an update, and they say so too', async () => {
    await using backbone = await redis.start();
    const uri = new URL(backbone.uri);
    await using cable = await cutCable(`http://127.0.0.1:${uri.port}`);
    const counted = { SYNC_STATISTICS_ENABLED: 'true' };
    await using one = await startInstance({ ...counted, SYNC_BROADCAST_URI: backbone.uri });
    uri.port = new URL(cable.url).port;
    await using other = await startInstance({ ...counted, SYNC_BROADCAST_URI: uri.href });
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

    const noPolicy = { SYNC_POLICY_UPDATER_ENABLED: 'false' };
    await using lenient = await startClient({ serverUrl: other.url, env: { ...noPolicy, SYNC_CLIENT_ID: 'lenient' } });
    const strictly = { ...noPolicy, SYNC_CLIENT_ID: 'strict', SYNC_SERVER_CUT_OFF_UNHEALTHY: 'true' };
    await using strict = await startClient({ serverUrl: other.url, env: strictly });
    for (const client of [lenient, strict]) await client.healthy();
    await shown(one.url, 'far,lenient,strict');
    const [here, there] = [await brief(one.url), await brief(other.url)];
    assert.deepEqual(here, { client_count: 3, server_count: 2 });
    assert.deepEqual(there, here, 'every instance counts the clients and servers of all');
    const { json: statistics } = await request(`${one.url}/statistics`);
    assert.deepEqual(Object.keys(Object(field(statistics, 'clients'))).toSorted(), ['far', 'lenient', 'strict']);
    assert.deepEqual(field(statistics, 'clients', 'far', '0', 'topics'), [TOPIC, 'default:policy:.']);
    assert.equal(field(statistics, 'servers', 'length'), 2);

    const cutMs = Date.now();
    cable.freeze();
    const unsure = await publishWaiting(one.url, '500ms');
    assert.equal(unsure.status, 202, unsure.text);
    assert.match(String(field(unsure.json, 'incomplete')), /^server instance \S+ has not said who is connected to it$/);
    const silent =
      /^server instance \S+ has said nothing for \d+ s, and not all of its clients have come to another one$/;
    await until(async () => silent.test(String((await clientsAt(one.url)).incomplete)), {
      withinMs: GONE_MS,
      what: 'the views say that an instance is silent',
    });
    const still = await publishWaiting(one.url, '100ms');
    assert.deepEqual([still.status, field(still.json, 'away_count')], [202, 3], still.text);
    assert.match(String(field(still.json, 'incomplete')), silent);
    const judged = await runHere('policysync', ['status', '--server-url', one.url, '--fail-on', 'unhealthy']);
    assert.equal(judged.code, 6, judged.stdout + judged.stderr);

    // The instance knows it by itself, and tells its clients since when.
    const since = (health: unknown): number => Date.parse(String(field(health, 'server', 'cut_off_since')));
    const told = await lenient.tells('its server is cut off', (health) => since(health) > 0);
    assert.equal(told.status, 200, 'a backbone that is away takes no application down');
    assert(Math.abs(since(told.json) - cutMs) < 7000 * patience(), `since ${since(told.json)}, cut at ${cutMs}`);
    await strict.tells('it is unhealthy as long as that lasts', (health) => field(health, 'status') === 'unavailable');
    assert.equal(field(await other.health(), 'status'), 'degraded');
    assert.match((await request(`${other.url}/metrics`)).text, /^policysync_log_up 0$/m);
    const { text: metrics } = await request(`${lenient.url}/metrics`);
    assert(Number(/^policysync_server_cut_off_seconds (\S+)$/m.exec(metrics)?.[1]) > 1, metrics);
    const { code, stdout } = await runHere('policysync', [
      'status',
      'client',
      '--client-url',
      lenient.url,
      '--fail-on',
      'away',
    ]);
    assert.equal(code, 5, stdout);
    assert.match(stdout, /Server {4}connected, but it is cut off from its backbone since/);

    cable.mend();
    for (const client of [lenient, strict]) {
      await client.healthy();
      await client.tells('its server is back', (health) => field(health, 'server', 'cut_off_since') === null);
    }
    const again = await publishWaiting(one.url, '20s');
    assert.deepEqual([again.status, field(again.json, 'applied')], [200, 3], again.text);
  });

  it('of an instance that was killed are away once it is started again; one that says goodbye is away nowhere', async () => {
    await using backbone = await redis.start();
    const env = { SYNC_BROADCAST_URI: backbone.uri };
    await using one = await startInstance(env);
    await using other = await startInstance(env);
    await using far = bareClient('far', [TOPIC]);
    await far.connect(other.url);
    const noPolicy = { SYNC_POLICY_UPDATER_ENABLED: 'false', SYNC_CLIENT_ID: 'moves' };
    await using wire = await cutCable(other.url);
    await using moves = await startClient({ serverUrl: wire.url, env: noPolicy });
    await shown(one.url, 'far,moves');
    wire.connectTo(one.url);
    wire.cut();
    wire.mend();
    const isHere = async (): Promise<boolean> => {
      const { instances, own } = await clientsAt(one.url);
      return instances[1] === own;
    };
    await until(isHere, { withinMs: GONE_MS, what: 'it is connected to the first one' });
    await moves.stop();
    // The other instance had it before, and lists it as away no more than this one does.
    for (const { url } of [one, other]) {
      const ids = async (): Promise<string> => {
        const { json } = await request(`${url}/clients`);
        return (field(json, 'clients') as unknown[]).map((client) => field(client, 'client_id')).join();
      };
      await until(async () => (await ids()) === 'far', {
        withinMs: GONE_MS,
        what: 'the client that stopped is not listed',
      });
    }
    await other.kill();
    const unsure = await publishWaiting(one.url, '300ms');
    assert.equal(unsure.status, 202, unsure.text);
    await other.start();
    const known = await until(
      async () => {
        const answer = await publishWaiting(one.url, '1s');
        return answer.status === 200 && answer;
      },
      { withinMs: GONE_MS, what: 'the instance that has its state folder knows who was there' },
    );
    assert.deepEqual(
      [field(known.json, 'applied'), field(known.json, 'away_count'), field(known.json, 'away', 0, 'client_id')],
      [0, 1, 'far'],
      known.text,
    );
    const args = ['publish', '--server-url', one.url, '-t', TOPIC, '--dst-path', '/x', '--data', '1', '--wait', '2'];
    const told = await runHere('policysync', args);
    assert.deepEqual([told.code, /No client is concerned/.test(told.stdout)], [5, false], told.stdout);
    assert.match(
      told.stderr,
      /published, but not applied by 1 client that is away:\n {2}far: away since .*: its server stopped/,
    );
  });
});
