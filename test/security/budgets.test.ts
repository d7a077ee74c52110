import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { bearer, tokenOf, withKeys } from '../support/auth.js';
import { gitRepo } from '../support/git-repo.js';
import { requestBytes } from '../support/hostile-wire.js';
import { field, postJson, request } from '../support/http.js';
import { type StartedPeer, startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { together } from '../support/together.js';
import { patience, until } from '../support/until.js';

/** What one token makes a server hold or do is bounded; beyond it gets 429 with the remedy, and all others go on beside it. */

const MIB = 1024 * 1024;
/** Nobody is cut off for reading nothing while a busy machine gets there. */
const PATIENT = { SYNC_READER_TIMEOUT: '3600' };
/** A large response, in a part of the budgets below. */
const DOCUMENT = 'x'.repeat(0.7 * MIB);

/** Sends requests on one connection in one piece, and reads nothing. */
async function unread(port: number, token: string, targets: readonly string[]): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  const headers = [
    ['Authorization', `Bearer ${token}`],
    ['Connection', 'keep-alive'],
  ] as const;
  socket.write(Buffer.concat(targets.map((target) => requestBytes({ method: 'GET', target, headers }))));
  return socket;
}

/** Reads so many responses, and closes the connection. Returns how many have each status, and the text of the last refusal. */
async function readAll(socket: Socket, count: number): Promise<{ counts: Record<string, number>; refusal: string }> {
  let text = '';
  socket.setEncoding('latin1').on('data', (more: string) => {
    text += more;
  });
  const statuses = (): string[] => [...text.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => status ?? '');
  await until(() => statuses().length === count, { withinMs: 20_000, what: `${count} responses` });
  socket.destroy();
  const counts: Record<string, number> = {};
  for (const status of statuses()) counts[status] = (counts[status] ?? 0) + 1;
  return { counts, refusal: text.slice(text.lastIndexOf('HTTP/1.1 429')) };
}

const topicsUpTo = (count: number): string[] => Array.from({ length: count }, (_, index) => `topic ${index}`);

async function budgetOf(url: string, token: string, of: string): Promise<Record<string, number>> {
  const { json } = await request(`${url}/instances`, { headers: bearer(token) });
  const all = field(json, 'budgets') as (Record<string, number> & { of: string })[];
  const found = all?.find((one) => one.of === of);
  assert(found, `GET /instances shows the budget ${of}`);
  return found;
}

