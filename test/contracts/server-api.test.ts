import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { createDispatcher } from '../../src/client/outbound/dispatcher.js';
import { OutboundGate } from '../../src/client/outbound/gate.js';
import { ServerApi } from '../../src/client/server-api.js';
import { SyncError } from '../../src/lib/errors.js';
import { Secret } from '../../src/lib/observe/log.js';
import { listening } from '../support/http-server.js';
import { until } from '../support/until.js';

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
function apiOf(serverUrl: string, gate = new OutboundGate(), limitBytes?: number) {
  const api = new ServerApi({
    serverUrl,
    dataConfigUrl: undefined,
    token: new Secret('t0ken'),
    policyDirs: ['.'],
    ...(limitBytes === undefined ? {} : { limitBytes }),
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

test('the place that the server redirects to is not asked for a compressed answer, which would not be read', async () => {
  const headers: IncomingMessage['headers'][] = [];
  await using other = await listening(
    createServer((request, response) => {
      headers.push(request.headers);
      response.end('{"entries":[]}');
    }),
  );
  await using server = await startServer({ '/data/config': { status: 307, headers: { location: other.url } } });
  await using client = apiOf(server.url);
  await client.api.dataConfig(new AbortController().signal);
  assert.deepEqual(
    headers.map((sent) => [sent['accept-encoding'], sent.accept]),
    [[undefined, 'application/json']],
  );
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

/** A server that sends so much to every request, with its length or without, and counts what it could send. */
async function startTalker(status: number, bytes: number, announced: boolean) {
  const sent = { bytes: 0, closed: false };
  const server = createServer((_request, response) => {
    response.writeHead(status, announced ? { 'content-length': bytes } : {});
    response.once('close', () => {
      sent.closed = true;
    });
    const piece = Buffer.alloc(65_536, '"x",');
    const write = (): void => {
      while (sent.bytes < bytes && !sent.closed) {
        sent.bytes += piece.length;
        if (!response.write(piece)) {
          response.once('drain', write);
          return;
        }
      }
      response.end();
    };
    write();
  });
  return { ...(await listening(server)), sent };
}

/** What is on its way when nobody reads any more: buffers of both sockets. */
const BUFFERED_BYTES = 16 * 1024 * 1024;

for (const announced of [true, false]) {
  test(`an answer beyond the limit is not read, ${announced ? 'announced' : 'not announced'}`, async () => {
    await using server = await startTalker(200, 400 * 1024 * 1024, announced);
    await using client = apiOf(server.url, new OutboundGate(), 1024 * 1024);
    const calls = [
      (signal: AbortSignal) => client.api.policy(undefined, signal),
      (signal: AbortSignal) => client.api.dataConfig(signal),
      (signal: AbortSignal) => client.api.baseConfig(signal),
      (signal: AbortSignal) => client.api.updates({ epoch: undefined, after: 0, topics: ['a'], limit: 1 }, signal),
      (signal: AbortSignal) => client.api.loadLimit(signal),
    ];
    for (const call of calls) {
      server.sent.bytes = 0;
      server.sent.closed = false;
      const failure = await failureOf(call(new AbortController().signal));
      assert.equal(failure.code, 'answer_too_large');
      assert.match(failure.message, /more than 1048576 \(SYNC_SERVER_ANSWER_LIMIT_BYTES\): http/);
      assert.equal(failure.retryable, true);
      await until(() => server.sent.closed, { withinMs: 20_000, what: 'the connection is closed' });
      assert(server.sent.bytes < BUFFERED_BYTES, String(server.sent.bytes));
    }
  });
}

test('of a refusal only the start is read', async () => {
  await using server = await startTalker(500, 400 * 1024 * 1024, false);
  await using client = apiOf(server.url);
  const failure = await failureOf(client.api.dataConfig(new AbortController().signal));
  assert.equal(failure.code, 'server_refused');
  assert(failure.message.length < 500);
  assert(server.sent.bytes < BUFFERED_BYTES, String(server.sent.bytes));
});

test('user and password of the URL go as Basic where there is no token; nothing that a server repeats of them is shown', async () => {
  const asked: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    asked.push(request.headers.authorization);
    response.writeHead(400).end(`${request.url} as ${request.headers.authorization} or us3rs p4ssw0rd`);
  });
  await using place = await listening(server);
  const api = new ServerApi({
    serverUrl: place.url.replace('//', '//us3rs:p4ssw0rd@').concat('/base?key=s3cret'),
    dataConfigUrl: undefined,
    token: undefined,
    policyDirs: ['.'],
    dispatcher: createDispatcher(2000, {}),
    gated: createDispatcher(2000, {}),
  });
  const failure = await failureOf(api.policy(undefined, new AbortController().signal));
  await api.close();
  const basic = Buffer.from('us3rs:p4ssw0rd').toString('base64');
  assert.deepEqual(asked, [`Basic ${basic}`]);
  assert.match(failure.message, /\/base\/policy\?\*\*\*: \/base\/policy\?\*\*\*&path=\. as /);
  for (const secret of ['us3rs', 'p4ssw0rd', 's3cret', basic])
    assert(!failure.message.includes(secret), failure.message);
});
