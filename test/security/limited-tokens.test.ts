import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { decodeJwt } from 'jose';
import { bearer, MASTER_TOKEN, tokenOf, withKeys } from '../support/auth.js';
import { runCommand } from '../support/command.js';
import { type Answer, field, postJson, request } from '../support/http.js';
import { startPeer } from '../support/start-peer.js';
import { startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

/** What the holder of a limited, or ended, token tries: other paths, other topics, texts of others, and time that it does not have. */

const WITHIN = { withinMs: 20_000 };
const OURS = { 'x-sync-protocol': '2' };

interface Entry {
  readonly topics: readonly string[];
  readonly dst_path: string;
  readonly save_method?: string;
  readonly data?: unknown;
  readonly url?: string;
}

async function source(url: string, claims: object, more: object = {}): Promise<{ authorization: string }> {
  return bearer(await tokenOf(url, { type: 'datasource', claims, ...more }));
}

function publish(url: string, headers: Record<string, string>, entries: readonly Entry[], query = ''): Promise<Answer> {
  return postJson(`${url}/data/config${query}`, { entries: entries.map((entry) => ({ url: '', ...entry })) }, headers);
}

const put = (dst_path: string, topic = 'acme'): Entry => ({ topics: [topic], dst_path, data: { a: 1 } });
const patch = (dst_path: string, ops: readonly object[]): Entry => ({
  topics: ['acme'],
  dst_path,
  save_method: 'PATCH',
  data: ops,
});

describe('permitted_paths', () => {
  /** What a token for /acme may not write, each in another way of saying it. */
  const OUTSIDE: readonly Entry[] = [
    put('/'),
    put('/acmeother'),
    put('/other'),
    put('other/acme'),
    put('//%6fther'),
    put('/ACME'),
    put('/acme%2Fx'),
    { topics: ['acme'], dst_path: '/', save_method: 'DELETE' },
    { topics: ['acme'], dst_path: '/other', save_method: 'DELETE' },
    patch('/', [{ op: 'add', path: '/other/x', value: 1 }]),
    patch('/', [{ op: 'add', path: '/acme/x', value: 1 }]),
    patch('/', [{ op: 'move', from: '/other/x', path: '/acme/x' }]),
    { topics: ['acme'], dst_path: '/', save_method: 'PATCH', url: 'http://127.0.0.1:9/patch' },
  ];
  const INSIDE: readonly Entry[] = [
    put('/acme'),
    put('acme/users/'),
    put('/%61cme/x'),
    patch('/acme', [{ op: 'add', path: '/y', value: 1 }]),
    { topics: ['acme'], dst_path: '/acme/x', save_method: 'DELETE' },
  ];

  it('limit where a token publishes, over HTTP and over the socket, however the path is written', async () => {
    await using server = await startServer(withKeys());
    const own = await source(server.url, { permitted_paths: ['/acme'] });
    await using peer = await startPeer(server.url, own);
    const overSocket = (entries: readonly Entry[]) =>
      peer.call('publish', { topics: ['acme'], data: { entries: entries.map((entry) => ({ url: '', ...entry })) } });
    for (const entry of OUTSIDE) {
      const what = JSON.stringify(entry);
      const answer = await publish(server.url, own, [put('/acme'), entry]);
      assert.equal(answer.status, 401, `${what}: ${answer.text}`);
      assert.equal(answer.headers.get('x-sync-error'), 'path_not_permitted', what);
      assert.match(String(field(answer.json, 'detail', 'error')), /^Invalid 'dst_path' to publish \{'\//, what);
      assert.equal(await overSocket([put('/acme'), entry]), false, what);
    }
    for (const entry of INSIDE) {
      assert.equal((await publish(server.url, own, [entry])).status, 200, JSON.stringify(entry));
      assert.equal(await overSocket([entry]), true, JSON.stringify(entry));
    }
    const all = await request(`${server.url}/data/log?limit=1000`, { headers: await source(server.url, {}) });
    assert.equal((field(all.json, 'updates') as unknown[]).length, 2 * INSIDE.length, 'nothing else was recorded');
    const none = await source(server.url, { permitted_paths: [] });
    assert.equal((await publish(server.url, none, [put('/acme')])).status, 401);
    const root = await source(server.url, { permitted_paths: ['/'] });
    assert.equal((await publish(server.url, root, [put('/anywhere')])).status, 200);
  });

  it('limit what is published again, and what of the audit is shown', async () => {
    await using server = await startServer(withKeys());
    const free = await source(server.url, {});
    const own = await source(server.url, { permitted_paths: ['/acme'] });
    const url = 'http://127.0.0.1:9/x';
    for (const path of ['/acme/a', '/other/b']) {
      assert.equal((await publish(server.url, free, [{ topics: ['acme'], dst_path: path, url }])).status, 200);
    }
    const refresh = (body: object, headers: Record<string, string>) =>
      postJson(`${server.url}/data/refresh`, body, headers);
    for (const body of [{ path: '/' }, { topics: ['acme'] }, { path: '/acme' }]) {
      const answer = await refresh(body, own);
      assert.deepEqual(
        [answer.status, field(answer.json, 'entries')],
        [200, 1],
        `${JSON.stringify(body)} ${answer.text}`,
      );
    }
    assert.equal(field((await refresh({ path: '/other' }, own)).json, 'entries'), 0);
    const paths = async (headers: Record<string, string>) => {
      const { json } = await request(`${server.url}/data/log`, { headers });
      const updates = field(json, 'updates') as unknown[];
      return [...new Set(updates.map((update) => String(field(update, 'entries', 0, 'dst_path'))))].sort();
    };
    assert.deepEqual(await paths(own), ['/acme/a']);
    assert.deepEqual(await paths(free), ['/acme/a', '/other/b']);
    // A patch from above is part of what stands there, and is not this token's to publish.
    const above = patch('/', [{ op: 'add', path: '/acme/a/x', value: 1 }]);
    assert.equal((await publish(server.url, free, [above])).status, 200);
    const answer = await refresh({ path: '/acme' }, own);
    assert.deepEqual([answer.status, answer.headers.get('x-sync-error')], [401, 'path_not_permitted'], answer.text);
  });

  it('are issued by POST /token and `policysync token`, in one form alone', async () => {
    await using server = await startServer(withKeys());
    for (const permitted_paths of ['/acme', ['acme'], ['/a/../b'], [''], ['/%'], [1], null, { 0: '/acme' }]) {
      const asked = { claims: { permitted_paths } };
      const answer = await postJson(`${server.url}/token`, asked, { authorization: `Bearer ${MASTER_TOKEN}` });
      assert.equal(answer.status, 422, JSON.stringify(asked));
    }
    const id = '5a8e53a5-4210-4217-8180-d29a6851552b';
    const flags = ['--permitted-topics', 'a,b', '--permitted-topics', 'c', '--permitted-paths', '/acme,/shared/acme'];
    const result = await runCommand(
      'policysync',
      ['token', '--server-url', server.url, '--type', 'datasource', '--id', id, ...flags],
      { PATH: process.env.PATH ?? '', SYNC_MASTER_TOKEN: MASTER_TOKEN },
    );
    assert.equal(result.code, 0, result.stderr);
    const { sub, permitted_topics, permitted_paths } = decodeJwt(result.stdout.trim());
    assert.deepEqual(
      [sub, permitted_topics, permitted_paths],
      [id.replaceAll('-', ''), ['a', 'b', 'c'], ['/acme', '/shared/acme']],
    );
  });
});

describe('what a token that is limited to topics sees of others', () => {
  it('statistics of its topics alone, and it speaks on no statistics topic that it lacks', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_STATISTICS_ENABLED: 'true' });
    const client = async (topics?: string[]) =>
      startPeer(server.url, bearer(await tokenOf(server.url, { claims: topics && { permitted_topics: topics } })));
    await using acme = await client();
    await acme.call('subscribe', { topics: ['acme', 'secret'] });
    await using other = await client();
    await other.call('subscribe', { topics: ['other', '__opal_stats_add'] });
    await using limited = await client(['acme']);
    await limited.call('subscribe', { topics: ['acme'] });
    const forged = { client_id: 'forged', rpc_id: 'x', topics: ['other'] };
    assert.equal(await limited.call('publish', { topics: ['__opal_stats_add'], data: forged }), false);
    assert.equal(await limited.call('publish', { topics: ['__opal_stats_x'], data: {} }), false);
    assert.equal(await limited.call('subscribe', { topics: ['__opal_stats_add'] }), false);
    assert.equal(
      await acme.call('publish', { topics: ['__opal_stats_add'], data: { ...forged, client_id: 'real' } }),
      true,
    );
    const told = (await other.notified(1)).map((data) => field(data, 'client_id'));
    assert.deepEqual(told, ['real'], 'what was forged came to nobody');

    const headers = await source(server.url, { permitted_topics: ['acme'] });
    const { json: statistics } = await request(`${server.url}/statistics`, { headers });
    const channels = Object.values(field(statistics, 'clients') as Record<string, unknown[]>).flat();
    assert.deepEqual(
      channels.map((channel) => field(channel, 'topics')),
      [['acme'], ['acme']],
    );
    assert.equal(field((await request(`${server.url}/stats`, { headers })).json, 'client_count'), 2);
    const { text, json: info } = await request(`${server.url}/pubsub_client_info`, { headers });
    assert.doesNotMatch(text, /secret|other/);
    assert.equal(Object.keys(info as object).length, 2);
    const free = await request(`${server.url}/pubsub_client_info`, { headers: await source(server.url, {}) });
    assert.match(free.text, /secret/);
    assert.equal(Object.keys(free.json as object).length, 3);
  });

  it('the kind of a failure and not its text, in a wait and in GET /clients, also where it is limited to paths', async () => {
    await using server = await startServer(withKeys());
    await using client = await startPeer(server.url, { ...OURS, ...bearer(await tokenOf(server.url)) });
    const opened = await client.call('subscribe', { topics: ['acme'], client_id: 'c' });
    const secret = 'HTTP 500: <html>router admin: password hunter2';
    const position = { epoch: field(opened, 'epoch'), applied_through: 1, unresolved: [1] };
    const failing = [{ path: '/acme/users', error: secret, kind: 'source', since: 1 }];
    const engine = { kind: 'opa', version: '1', online: false, error: secret };
    const policy = { wanted: 'b', held: 'a', error: { message: secret, file: 'x.rego', line: 3 }, since: 1 };
    const state = {
      client_id: 'c',
      position,
      policy_hash: 'a',
      policy,
      ready: true,
      healthy: false,
      engine,
      failing,
      since: 1,
    };
    const tokens = [
      { permitted_topics: ['acme'] },
      { permitted_paths: ['/acme'] },
      { permitted_topics: ['acme'], permitted_paths: ['/acme'] },
    ];
    const waits: Answer[] = [];
    for (const claims of [...tokens, {}]) {
      const own = await source(server.url, claims);
      const wait = publish(server.url, own, [put('/acme/users')], '?wait=applied&timeout=1s');
      const seq = Number(field((await client.notified(waits.length + 1)).at(-1), 'seq'));
      const at = { ...position, applied_through: seq, unresolved: [seq] };
      assert.equal(await client.call('report', { ...state, position: at }), true);
      waits.push(await wait);
      const { text, json } = await request(`${server.url}/clients`, { headers: own });
      const isLimited = Object.keys(claims).length > 0;
      assert.equal(text.includes('hunter2'), !isLimited, text);
      assert.deepEqual(
        [field(json, 'clients', 0, 'failing', 0, 'kind'), field(json, 'clients', 0, 'last_error', 'kind')],
        ['source', 'source'],
      );
      assert.equal(field(json, 'clients', 0, 'subject') === null, isLimited);
    }
    const reasons = waits.map(({ json }) => field(json, 'lagging', 0, 'reason'));
    const kind = 'failing: its data source does not give it';
    assert.deepEqual(reasons, [kind, kind, kind, `failing: /acme/users: ${secret}`]);
  });
});