describe('responses that nobody reads', () => {
  it('different data configurations: one token has so many bytes under way, and others get theirs', async () => {
    await using server = await startServer({ ...withKeys(), ...PATIENT, SYNC_RESPONSE_BYTES: String(8 * MIB) });
    const { url, port } = server;
    const publisher = await tokenOf(url, { type: 'datasource' });
    const entries = [{ url: '', dst_path: '/t', topics: ['t'], data: { x: DOCUMENT } }];
    assert.equal((await postJson(`${url}/data/config`, { entries }, bearer(publisher))).status, 200);
    const [greedy, other] = [await tokenOf(url), await tokenOf(url)];
    const targets = Array.from({ length: 60 }, (_, index) => `/data/config?topics=t,x${index}`);
    const socket = await unread(port, greedy, targets);
    const ask = (token: string, query: string) => request(`${url}/data/config${query}`, { headers: bearer(token) });
    await until(async () => (await ask(greedy, '?topics=t,y')).status === 429, {
      withinMs: 10_000,
      what: 'its share is used up',
    });
    const { used = 0, per_token: most = 0, limit = 0 } = await budgetOf(url, publisher, 'responses');
    assert(used <= most && most < limit, `${used} of ${most}`);
    assert.equal((await ask(greedy, '?topics=z')).status, 200, 'small ones have room');
    assert.equal((await ask(other, '?topics=t,other')).status, 200, 'others go on');
    const { counts, refusal } = await readAll(socket, targets.length);
    assert((counts['429'] ?? 0) >= 20, JSON.stringify(counts));
    assert.match(refusal, /retry-after: 1\r\n[\s\S]*x-sync-error: share_used_up[\s\S]*SYNC_RESPONSE_BYTES/i);
    await until(async () => (await ask(greedy, '?topics=t,z')).status === 200, {
      withinMs: 10_000,
      what: 'room again',
    });
    const { text } = await request(`${url}/metrics`, { headers: bearer(publisher) });
    assert.match(text, /^policysync_budget_used\{of="responses"\} \d+$/m);
    assert.match(text, /^policysync_budget_limit\{of="responses"\} 8388608$/m);
    assert.match(text, /^policysync_budget_refused_total\{of="responses"\} [1-9]\d*$/m);
  });

  it('the same bytes count once, however many callers with one token read them slowly', async () => {
    await using server = await startServer({ ...withKeys(), ...PATIENT, SYNC_RESPONSE_BYTES: String(8 * MIB) });
    const { url, port } = server;
    const publisher = await tokenOf(url, { type: 'datasource' });
    const entries = [{ url: '', dst_path: '/t', topics: ['t'], data: { x: DOCUMENT } }];
    assert.equal((await postJson(`${url}/data/config`, { entries }, bearer(publisher))).status, 200);
    const fleet = await tokenOf(url);
    const targets = ['/data/config', '/data/config?topics=t', '/data/updates'];
    const sockets = await Promise.all(Array.from({ length: 30 }, () => unread(port, fleet, targets)));
    for (const socket of sockets) assert.deepEqual((await readAll(socket, 3)).counts, { 200: 3 });
  });

  it('bundles of different directories: one token has so many under way', async () => {
    await using repo = await gitRepo();
    const numbers = Array.from({ length: 40 }, (_, index) => index);
    const small = numbers.map((index) => [`d${index}/data.json`, '{}'] as const);
    await repo.commit({ 'big/data.json': JSON.stringify({ x: DOCUMENT }), ...Object.fromEntries(small) });
    await using server = await startServer({
      ...{ ...withKeys(), ...PATIENT },
      SYNC_POLICY_REPO_URL: repo.url,
      SYNC_RESPONSE_BYTES: String(8 * MIB),
    });
    const { url, port } = server;
    const [greedy, other] = [await tokenOf(url), await tokenOf(url)];
    const ask = (token: string, dirs: string) =>
      request(`${url}/policy?${dirs}`, { headers: { ...bearer(token), 'accept-encoding': 'identity' } });
    await until(async () => (await ask(other, 'path=d1')).status === 200, { withinMs: 10_000, what: 'policy' });
    const socket = await unread(
      port,
      greedy,
      numbers.map((index) => `/policy?path=big&path=d${index}`),
    );
    await until(async () => (await ask(greedy, 'path=big')).status === 429, { withinMs: 10_000, what: 'its share' });
    assert.equal((await ask(other, 'path=big&path=d1&path=d2')).status, 200, 'others go on');
    assert.equal((await ask(greedy, 'path=d3')).status, 200, 'small ones have room');
    const { counts } = await readAll(socket, numbers.length);
    assert((counts['429'] ?? 0) >= 10, JSON.stringify(counts));
  });
});

