import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { backboneOffer } from '../support/backbone-servers.js';
import { startCommand } from '../support/command.js';
import { type DataSource, startDataSource } from '../support/data-source.js';
import { gitRepo } from '../support/git-repo.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { freePort, testOpa } from '../support/opa.js';
import { baseEntries, following, publish, type StartedClient, startClient } from '../support/start-client.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** `POST /clients/{id}/actions`: what a client is asked to do over its socket, and who cannot be asked. */

const OURS = { 'x-sync-protocol': '2' };
const WITHIN = { withinMs: 20_000 };
const DATA_ONLY = { SYNC_CLIENT_ID: 'c', SYNC_POLICY_UPDATER_ENABLED: 'false' };
const ALL = ['details', 'refresh', 'prune', 'drift_check', 'log_level'];
/** That mail of any length arrives is shown of each backbone by test/support/log-store-contract.ts. */
const redis = await backboneOffer('Redis');

function act(url: string, id: string, body: object, headers: Record<string, string> = {}): Promise<Answer> {
  return postJson(`${url}/clients/${encodeURIComponent(id)}/actions`, body, headers);
}

/** The asks that a bare peer received. */
function asksOf({ frames }: StartedPeer): { id: string; kind: string; level?: string }[] {
  const asks = frames.filter((frame) => field(frame, 'request', 'method') === 'ask');
  return asks.map((frame) => field(frame, 'request', 'arguments') as { id: string; kind: string });
}

/** A client of ours without an engine. */
async function sessionPeer(url: string, client_id: string, asks: readonly string[] | undefined): Promise<StartedPeer> {
  const peer = await startPeer(url, OURS);
  const answer = await peer.call('subscribe', { topics: ['policy_data'], client_id, asks });
  assert.equal(field(answer, 'accepted'), true, JSON.stringify(answer));
  return peer;
}

describe('a client that is asked to act', () => {
  it('refreshes: it fetches policy and data anew, after it has asked whether the commit may follow the one that it holds', async () => {
    await using repo = await gitRepo();
    await repo.commit({ 'app/main.rego': 'package app\n\nallow := true\n' });
    await using server = await startServer(following(repo));
    await using client = await startClient({ serverUrl: server.url, env: { SYNC_CLIENT_ID: 'c' } });
    await client.healthy();
    const fetched = () => client.log.filter(({ msg }) => msg === 'asked by the server to act').length;
    const before = await request(`${server.url}/metrics`);
    const { status, json, text: said } = await act(server.url, 'c', { action: 'refresh' });
    assert.deepEqual([status, field(json, 'done')], [200, true], said);
    assert.match(
      String(field(json, 'text')),
      /fetches the complete policy again; has read the data configuration again/,
    );
    assert.equal(fetched(), 1);
    const bundles = ({ text }: Answer) =>
      [...text.matchAll(/policysync_bundle_duration_seconds_count\S* (\d+)/g)].reduce(
        (sum, [, one]) => sum + Number(one),
        0,
      );
    const more = async () => bundles(await request(`${server.url}/metrics`)) >= bundles(before) + 2;
    await until(more, { ...WITHIN, what: 'a bundle that may follow, and the complete one' });
    await client.healthy();
  });

  it('prunes a document that the data configuration of another log does not list, and shows it before', async () => {
    const entry = (path: string) => ({ url: '', dst_path: path, data: { at: path } });
    const first = await startServer(baseEntries(entry('/old'), entry('/kept')));
    const { port } = first;
    await using client = await startClient({ serverUrl: first.url, env: DATA_ONLY });
    await client.holds('/old', { at: '/old' });
    await first.stop();
    const same = { SYNC_SERVER_BIND_PORT: String(port), ...baseEntries(entry('/kept')) };
    // Of another log: what its configuration lacks may be missing by mistake, and stays until somebody says otherwise.
    await using server = await startServer(same);
    const orphans = async () => {
      const { json } = await request(`${server.url}/clients/c`);
      return (field(json, 'details', 'orphaned') as { path: string; reason: string }[] | undefined) ?? [];
    };
    const [found] = await until(async () => ((await orphans()).length === 1 ? orphans() : undefined), {
      ...WITHIN,
      what: 'the orphan',
    });
    assert.deepEqual(found, { path: '/old', reason: 'the data configuration does not list it any more', since: null });
    assert.deepEqual(await client.data('/old'), { at: '/old' });
    const { json } = await act(server.url, 'c', { action: 'prune' });
    assert.deepEqual(json, { done: true, text: 'removed 1 document: /old' });
    assert.deepEqual([await client.data('/old'), await client.data('/kept')], [undefined, { at: '/kept' }]);
    assert.deepEqual(await orphans(), []);
    await rm(first.stateDir, { recursive: true, force: true });
  });

  it('logs with another level at once, and says which', async () => {
    await using server = await startServer();
    await using program = startCommand('client', ['run'], {
      ...DATA_ONLY,
      SYNC_SERVER_URL: server.url,
      SYNC_CLIENT_API_SERVER_PORT: '0',
      SYNC_POLICY_STORE_URL: `http://127.0.0.1:${await freePort()}`,
      SYNC_INLINE_ENGINE_EXEC_PATH: await testOpa(),
    });
    const level = async () => field((await request(`${server.url}/clients/c`)).json, 'details', 'log_level');
    await until(async () => (await level()) === 'info', { ...WITHIN, what: 'the client is connected' });
    const { json } = await act(server.url, 'c', { action: 'log_level', level: 'error' });
    assert.deepEqual(json, { done: true, text: 'logs with level error until its next start' });
    assert.equal(await level(), 'error');
    await act(server.url, 'c', { action: 'refresh' });
    await act(server.url, 'c', { action: 'log_level', level: 'info' });
    await act(server.url, 'c', { action: 'prune' });
    const said = () => /"action":"prune"/.test(program.stderr());
    await until(said, { ...WITHIN, what: 'a line of the level before' });
    assert.doesNotMatch(program.stderr(), /"action":"refresh"/);
  });

  it('takes no actions where its operator forbids them, and still tells of itself', async () => {
    await using server = await startServer();
    const env = { ...DATA_ONLY, SYNC_CLIENT_REMOTE_ACTIONS: 'false' };
    await using client = await startClient({ serverUrl: server.url, env });
    await client.healthy();
    const { status, text } = await act(server.url, 'c', { action: 'refresh' });
    assert.deepEqual([status, /SYNC_CLIENT_REMOTE_ACTIONS is false/.test(text)], [409, true], text);
    const { json } = await request(`${server.url}/clients/c`);
    assert.deepEqual([field(json, 'details_missing'), field(json, 'actions')], [null, []]);
  });
});