describe('what a limited token learns of a change', () => {
  it('the part that it may see, of clients that share a topic with it; of others it is not even there', async () => {
    await using server = await startServer(withKeys());
    const client = async (client_id: string, topics: string[]) => {
      const peer = await startPeer(server.url, { ...OURS, ...bearer(await tokenOf(server.url)) });
      await peer.call('subscribe', { topics, client_id });
      return peer;
    };
    await using acme = await client('ours', ['acme']);
    await using other = await client('hidden', ['other']);
    const free = await source(server.url, {});
    const both = await publish(server.url, free, [put('/acme/x'), put('/elsewhere', 'other')]);
    const apart = { entries: [put('/elsewhere', 'other')].map((entry) => ({ url: '', ...entry })), id: 'apart' };
    const hidden = await postJson(`${server.url}/data/config`, apart, free);
    const [whole, secret] = [Number(field(both.json, 'seq')), Number(field(hidden.json, 'seq'))];
    const position = {
      epoch: field(both.json, 'epoch'),
      applied_through: whole,
      applied_beyond: [],
      unresolved: [whole],
    };
    const failing = [{ path: '/acme/x', error: 'password hunter2', kind: 'source', since: 1 }];
    const engine = { kind: 'opa', version: '1', online: true };
    const report = {
      client_id: 'ours',
      position,
      policy_hash: null,
      ready: true,
      healthy: true,
      engine,
      failing,
      since: 1,
    };
    // Steps of updates that do not concern it, that are not there, or that are many: nothing of them is kept.
    const steps = [
      { seq: secret, applied: 1 },
      { seq: 999, applied: 1 },
      { commit: 'f'.repeat(40), applied: 1 },
    ];
    assert.equal(await acme.call('report', { ...report, steps }), true);
    assert.equal(await acme.call('report', { ...report, steps: Array(101).fill(steps[0]) }), false);
    const trace = (id: string | number, headers: Record<string, string>) =>
      request(`${server.url}/trace/${id}`, { headers });

    const all = await trace(whole, free);
    assert.deepEqual(field(all.json, 'paths'), ['/acme/x', '/elsewhere']);
    assert.deepEqual(field(all.json, 'counts'), { failing: 1, not_heard: 1 });
    assert.match(all.text, /hunter2/);
    assert.match(all.text, /"subscribers":2/);
    assert.doesNotMatch((await trace(secret, free)).text, /"ours"/);
    for (const claims of [{ permitted_topics: ['acme'] }, { permitted_topics: ['acme'], permitted_paths: ['/acme'] }]) {
      const limited = await source(server.url, claims);
      const part = await trace(whole, limited);
      assert.deepEqual([field(part.json, 'topics'), field(part.json, 'paths')], [['acme'], ['/acme/x']], part.text);
      assert.deepEqual(field(part.json, 'counts'), { failing: 1 });
      assert.doesNotMatch(part.text, /hunter2|hidden|elsewhere|"other"|subscribers/);
      for (const id of [secret, 'apart', 999, 'f'.repeat(40)]) {
        const answer = await trace(id, limited);
        assert.deepEqual([answer.status, answer.headers.get('x-sync-error')], [404, 'trace_unknown'], answer.text);
        assert.doesNotMatch(answer.text, /elsewhere|other/);
      }
    }
    const outside = await source(server.url, { permitted_paths: ['/acme'] });
    assert.equal((await trace(secret, outside)).status, 404);
    for (const type of ['client', 'listener']) {
      const { status, json } = await trace(whole, bearer(await tokenOf(server.url, { type })));
      assert.equal(status, type === 'client' ? 401 : 200);
      assert.equal(field(json, 'publisher'), undefined);
    }
    assert.equal((await trace(whole, {})).status, 401);
    assert.equal(other.frames.length > 0, true);
  });
});

