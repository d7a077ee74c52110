import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { bearer, keyPair, MASTER_TOKEN, tokenOf, withKeys } from '../support/auth.js';
import { closeOf } from '../support/close-of.js';
import { exchange, requestBytes, upgradeBytes } from '../support/hostile-wire.js';
import { request } from '../support/http.js';
import { CLIENT_SETTINGS, createClient, loadSettings, silentLogger } from '../support/library.js';
import { cookieOf, pageHeaders, signIn } from '../support/page.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { until } from '../support/until.js';

const UPDATE = JSON.stringify({ entries: [{ url: '', topics: ['policy_data'], dst_path: '/x', data: 1 }] });

/** What requests of other pages look like: at another site, at another port of this host, in a frame, by a form, by an old browser. */
function foreignHeaders(serverUrl: string): Readonly<Record<string, Record<string, string>>> {
  const page = { 'x-sync-ui': '1' };
  const otherPort = `${new URL(serverUrl).protocol}//${new URL(serverUrl).hostname}:1`;
  return {
    'another site': { ...page, origin: 'https://other.example' },
    'another site, as newer browsers say it': {
      ...page,
      origin: 'https://other.example',
      'sec-fetch-site': 'cross-site',
    },
    'another port of this host': { ...page, origin: otherPort, 'sec-fetch-site': 'same-site' },
    'another port of this host, in clear text': { ...page, origin: otherPort },
    'a frame without an origin': { ...page, origin: 'null', 'sec-fetch-site': 'cross-site' },
    'a form of this origin': { origin: serverUrl, 'sec-fetch-site': 'same-origin', 'content-type': 'text/plain' },
    'a request that says nothing of where it comes from': page,
    'two that contradict each other': { ...page, origin: serverUrl, 'sec-fetch-site': 'cross-site' },
  };
}

describe('a session of the live page', () => {
  const keys = keyPair();
  let server: StartedServer;
  let cookie: { cookie: string };
  before(async () => {
    // Even where web pages of all origins may call.
    server = await startServer({ ...withKeys(keys), SYNC_ALLOWED_ORIGINS: '*' });
    cookie = cookieOf(await signIn(server.url, await tokenOf(server.url, { type: 'datasource' })));
  });
  after(() => server?.[Symbol.asyncDispose]());

  it('is refused when it was made up, changed, or put together', async () => {
    const { cookie: pair } = cookie;
    const [name = '', value = ''] = pair.split('=');
    const flipped = (at: number): string => {
      const bytes = Buffer.from(value, 'base64url');
      bytes[at] = (bytes[at] ?? 0) ^ 0x80;
      return bytes.toString('base64url');
    };
    const other =
      cookieOf(await signIn(server.url, await tokenOf(server.url, { type: 'listener' }))).cookie.split('=')[1] ?? '';
    const token = await tokenOf(server.url, { type: 'datasource' });
    const claims = { peer_type: 'datasource', exp: 9_999_999_999 };
    for (const forged of [
      ...['', 'x', 'null', '{}', 'a.b.c', token, MASTER_TOKEN, `${value}A`, value.slice(0, -1), value.slice(1)],
      ...[flipped(0), flipped(20), flipped(100), flipped(Buffer.from(value, 'base64url').length - 1)],
      ...[value.slice(0, 16) + other.slice(16), other.slice(0, -22) + value.slice(-22), 'A'.repeat(8_000)],
      Buffer.from(JSON.stringify(claims)).toString('base64url'),
    ]) {
      const answer = await request(`${server.url}/clients`, { headers: { cookie: `${name}=${forged}` } });
      assert.equal(answer.status, 401, forged.slice(0, 60));
      assert(forged.length < 30 || !answer.text.includes(forged.slice(-20)), 'it is not repeated');
    }
    assert.equal((await request(`${server.url}/clients`, { headers: cookie })).status, 200);
  });

  it('is no token: not as a bearer, not on the socket, not to issue tokens, not in an address', async () => {
    const value = cookie.cookie.split('=')[1] ?? '';
    assert.equal((await request(`${server.url}/clients`, { headers: bearer(value) })).status, 401);
    const upgrade = (headers: [string, string][]) => exchange(server.port, upgradeBytes(headers), { finish: true });
    const origin = ['Origin', server.url] as [string, string];
    assert.equal((await upgrade([['Cookie', cookie.cookie], origin])).status, 401);
    assert.equal((await upgrade([['Cookie', cookie.cookie], origin, ['Sec-Fetch-Site', 'same-origin']])).status, 401);
    const issue = { method: 'POST', headers: { ...pageHeaders(server.url), ...cookie }, body: '{}' };
    assert.equal((await request(`${server.url}/token`, issue)).status, 401);
    assert.equal((await request(`${server.url}/clients?${cookie.cookie}`)).status, 401);
  });

  it('changes nothing for a request that another page sends', async () => {
    for (const [who, headers] of Object.entries(foreignHeaders(server.url))) {
      const init = {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers, ...cookie },
        body: UPDATE,
      };
      const answer = await request(`${server.url}/data/config`, init);
      assert.deepEqual([answer.status, answer.headers.get('x-sync-error')], [403, 'origin_refused'], who);
      const leave = await request(`${server.url}/ui/session`, { method: 'DELETE', headers: { ...headers, ...cookie } });
      assert.deepEqual([leave.status, leave.headers.get('set-cookie')], [403, null], who);
    }
    const own = { method: 'POST', headers: { ...pageHeaders(server.url), ...cookie }, body: UPDATE };
    assert.equal((await request(`${server.url}/data/config`, own)).status, 200);
  });

  it('reads nothing for another page, not even where its origin is allowed', async () => {
    const { port } = new URL(server.url);
    for (const [who, headers] of Object.entries({
      'another site': { origin: 'https://other.example' },
      'another port of this host': { origin: `http://127.0.0.1:${Number(port) + 1}`, 'sec-fetch-site': 'same-site' },
      'an image of another port': { 'sec-fetch-site': 'same-site' },
      'a frame': { 'sec-fetch-site': 'cross-site' },
    })) {
      const answer = await request(`${server.url}/clients`, { headers: { ...headers, ...cookie } });
      assert.deepEqual([answer.status, answer.headers.get('x-sync-error')], [403, 'origin_refused'], who);
    }
  });

  it('is not given to another page, nor put upon somebody by one', async () => {
    const token = await tokenOf(server.url, { type: 'listener' });
    for (const [who, headers] of Object.entries(foreignHeaders(server.url))) {
      const init = { method: 'POST', headers: { 'content-type': 'application/json', ...headers } };
      const answer = await request(`${server.url}/ui/session`, { ...init, body: JSON.stringify({ token }) });
      assert.deepEqual([answer.status, answer.headers.get('x-sync-error')], [403, 'origin_refused'], who);
      assert.equal(answer.headers.get('set-cookie'), null, who);
    }
  });

  it('is none for the API of a client, which knows tokens only', async () => {
    const { values } = loadSettings(CLIENT_SETTINGS, {
      env: {
        SYNC_CLIENT_API_SERVER_PORT: '0',
        SYNC_SERVER_URL: 'http://127.0.0.1:9',
        SYNC_POLICY_STORE_URL: 'http://127.0.0.1:9',
        SYNC_INLINE_ENGINE_ENABLED: 'false',
        SYNC_AUTH_PUBLIC_KEY: keys.publicKey,
      },
    });
    const client = createClient(values, { log: silentLogger(), env: process.env });
    const { url } = await client.start();
    try {
      const listener = await tokenOf(server.url, { type: 'listener' });
      const session = cookieOf(await signIn(server.url, listener));
      assert.equal((await request(`${url}/callbacks`, { headers: bearer(listener) })).status, 200);
      assert.equal((await request(`${url}/callbacks`, { headers: session })).status, 401);
      assert.equal((await request(`${url}/ui`)).status, 404);
    } finally {
      await client.stop();
    }
  });
});