describe('a client with data that is asked to act', () => {
  let source: DataSource;
  let server: StartedServer;
  let client: StartedClient;
  before(async () => {
    source = await startDataSource();
    server = await startServer();
    client = await startClient({
      serverUrl: server.url,
      env: { ...DATA_ONLY, SYNC_DRIFT_CHECK_INTERVAL: '3600', SYNC_INLINE_ENGINE_OPEN: 'true' },
    });
    await client.healthy();
  });
  after(async () => {
    for (const part of [client, server, source]) await part?.[Symbol.asyncDispose]();
  });

  it('refreshes documents that came by updates, too', async () => {
    source.serve('/users', { bob: 'editor' });
    await publish(server.url, { url: `${source.url}/users`, dst_path: '/users' });
    await client.holds('/users', { bob: 'editor' });
    source.serve('/users', { bob: 'viewer' });
    const { status, text } = await act(server.url, 'c', { action: 'refresh' });
    assert.equal(status, 200, text);
    await client.holds('/users', { bob: 'viewer' });
  });

  it('prunes what no log has, checks for drift, and logs with another level', async () => {
    await publish(server.url, { dst_path: '/staff/bob', data: { role: 'editor' } });
    await client.holds('/staff/bob', { role: 'editor' });
    const said = async (body: object) => {
      const { status, json, text } = await act(server.url, 'c', body);
      assert.equal(status, 200, text);
      return [field(json, 'done'), field(json, 'text')];
    };
    assert.deepEqual(await said({ action: 'prune' }), [true, 'there was nothing to remove']);
    assert.match(String(await said({ action: 'drift_check' })), /^true,compared \d+ documents? .*: nothing differed$/);
    await request(`${client.engineUrl}/v1/data/staff/bob`, { method: 'PUT', body: '{"role":"admin"}' });
    assert.match(String(await said({ action: 'drift_check' })), /: repaired 1$/);
    await client.holds('/staff/bob', { role: 'editor' });
    assert.deepEqual(await said({ action: 'log_level', level: 'debug' }), [
      false,
      'the log is written by the program that runs this client: set it there',
    ]);
    for (const body of [
      { action: 'log_level' },
      { action: 'log_level', level: 'silent' },
      { action: 'prune', level: 'info' },
      { action: 'details' },
      { action: 'stop' },
      {},
    ]) {
      const { status, text } = await act(server.url, 'c', body);
      assert.equal(status, 422, `${JSON.stringify(body)}: ${text}`);
    }
  });
});