describe('a token that ends', () => {
  it('ends the wait that it began, and its socket with its session; what it had queued is not published', async () => {
    await using server = await startServer(withKeys());
    await using mute = await startPeer(server.url, { ...OURS, ...bearer(await tokenOf(server.url)) });
    await mute.call('subscribe', { topics: ['acme'], client_id: 'mute' });
    const free = await source(server.url, {});
    const short = await source(server.url, {}, { ttl: 2 });
    await using ending = await startPeer(server.url, { ...OURS, ...short });
    await ending.call('subscribe', { topics: ['acme'], client_id: 'ending' });
    const closed = once(ending.socket, 'close');
    const startMs = performance.now();
    const wait = await publish(server.url, short, [put('/acme')], '?wait=applied&timeout=60s');
    assert(performance.now() - startMs < 50_000, 'it does not outlive the token');
    assert.deepEqual([wait.status, field(wait.json, 'lagging_count')], [202, 2], wait.text);
    const [code] = await closed;
    assert.equal(code, 1008);
    await until(
      async () => {
        const { json } = await request(`${server.url}/clients?id=ending`, { headers: free });
        return field(json, 'clients', 0, 'connected') === false;
      },
      { ...WITHIN, what: 'its session is over' },
    );
  });

  it('is not waited for by a peer that takes no part in the end of its connection', async () => {
    await using server = await startServer(withKeys());
    const free = await source(server.url, {});
    await using stubborn = await startPeer(server.url, { ...OURS, ...bearer(await tokenOf(server.url, { ttl: 2 })) });
    await stubborn.call('subscribe', { topics: ['acme'], client_id: 'stubborn' });
    // It reads no more: the close of the server is not answered.
    stubborn.socket.pause();
    await until(
      async () => {
        const { json } = await request(`${server.url}/clients?id=stubborn`, { headers: free });
        return field(json, 'clients', 0, 'connected') === false;
      },
      { withinMs: 10_000, what: 'its session is over with its token' },
    );
  });
});
