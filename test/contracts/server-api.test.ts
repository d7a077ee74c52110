import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { createDispatcher } from '../../src/client/fetch/dispatcher.js';
import { OutboundGate } from '../../src/client/outbound/gate.js';
import { ServerApi } from '../../src/client/server-api.js';
import { SyncError } from '../../src/lib/errors.js';
import { Secret } from '../../src/lib/log.js';
import { listening } from '../support/http-server.js';

interface Answer {
  status: number;
  headers?: Record<string, string>;
}

/** A server that answers each path as the test says, with a data configuration as the body; keeps what it was asked. */
async function startServer(answers: Record<string, Answer> = {}) {
  const asked: { path: string; authorization: string | undefined }[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    const path = request.url ?? '/';
    asked.push({ path, authorization: request.headers.authorization });
    const { status, headers } = answers[path] ?? { status: 200 };
    response.writeHead(status, headers).end('{"entries":[]}');
  });
  return { ...(await listening(server)), answers, asked };
}

/** The calls of a client with a token. `await using` closes their connections. */
function apiOf(serverUrl: string, gate = new OutboundGate()) {
  const api = new ServerApi({
    serverUrl,
    dataConfigUrl: undefined,
    token: new Secret('t0ken'),
    policyDirs: ['.'],
    dispatcher: createDispatcher(2000, {}),
    gated: createDispatcher(2000, {}, { gate }),
  });
  return { api, [Symbol.asyncDispose]: () => api.close() };
}

async function failureOf(work: Promise<unknown>): Promise<SyncError> {
  const error: unknown = await work.then(
    () => undefined,
    (reason) => reason,
  );
  assert(error instanceof SyncError, String(error));
  return error;
}

test('the token goes along within the server, to no other origin, and is not given again on the way back', async () => {
  await using server = await startServer();
  await using other = await startServer();
  await using client = apiOf(server.url);
  server.answers['/data/config'] = { status: 307, headers: { location: '/near' } };
  server.answers['/near'] = { status: 302, headers: { location: `${other.url}/away?token=x` } };
  other.answers['/away?token=x'] = { status: 308, headers: { location: `${server.url}/back` } };
  assert.deepEqual((await client.api.dataConfig(new AbortController().signal)).entries, []);
  assert.deepEqual(server.asked, [
    { path: '/data/config', authorization: 'Bearer t0ken' },
    { path: '/near', authorization: 'Bearer t0ken' },
    { path: '/back', authorization: undefined },
  ]);
  assert.deepEqual(other.asked, [{ path: '/away?token=x', authorization: undefined }]);
});

test('user name and password of the place that the server redirects to are used there', async () => {
  await using server = await startServer();
  await using other = await startServer();
  await using client = apiOf(server.url);
  const location = `${other.url.replace('//', '//user:p%40ss@')}/config`;
  server.answers['/data/config'] = { status: 307, headers: { location } };
  await client.api.dataConfig(new AbortController().signal);
  const authorization = `Basic ${Buffer.from('user:p@ss').toString('base64')}`;
  assert.deepEqual(other.asked, [{ path: '/config', authorization }]);
});

for (const [name, headers] of [
  ['without a place', {}],
  ['to another scheme', { location: 'ftp://files.invalid/x' }],
] as [string, Record<string, string>][]) {
  test(`a redirect ${name} is what the server answered: it is asked once`, async () => {
    await using server = await startServer({ '/data/config': { status: 302, headers } });
    await using client = apiOf(server.url);
    const { code, message } = await failureOf(client.api.dataConfig(new AbortController().signal));
    assert.equal(code, 'server_refused');
    assert.match(message, /the sync server answered 302/);
    assert.equal(server.asked.length, 1);
  });
}

test('a circle of redirects ends', async () => {
  await using server = await startServer({ '/data/config': { status: 307, headers: { location: '/data/config' } } });
  await using client = apiOf(server.url);
  const { code } = await failureOf(client.api.dataConfig(new AbortController().signal));
  assert.equal(code, 'server_refused');
  assert.equal(server.asked.length, 11);
});

test('a server that is busy says when to come back, in seconds or as a date, five minutes at most', async () => {
  await using server = await startServer();
  await using client = apiOf(server.url);
  const { signal } = new AbortController();
  const wait = async (value: string): Promise<number | undefined> => {
    server.answers['/loadlimit'] = { status: 503, headers: { 'retry-after': value } };
    return (await failureOf(client.api.loadLimit(signal))).retryAfterSeconds;
  };
  assert.equal(await wait('7'), 7);
  assert.equal(await wait('999'), 300);
  assert.equal(await wait('soon'), undefined);
  const seconds = (await wait(new Date(Date.now() + 100_000).toUTCString())) ?? 0;
  assert(seconds > 80 && seconds <= 100, String(seconds));
});

test('a signal that lives as long as the client keeps nothing of the calls that are over', async () => {
  await using server = await startServer();
  await using client = apiOf(server.url);
  const { signal } = new AbortController();
  for (let n = 0; n < 3; n++) await client.api.dataConfig(signal);
  const kept = Object.getOwnPropertySymbols(signal).map((symbol): unknown => Reflect.get(signal, symbol));
  assert.deepEqual(
    kept.filter((value) => value instanceof Set && value.size > 0),
    [],
  );
});