describe('who is never asked', () => {
  it('is an OPAL peer, a client of an older version, one that is away, and one that nobody knows', async () => {
    await using server = await startServer();
    await using plain = await startPeer(server.url);
    await plain.call('subscribe', { topics: ['policy_data'] });
    await using old = await sessionPeer(server.url, 'old', undefined);
    await using other = await sessionPeer(server.url, 'other', ['juggle', 'details']);
    {
      await using _gone = await sessionPeer(server.url, 'gone', ALL);
    }
    const { json } = await request(`${server.url}/clients`);
    const clients = field(json, 'clients') as { kind: string; client_id: string }[];
    const opal = clients.find(({ kind }) => kind === 'plain')?.client_id ?? '';
    const refused = async (id: string) => {
      const { status, text } = await act(server.url, id, { action: 'refresh' });
      return [status, text];
    };
    assert.match(String(await refused(opal)), /^409,.* is an OPAL client/);
    assert.match(String(await refused('old')), /^409,.* is of a version that cannot be asked/);
    assert.match(String(await refused('other')), /^409,.* SYNC_CLIENT_REMOTE_ACTIONS/);
    await until(async () => /^409,.*is not connected/.test(String(await refused('gone'))), { ...WITHIN, what: 'away' });
    assert.match(String(await refused('nobody')), /^404,/);
    for (const peer of [plain, old, other]) assert.deepEqual(asksOf(peer), []);
  });

  it('nobody asks without a datasource token, nor with one that does not permit all of the client', async () => {
    await using server = await startServer(withKeys());
    const as = async (type: string, claims: object = {}) => bearer(await tokenOf(server.url, { type, claims }));
    await using peer = await startPeer(server.url, { ...OURS, ...(await as('client')) });
    await peer.call('subscribe', { topics: ['a', 'b', 'default:policy:.'], client_id: 'c', asks: ALL });
    const status = async (headers: Record<string, string>) => {
      const { status: found } = await act(server.url, 'c', { action: 'prune' }, headers);
      return found;
    };
    assert.equal(await status({}), 401);
    assert.equal(await status(await as('listener')), 401);
    assert.equal(await status(await as('datasource', { permitted_topics: ['a'] })), 401);
    assert.equal(await status(await as('datasource', { permitted_topics: ['a', 'b'], permitted_paths: ['/x'] })), 401);
    assert.equal(await status(await as('datasource', { permitted_topics: ['z'] })), 404);
    assert.deepEqual(asksOf(peer), []);
  });

  it('a limited token that permits all topics of a client asks it to act, not to prune, and does not get its words', async () => {
    await using server = await startServer(withKeys());
    const as = async (type: string, claims: object = {}) => bearer(await tokenOf(server.url, { type, claims }));
    await using peer = await startPeer(server.url, { ...OURS, ...(await as('client')) });
    await peer.call('subscribe', { topics: ['a', 'b', 'default:policy:.'], client_id: 'c', asks: ALL });
    const limited = await as('datasource', { permitted_topics: ['a', 'b'] });
    const refused = await act(server.url, 'c', { action: 'prune' }, limited);
    assert.deepEqual([refused.status, refused.headers.get('x-sync-error')], [401, 'topic_not_permitted']);
    const told = async (headers: Record<string, string>, done: boolean) => {
      const before = asksOf(peer).length;
      const asking = act(server.url, 'c', { action: 'refresh' }, headers);
      const ask = await until(() => asksOf(peer)[before], { ...WITHIN, what: 'an ask' });
      assert.equal(await peer.call('answer', { id: ask.id, done, text: 'removed /other: hunter2' }), true);
      return (await asking).json;
    };
    const TABLE: [Record<string, string>, boolean, string][] = [
      [limited, true, 'the client fetches policy and data again'],
      [limited, false, 'the client could not do it; its log says why'],
      [await as('datasource'), false, 'removed /other: hunter2'],
    ];
    for (const [headers, done, text] of TABLE) assert.deepEqual(await told(headers, done), { done, text });
  });
});

