import assert from 'node:assert/strict';
import { type AddressInfo, connect } from 'node:net';
import { after, before, describe, it, test } from 'node:test';
import type { FastifyInstance } from 'fastify';
import { patience } from '../../test/support/until.js';
import { SyncError } from '../lib/errors.js';
import { type Logger, silentLogger } from '../lib/observe/log.js';
import { closeHttpApp, createHttpApp, parserRefusal } from './app.js';
import { addRoute } from './route.js';

const BODY_LIMIT_BYTES = 2048;

function appWithRoutes(log: Logger = silentLogger()) {
  const app = createHttpApp({ bodyLimitBytes: BODY_LIMIT_BYTES }, { log });
  const open = { method: 'GET', access: 'everyone', strangers: 'all', tag: 'Test', summary: 'For tests' } as const;
  addRoute(app, { ...open, path: '/things' }, () => ['a']);
  addRoute(app, { ...open, path: '/things/:id' }, () => 'one');
  addRoute(app, { ...open, method: 'POST', path: '/things' }, ({ request }) => ({ got: request.body ?? null }));
  addRoute(app, { ...open, path: '/busy' }, () => {
    throw new SyncError('policy_not_ready', 'not yet', { retryAfterSeconds: 1.2 });
  });
  addRoute(app, { ...open, path: '/detail' }, () => {
    throw new SyncError('unauthorized', 'no', { detail: { error: 'why' } });
  });
  addRoute(app, { ...open, path: '/bug' }, () => {
    throw new TypeError('secret internals');
  });
  return app;
}

const app = appWithRoutes();
after(() => app.close());

test('answers a known error with its status, detail, code and whole seconds to wait', async () => {
  const busy = await app.inject('/busy');
  assert.equal(busy.statusCode, 503);
  assert.deepEqual(busy.json(), { detail: 'not yet' });
  assert.equal(busy.headers['retry-after'], '2');
  assert.equal(busy.headers['x-sync-error'], 'policy_not_ready');
  assert.deepEqual((await app.inject('/detail')).json(), { detail: { error: 'why' } });
});

test('answers an unexpected error without its text, and logs its stack', async () => {
  const logged: unknown[] = [];
  const log: Logger = { ...silentLogger(), error: (fields: unknown) => logged.push(fields) };
  const app = appWithRoutes(log);
  const answer = await app.inject('/bug');
  await app.close();
  assert.equal(answer.statusCode, 500);
  assert.equal(answer.body, '{"error":"Uncaught server exception"}');
  assert.match(String((logged[0] as { err: Error }).err.stack), /secret internals/);
});

test('answers an unknown path with 404, also when the body is not readable', async () => {
  for (const options of [
    { url: '/nothing' },
    { url: '/nothing', method: 'POST', payload: '{', headers: { 'content-type': 'application/json' } },
    { url: '/nothing', method: 'POST', payload: 'x', headers: { 'content-type': 'text/plain' } },
  ] as const) {
    const answer = await app.inject(options);
    assert.equal(answer.statusCode, 404);
    assert.equal(answer.body, '{"detail":"Not Found"}');
    assert.equal(answer.headers['x-sync-error'], 'not_found');
  }
});

describe('what Node cannot read as a request', () => {
  const app = createHttpApp({ bodyLimitBytes: BODY_LIMIT_BYTES }, { log: silentLogger() });
  before(async () => {
    const open = { access: 'everyone', strangers: 'all', tag: 'Test', summary: 'For tests' } as const;
    addRoute(app, { ...open, method: 'POST', path: '/things' }, () => 'done');
    await app.listen({ host: '127.0.0.1', port: 0 });
  });
  after(() => app.close());

  const host = 'Host: x\r\n';
  for (const [what, sent, status, code, detail] of [
    ['a request line that is none', 'nonsense\r\n\r\n', 400, 'request_invalid', /cannot be read as HTTP: /],
    [
      'two lengths',
      `POST /things HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 2\r\n\r\n`,
      400,
      'request_invalid',
      /HTTP: /,
    ],
    [
      'headers that are too large',
      `GET / HTTP/1.1\r\n${host}X: ${'x'.repeat(20_000)}\r\n\r\n`,
      431,
      'headers_too_large',
      /16384 bytes/,
    ],
    [
      'chunk extensions that are too large',
      `POST /things HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\n\r\n1;${'a'.repeat(20_000)}\r\nx\r\n`,
      413,
      'body_too_large',
      /extensions of a chunk/,
    ],
    [
      'a request without Host',
      'GET /things HTTP/1.1\r\nConnection: close\r\n\r\n',
      400,
      'request_invalid',
      /no header Host/,
    ],
    [
      'an unknown expectation',
      `POST /things HTTP/1.1\r\n${host}Expect: tea\r\n\r\n`,
      417,
      'request_invalid',
      /not "tea"/,
    ],
  ] as const) {
    it(`${what} gets ${status} with the body that all errors have`, async () => {
      const answer = await exchange(app, sent);
      assert.equal(answer.status, status, answer.text);
      assert.equal(answer.headers.get('x-sync-error'), code);
      assert.match(answer.headers.get('content-type') ?? '', /^application\/json/);
      const body = JSON.parse(answer.body) as { detail: string };
      assert.deepEqual(Object.keys(body), ['detail']);
      assert.match(body.detail, detail);
    });
  }

  it('a request that does not arrive in time gets 408, and HTTP/1.0 needs no Host', async () => {
    const late = parserRefusal(Object.assign(new Error(), { code: 'ERR_HTTP_REQUEST_TIMEOUT' }));
    assert.deepEqual([late.status, late.code], [408, 'request_timeout']);
    assert.equal((await exchange(app, 'POST /things HTTP/1.0\r\n\r\n')).status, 200);
  });
});

