import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { Agent, fetch } from 'undici';
import type { UiSession } from '../../src/wire/fleet.js';
import { keyPair, tokenOf, withKeys } from '../support/auth.js';
import { makeAuthority, type TestAuthority } from '../support/certificates.js';
import { request } from '../support/http.js';
import { type Nginx, startNginx } from '../support/nginx.js';
import { cookieOf, pageHeaders } from '../support/page.js';
import { nginxProgram } from '../support/server-programs.js';
import { type StartedServer, startServer } from '../support/start-server.js';
import { requestBy } from '../support/tls-request.js';

const nginxFound = await nginxProgram();

/** The live page behind nginx with the configuration that ships: TLS ends there, and each request may meet another server. */
describe('the live page behind nginx', { skip: 'missing' in nginxFound && nginxFound.missing }, () => {
  const ends: (() => PromiseLike<void>)[] = [];
  const use = <T extends AsyncDisposable>(part: T): T => {
    ends.push(() => part[Symbol.asyncDispose]());
    return part;
  };
  let servers: readonly [StartedServer, StartedServer];
  let authority: TestAuthority;
  let nginx: Nginx;
  let ask: typeof request;
  let cookie: string;

  before(async () => {
    assert('path' in nginxFound);
    const env = { ...withKeys(keyPair()), SYNC_TRUSTED_PROXIES: '127.0.0.1' };
    servers = [use(await startServer(env)), use(await startServer(env))];
    authority = use(await makeAuthority('proxy'));
    const pair = await authority.issue('localhost');
    nginx = use(await startNginx(nginxFound, { servers: [servers[0].url, servers[1].url], pair }));
    ask = requestBy({ ca: authority.file });
  });
  after(async () => {
    for (const end of ends.reverse()) await end();
  });

  it('gives a cookie for TLS alone, which both servers take', async () => {
    const token = await tokenOf(servers[0].url, { type: 'listener' });
    const answer = await ask(`${nginx.url}/ui/session`, {
      method: 'POST',
      headers: pageHeaders(nginx.url),
      body: JSON.stringify({ token }),
    });
    assert.equal(answer.status, 200, answer.text);
    assert.match(answer.headers.get('set-cookie') ?? '', /^__Host-policysync=.*; Secure$/);
    cookie = cookieOf(answer).cookie;
    for (let time = 0; time < 6; time++) {
      const session = await ask(`${nginx.url}/ui/session`, { headers: { cookie } });
      assert.equal((session.json as UiSession).role, 'listener');
      assert.equal((await ask(`${nginx.url}/clients`, { headers: { cookie } })).status, 200);
    }
    for (const { url } of servers) assert.equal((await request(`${url}/clients`, { headers: { cookie } })).status, 200);
  });

  it('refuses to sign in for a page at another address', async () => {
    const headers = { ...pageHeaders(nginx.url), origin: 'https://localhost:1' };
    const answer = await ask(`${nginx.url}/ui/session`, { method: 'POST', headers, body: '{"token":"x"}' });
    assert.deepEqual([answer.status, answer.headers.get('x-sync-error')], [403, 'origin_refused']);
  });

  it('serves the page compressed, and its stream at once', async () => {
    const page = await ask(`${nginx.url}/ui`, { headers: { 'accept-encoding': 'br' } });
    assert.equal(page.status, 200);
    assert.equal(page.headers.get('content-encoding'), 'br');
    assert.match(page.headers.get('content-security-policy') ?? '', /^default-src 'none'; /);
    const again = await ask(`${nginx.url}/ui`, {
      headers: { 'accept-encoding': 'br', 'if-none-match': page.headers.get('etag') ?? '' },
    });
    assert.equal(again.status, 304);
    const dispatcher = new Agent({ connect: { ca: await readFile(authority.file) } });
    const signal = AbortSignal.timeout(20_000);
    const stream = await fetch(`${nginx.url}/ui/events`, { headers: { cookie }, dispatcher, signal });
    assert.equal(stream.status, 200);
    let said = '';
    // The stream goes on: what nginx held back would never come.
    for await (const chunk of stream.body ?? []) {
      said += Buffer.from(chunk).toString();
      if (said.includes('event: snapshot')) break;
    }
    assert.match(said, /^event: snapshot$/m);
    await dispatcher.destroy();
  });
});