describe('a hostile client', () => {
  it('that answers garbage, too much, for another one, twice or late gets nowhere', async () => {
    await using server = await startServer();
    await using good = await sessionPeer(server.url, 'good', ALL);
    await using bad = await sessionPeer(server.url, 'bad', ALL);
    const asked = async (peer: StartedPeer, id: string, count: number) => {
      const answer = act(server.url, id, { action: 'prune' });
      const asks = await until(() => (asksOf(peer).length >= count ? asksOf(peer) : undefined), {
        ...WITHIN,
        what: 'an ask',
      });
      return { answer, id: asks.at(-1)?.id };
    };
    const bads = [
      { done: 'yes', text: 'x' },
      { done: true },
      { done: true, text: 'x'.repeat(1001) },
      { done: true, text: 'x', details: { version: 1 } },
      { done: true, text: 'x', more: 'x'.repeat(70_000) },
    ];
    for (const [index, body] of bads.entries()) {
      const { answer, id } = await asked(bad, 'bad', index + 1);
      assert.equal(await bad.call('answer', { id, ...body }), false);
      const { status, text } = await answer;
      assert.equal(status, 504, text);
      assert.match(text, /the answer of the client cannot be used/);
    }
    const { answer, id } = await asked(good, 'good', 1);
    for (const wrong of [id, 'x', undefined, 7]) {
      assert.equal(await bad.call('answer', { id: wrong, done: true, text: 'mine' }), false);
    }
    assert.equal(await good.call('answer', { id, done: false, text: 'no\u0007' }), true);
    assert.equal(await good.call('answer', { id, done: true, text: 'again' }), false);
    assert.deepEqual((await answer).json, { done: false, text: 'no\u0007' });
    assert.equal((await request(`${server.url}/healthcheck`)).status, 200);
  });

  it('that leaves is told of; a second asker shares the answer, and another level is busy', async () => {
    await using server = await startServer();
    const silent = await sessionPeer(server.url, 'silent', ALL);
    const [first, second, other] = [
      act(server.url, 'silent', { action: 'log_level', level: 'debug' }),
      act(server.url, 'silent', { action: 'log_level', level: 'debug' }),
      act(server.url, 'silent', { action: 'prune' }),
    ];
    await until(() => asksOf(silent).length === 2, { ...WITHIN, what: 'two asks' });
    const busy = await act(server.url, 'silent', { action: 'log_level', level: 'info' });
    assert.deepEqual([busy.status, busy.headers.get('retry-after')], [429, '1'], busy.text);
    await silent[Symbol.asyncDispose]();
    for (const answer of await Promise.all([first, second, other])) {
      assert.deepEqual([answer.status, /left before it answered/.test(answer.text)], [409, true], answer.text);
    }
  });
});

describe('a client of another instance', { skip: redis.missing ?? false }, () => {
  it('tells of itself and acts, and what it cannot do is told', async () => {
    await using backbone = await redis.start();
    const env = { SYNC_BROADCAST_URI: backbone.uri };
    await using one = await startServer(env);
    await using other = await startServer(env);
    await using peer = await sessionPeer(other.url, 'far', ALL);
    await using old = await sessionPeer(other.url, 'old', undefined);
    const known = async () => (await request(`${one.url}/clients/old`)).status === 200;
    await until(known, { ...WITHIN, what: 'they are listed at the other instance' });
    const asking = act(one.url, 'far', { action: 'log_level', level: 'debug' });
    const [ask] = await until(() => (asksOf(peer).length > 0 ? asksOf(peer) : undefined), {
      ...WITHIN,
      what: 'an ask',
    });
    assert.deepEqual([ask?.kind, ask?.level], ['log_level', 'debug']);
    const text = 'é'.repeat(1000);
    assert.equal(await peer.call('answer', { id: ask?.id, done: true, text }), true);
    assert.deepEqual((await asking).json, { done: true, text });

    // As much as an answer may have.
    const viewing = request(`${one.url}/clients/far`);
    await until(() => asksOf(peer).length > 1, { ...WITHIN, what: 'an ask for details' });
    const details = {
      ...{ version: '1', log_level: 'info', started_at: 1, orphaned_total: 50, rego: null, drift: null },
      orphaned: Array.from({ length: 50 }, (_, at) => ({ path: noise(900, at), reason: 'r', since: null })),
      transactions: [],
    };
    await peer.call('answer', { id: asksOf(peer)[1]?.id, done: true, text: '', details });
    assert.deepEqual(field((await viewing).json, 'details'), details);

    assert.equal((await act(one.url, 'old', { action: 'prune' })).status, 409);
    assert.deepEqual(asksOf(old), []);
    const lost = act(one.url, 'far', { action: 'prune' });
    await until(() => asksOf(peer).length > 2, { ...WITHIN, what: 'a third ask' });
    await peer[Symbol.asyncDispose]();
    const { status, text: why } = await lost;
    assert.deepEqual([status, /left before it answered/.test(why)], [409, true], why);
  });
});

/** Text that does not compress. */
function noise(length: number, seed: number): string {
  let state = seed + 1;
  return Array.from({ length }, () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return String.fromCharCode(35 + ((state >> 8) % 56));
  }).join('');
}
