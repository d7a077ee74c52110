import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { decodeJwt } from 'jose';
import type { Logger } from '../../src/lib/observe/log.js';
import type { UiSession } from '../../src/wire/fleet.js';
import { bearer, keyPair, MASTER_TOKEN, tokenOf, withKeys } from '../support/auth.js';
import { makeAuthority } from '../support/certificates.js';
import { fleetStream } from '../support/fleet-stream.js';
import { field, postJson, request } from '../support/http.js';
import { cookieOf, pageHeaders, signIn } from '../support/page.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { requestBy } from '../support/tls-request.js';

const HOUR_SECONDS = 3_600;

/** Everything that a server logs, as one text for each line. */
function recordingLog(): { log: Logger; lines: string[] } {
  const lines: string[] = [];
  const record = (...all: unknown[]): void => void lines.push(JSON.stringify(all));
  const log: Logger = { debug: record, info: record, warn: record, error: record, child: () => log };
  return { log, lines };
}

async function sessionAt(url: string, headers: Record<string, string> = {}): Promise<UiSession> {
  const answer = await request(`${url}/ui/session`, { headers });
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.headers.get('cache-control'), 'no-store');
  return answer.json as UiSession;
}

describe('the name of the environment', () => {
  it('is told before anybody has signed in, and with the stream; without one there is none', async () => {
    await using server = await startServer({ ...withKeys(), SYNC_ENVIRONMENT: ' staging ' });
    assert.equal((await sessionAt(server.url)).environment, 'staging');
    const listener = bearer(await tokenOf(server.url, { type: 'listener' }));
    await using stream = await fleetStream(server.url, listener);
    await stream.sees('the environment', ({ fleet }) => fleet.environment === 'staging');
    await using plain = await startServer();
    assert.equal((await sessionAt(plain.url)).environment, undefined);
  });
});

