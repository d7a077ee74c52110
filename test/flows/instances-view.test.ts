import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { FleetInstance } from '../../src/wire/fleet.js';
import type { InstancesAnswer, MinutePoint } from '../../src/wire/fleet-views.js';
import { LATENCY_BUCKETS } from '../../src/wire/latency-buckets.js';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { type BackboneServer, backboneOffer } from '../support/backbone-servers.js';
import { bareClient } from '../support/bare-client.js';
import { field, postJson, request } from '../support/http.js';
import { type Instance, startInstance } from '../support/instance.js';
import { startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const TOPIC = 'policy_data';
const WITHIN = { withinMs: 40_000 };

async function instances(url: string): Promise<InstancesAnswer> {
  const { status, json, text } = await request(`${url}/instances`);
  assert.equal(status, 200, text);
  return json as InstancesAnswer;
}

async function publish(url: string, path: string): Promise<number> {
  const entries = [{ url: '', topics: [TOPIC], dst_path: path, data: path }];
  const answer = await postJson(`${url}/data/config`, { entries });
  assert.equal(answer.status, 200, answer.text);
  return Number(field(answer.json, 'seq'));
}

/** All minutes of one instance together: the test may run across the end of a minute. */
function sum(points: readonly MinutePoint[], of: (point: MinutePoint) => number): number {
  return points.reduce((total, point) => total + of(point), 0);
}

/** Waits until an instance says that all are in these states. */
async function states(url: string, wanted: Readonly<Record<string, string>>): Promise<InstancesAnswer> {
  let last: InstancesAnswer | undefined;
  try {
    return await until(
      async () => {
        last = await instances(url);
        const found = Object.fromEntries(last.instances.map(({ instance, state }) => [instance, state]));
        return Object.entries(wanted).every(([instance, state]) => found[instance] === state) && last;
      },
      { ...WITHIN, what: JSON.stringify(wanted) },
    );
  } catch (cause) {
    throw new Error(JSON.stringify(last?.instances, null, 1), { cause });
  }
}

describe('GET /instances', () => {
  it('has the log, its durability, and what happened in the last hour, of a server alone', async () => {
    await using server: StartedServer = await startServer({ SYNC_HEARTBEAT_INTERVAL: '1' });
    await using client = bareClient('bare', [TOPIC]);
    await client.connect(server.url);
    for (const path of ['/a', '/b', '/a']) await publish(server.url, path);
    assert.equal(
      (await postJson(`${server.url}/data/config`, { entries: [] })).status,
      422,
      'it never gets to be a publish',
    );
    const answer = await until(
      async () => {
        const now = await instances(server.url);
        const points = now.hours[0]?.points ?? [];
        return sum(points, ({ latency }) => sum2(latency)) === 3 && points.at(-1)?.clients === 1 && now;
      },
      { ...WITHIN, what: 'the client has applied all three' },
    );
    assert.equal(answer.backbone, 'none');
    assert.match(answer.durability.kind, /^(durable|weak)$/);
    const { bytes, epoch, ...log } = answer.log;
    assert.deepEqual(log, { head: 3, begins_at: 1, documents: 2 });
    assert((bytes ?? 0) > 4096, `${bytes} bytes of a SQLite file`);
    assert(epoch.length > 8);
    assert.deepEqual(answer.buckets, [...LATENCY_BUCKETS]);
    const [own] = answer.instances;
    const points = answer.hours[0]?.points ?? [];
    assert.deepEqual([own?.here, own?.state, own?.clients, own?.log_at, own?.source], [true, 'in_step', 1, 3, 'none']);
    assert((own?.memory_bytes ?? 0) > 10_000_000 && own?.backbone_ms === null && own.version !== null);
    assert.equal(typeof own?.loop_delay_ms, 'number');
    assert.deepEqual([answer.hours[0]?.instance, answer.hours[0]?.name], [own?.instance, own?.name]);
    assert.deepEqual(
      [
        sum(points, (one) => one.publishes),
        sum(points, (one) => one.deliveries),
        sum(points, (one) => one.publish_refused),
      ],
      [3, 3, 0],
    );
    const busy = points.find(({ publishes }) => publishes > 0);
    const [p50, p99] = [busy?.publish_p50_ms ?? 0, busy?.publish_p99_ms ?? 0];
    assert(p50 > 0 && p99 >= p50 && p99 < 30_000, `${p50} ${p99}`);
    assert(points.every(({ at, latency }) => at % 60_000 === 0 && latency.length === LATENCY_BUCKETS.length + 1));
  });

  it('shows a limited token what it may see', async () => {
    await using server = await startServer(withKeys());
    const token = async (more: object): Promise<Record<string, string>> => bearer(await tokenOf(server.url, more));
    const ops = await token({ type: 'datasource' });
    for (const topic of ['x', 'y']) {
      const entries = [{ url: '', topics: [topic], dst_path: `/${topic}`, data: 1 }];
      assert.equal((await postJson(`${server.url}/data/config`, { entries }, ops)).status, 200);
      await using client = await startPeer(server.url, {
        'x-sync-protocol': '2',
        ...(await token({ type: 'client' })),
      });
      await client.call('subscribe', { topics: [topic], client_id: topic });
      const limited = await token({ type: 'listener', claims: { permitted_topics: ['x'] } });
      const { json } = await request(`${server.url}/instances`, { headers: limited });
      const { instances: all, log, hours } = json as InstancesAnswer;
      const seen = [all[0]?.clients, log.documents, log.bytes, hours[0]?.points.length];
      assert.deepEqual(seen, [topic === 'x' ? 1 : 0, 1, null, 0], topic);
      const whole = (await request(`${server.url}/instances`, { headers: ops })).json as InstancesAnswer;
      assert.deepEqual([whole.instances[0]?.clients, whole.log.documents], [1, topic === 'x' ? 1 : 2], topic);
      assert((whole.hours[0]?.points.length ?? 0) > 0);
    }
  });

  it('counts publishes that were refused', async () => {
    await using server = await startServer({ SYNC_DATA_UPDATE_INLINE_LIMIT_BYTES: '1024' });
    const entries = [
      { url: '', topics: [TOPIC], dst_path: '/a', save_method: 'PATCH', data: [{ op: 'add', path: '/-', value: 1 }] },
    ];
    const { status } = await postJson(`${server.url}/data/config`, { entries });
    assert(status >= 400 && status < 500, String(status));
    const { hours } = await instances(server.url);
    const points = hours[0]?.points ?? [];
    assert.deepEqual([sum(points, (one) => one.publishes), sum(points, (one) => one.publish_refused)], [0, 1]);
  });
});

function sum2(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

const offer = await backboneOffer('Redis');

describe('two instances on one backbone', { skip: offer.missing ?? false }, () => {
  let backbone: BackboneServer;
  let [first, second]: Instance[] = [];
  /** The second one, killed while the backbone was away. */
  let gone = '';
  const urls = (): [string, string] => [first?.url ?? '', second?.url ?? ''];

  before(async () => {
    backbone = await offer.start();
    const env = { SYNC_BROADCAST_URI: backbone.uri, SYNC_HEARTBEAT_INTERVAL: '1', SYNC_DRAIN_DELAY: '2' };
    first = await startInstance(env);
    second = await startInstance(env);
  });
  after(async () => {
    await first?.[Symbol.asyncDispose]();
    await second?.[Symbol.asyncDispose]();
    await backbone?.[Symbol.asyncDispose]();
  });

  it('each shows both, with what each says of itself, and its round trip to the backbone', async () => {
    const [one, other] = urls();
    await using client = bareClient('bare', [TOPIC]);
    await client.connect(other);
    await publish(one, '/shared');
    const whole = ({ instances: all }: InstancesAnswer): boolean =>
      all.length === 2 && all.every(({ backbone_ms: ms, state }) => ms !== null && state === 'in_step');
    const answers = await Promise.all(
      [one, other].map((url) =>
        until(
          async () => {
            const answer = await instances(url);
            const clients = answer.instances.map((each) => each.clients);
            return whole(answer) && sum2(clients) === 1 && answer;
          },
          { ...WITHIN, what: `${url} knows all of both` },
        ),
      ),
    );
    const byId = (all: readonly FleetInstance[]): unknown[] =>
      all
        .map(({ instance, name, version, started_at }) => ({ instance, name, version, started_at }))
        .sort((a, b) => (a.instance < b.instance ? -1 : 1));
    assert.deepEqual(byId(answers[0]?.instances ?? []), byId(answers[1]?.instances ?? []), 'both say the same');
    for (const { instances: all, backbone: kind, hours, incomplete, log } of answers) {
      assert.deepEqual(
        [kind, incomplete, all.map(({ here }) => here), hours.length],
        ['redis', null, [true, false], 2],
      );
      assert(all.every(({ memory_bytes: bytes }) => (bytes ?? 0) > 10_000_000));
      assert.equal(new Set(all.map(({ name }) => name)).size, 2, 'also on one host');
      assert.deepEqual(
        hours.map(({ instance }) => instance),
        all.map(({ instance }) => instance),
      );
      assert.equal(log.begins_at, 1);
    }
    assert.equal(answers[0]?.instances[0]?.instance, answers[1]?.instances[1]?.instance);
  });

  it('one that drains says so, and leaves without a trace', async () => {
    const [one, other] = urls();
    const leaving = (await instances(other)).instances[0]?.instance ?? '';
    await states(one, { [leaving]: 'in_step' });
    const ended = second?.terminate();
    await states(one, { [leaving]: 'draining' });
    await ended;
    await until(async () => (await instances(one)).instances.length === 1, { ...WITHIN, what: 'it is gone' });
    await second?.start();
  });

  it('without the backbone an instance says that it is away, and shows what it knows', async () => {
    const [one, other] = urls();
    const [own] = (await instances(one)).instances.map(({ instance }) => instance);
    gone = (await instances(other)).instances[0]?.instance ?? '';
    assert(own !== undefined);
    await states(one, { [own]: 'in_step', [gone]: 'in_step' });
    await backbone.kill();
    const away = await states(one, { [own]: 'backbone_away', [gone]: 'silent' });
    assert(away.incomplete !== null && away.log.begins_at >= 0);
    assert.equal(away.instances.find(({ here }) => here)?.backbone_ms, null);
    await second?.kill();
    await backbone.start();
    await states(one, { [own]: 'in_step', [gone]: 'silent' });
  });

  it('one without a word is silent, and is forgotten when it has come back as another', async () => {
    const [one, other] = urls();
    const { instances: all } = await states(one, { [gone]: 'silent' });
    assert.equal(all.length, 2);
    await second?.start();
    const back = (await instances(other)).instances[0]?.instance ?? '';
    assert.notEqual(back, gone);
    const again = await until(
      async () => {
        const answer = await states(one, { [back]: 'in_step' });
        return answer.instances.length === 2 && answer;
      },
      { ...WITHIN, what: 'the old one is no longer listed' },
    );
    assert(again.instances.every(({ instance }) => instance !== gone));
  });
});
