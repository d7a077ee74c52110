import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { Agent } from 'undici';
import { until } from '../../../../test/support/until.js';
import { errorText } from '../../../lib/errors.js';
import { type Logger, Secret, silentLogger } from '../../../lib/observe/log.js';
import { Oauth } from './engine-auth.js';

const SECRET = 'a secret: with ümlaut';
const never = new AbortController().signal;

/** A token endpoint; `answer` gives status and body of each request. */
async function setup(answer: (count: number) => [number, unknown] | undefined, more: { timeoutMs?: number } = {}) {
  const requests: { headers: IncomingMessage['headers']; body: string }[] = [];
  const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    requests.push({ headers: request.headers, body });
    const given = answer(requests.length);
    if (given === undefined) return; // silent
    response.writeHead(given[0], { 'content-type': 'application/json' });
    response.end(typeof given[1] === 'string' ? given[1] : JSON.stringify(given[1]));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const clock = { now: 0 };
  const warnings: unknown[] = [];
  const log = {
    ...silentLogger(),
    debug: () => undefined,
    warn: (line: unknown) => void warnings.push(line),
  } as Logger;
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/token`;
  const auth = new Oauth(
    { server: url, clientId: 'policysync', clientSecret: new Secret(SECRET), timeoutMs: more.timeoutMs ?? 5_000 },
    { log, dispatcher: new Agent(), now: () => clock.now },
  );
  return {
    auth,
    clock,
    requests,
    warnings,
    bearer: () => auth.authorization(never),
    async [Symbol.asyncDispose]() {
      await auth.close();
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

const token = (count: number, expires_in?: unknown): [number, unknown] => [
  200,
  { access_token: `token-${count}`, token_type: 'bearer', ...(expires_in === undefined ? {} : { expires_in }) },
];

test('asks by client credentials with HTTP Basic, once for all calls of one moment', async () => {
  await using oauth = await setup((count) => token(count, 3600));
  const all = await Promise.all([oauth.bearer(), oauth.bearer(), oauth.bearer()]);
  assert.deepEqual(all, ['Bearer token-1', 'Bearer token-1', 'Bearer token-1']);
  assert.equal(oauth.requests.length, 1);
  const { headers, body } = oauth.requests[0] ?? assert.fail();
  assert.equal(body, 'grant_type=client_credentials');
  assert.equal(headers.accept, 'application/json');
  assert.equal(headers['content-type'], 'application/x-www-form-urlencoded;charset=UTF-8');
  const [scheme, credentials = ''] = String(headers.authorization).split(' ');
  assert.equal(scheme, 'Basic');
  assert.equal(Buffer.from(credentials, 'base64').toString('utf8'), `policysync:${SECRET}`);
});

for (const [what, life, timeoutMs, renewAt] of [
  ['ten seconds before it ends', 60, 1_000, 50_000],
  ['three times before it ends that the endpoint may take', 60, 5_000, 45_000],
  ['in the middle of a short life', '8', 5_000, 4_000],
] as const) {
  test(`a token is renewed ${what}`, async () => {
    await using oauth = await setup((count) => token(count, life), { timeoutMs });
    assert.equal(await oauth.bearer(), 'Bearer token-1');
    oauth.clock.now = renewAt - 1;
    assert.equal(await oauth.bearer(), 'Bearer token-1');
    assert.equal(oauth.requests.length, 1);
    oauth.clock.now = renewAt;
    assert.equal(await oauth.bearer(), 'Bearer token-1', 'it still serves');
    await until(async () => (await oauth.bearer()) === 'Bearer token-2', { withinMs: 20_000, what: 'the next token' });
    assert.equal(oauth.requests.length, 2);
  });
}

test('an endpoint that hangs while a token is renewed holds up no call before the token ends', async () => {
  await using oauth = await setup((count) => (count === 2 ? undefined : token(count, 60)), { timeoutMs: 600_000 });
  assert.equal(await oauth.bearer(), 'Bearer token-1');
  for (const now of [50_000, 55_000, 59_999]) {
    oauth.clock.now = now;
    assert.equal(await oauth.bearer(), 'Bearer token-1');
  }
  await until(() => oauth.requests.length === 2, { withinMs: 20_000, what: 'the request that hangs' });
});

test('a token without an end stays until the engine refuses it', async () => {
  await using oauth = await setup((count) => token(count));
  assert.equal(await oauth.bearer(), 'Bearer token-1');
  oauth.clock.now = 1e12;
  assert.equal(await oauth.bearer(), 'Bearer token-1');
  assert.equal(oauth.auth.renew('Bearer token-1'), true);
  assert.equal(await oauth.bearer(), 'Bearer token-2');
  assert.equal(oauth.auth.renew('Bearer token-1'), true, 'another call has the new one already');
  assert.equal(oauth.requests.length, 2);
});

test('a token that is refused again at once is not asked for at every call', async () => {
  await using oauth = await setup((count) => token(count, 3600));
  assert.equal(oauth.auth.renew(await oauth.bearer()), true);
  assert.equal(oauth.auth.renew(await oauth.bearer()), false);
  assert.equal(await oauth.bearer(), 'Bearer token-2');
  oauth.clock.now = 5_000;
  assert.equal(oauth.auth.renew('Bearer token-2'), true);
  assert.equal(await oauth.bearer(), 'Bearer token-3');
});

test('while no new token can be had the old one serves until its end', async () => {
  await using oauth = await setup((count) => (count === 2 || count === 3 ? [503, 'later'] : token(count, 60)));
  assert.equal(await oauth.bearer(), 'Bearer token-1');
  oauth.clock.now = 55_000;
  assert.equal(await oauth.bearer(), 'Bearer token-1');
  await until(() => oauth.warnings.length === 1, { withinMs: 20_000, what: 'the renewal has failed' });
  oauth.clock.now = 59_999;
  assert.equal(await oauth.bearer(), 'Bearer token-1');
  assert.equal(oauth.requests.length, 2, 'it is not asked at every call');
  oauth.clock.now = 60_000;
  await assert.rejects(oauth.bearer(), { code: 'engine_auth_failed', retryable: true });
  assert.equal(await oauth.bearer(), 'Bearer token-4');
});

for (const [what, answer, says] of [
  ['a refusal', [401, { error: 'invalid_client', error_description: SECRET }], /answered 401 invalid_client$/],
  ['a page', [500, `<html>${SECRET}</html>`], /answered 500$/],
  ['an answer without a token', [200, { id_token: 'x' }], /answered 200 without an access_token$/],
  ['a token with a line break', [200, { access_token: 'a\r\nb: c' }], /answered 200 without an access_token$/],
  ['a redirect', [302, ''], /answered 302$/],
  ['an endless answer', [200, JSON.stringify({ access_token: 'x'.repeat(100_000) })], /longer than 65536 bytes$/],
] as const) {
  test(`${what} is told with the address of the server and without a secret`, async () => {
    await using oauth = await setup(() => [...answer]);
    await assert.rejects(oauth.bearer(), (error: unknown) => {
      assert.match(errorText(error), says);
      assert.match(errorText(error), /no token for the engine: http:\/\/127\.0\.0\.1:\d+\/token /);
      const basic = Buffer.from(`policysync:${SECRET}`).toString('base64');
      for (const secret of [SECRET, basic]) assert(!inspect(error, { depth: 9 }).includes(secret));
      return true;
    });
  });
}

test('a silent server is given up after its time; a caller that stops waiting does not end it for the others', async () => {
  await using oauth = await setup((count) => (count === 1 ? undefined : token(count)), { timeoutMs: 300 });
  const stop = new AbortController();
  const stopped = oauth.auth.authorization(stop.signal);
  const other = oauth.bearer();
  stop.abort(new Error('stopped'));
  await assert.rejects(stopped, /stopped/);
  await assert.rejects(other, { code: 'engine_auth_failed', message: /did not answer within 300 ms/ });
  assert.equal(await oauth.bearer(), 'Bearer token-2');
});
