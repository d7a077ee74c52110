import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { describe, it } from 'node:test';
import { withKeys } from '../support/auth.js';
import { startCommand } from '../support/command.js';
import { field, request } from '../support/http.js';
import { listening } from '../support/http-server.js';
import { runHere } from '../support/run-here.js';
import { publish, startClient } from '../support/start-client.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const TOPIC = 'policy_data';
const OURS = { 'x-sync-protocol': '2' };

function report(client_id: string, epoch: string, through: number, more: object = {}): object {
  return {
    client_id,
    position: { epoch, applied_through: through, applied_beyond: [], unresolved: [] },
    policy_hash: null,
    ready: true,
    healthy: true,
    engine: { kind: 'opa', version: '1.22.0', online: true },
    failing: [],
    blocked: [],
    since: Date.now(),
    ...more,
  };
}

/** The arguments of requests of a method that a peer got. */
function requests(peer: StartedPeer, method: string): unknown[] {
  return peer.frames
    .filter((frame) => field(frame, 'request', 'method') === method)
    .map((frame) => field(frame, 'request', 'arguments'));
}

describe('a session on the socket', () => {
  it('is answered with the heads of its topics, and told them again with each heartbeat', async () => {
    await using server = await startServer({ SYNC_HEARTBEAT_INTERVAL: '0.2' });
    const seq = await publish(server.url, { dst_path: '/a', data: 1 });
    await using peer = await startPeer(server.url, OURS);
    const answer = await peer.call('subscribe', { topics: [TOPIC, 'other'], client_id: 'c' });
    assert.equal(field(answer, 'accepted'), true, JSON.stringify(answer));
    assert.deepEqual([field(answer, 'heads', TOPIC), field(answer, 'policy_head')], [seq, null]);
    assert.deepEqual([field(answer, 'heartbeat_seconds'), field(answer, 'spread_ms')], [0.2, 0]);
    const next = await publish(server.url, { dst_path: '/b', data: 1 });
    const beat = await until(() => requests(peer, 'heartbeat').find((args) => field(args, 'heads', TOPIC) === next), {
      withinMs: 20_000,
      what: 'a heartbeat with the new head',
    });
    assert.equal(field(beat, 'epoch'), field(answer, 'epoch'));
  });

  it('peers that negotiated less get what they got before', async () => {
    await using server = await startServer({ SYNC_HEARTBEAT_INTERVAL: '0.1' });
    await using witness = await startPeer(server.url, OURS);
    await witness.call('subscribe', { topics: [TOPIC], client_id: 'witness' });
    for (const headers of [{}, { 'x-sync-protocol': '1' }] as Record<string, string>[]) {
      await using peer = await startPeer(server.url, headers);
      assert.equal(await peer.call('subscribe', { topics: [TOPIC], client_id: 'c' }), true);
      assert.equal(await peer.call('report', {}), null);
      await publish(server.url, { dst_path: '/a', data: 1 });
      await peer.notified(1);
      const before = requests(witness, 'heartbeat').length;
      await until(() => requests(witness, 'heartbeat').length >= before + 3, {
        withinMs: 20_000,
        what: 'three heartbeats',
      });
      assert.deepEqual(requests(peer, 'heartbeat'), []);
    }
    await using plain = await startPeer(server.url, OURS);
    assert.equal(await plain.call('subscribe', { topics: [TOPIC] }), true);
  });

  it('a second client of the same id is served, and listed beside the first; a half-open first one is replaced', async () => {
    await using server = await startServer();
    await using first = await startPeer(server.url, OURS);
    await first.call('subscribe', { topics: [TOPIC], client_id: 'c' });
    await using second = await startPeer(server.url, OURS);
    const accepted = await second.call('subscribe', { topics: [TOPIC], client_id: 'c' });
    assert.equal(field(accepted, 'accepted'), true, JSON.stringify(accepted));
    const listed = async (): Promise<string> => {
      const clients = field((await request(`${server.url}/clients?id=c`)).json, 'clients') as unknown[];
      return clients.map((each) => `${field(each, 'client_id')} ${field(each, 'connected')}`).join();
    };
    await until(async () => /^c true,c~[0-9a-f]{8} true$/.test(await listed()), { withinMs: 20_000, what: 'both' });
    const seq = await publish(server.url, { dst_path: '/a', data: 1 });
    for (const peer of [first, second]) assert.equal(field((await peer.notified(1))[0], 'seq'), seq);
    // The client at the second one takes no part any more: it answers no ping.
    second.socket.pause();
    await using third = await startPeer(server.url, OURS);
    assert.equal(field(await third.call('subscribe', { topics: [TOPIC], client_id: 'c' }), 'accepted'), true);
    await until(async () => (await listed()).split(',').length === 2, {
      withinMs: 20_000,
      what: 'the dead one is gone',
    });
  });
});