/** Sends bytes, and reads the response until the connection ends. */
async function exchange(app: FastifyInstance, sent: string) {
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.on('error', () => undefined); // a reset after the response
  socket.write(sent);
  await new Promise((resolve) => socket.once('close', resolve));
  const [head = '', body = ''] = text.split(/\r\n\r\n(.*)/s);
  const [line = '', ...lines] = head.split('\r\n');
  const headers = new Headers(
    lines.map((each): [string, string] => [each.slice(0, each.indexOf(':')), each.slice(each.indexOf(':') + 1).trim()]),
  );
  return { status: Number(line.split(' ')[1]), headers, body, text };
}

test('answers a wrong method with 405 and every method of the path', async () => {
  for (const [url, allow] of [
    ['/things', 'GET, HEAD, POST'],
    ['/things/?x=1', 'GET, HEAD, POST'],
    ['/things/7', 'GET, HEAD'],
  ] as const) {
    const answer = await app.inject({ url, method: 'PUT', payload: '{}' });
    assert.equal(answer.statusCode, 405, url);
    assert.equal(answer.body, '{"detail":"Method Not Allowed"}');
    assert.equal(answer.headers.allow, allow);
  }
});

test('a trailing slash makes no difference', async () => {
  assert.deepEqual((await app.inject('/things/')).json(), ['a']);
});

test('reads JSON bodies by any JSON type or none, and nothing else', async () => {
  const accepted = ['application/json', 'application/json; charset=utf-8', 'Application/Vnd.Acme+JSON', undefined];
  for (const type of accepted) {
    const headers = type === undefined ? {} : { 'content-type': type };
    const answer = await app.inject({ url: '/things', method: 'POST', headers, payload: Buffer.from('{"a":1}') });
    assert.deepEqual(answer.json(), { got: { a: 1 } }, type);
  }
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonx', 'nonsense']) {
    const answer = await app.inject({
      url: '/things',
      method: 'POST',
      headers: { 'content-type': type },
      payload: '{"a":1}',
    });
    assert.equal(answer.statusCode, 422, type);
    assert.deepEqual(answer.json().detail[0].loc, ['body']);
  }
});

test('says where a body stops being JSON', async () => {
  const answer = await app.inject({ url: '/things', method: 'POST', payload: '{"a":1' });
  assert.equal(answer.statusCode, 422);
  const [problem] = answer.json().detail;
  assert.equal(problem.type, 'json_invalid');
  assert.deepEqual(problem.loc, ['body', 6]);
  const wide = await app.inject({ url: '/things', method: 'POST', payload: '\uFEFF{"ä":1,}' });
  assert.deepEqual(wide.json().detail[0].loc, ['body', 7], 'in characters');
  const badBytes = Buffer.from([0x22, 0xff, 0x22]);
  assert.equal(
    (await app.inject({ url: '/things', method: 'POST', payload: badBytes })).json().detail[0].type,
    'json_invalid',
  );
});

test('refuses a body above the limit with 413', async () => {
  const answer = await app.inject({ url: '/things', method: 'POST', payload: JSON.stringify('x'.repeat(3000)) });
  assert.equal(answer.statusCode, 413);
  assert.match(answer.json().detail, /SYNC_BODY_LIMIT_BYTES/);
});

test('a broken escape in a path is a 400, not a crash', async () => {
  const answer = await app.inject('/things/%zz');
  assert.equal(answer.statusCode, 400);
  assert.equal(typeof answer.json().detail, 'string');
});

test('closes at once although a keep-alive connection was busy when it began, and finishes its request', async () => {
  const app = createHttpApp({ bodyLimitBytes: BODY_LIMIT_BYTES }, { log: silentLogger() });
  const begun = deferred();
  const finish = deferred();
  const slow = {
    method: 'GET',
    path: '/slow',
    access: 'everyone',
    strangers: 'all',
    tag: 'Test',
    summary: 'Slow',
  } as const;
  addRoute(app, slow, async () => {
    begun.resolve(undefined);
    await finish.promise;
    return 'done';
  });
  await app.listen({ port: 0, host: '127.0.0.1' });
  const address = app.server.address();
  assert(typeof address === 'object' && address !== null);
  const socket = connect(address.port, '127.0.0.1');
  let received = '';
  socket.on('data', (chunk) => {
    received += chunk.toString();
  });
  const ended = new Promise((resolve) => socket.once('close', resolve));
  socket.write('GET /slow HTTP/1.1\r\nHost: x\r\nConnection: keep-alive\r\n\r\n');
  await begun.promise;
  const startedMs = performance.now();
  const closed = closeHttpApp(app);
  finish.resolve(undefined);
  await closed;
  await ended;
  assert.match(received, /done/);
  assert(performance.now() - startedMs < 3000 * patience());
});

function deferred(): { promise: Promise<unknown>; resolve(value: unknown): void } {
  let resolve: (value: unknown) => void = () => undefined;
  const promise = new Promise((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
