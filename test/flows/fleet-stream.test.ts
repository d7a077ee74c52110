import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { fleetDelta, fleetSnapshot } from '../../src/wire/fleet.js';
import { type FleetPeer, fleetPeer } from '../support/fleet-peer.js';
import { fleetStream } from '../support/fleet-stream.js';
import { type GitRepo, gitRepo } from '../support/git-repo.js';
import { field, postJson, request } from '../support/http.js';
import { startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const WITHIN = { withinMs: 20_000 };

async function publish(url: string, path: string, reason: string, topic = 'policy_data'): Promise<number> {
  const entries = [{ url: '', topics: [topic], dst_path: path, data: 1 }];
  const answer = await postJson(`${url}/data/config`, { id: reason, reason, entries });
  assert.equal(answer.status, 200, answer.text);
  return Number(field(answer.json, 'seq'));
}

async function servedHead(url: string): Promise<string> {
  return await until(
    async () => {
      const head = field((await request(`${url}/clients`)).json, 'policy_head');
      return typeof head === 'string' && head;
    },
    { ...WITHIN, what: 'a served commit' },
  );
}

describe('GET /ui/events', () => {
  let repo: GitRepo;
  let server: StartedServer;
  let one: FleetPeer;
  let two: FleetPeer;

  before(async () => {
    repo = await gitRepo();
    await repo.commit({ 'a.rego': 'package a\n' });
    server = await startServer({ SYNC_POLICY_REPO_URL: repo.url });
    one = await fleetPeer(server.url, 'one');
    two = await fleetPeer(server.url, 'two');
  });

  after(async () => {
    for (const part of [one, two, server, repo]) await part?.[Symbol.asyncDispose]();
  });

  /** Commits, and has the server look. */
  async function commit(module: string): Promise<string> {
    const hash = await repo.commit({ 'a.rego': module });
    assert.equal((await postJson(`${server.url}/policy/refresh`, {})).status, 200);
    return hash;
  }

  it('a snapshot, then deltas while a commit and an update go through the fleet', async () => {
    const first = await servedHead(server.url);
    one.holds(first);
    two.holds(first);
    await using stream = await fleetStream(server.url);
    assert.equal(stream.headers.get('content-type'), 'text/event-stream');
    assert.match(stream.headers.get('cache-control') ?? '', /no-store/);
    await stream.sees('both hold it', ({ fleet }) => fleet.summary.policy.counts.acknowledged === 2);
    fleetSnapshot.parse(stream.events[0]?.data);
    assert.equal(stream.events[0]?.name, 'snapshot');

    await commit('package a\n\nb := 1\n');
    await stream.sees('a new head', ({ fleet }) => fleet.summary.policy.head !== first);
    const head = stream.fleet.summary.policy.head ?? '';
    await stream.sees('nobody has heard of it', ({ rows }) => rows.get('one')?.policy.state === 'not_told');
    assert.equal(stream.rows.get('one')?.policy.behind, 1);
    assert.equal(stream.fleet.summary.under_way?.id, head);
    one.holds(head);
    two.report({
      policy_hash: first,
      policy: { wanted: head, held: first, error: { message: 'rego_parse_error', file: 'a.rego', line: 3 }, since: 5 },
    });
    await stream.sees('one refuses it', ({ fleet }) => fleet.summary.policy.counts.refused === 1);
    assert.deepEqual(stream.rows.get('two')?.error, {
      kind: 'policy',
      place: 'a.rego:3',
      text: 'rego_parse_error',
      since: 5,
    });
    assert.deepEqual(
      [stream.rows.get('one')?.policy.state, stream.rows.get('one')?.policy.behind],
      ['acknowledged', 0],
    );
    await stream.sees('the title', ({ fleet }) =>
      fleet.changes.some(({ id, title }) => id === head && title === 'test'),
    );
    const change = stream.fleet.changes.find(({ id }) => id === head);
    assert.deepEqual([change?.counts, change?.total, change?.size], [{ applied: 1, refused: 1 }, 2, 1]);
    assert.deepEqual(change?.error, { message: 'rego_parse_error', file: 'a.rego', line: 3, clients: 1 });
    assert.deepEqual(change?.topics, ['default:policy:.']);
    assert.equal(change?.convergence?.clients, 2);
    assert(change.convergence.half !== null && change.convergence.last === null);
    const older = stream.fleet.changes.find(({ id }) => id === first);
    assert.equal(older?.state, 'replaced');

    const seq = await publish(server.url, '/x', 'because');
    await stream.sees('an update', ({ fleet }) => fleet.changes.some(({ id }) => id === String(seq)));
    assert.equal(stream.fleet.summary.data.slowest_behind, 1);
    one.holds(head, seq);
    await stream.sees('one has it', ({ rows }) => rows.get('one')?.data.state === 'at_head');
    const update = stream.fleet.changes.find(({ id }) => id === String(seq));
    assert.deepEqual([update?.title, update?.paths, update?.state], ['because', ['/x'], 'under_way']);
    for (const { name, data } of stream.events.slice(1)) {
      assert.equal(name, 'delta');
      fleetDelta.parse(data);
    }
    assert.equal(new Set(stream.events.map(({ id }) => id)).size, stream.events.length);
  });

  it('a client whose connection ends before it holds a commit, and that comes back, stays in its curve', async () => {
    await using stream = await fleetStream(server.url);
    const head = await commit('package a\n\nb := 2\n');
    const change = () => stream.fleet.changes.find(({ id }) => id === head);
    await stream.sees('both are told of it', () => change()?.counts.not_heard === 2);
    two.holds(head);
    await one[Symbol.asyncDispose]();
    await stream.sees('one is away', () => change()?.counts.away === 1 && change()?.counts.applied === 1);
    const early = change()?.convergence;
    one = await fleetPeer(server.url, 'one');
    await stream.sees('it is back', ({ rows }) => rows.get('one')?.connected === true);
    assert.deepEqual([change()?.convergence?.clients, change()?.convergence?.last], [2, null]);
    one.holds(head);
    await stream.sees('both hold it', () => change()?.counts.applied === 2);
    const { clients, first, last = null } = change()?.convergence ?? {};
    assert.deepEqual([clients, first], [2, early?.first]);
    assert(last !== null && last > (first ?? 0));
    const trace = (await request(`${server.url}/trace/${head}`)).json;
    assert.deepEqual(field(trace, 'convergence'), change()?.convergence);
  });

  it('who comes back goes on after the last event, and is told nothing twice', async () => {
    const stream = await fleetStream(server.url);
    await stream.sees('a snapshot', ({ rows }) => rows.size === 2);
    const { lastId = '' } = stream;
    await stream[Symbol.asyncDispose]();
    const three = await fleetPeer(server.url, 'three');
    {
      await using resumed = await fleetStream(server.url, { 'last-event-id': lastId });
      await resumed.sees('the third', ({ events }) =>
        events.some(({ data }) => JSON.stringify(field(data, 'clients') ?? []).includes('"three"')),
      );
      assert(resumed.events.every(({ name, id }) => name === 'delta' && id !== lastId));
      await three[Symbol.asyncDispose]();
    }
    for (const unknown of [`${lastId}9999`, 'another-1', lastId.replace('.d-', '.l-'), 'x'.repeat(5000)]) {
      await using anew = await fleetStream(server.url, { 'last-event-id': unknown });
      await anew.sees('a snapshot', ({ events }) => events[0]?.name === 'snapshot');
    }
  });

  it('OPAL clients do not say what they hold', async () => {
    await using opal = await startPeer(server.url);
    await opal.call('subscribe', { topics: ['policy_data', 'policy:.'] });
    await using stream = await fleetStream(server.url);
    await stream.sees('it', ({ fleet }) => fleet.summary.policy.counts.does_not_say === 1);
    assert.equal(stream.fleet.summary.data.counts.does_not_say, 1);
    const needing = stream.fleet.summary.needing;
    await opal[Symbol.asyncDispose]();
    await stream.sees('it is gone', ({ fleet }) => fleet.summary.policy.counts.does_not_say === undefined);
    assert.equal(stream.fleet.summary.needing, needing);
  });

  it('a burst of reports is few events', async () => {
    await using stream = await fleetStream(server.url);
    await stream.sees('a snapshot', ({ rows }) => rows.size > 0);
    const [eventsBefore, begun] = [stream.events.length, performance.now()];
    for (let at = 1; at <= 1000; at++) one.report({ since: at });
    await stream.sees('the last', ({ rows }) => rows.get('one')?.health.since === 1000);
    const looks = (performance.now() - begun) / 250 + 2;
    assert(stream.events.length - eventsBefore <= looks, `${stream.events.length - eventsBefore} events`);
  });

  it('a stop ends the stream at once', async () => {
    await using other = await startServer();
    await using stream = await fleetStream(other.url);
    await stream.sees('a snapshot', ({ events }) => events.length > 0);
    await other.stop();
    assert.deepEqual(field(stream.events.at(-1)?.data, 'reason'), 'draining');
    await until(() => stream.isEnded, { ...WITHIN, what: 'the end' });
  });
});