describe('somebody who tries tokens', () => {
  it('has only the connections and bytes of callers that were not let in', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_CONNECTIONS_PER_ADDRESS: '3' });
    const body = Buffer.from('{"token":"nonsense"}');
    const headers = [
      ...Object.entries({ ...pageHeaders(server.url), Host: new URL(server.url).host }),
      ['Connection', 'keep-alive'] as const,
    ];
    const bytes = requestBytes({ method: 'POST', target: '/ui/session', headers, body });
    const sockets: Socket[] = [];
    /** Tries on a new connection; the status, or 0 if it was closed. */
    const tryOnce = async (): Promise<number> => {
      const socket = connect(server.port, '127.0.0.1');
      sockets.push(socket);
      socket.on('error', () => undefined);
      socket.write(bytes);
      const [answer] = (await Promise.race([once(socket, 'data'), once(socket, 'close')])) as [unknown];
      return Number(/^HTTP\/1\.1 (\d{3})/.exec(String(answer))?.[1] ?? 0);
    };
    try {
      assert.deepEqual([await tryOnce(), await tryOnce(), await tryOnce()], [401, 401, 401]);
      const [first] = sockets;
      assert(first && !first.closed);
      const closed = closeOf(first);
      assert.equal(await tryOnce(), 401);
      await closed; // the fourth is one too many: the others still count
    } finally {
      for (const socket of sockets) socket.destroy();
    }
    const isBack = async (): Promise<boolean> =>
      (await request(`${server.url}/healthcheck`).catch(() => undefined))?.status === 200;
    await until(isBack, { withinMs: 10_000, what: 'the address has connections again' });
  });

  it('meets the rate limit, and a body of any size is refused before it is read', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_RATE_LIMIT: '5/minute' });
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 8; attempt++) statuses.push((await signIn(server.url, `guess-${attempt}`)).status);
    assert.deepEqual(statuses, [401, 401, 401, 401, 401, 429, 429, 429]);
    await using other = await startServer(withKeys());
    assert.equal((await signIn(other.url, 'x'.repeat(17 * 1024))).status, 413);
    for (const body of ['[]', '{}', '{"token":1}', '{"token":"a","more":1}', 'not json']) {
      const answer = await request(`${other.url}/ui/session`, {
        method: 'POST',
        headers: pageHeaders(other.url),
        body,
      });
      assert.equal(answer.status, 422, body);
    }
  });
});

it('without authentication nothing of the live page is told under a name that is no loopback one', async () => {
  await using server = await startServer({ SYNC_ALLOWED_HOSTS: 'fleet.example' });
  for (const target of ['/ui', '/ui/', '/ui/session', '/ui/events', '/UI', '/%75i', '/ui/session/', '/ui//session']) {
    const foreign = requestBytes({ method: 'GET', target, headers: [['Host', 'fleet.example:7002']] });
    const { status } = await exchange(server.port, foreign);
    assert(status === 403 || status === 404, `${target}: ${status}`);
  }
  assert.equal((await request(`${server.url}/ui/session`)).status, 200);
  assert.equal((await request(`${server.url}/ui`)).status, 200);
});
