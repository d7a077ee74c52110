import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type StartedCommand, startCommand } from '../support/command.js';
import { startDataSource } from '../support/data-source.js';
import { freeze } from '../support/frozen-process.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { freePort, startOpa, type TestOpa, testOpa } from '../support/opa.js';
import { runHere } from '../support/run-here.js';
import { FAST, type StartedClient, startClient } from '../support/start-client.js';
import { startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const TOPIC = 'policy_data';

function publishWaiting(server: StartedServer, timeout: string, entry: object = {}): Promise<Answer> {
  const entries = [{ url: '', topics: [TOPIC], dst_path: '/users', data: { at: Date.now() }, ...entry }];
  return postJson(`${server.url}/data/config?wait=applied&timeout=${timeout}`, { entries, reason: 'test' });
}

/** Client ids that the server lists as connected and current. */
async function current(server: StartedServer): Promise<string[]> {
  const { json } = await request(`${server.url}/clients`);
  const clients = field(json, 'clients');
  assert(Array.isArray(clients));
  return clients
    .filter((client) => field(client, 'connected') === true && field(client, 'ready') === true)
    .map((client) => String(field(client, 'client_id')));
}

async function settled(server: StartedServer, ...ids: string[]): Promise<void> {
  const look = async (): Promise<boolean> => {
    const now = await current(server);
    return ids.every((id) => now.includes(id));
  };
  await until(look, {
    withinMs: 20_000,
    what: `${ids.join(', ')} connected and ready`,
  });
}

describe('a publisher that waits until all clients have applied its update', () => {
  let server: StartedServer;
  let one: StartedClient;
  let otherOpa: TestOpa;
  /** A client in a process of its own, which can be frozen. */
  let other: StartedCommand;
  const noPolicy = { SYNC_POLICY_UPDATER_ENABLED: 'false' };
  const clientProgram = (id: string, more: Record<string, string> = {}): StartedCommand =>
    startCommand('client', ['run'], {
      ...FAST,
      ...noPolicy,
      SYNC_SERVER_URL: server.url,
      SYNC_CLIENT_ID: id,
      SYNC_ENGINE: 'external',
      SYNC_POLICY_STORE_URL: otherOpa.url,
      SYNC_CLIENT_API_SERVER_PORT: '0',
      ...more,
    });
  before(async () => {
    server = await startServer();
    one = await startClient({
      serverUrl: server.url,
      env: { ...noPolicy, SYNC_CLIENT_ID: 'one', SYNC_INLINE_ENGINE_OPEN: 'true' },
    });
    otherOpa = await startOpa();
    other = clientProgram('other');
    await settled(server, 'one', 'other');
  });
  after(async () => {
    for (const part of [other, otherOpa, one, server]) await part?.[Symbol.asyncDispose]();
  });

  it('is answered 200 once the engines hold it', async () => {
    const answer = await publishWaiting(server, '10s', { data: { ann: 1 } });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(field(answer.json, 'status'), 'ok');
    assert.equal(field(answer.json, 'applied'), 2);
    assert.deepEqual(field(answer.json, 'lagging'), []);
    // No wait here: that is what the answer promises.
    const { json } = await request(`${otherOpa.url}/v1/data/users`);
    assert.deepEqual([await one.data('/users'), field(json, 'result')], [{ ann: 1 }, { ann: 1 }]);
  });

  it('waits for what has replaced its update, until the engines hold that', async () => {
    await using source = await startDataSource();
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    source.answer('/first', { fault: 'silent' });
    source.answer('/second', { text: '{"revoked":true}', after: released });
    const entry = (path: string): object => ({ url: source.url + path, data: undefined, dst_path: '/grants' });
    await publishWaiting(server, '10s', { dst_path: '/grants', data: { revoked: false } });
    let ended: Answer | undefined;
    const first = publishWaiting(server, '60s', entry('/first')).then((answer) => {
      ended = answer;
      return answer;
    });
    await until(() => source.count('/first') === 2, { withinMs: 20_000, what: 'both fetch the first' });
    const second = await postJson(`${server.url}/data/config`, {
      entries: [{ topics: [TOPIC], ...entry('/second') }],
      reason: 'test',
    });
    const seq = field(second.json, 'seq');
    const hasComeTo = async (id: string): Promise<boolean> => {
      const { json } = await request(`${server.url}/clients?id=${id}`);
      return (field(json, 'clients', 0, 'data', 'held', 'unresolved') as number[]).includes(Number(seq));
    };
    await until(async () => (await hasComeTo('one')) && (await hasComeTo('other')), {
      withinMs: 20_000,
      what: 'the server knows that both have learned of the second',
    });
    assert.deepEqual(await one.data('/grants'), { revoked: false });
    assert.equal(ended, undefined, 'the engines hold neither of the two');
    release();
    const answer = await first;
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(await one.data('/grants'), { revoked: true });
    await publishWaiting(server, '10s', { dst_path: '/grants', data: {} }); // clients that come later have no source to ask
  });

  it('is told of a frozen client with 202, and 200 again when that has thawed', async () => {
    {
      await using _ = await freeze(other.process.pid ?? 0);
      const late = await until(
        async () => {
          const answer = await publishWaiting(server, '700ms');
          assert.equal(answer.status, 202, answer.text);
          return field(answer.json, 'applied') === 1 && answer;
        },
        { withinMs: 20_000, what: 'the other one has it in time' },
      );
      assert.equal(field(late.json, 'lagging', 0, 'client_id'), 'other');
      const shown = await request(`${server.url}/clients?id=other`);
      assert((field(shown.json, 'clients', 0, 'data', 'lag_updates') as number) >= 1, shown.text);
      assert((field(shown.json, 'clients', 0, 'data', 'lag_seconds') as number) >= 0.5, shown.text);
    }
    const again = await publishWaiting(server, '10s');
    assert.equal(again.status, 200, again.text);
    assert.equal(field(again.json, 'applied'), 2);
    await until(
      async () =>
        field((await request(`${server.url}/clients?id=other`)).json, 'clients', 0, 'data', 'lag_updates') === 0,
      { withinMs: 20_000, what: 'no lag any more' },
    );
    await one.healthy();
  });

  it('publish --wait ends with 0 when all have it, and with 1 and the list when not', async () => {
    const args = ['publish', '--server-url', server.url, '-t', TOPIC, '--dst-path', '/x', '--data', '1'];
    const good = await runHere('policysync', [...args, '--wait', '10']);
    assert.equal(good.code, 0, good.stderr);
    assert.match(good.stdout, /Applied by 2 clients\./);
    {
      await using _ = await freeze(other.process.pid ?? 0);
      const bad = await runHere('policysync', [...args, '--wait', '0.5']);
      assert.equal(bad.code, 1);
      assert.match(bad.stdout, /Published successfully/);
      // On a busy machine half a second may be short for the other one, too.
      assert.match(
        bad.stderr,
        /not applied everywhere within 0\.5 s:\n(?: {2}one: .*\n)? {2}other: it has applied up to \d/,
      );
    }
    assert.equal((await runHere('policysync', [...args, '--wait', '0'])).code, 2);
  });

  it('is told early where an engine refuses the update, with the reason', async () => {
    const module = 'package guests\n\nann := true\n';
    const put = await request(`${one.engineUrl}/v1/policies/mine`, { method: 'PUT', body: module });
    assert.equal(put.status, 200, put.text);
    const startedMs = performance.now();
    const answer = await publishWaiting(server, '30s', { dst_path: '/guests/ann', data: 1 });
    assert(performance.now() - startedMs < 20_000, 'not when the time was up');
    assert.equal(answer.status, 202, answer.text);
    assert.match(String(field(answer.json, 'lagging', 0, 'reason')), /^blocked: /);
  });

  it('is told who vanished; of clients that were stopped nothing is left, and a repetition answers the same', async () => {
    // Its engine ends with it.
    await using ended = clientProgram('ended', {
      SYNC_ENGINE: 'inline',
      SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}`,
      SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
    });
    await settled(server, 'ended');
    const headers = { 'idempotency-key': 'once' };
    const body = { entries: [{ url: '', topics: [TOPIC], dst_path: '/once', data: 1 }], reason: 'test' };
    const first = await postJson(`${server.url}/data/config`, body, headers);
    ended.process.kill('SIGTERM');
    await ended.result;
    await one.stop();
    other.process.kill('SIGKILL');
    await other.result;
    const listed = async (): Promise<string> => {
      const { json } = await request(`${server.url}/clients`);
      const clients = field(json, 'clients') as unknown[];
      return clients.map((each) => `${field(each, 'client_id')} ${field(each, 'connected')}`).join();
    };
    await until(async () => (await listed()) === 'other false', { withinMs: 20_000, what: 'one client is left, away' });
    assert.match((await request(`${server.url}/metrics`)).text, /^policysync_clients\{state="away"\} 1$/m);

    const answer = await publishWaiting(server, '10s');
    const { applied, away, away_count: count } = answer.json as { applied: number; away: unknown; away_count: number };
    assert.deepEqual([answer.status, applied, count, field(away, 0, 'client_id')], [200, 0, 1, 'other'], answer.text);
    assert.match(String(field(away, 0, 'reason')), /^away since \S+: its connection broke: its program was killed/);
    const args = ['publish', '--server-url', server.url, '-t', TOPIC, '--dst-path', '/x', '--data', '1'];
    const told = await runHere('policysync', [...args, '--wait', '10']);
    assert.equal(told.code, 5, told.stdout);
    assert.doesNotMatch(told.stdout, /No client is concerned/);
    assert.match(told.stderr, /published, but not applied by 1 client that is away:\n {2}other: away since /);

    const again = await postJson(`${server.url}/data/config`, body, headers);
    assert.deepEqual([field(first.json, 'subscribers'), again.json], [3, first.json]);
  });
});

describe('a publisher that waits where no client of ours is', () => {
  let server: StartedServer;
  before(async () => {
    server = await startServer();
  });
  after(() => server?.[Symbol.asyncDispose]());

  it('a timeout that is none is refused before anything is published', async () => {
    for (const timeout of ['61s', 'soon', '-1', '5 s']) {
      assert.equal((await publishWaiting(server, encodeURIComponent(timeout))).status, 422, timeout);
    }
    assert.equal((await postJson(`${server.url}/data/config?wait=delivered`, { entries: [] })).status, 422);
    assert.equal(field((await request(`${server.url}/healthcheck`)).json, 'update_log', 'head'), 0);
  });

  it('names an OPAL client as unknown, and waits for no one where no one is concerned', async () => {
    const nobody = await publishWaiting(server, '5s');
    assert.equal(nobody.status, 200);
    assert.deepEqual([field(nobody.json, 'applied'), field(nobody.json, 'unknown')], [0, []]);
    await using peer = await startPeer(`${server.url}`);
    assert.equal(await peer.call('subscribe', { topics: [TOPIC] }), true);
    const answer = await publishWaiting(server, '5s');
    assert.equal(answer.status, 200, answer.text);
    assert.match(String(field(answer.json, 'unknown', 0)), /^127\.0\.0\.1:\d+$/);
    const { json } = await request(`${server.url}/clients`);
    assert.deepEqual(
      [
        field(json, 'clients', 0, 'kind'),
        field(json, 'clients', 0, 'topics'),
        field(json, 'clients', 0, 'data', 'lag_updates'),
      ],
      ['plain', [TOPIC], null],
    );
  });
});