describe('GET /clients', () => {
  it('shows what a client should hold, what it holds, how far it is behind and what went wrong last', async () => {
    await using server = await startServer();
    await using peer = await startPeer(server.url, OURS);
    const answer = await peer.call('subscribe', { topics: [TOPIC], client_id: 'c' });
    const epoch = String(field(answer, 'epoch'));
    const first = await publish(server.url, { dst_path: '/a', data: 1 });
    const second = await publish(server.url, { dst_path: '/b', data: 1 });
    const failing = [{ path: '/b', error: 'the source is down' }];
    assert.equal(await peer.call('report', report('c', epoch, first, { healthy: false, failing })), true);
    const view = async (): Promise<unknown> => field((await request(`${server.url}/clients?id=c`)).json, 'clients', 0);
    const behind = await view();
    assert.deepEqual(field(behind, 'data', 'wanted'), { [TOPIC]: second });
    assert.deepEqual(
      [
        field(behind, 'data', 'held', 'applied_through'),
        field(behind, 'data', 'lag_updates'),
        field(behind, 'healthy'),
      ],
      [first, 1, false],
    );
    assert.deepEqual(field(behind, 'failing'), failing);
    await peer.call('report', report('c', epoch, second));
    const current = await view();
    assert.deepEqual([field(current, 'data', 'lag_updates'), field(current, 'failing')], [0, []]);
    assert.equal(field(current, 'last_error', 'error'), 'the source is down');
    await peer[Symbol.asyncDispose]();
    await until(async () => field(await view(), 'connected') === false, { withinMs: 20_000, what: 'listed as away' });
    assert.equal(field(await view(), 'data', 'held', 'applied_through'), second);
  });

  it('/metrics is there as SYNC_METRICS_ACCESS says, with tokens on and off', async () => {
    const keys = withKeys();
    const status = async (env: Record<string, string>): Promise<number> => {
      await using server = await startServer(env);
      return (await request(`${server.url}/metrics`)).status;
    };
    assert.deepEqual([await status({}), await status(keys)], [200, 401]);
    assert.equal(await status({ ...keys, SYNC_METRICS_ACCESS: 'everyone' }), 200);
    assert.equal(await status({ SYNC_METRICS_ACCESS: 'off' }), 404);
  });
});