describe('what is kept of sockets', () => {
  it('one token has so many subscriptions beyond the first of each socket', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_MAX_SUBSCRIPTIONS: '10000' });
    const { url } = server;
    const [fleet, other] = [await tokenOf(url), await tokenOf(url)];
    await using peers = together<StartedPeer>();
    const subscribe = async (token: string, count: number): Promise<[StartedPeer, unknown]> => {
      const peer = peers.add(await startPeer(url, bearer(token)));
      return [peer, await peer.call('subscribe', { topics: topicsUpTo(count) })];
    };
    const results = [];
    for (let count = 0; count < 8; count++) results.push(await subscribe(fleet, 1_032));
    const accepted = results.map(([, result]) => result);
    assert.deepEqual(accepted, [true, true, true, true, true, false, false, false]);
    for (let count = 0; count < 20; count++) assert.equal((await subscribe(fleet, 32))[1], true, 'usual clients');
    assert.equal((await subscribe(other, 1_032))[1], true, 'others go on');
    const session = peers.add(await startPeer(url, { ...bearer(fleet), 'x-sync-protocol': '2' }));
    const refused = await session.call('subscribe', { topics: topicsUpTo(100), client_id: 'a client' });
    assert.equal(field(refused, 'accepted'), false);
    assert.match(String(field(refused, 'reason')), /SYNC_MAX_SUBSCRIPTIONS/);
    const [first] = results[0] ?? [];
    assert.equal(await first?.call('unsubscribe', { topics: ['topic 1', 'topic 2'] }), true);
    assert.equal(
      await results[5]?.[0].call('subscribe', { topics: topicsUpTo(35) }),
      false,
      'two places, three topics',
    );
    assert.equal(await results[5]?.[0].call('subscribe', { topics: topicsUpTo(34) }), true);
    await first?.[Symbol.asyncDispose]();
    await until(async () => (await subscribe(fleet, 1_030))[1] === true, { withinMs: 10_000, what: 'room again' });
  });

  it('one token never has all sockets', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_MAX_CONNECTIONS: '32' });
    const { url } = server;
    const [fleet, other] = [await tokenOf(url), await tokenOf(url)];
    await using peers = together<StartedPeer>();
    for (let count = 0; count < 30; count++) peers.add(await startPeer(url, bearer(fleet)));
    await assert.rejects(startPeer(url, bearer(fleet)), /429/);
    peers.add(await startPeer(url, bearer(other)));
  });

  it('statistics topics: a call puts no more before their subscribers than a client has to tell', async () => {
    await using server = await startServer(withKeys());
    const { url } = server;
    const token = await tokenOf(url);
    const topics = Array.from({ length: 1_000 }, (_, index) => `__opal_stats_${index}`);
    await using reader = await startPeer(url, bearer(token));
    await using sender = await startPeer(url, bearer(token));
    await reader.call('subscribe', { topics });
    assert.equal(await sender.call('publish', { topics, data: { x: 'x'.repeat(10_000) } }), false);
    await reader.call('ping', {});
    assert.equal(reader.frames.length, 2, 'the responses to its two calls');
    const announced = { client_id: 'a client', topics: topicsUpTo(10_000) };
    assert.equal(await sender.call('publish', { topics: ['__opal_stats_1'], data: announced }), true);
    assert.deepEqual(await reader.notified(1), [announced]);
  });
});