describe('signing in to the live page', () => {
  const keys = keyPair();
  const { log, lines } = recordingLog();
  let server: StartedServer;
  before(async () => {
    server = await startServer(withKeys(keys), { log });
  });
  after(() => server?.[Symbol.asyncDispose]());

  it('a token becomes a cookie that scripts cannot read, and that reads what the token reads', async () => {
    const token = await tokenOf(server.url, { type: 'listener', ttl: HOUR_SECONDS });
    const { exp = 0, sub } = decodeJwt(token);
    const answer = await signIn(server.url, token);
    assert.equal(answer.status, 200, answer.text);
    const set = answer.headers.get('set-cookie') ?? '';
    assert.match(set, /^policysync=[\w-]{100,1000}; Path=\/; Max-Age=3(?:600|59\d); HttpOnly; SameSite=Strict$/);
    assert(!set.includes(token) && !set.includes(token.split('.')[1] ?? ''), 'the token is not in the cookie');
    const session = {
      ...{ signed_in: true, authentication: true, role: 'listener', subject: sub },
      ...{ topics: null, paths: null, ends_at: exp * 1000 },
    };
    const { version, ...rest } = answer.json as UiSession;
    assert.deepEqual(rest, session);
    assert.match(version, /^\d+\.\d+\.\d+/);
    const cookie = cookieOf(answer);
    assert.deepEqual(await sessionAt(server.url, cookie), { ...session, version });
    for (const path of ['/clients', '/statistics', '/metrics', '/log-level', '/data/updates']) {
      const status = async (headers: Record<string, string>) =>
        (await request(`${server.url}${path}`, { headers })).status;
      assert.equal(await status(cookie), await status(bearer(token)), path);
      assert.equal(await status({}), 401, path);
    }
  });

  it('nobody is signed in at first, and the page says so without an error', async () => {
    const { version: _, ...session } = await sessionAt(server.url);
    assert.deepEqual(session, {
      ...{ signed_in: false, authentication: true, role: null, subject: null },
      ...{ topics: null, paths: null, ends_at: null },
    });
    assert.equal((await request(`${server.url}/ui`)).status, 200, 'the page itself has nothing to hide');
  });

  it('a session lasts for 8 hours at most, however long the token lives', async () => {
    const before = Date.now();
    const answer = await signIn(server.url, await tokenOf(server.url, { type: 'datasource' }));
    const { ends_at: end } = answer.json as UiSession;
    const hours = ((end ?? 0) - before) / 3_600_000;
    assert(hours > 7.99 && hours < 8.01, `${hours} hours`);
    assert.match(answer.headers.get('set-cookie') ?? '', /Max-Age=(?:28800|2879\d);/);
  });

  it('a session ends with its token: its stream says why, requests are refused, and nobody is signed in', async () => {
    const token = await tokenOf(server.url, { type: 'listener', ttl: 3 });
    const cookie = cookieOf(await signIn(server.url, token));
    const stream = await fetch(`${server.url}/ui/events`, { headers: cookie, signal: AbortSignal.timeout(20_000) });
    assert.equal(stream.status, 200);
    assert.equal((await request(`${server.url}/clients`, { headers: cookie })).status, 200);
    const said = await stream.text(); // the server ends it
    assert.match(said, /^event: snapshot$/m);
    assert.match(said, /^event: end\ndata: \{"reason":"expired"\}$/m);
    const endsMs = (decodeJwt(token).exp ?? 0) * 1000;
    assert(Date.now() >= endsMs, 'not before its end');
    for (const path of ['/clients', '/ui/events']) {
      const refused = await request(`${server.url}${path}`, { headers: cookie });
      assert.deepEqual([refused.status, refused.headers.get('x-sync-error')], [401, 'unauthorized'], path);
      assert.equal(field(refused.json, 'detail', 'error'), 'The session has ended: sign in again.');
    }
    assert.equal((await sessionAt(server.url, cookie)).signed_in, false);
    const again = await signIn(server.url, token);
    assert.equal(again.status, 401);
    const text = String(field(again.json, 'detail', 'error'));
    assert.match(text, /^This token has ended \(\d{4}-\d\d-\d\d \d\d:\d\d UTC\)\. Ask for a new one\.$/);
  });

  it('says what is wrong with a token, and what is needed', async () => {
    const client = await signIn(server.url, await tokenOf(server.url, { type: 'client' }));
    assert.deepEqual([client.status, client.headers.get('x-sync-error')], [403, 'sign_in_refused']);
    assert.equal(field(client.json, 'detail'), 'This token is of kind client. It needs to be listener or datasource.');
    const master = await signIn(server.url, MASTER_TOKEN);
    assert.deepEqual([master.status, master.headers.get('x-sync-error')], [401, 'unauthorized']);
    assert.match(
      String(field(master.json, 'detail', 'error')),
      /^This is the master token, which only issues tokens\./,
    );
    for (const token of ['nonsense', '', 'a b', 'eyJhbGciOiJub25lIn0.e30.']) {
      const answer = await signIn(server.url, token);
      assert.equal(answer.status, 401, token);
      assert.equal(field(answer.json, 'detail', 'error'), 'The server does not know this token.');
      assert.equal(answer.headers.get('set-cookie'), null);
    }
  });

  it('takes a token as people paste it', async () => {
    const token = await tokenOf(server.url, { type: 'listener' });
    for (const pasted of [` ${token}\n`, `Bearer ${token}`, `bearer ${token} `])
      assert.equal((await signIn(server.url, pasted)).status, 200, pasted.slice(0, 10));
  });

  it('keeps the limits of the token', async () => {
    const claims = { permitted_topics: ['billing'], permitted_paths: ['/billing'] };
    const token = await tokenOf(server.url, { type: 'datasource', claims });
    const answer = await signIn(server.url, token);
    const { topics, paths } = answer.json as UiSession;
    assert.deepEqual([topics, paths], [['billing'], ['/billing']]);
    const publish = (topic: string, path: string) =>
      postJson(
        `${server.url}/data/config`,
        { entries: [{ url: '', topics: [topic], dst_path: path, data: 1 }] },
        { ...pageHeaders(server.url), ...cookieOf(answer) },
      );
    assert.equal((await publish('billing', '/billing/x')).status, 200);
    assert.equal((await publish('other', '/billing/x')).headers.get('x-sync-error'), 'topic_not_permitted');
    assert.equal((await publish('billing', '/other')).headers.get('x-sync-error'), 'path_not_permitted');
  });

  it('a listener reads only; a datasource acts', async () => {
    const [listener, datasource] = await Promise.all(
      ['listener', 'datasource'].map(async (type) =>
        cookieOf(await signIn(server.url, await tokenOf(server.url, { type }))),
      ),
    );
    const refresh = { topics: ['policy_data'], path: '/' };
    const post = (path: string, cookie: object | undefined) =>
      postJson(`${server.url}${path}`, refresh, { ...pageHeaders(server.url), ...cookie });
    const refused = await post('/log-level', listener);
    assert.deepEqual([refused.status, refused.headers.get('x-sync-error')], [403, 'session_not_permitted']);
    assert.match(String(field(refused.json, 'detail')), /listener token, which reads only/);
    assert.equal((await post('/data/refresh', listener)).status, 403);
    assert.equal((await post('/data/refresh', datasource)).status, 200);
    const read = await request(`${server.url}/data/log`, { headers: { ...listener } });
    assert.deepEqual([read.status, read.headers.get('x-sync-error')], [403, 'session_not_permitted']);
  });

  it('signing out has the browser forget the cookie', async () => {
    const cookie = cookieOf(await signIn(server.url, await tokenOf(server.url, { type: 'listener' })));
    const answer = await request(`${server.url}/ui/session`, {
      method: 'DELETE',
      headers: { origin: server.url, 'x-sync-ui': '1', ...cookie },
    });
    assert.equal(answer.status, 200, answer.text);
    assert.equal((answer.json as UiSession).signed_in, false);
    const forgotten = answer.headers.getSetCookie();
    assert.equal(forgotten.length, 2);
    for (const text of forgotten) assert.match(text, /^(?:__Host-)?policysync=; Path=\/; Max-Age=0; /);
  });

  it('a token in `Authorization` counts, and not the cookie beside it', async () => {
    const cookie = cookieOf(await signIn(server.url, await tokenOf(server.url, { type: 'datasource' })));
    const listener = bearer(await tokenOf(server.url, { type: 'listener' }));
    assert.equal((await sessionAt(server.url, { ...cookie, ...listener })).role, 'listener');
    assert.equal((await request(`${server.url}/data/log`, { headers: { ...cookie, ...listener } })).status, 401);
    assert.equal((await request(`${server.url}/clients`, { headers: { ...cookie, ...bearer('x') } })).status, 401);
  });

  it('a session works at every instance with the same keys, and ends when the keys change', async () => {
    const cookie = cookieOf(await signIn(server.url, await tokenOf(server.url, { type: 'listener' })));
    await using other = await startServer(withKeys(keys));
    assert.equal((await request(`${other.url}/clients`, { headers: cookie })).status, 200);
    await using renewed = await startServer(withKeys());
    const refused = await request(`${renewed.url}/clients`, { headers: cookie });
    assert.equal(refused.status, 401);
    assert.match(String(field(refused.json, 'detail', 'error')), /not one of this server: sign in again/);
    assert.equal((await sessionAt(renewed.url, cookie)).signed_in, false);
  });

  it('logs who signed in and when that ends, and no part of a token or cookie', async () => {
    const token = await tokenOf(server.url, { type: 'listener' });
    const { cookie } = cookieOf(await signIn(server.url, token));
    await signIn(server.url, `${token.slice(0, -4)}aaaa`);
    await request(`${server.url}/clients`, { headers: { cookie: `${cookie}x` } });
    const said = lines.find((line) => line.includes('signed in') && line.includes(String(decodeJwt(token).sub)));
    assert.match(said ?? '', /"type":"listener","ends_at":"\d{4}-[^"]+Z","address":"127\.0\.0\.1"/);
    const all = lines.join('\n');
    for (const secret of [...token.split('.').slice(1), cookie.slice(-40)]) assert(!all.includes(secret.slice(0, 40)));
    assert.doesNotMatch(all, /eyJ/);
  });
});