describe('status and status client', () => {
  it('print a table of the clients, the answer as JSON, and again with --watch', async () => {
    await using server = await startServer();
    await using ours = await startPeer(server.url, OURS);
    const answer = await ours.call('subscribe', { topics: [TOPIC], client_id: 'ours' });
    const seq = await publish(server.url, { dst_path: '/a', data: 1 });
    await ours.call('report', report('ours', String(field(answer, 'epoch')), seq));
    await publish(server.url, { dst_path: '/a', data: 2 });
    await using opal = await startPeer(server.url);
    await opal.call('subscribe', { topics: [TOPIC] });
    const table = await runHere('policysync', ['status', '--server-url', server.url]);
    assert.equal(table.code, 0, table.stderr);
    assert.match(table.stdout, /^2 clients, update log at 2/);
    assert.match(table.stdout, /^ours +healthy [\d.]+ s +opa 1\.22\.0 +none +1 of 2 +1 update, \d/m);
    assert.match(table.stdout, /^127\.0\.0\.1:\d+ +opal [\d.]+ s +\? +\? +\? +\?$/m);
    const json = await runHere('policysync', ['status', '--server-url', server.url, '--json']);
    assert.deepEqual(
      (field(JSON.parse(json.stdout), 'clients') as unknown[]).map((client) => field(client, 'kind')).sort(),
      ['plain', 'session'],
    );
    await using watch = startCommand('policysync', ['status', '--server-url', server.url, '--watch']);
    const looks = (): number => (watch.stdout().match(/2 clients/g) ?? []).length;
    await until(() => looks() === 1, { withinMs: 15_000, what: 'a look' });
    await publish(server.url, { dst_path: '/a', data: 3 });
    await until(() => looks() === 2, { withinMs: 15_000, what: 'a look at what has changed' });
    const gone = await runHere('policysync', ['status', '--server-url', 'http://127.0.0.1:9']);
    assert.deepEqual([gone.code, /no answer from/.test(gone.stderr)], [1, true], gone.stderr);
  });

  it('end with the code of the condition that --fail-on finds, also with --json and --watch', async () => {
    await using server = await startServer();
    const status = (...args: string[]): ReturnType<typeof runHere> =>
      runHere('policysync', ['status', '--server-url', server.url, ...args]);
    await using peer = await startPeer(server.url, OURS);
    const epoch = String(field(await peer.call('subscribe', { topics: [TOPIC], client_id: 'c' }), 'epoch'));
    await peer.call('report', report('c', epoch, 0));
    assert.equal((await status('--fail-on', 'unhealthy,behind,away')).code, 0);
    const seq = await publish(server.url, { dst_path: '/a', data: 1 });
    const behind = await status('--fail-on', 'behind', '--json');
    assert.deepEqual([behind.code, field(JSON.parse(behind.stdout), 'clients', 0, 'client_id')], [4, 'c']);
    assert.match(behind.stderr, /^policysync: 1 client is behind: c\nWhat to do: .*\[condition_met\]\n$/);
    assert.equal((await status('--fail-on', 'unhealthy,away')).code, 0);

    await using watch = startCommand('policysync', [
      'status',
      '--server-url',
      server.url,
      '--watch',
      '--fail-on',
      'unhealthy',
    ]);
    await until(() => watch.stdout().includes('1 client'), { withinMs: 15_000, what: 'a look' });
    const failing = [{ path: '/a', error: 'the source is down' }];
    await peer.call('report', report('c', epoch, seq, { healthy: false, failing }));
    const seen = await watch.result;
    assert.equal(seen.code, 3, seen.stderr);
    assert.match(seen.stdout, /\n {2}\/a: failing.*: the source is down\n/);
    await peer[Symbol.asyncDispose]();
    const isAway = async (): Promise<boolean> => (await status('--fail-on', 'away')).code === 5;
    await until(isAway, { withinMs: 15_000, what: 'it is away' });
    const wrong = await status('--fail-on', 'sick');
    assert.deepEqual([wrong.code, /--fail-on takes unhealthy, behind, away/.test(wrong.stderr)], [2, true]);
  });

  it('read all pages of the clients', async () => {
    const whole = async (): Promise<unknown> => {
      await using server = await startServer();
      await using peer = await startPeer(server.url);
      await peer.call('subscribe', { topics: [TOPIC] });
      return (await request(`${server.url}/clients`)).json;
    };
    const view = await whole();
    const one = field(view, 'clients', 0) as object;
    const page = (ids: string[], next: string | null): string =>
      JSON.stringify({ ...(view as object), clients: ids.map((client_id) => ({ ...one, client_id })), next });
    const answered = createServer((incoming, answer) => {
      const after = new URL(incoming.url ?? '', 'http://x').searchParams.get('after');
      answer.end(after === null ? page(['a', 'b'], 'b/1') : after === 'b/1' ? page(['c'], null) : 'wrong page');
    });
    await using server = await listening(answered);
    const table = await runHere('policysync', ['status', '--server-url', server.url]);
    assert.match(table.stdout, /^3 clients/, table.stderr);
    const json = JSON.parse(
      (await runHere('policysync', ['status', '--server-url', server.url, '--json'])).stdout,
    ) as object;
    assert.deepEqual(
      (field(json, 'clients') as object[]).map((client) => field(client, 'client_id')),
      ['a', 'b', 'c'],
    );
    assert.equal('next' in json, false);
  });

  it('a client shows itself', async () => {
    await using server = await startServer();
    await using client = await startClient({ serverUrl: server.url, env: { SYNC_POLICY_UPDATER_ENABLED: 'false' } });
    await publish(server.url, { dst_path: '/a', data: 1 });
    await client.holds('/a', 1);
    await client.healthy();
    const table = await runHere('policysync', ['status', 'client', '--client-url', client.url]);
    assert.equal(table.code, 0, table.stderr);
    assert.match(table.stdout, /^State +healthy$/m);
    assert.match(table.stdout, /^Position +1 of update log /m);
    assert.match(table.stdout, /^Server +connected$/m);
    const json = await runHere('policysync', ['status', 'client', '--client-url', client.url, '--json']);
    assert.equal(field(JSON.parse(json.stdout), 'health', 'status'), 'ok');
    const failOn = (): ReturnType<typeof runHere> =>
      runHere('policysync', ['status', 'client', '--client-url', client.url, '--fail-on', 'unhealthy,behind,away']);
    assert.equal((await failOn()).code, 0);
    await server[Symbol.asyncDispose]();
    const isAway = async (): Promise<boolean> => (await failOn()).code === 5;
    await until(isAway, { withinMs: 15_000, what: 'it knows that its server is away' });
  });
});
