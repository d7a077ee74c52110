import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type BackboneKind, type BackboneServer, backboneOffer } from './backbone-servers.js';
import { type BareClient, bareClient } from './bare-client.js';
import { type Cable, cutCable } from './cut-cable.js';
import { linesThatSay } from './frozen-process.js';
import { type GitRepo, gitRepoAt } from './git-repo.js';
import { field, postJson, request } from './http.js';
import { agree, type Instance, startInstance } from './instance.js';
import { startLoad } from './load.js';
import { publish, type StartedClient, startClient } from './start-client.js';
import { tempDir } from './temp-dir.js';
import { until } from './until.js';

const TOPIC = 'policy_data';
const IS_LONG = process.env.SYNC_TEST_LONG === '1';
/** 20 seconds are what is promised; ordinary runs show the same in less. */
const AWAY_MS = IS_LONG ? 20_000 : 1000;
/** Calls wait for five seconds before they count as unanswered. */
const NO_FREEZE = 'only with SYNC_TEST_LONG=1: a short freeze is not even noticed';
const WITHIN = { withinMs: 20_000 };
/** What an instance logs of a loss. */
const LOST = 'the backbone is lost';
/** How a program ends whose backbone was emptied. */
const ENDED = /^policysync: \w+ at 127\.0\.0\.1:\d+: the update log (was|has) /;
const OURS = { 'x-sync-protocol': '2' };
const CLIENT_IDS = ['bare-0', 'bare-1', 'real'];

/** Two server processes, three clients and a repository, over one backbone. */
interface Fleet {
  readonly backbone: BackboneServer;
  readonly repo: Omit<GitRepo, typeof Symbol.asyncDispose>;
  readonly instances: readonly [Instance, Instance];
  /** One at each instance. */
  readonly bare: readonly [BareClient, BareClient];
  readonly real: StartedClient;
  /** Between the real client and the instance that it is connected to: the first one. */
  readonly cable: Cable;
}

/** What several instances on one backbone promise (design D14, D24), with real processes. */
export async function instancesSuite(kind: BackboneKind): Promise<void> {
  const offer = await backboneOffer(kind);
  describe(`two server instances over ${kind}`, { skip: offer.missing ?? false }, () => {
    const ends: (() => PromiseLike<void>)[] = [];
    const use = <T extends AsyncDisposable>(part: T): T => {
      ends.push(() => part[Symbol.asyncDispose]());
      return part;
    };
    let fleet: Fleet;
    before(async () => {
      const dir = use(await tempDir());
      const repo = await gitRepoAt(join(dir.path, 'repo'));
      await repo.commit({ 'app.rego': 'package app\n\nversion := 1\n' });
      const backbone = use(await offer.start());
      const env = {
        SYNC_BROADCAST_URI: backbone.uri,
        SYNC_BROADCAST_NATS_SYNC_ALWAYS: 'true',
        SYNC_POLICY_REPO_URL: repo.url,
        SYNC_HEARTBEAT_INTERVAL: '1',
      };
      const instances = [use(await startInstance(env)), use(await startInstance(env))] as const;
      const cable = use(await cutCable(instances[0].url));
      const bare = [use(bareClient('bare-0', [TOPIC])), use(bareClient('bare-1', [TOPIC]))] as const;
      await Promise.all([bare[0].connect(instances[0].url), bare[1].connect(instances[1].url)]);
      const real = use(await startClient({ serverUrl: cable.url, env: { SYNC_CLIENT_ID: 'real' } }));
      await real.answers('/app/version', {}, 1);
      fleet = { backbone, repo, instances, bare, real, cable };
    });
    after(async () => {
      for (const end of ends.reverse()) await end();
    });

    it('what is published on either instance reaches the clients of both, in one order', () => oneOrder(fleet));
    it('wait=applied and GET /clients cover the clients of both', () => coversFleet(fleet));
    it('a commit that one instance hears of by webhook is served by both', () => oneHead(fleet));
    it('clients of an instance that is killed go on at the other with their position, and miss nothing', () =>
      killed(fleet));
    it(`the backbone is killed for ${AWAY_MS / 1000} s under load: refused meanwhile, nothing lost, no split`, () =>
      away(fleet, 'killed'));
    it(
      `the backbone is frozen for ${AWAY_MS / 1000} s under load: the same`,
      { skip: IS_LONG ? false : NO_FREEZE },
      () => away(fleet, 'frozen'),
    );
    it('a backbone that comes back empty ends the instances; started again they go on, and clients remove nothing', () =>
      replaced(fleet));
  });
}