it('over TLS the cookie goes back over TLS only', async () => {
  await using authority = await makeAuthority('page');
  const pair = await authority.issue('localhost');
  await using server = await startServer({
    ...withKeys(),
    SYNC_SERVER_TLS_CERT_FILE: pair.cert,
    SYNC_SERVER_TLS_KEY_FILE: pair.key,
  });
  const ask = requestBy({ ca: authority.file });
  const issued = await ask(`${server.url}/token`, {
    method: 'POST',
    headers: { ...bearer(MASTER_TOKEN), 'content-type': 'application/json' },
    body: '{"type":"listener"}',
  });
  const answer = await ask(`${server.url}/ui/session`, {
    method: 'POST',
    headers: pageHeaders(server.url),
    body: JSON.stringify({ token: field(issued.json, 'token') }),
  });
  assert.equal(answer.status, 200, answer.text);
  assert.match(
    answer.headers.get('set-cookie') ?? '',
    /^__Host-policysync=[\w-]+; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict; Secure$/,
  );
  const { cookie } = cookieOf(answer);
  assert.equal((await ask(`${server.url}/clients`, { headers: { cookie } })).status, 200);
  const plain = cookie.replace('__Host-', '');
  assert.equal((await ask(`${server.url}/clients`, { headers: { cookie: plain } })).status, 401);
});

it('without authentication everyone at this machine is signed in, and no cookie counts', async () => {
  await using server = await startServer();
  const { version: _, ...session } = await sessionAt(server.url, { cookie: 'policysync=nonsense' });
  assert.deepEqual(session, {
    ...{ signed_in: true, authentication: false, role: 'datasource', subject: null },
    ...{ topics: null, paths: null, ends_at: null },
  });
  const answer = await signIn(server.url, 'anything');
  assert.deepEqual([answer.status, answer.headers.get('set-cookie')], [200, null]);
});