describe('work', () => {
  it('a token that scans all the time delays others by their turn alone', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_SCANS_AT_ONCE: '2' });
    const { url, port } = server;
    const publisher = await tokenOf(url, { type: 'datasource' });
    const entries = [{ url: '', dst_path: '/t', topics: ['t'], data: { x: 'x'.repeat(100_000) } }];
    for (let count = 0; count < 40; count++) await postJson(`${url}/data/config`, { entries }, bearer(publisher));
    const greedy = await tokenOf(url, { type: 'datasource', claims: { permitted_topics: [] } });
    const kinds = ['/data/log?topic=a', '/changes?topic=a', '/trace/unknown', '/data/updates?topics=a'];
    const targets = Array.from({ length: 800 }, (_, index) => kinds[index % kinds.length] ?? '');
    const socket = await unread(port, greedy, targets);
    let text = '';
    socket.setEncoding('latin1').on('data', (more: string) => {
      text += more;
    });
    const answered = (): number => text.split('HTTP/1.1 ').length - 1;
    await until(() => answered() > 0, { withinMs: 10_000, what: 'the first' });
    const before = answered();
    assert.equal((await request(`${url}/data/log?limit=1`, { headers: bearer(publisher) })).status, 200);
    const meanwhile = answered() - before;
    // Behind all of them it would come last; a busy machine is late to ask, and to read what it is told.
    const share = patience() === 1 ? 1 / 2 : 7 / 8;
    assert(meanwhile < targets.length * share, `${meanwhile} of ${targets.length} came first`);
    await until(() => answered() === targets.length, { withinMs: 20_000, what: 'all of them' });
    assert.doesNotMatch(text, /HTTP\/1\.1 5/);
    socket.destroy();
  });

  it('a token that appends to a long list delays others by one of these', async () => {
    await using server = await startServer(withKeys());
    const target = `${server.url}/data/config`;
    const [greedy, other] = [
      await tokenOf(server.url, { type: 'datasource' }),
      await tokenOf(server.url, { type: 'datasource' }),
    ];
    const entry = { url: '', dst_path: '/t', topics: ['t'] };
    const list = { entries: [{ ...entry, data: { l: Array(300_000).fill(1) } }] };
    assert.equal((await postJson(target, list, bearer(greedy))).status, 200);
    const append = { entries: [{ ...entry, save_method: 'PATCH', data: [{ op: 'add', path: '/l/-', value: 1 }] }] };
    let done = 0;
    const appends = Array.from({ length: 12 }, async () => {
      const { status } = await postJson(target, append, bearer(greedy));
      done++;
      return status;
    });
    await until(() => done > 0, { withinMs: 60_000, what: 'the first' });
    const before = done;
    const published = await postJson(target, { entries: [{ ...entry, dst_path: '/o', data: 1 }] }, bearer(other));
    assert.equal(published.status, 200);
    assert(done - before < appends.length / 2, `${done - before} of ${appends.length} came first`);
    assert.deepEqual(new Set(await Promise.all(appends)), new Set([200]));
  });

  it('a token that asks for the load limit all the time leaves the others their part', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_CLIENT_LOAD_LIMIT_NOTATION: '10 per hour' });
    const { url } = server;
    const [greedy, fleet] = [await tokenOf(url), await tokenOf(url)];
    const ask = async (token: string) => (await request(`${url}/loadlimit`, { headers: bearer(token) })).status;
    const asked = async (token: string, count: number) => {
      const statuses = await Promise.all(Array.from({ length: count }, () => ask(token)));
      return statuses.filter((status) => status === 200).length;
    };
    assert.equal(await asked(fleet, 1), 1);
    assert.deepEqual([await asked(greedy, 12), await asked(fleet, 12)], [5, 4]);
  });

  it('bodies that stall give way to others of the same token, and others have room of their own', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_REQUEST_BYTES: String(MIB) });
    const { url, port } = server;
    const [greedy, other] = [await tokenOf(url, { type: 'datasource' }), await tokenOf(url, { type: 'datasource' })];
    const data = 'x'.repeat(200_000);
    const publish = async (token: string) =>
      await postJson(
        `${url}/data/config`,
        { entries: [{ url: '', dst_path: '/t', topics: ['t'], data: { data } }] },
        bearer(token),
      );
    const headers = [
      ['Authorization', `Bearer ${greedy}`],
      ['Content-Length', '200000'],
    ] as const;
    const body = Buffer.alloc(199_999, ' ');
    const stall = (): Socket => {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined);
      socket.write(requestBytes({ method: 'POST', target: '/data/config', headers, body }));
      return socket;
    };
    let stalled: Socket[] = [];
    const held = async (): Promise<number> =>
      Number(/policysync_budget_used\{of="bodies"\} (\d+)/.exec((await request(`${url}/metrics`)).text)?.[1]);
    const refused = await until(
      async () => {
        // They give way after a second: on a busy machine before others have come, or before all of them have.
        stalled = Array.from({ length: 4 }, (_, at) => (stalled[at]?.closed === false ? stalled[at] : stall()));
        if ((await held()) < 4 * body.length) return false;
        const answer = await publish(greedy);
        return answer.status === 429 && answer;
      },
      { withinMs: 20_000, what: 'its share is used up' },
    );
    assert.match(refused.text, /SYNC_REQUEST_BYTES/);
    assert.equal(refused.headers.get('retry-after'), '1');
    assert.equal((await publish(other)).status, 200, 'others go on');
    await until(async () => (await publish(greedy)).status === 200, { withinMs: 10_000, what: 'they give way' });
    for (const socket of stalled) socket.destroy();
  });

  it('connections on which nothing happens give way to one that asks', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_CONNECTIONS_PER_ADDRESS: '8' });
    const idle = Array.from({ length: 30 }, () => connect(server.port, '127.0.0.1').on('error', () => undefined));
    await until(() => idle.filter(({ closed }) => closed).length >= 22, {
      withinMs: 10_000,
      what: 'as many as may be',
    });
    for (let count = 0; count < 10; count++) {
      const answer = await request(`${server.url}/healthcheck`, { headers: { connection: 'close' } });
      assert.equal(answer.status, 200);
    }
    for (const socket of idle) socket.destroy();
  });
});