async function oneOrder({ instances, bare, real }: Fleet): Promise<void> {
  const [first] = await Promise.all(
    Array.from({ length: 40 }, (_, at) =>
      publish(instances[at % 2]?.url ?? '', { dst_path: `/order/p${at % 5}`, data: at }),
    ),
  );
  assert(first !== undefined);
  const last = await publish(instances[1].url, { dst_path: '/order/end', data: true });
  await until(() => bare.every(({ seqs }) => seqs.includes(last)), { ...WITHIN, what: 'both have the last one' });
  assert.deepEqual(bare[0].seqs, bare[1].seqs);
  assert.equal(bare[0].seqs.length, 41);
  assert.deepEqual(
    bare[0].seqs,
    bare[0].seqs.toSorted((a, b) => a - b),
  );
  await real.holds('/order/end', true);
  const folds = await Promise.all(instances.map(foldOf));
  assert.deepEqual(field(folds[0], 'entries'), field(folds[1], 'entries'));
  await real.holds('/order', documentOf(folds[0], '/order/'));
}

/** What a client of ours gets: entries with their places. */
async function foldOf({ url }: Instance): Promise<unknown> {
  return (await request(`${url}/data/config`, { headers: OURS })).json;
}

/** What inline entries below a path amount to. */
function documentOf(config: unknown, below: string): Record<string, unknown> {
  const entries = field(config, 'entries');
  assert(Array.isArray(entries));
  const wanted = entries.filter((entry) => String(field(entry, 'dst_path')).startsWith(below));
  return Object.fromEntries(
    wanted.map((entry) => [String(field(entry, 'dst_path')).slice(below.length), field(entry, 'data')]),
  );
}

async function coversFleet({ instances, real }: Fleet): Promise<void> {
  for (const [at, { url }] of instances.entries()) {
    await until(async () => (await connected(url)).join() === CLIENT_IDS.join(), { ...WITHIN, what: 'all are listed' });
    const body = { entries: [{ url: '', topics: [TOPIC], dst_path: '/waited', data: at }], reason: 'test' };
    const answer = await postJson(`${url}/data/config?wait=applied&timeout=9s`, body);
    assert.deepEqual([answer.status, field(answer.json, 'applied')], [200, 3], answer.text);
    assert.equal(await real.data('/waited'), at, 'without a wait: that is what the answer says');
  }
}

async function connected(url: string): Promise<string[]> {
  const { json } = await request(`${url}/clients`);
  const clients = field(json, 'clients');
  assert(Array.isArray(clients));
  const here = clients.filter((client) => field(client, 'connected') === true && field(client, 'ready') === true);
  return here.map((client) => String(field(client, 'client_id'))).sort();
}

async function oneHead({ instances, repo, bare, real }: Fleet): Promise<void> {
  const hash = await repo.commit({ 'app.rego': 'package app\n\nversion := 2\n' });
  const push = { ref: 'refs/heads/master', repository: { clone_url: repo.url } };
  const answer = await postJson(`${instances[1].url}/webhook`, push, { 'x-github-event': 'push' });
  assert.equal(answer.status, 200, answer.text);
  const bundle = async ({ url }: Instance): Promise<unknown> =>
    field((await request(`${url}/policy`, { headers: OURS })).json, 'hash');
  await until(async () => (await Promise.all(instances.map(bundle))).every((found) => found === hash), {
    ...WITHIN,
    what: 'both serve it',
  });
  await real.answers('/app/version', {}, 2);
  await until(() => bare.every(({ commits }) => commits.at(-1) === hash), {
    ...WITHIN,
    what: 'each instance tells its own clients',
  });
}

async function killed({ instances, bare, real, cable }: Fleet): Promise<void> {
  const [first, second] = instances;
  await agree(instances);
  await first.kill();
  cable.connectTo(second.url);
  const missed = await publish(second.url, { dst_path: '/while/away', data: 1 });
  await bare[0].connect(second.url);
  assert.equal(field(bare[0].answers.at(-1), 'resumes'), true, 'its position counts at the other instance');
  const last = await publish(second.url, { dst_path: '/while/back', data: 2 });
  await until(() => bare.every(({ seqs }) => seqs.includes(last)), { ...WITHIN, what: 'both have the last one' });
  assert(bare[0].seqs.includes(missed));
  assert.deepEqual(bare[0].seqs, bare[1].seqs);
  await real.holds('/while', { away: 1, back: 2 });
  await first.start();
  await agree(instances);
  const again = await publish(first.url, { dst_path: '/while/again', data: 3 });
  await until(() => bare.every(({ seqs }) => seqs.includes(again)), { ...WITHIN, what: 'the restarted one publishes' });
  await real.holds('/while', { away: 1, back: 2, again: 3 });
}

async function away(fleet: Fleet, how: 'killed' | 'frozen'): Promise<void> {
  const { backbone, instances, bare, real } = fleet;
  const lossesBefore = instances.map(({ log }) => linesThatSay(log(), LOST).length);
  const load = startLoad(
    instances.map(({ url }) => url),
    8,
    TOPIC,
  );
  try {
    await until(() => load.seqs.length > 40, { ...WITHIN, what: 'the load runs' });
    if (how === 'killed') await backbone.kill();
    else await backbone.freeze();
    const sinceMs = performance.now();
    for (const { health, url } of instances) {
      const state = await until(
        async () => {
          const found = await health();
          return field(found, 'status') === 'degraded' && found;
        },
        { ...WITHIN, what: 'the health says so' },
      );
      assert.equal(field(state, 'update_log', 'backbone', 'up'), false);
      assert.notEqual(field(state, 'update_log', 'backbone', 'reason') ?? '', '');
      assert(Date.parse(String(field(state, 'update_log', 'backbone', 'since'))) > Date.now() - 60_000);
      const served = await Promise.all(['policy', 'data/config'].map((path) => request(`${url}/${path}`)));
      assert.deepEqual(
        served.map(({ status }) => status),
        [200, 200],
        'what is known is served',
      );
      assert.match((await request(`${url}/metrics`)).text, /^policysync_log_up 0$/m);
      const tried = await postJson(`${url}/data/config`, {
        entries: [{ url: 'http://x', topics: ['other'], dst_path: '/x' }],
      });
      assert.equal(tried.status, 503, tried.text);
      assert(Number(tried.headers.get('retry-after')) > 0);
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, AWAY_MS - (performance.now() - sinceMs))));
    if (how === 'killed') await backbone.start();
    else backbone.thaw();
    const before = load.seqs.length;
    await until(() => load.seqs.length > before + 40, { withinMs: 30_000, what: 'the load runs again' });
  } finally {
    await load.stop();
  }
  assert.deepEqual(
    load.refusals.filter(({ status, retryAfter }) => status !== 503 || retryAfter === null),
    [],
  );
  assert(load.refusals.length > 0);
  await agree(instances);

  // Everything that was acknowledged went to everybody, once and in order.
  const last = Math.max(...load.seqs);
  await until(() => bare.every(({ seqs }) => seqs.includes(last)), { ...WITHIN, what: 'both have the last one' });
  for (const { seqs } of bare) {
    assert.deepEqual(
      load.seqs.filter((seq) => !seqs.includes(seq)),
      [],
    );
    assert.deepEqual(
      seqs,
      seqs.toSorted((a, b) => a - b),
    );
  }
  assert.deepEqual(bare[0].seqs, bare[1].seqs);
  assert.equal(new Set(load.seqs).size, load.seqs.length, 'no two updates have one place');
  const folds = await Promise.all(instances.map(foldOf));
  assert.deepEqual(field(folds[0], 'entries'), field(folds[1], 'entries'));
  const wanted = Object.fromEntries(
    [...load.acknowledged].map(([path, { value }]) => [path.slice('/load/'.length), value]),
  );
  assert.deepEqual(documentOf(folds[0], '/load/'), wanted);
  await real.holds('/load', wanted);
  // The servers were left alone: all that they tell each other is as before.
  await coversFleet(fleet);
  const losses = instances.map(({ log }, at) => linesThatSay(log(), LOST).length - (lossesBefore[at] ?? 0));
  assert.deepEqual(losses, [1, 1], 'the loss was told once');
}

async function replaced({ backbone, instances, bare, real }: Fleet): Promise<void> {
  const before = await real.data('/load');
  for (const client of bare) client.cut();
  await backbone.empty();
  for (const { ended } of instances) {
    const { code, stderr } = await ended();
    assert.equal(code, 1);
    assert.match(stderr.trim().split('\n').slice(-2).join('\n'), ENDED);
  }
  for (const { start } of instances) await start();
  await agree(instances);
  await publish(instances[1].url, { dst_path: '/new', data: 1 });
  await real.holds('/new', 1);
  assert.deepEqual(await real.data('/load'), before);
}
