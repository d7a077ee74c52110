import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Agent, get } from 'node:http';
import { test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { WorkerFailure } from '../../src/embedded/types.js';
import { EngineRefusal } from '../../src/embedded/vocabulary.js';
import { SyncError } from '../../src/lib/errors.js';
import { exchange, requestBytes } from '../support/hostile-wire.js';
import { postJson, request } from '../support/http.js';
import { startFront } from '../support/opa-front.js';
import { until } from '../support/until.js';

/** The body as it came over the wire. */
async function rawBody(port: number, target: string, body: string, headers: [string, string][] = []): Promise<string> {
  const { text } = await exchange(port, requestBytes({ method: 'POST', target, headers, body: Buffer.from(body) }));
  return text.slice(text.indexOf('\r\n\r\n') + 4);
}

test('a plain question is decided by the source, and answered with the bytes of OPA', async () => {
  await using front = await startFront();
  const answer = await postJson(`${front.url}/v1/data/app/allow`, '{"input": {"a": 1.0}}');
  assert.equal(answer.text, '{"result": {"a": 1.0}}\n'.replace('": {', '": {'));
  assert.equal(answer.headers.get('content-type'), 'application/json');
  assert.equal(answer.headers.get('vary'), 'Accept-Encoding');
  assert.equal((await postJson(`${front.url}/v1/data/app/allow`, '{}')).text, `{${WARNING}}\n`);
  assert.equal((await request(`${front.url}/v1/data/app?input=1`)).text, '{"result":1}\n');
  assert.equal((await request(`${front.url}/v1/data/app`)).text, '{}\n');
  assert.equal((await postJson(`${front.url}/v0/data/app`, '[1]')).text, '[1]\n');
  assert.equal((await postJson(front.url, '')).text, 'null\n');
  assert.deepEqual(front.requests, []);
  assert.deepEqual(
    front.questions.map(({ path }) => path),
    ['app/allow', 'app/allow', 'app', 'app', 'app', 'system/main'],
  );
});

const WARNING = '"warning":{"code":"api_usage_warning","message":"\'input\' key missing from the request"}';

test('everything else goes as it is to the handler of OPA', async () => {
  await using front = await startFront(
    {},
    {
      http: async () => ({
        status: 301,
        headers: { 'Content-Type': 'text/html', Location: '/v1/data', Connection: 'close', 'Content-Length': '99' },
        body: Buffer.from('<a>'),
      }),
    },
  );
  const answer = await request(`${front.url}/v1/data/a%20b/?explain=full&pretty`, {
    method: 'POST',
    headers: {
      'content-type': 'text/yaml',
      accept: 'x/y',
      authorization: 'Bearer 1',
      'x-more': '1',
      'accept-encoding': 'gzip',
    },
    body: 'input: 1',
  });
  assert.equal(answer.status, 301);
  assert.equal(answer.headers.get('location'), '/v1/data');
  assert.equal(answer.headers.get('content-length'), '3');
  assert.notEqual(answer.headers.get('connection'), 'close');
  assert.equal(answer.text, '<a>');
  const [sent] = front.requests;
  assert.equal(sent?.method, 'POST');
  assert.equal(sent?.url, '/v1/data/a%20b/?explain=full&pretty');
  assert.deepEqual(Object.keys(sent?.headers ?? {}).sort(), ['accept', 'accept-encoding', 'content-type']);
  assert.equal(Buffer.from(sent?.body ?? []).toString(), 'input: 1');
  await request(`${front.url}/v1/policies/app.rego`);
  assert.deepEqual(front.requests[1]?.url, '/v1/policies/app.rego');
  assert.equal(front.requests[1]?.body, undefined);
});

test('OPA itself says what an error is, and what an undefined v0 decision is', async () => {
  await using front = await startFront(
    {},
    {
      decide: async ({ path }) => {
        if (path === 'app/conflict') throw new EngineRefusal('a conflict');
        return { text: undefined, by: 'go', policy: undefined };
      },
    },
  );
  for (const path of ['/v1/data/app/conflict', '/v0/data/app/none']) {
    assert.equal((await postJson(front.url + path, '{"input":1}')).text, JSON.stringify({ opa: path }));
    assert.equal(Buffer.from(front.requests.at(-1)?.body ?? []).toString(), '{"input":1}');
  }
  assert.equal((await postJson(`${front.url}/v1/data/app/none`, '{"input":1}')).text, '{}\n');
  assert.equal(front.requests.length, 2);
});

test('an engine that has no answer is an error in the form of OPA, never a decision', async () => {
  const failures: [unknown, number, string | null][] = [
    [new WorkerFailure('timeout', 'the decision app took longer than 5 ms'), 500, null],
    [new SyncError('engine_unreachable', 'the engine is being filled', { retryAfterSeconds: 0.2 }), 503, '1'],
    [new Error('a bug'), 500, null],
  ];
  for (const [error, status, retryAfter] of failures) {
    const fail = () => Promise.reject(error);
    await using front = await startFront({}, { decide: fail, http: fail });
    for (const path of ['/v1/data/app', '/v1/data/app?pretty', '/v1/query', '/health/live']) {
      const answer = path === '/health/live' ? await request(front.url + path) : await postJson(front.url + path, '{}');
      assert.equal(answer.status, status, path);
      assert.deepEqual(answer.json, { code: 'internal_error', message: (error as Error).message });
      assert.equal(answer.headers.get('retry-after'), retryAfter);
    }
  }
});

test('long results are compressed where OPA compresses them, and compressed questions unpacked', async () => {
  await using front = await startFront();
  const long = JSON.stringify('x'.repeat(2_000));
  const answer = await rawBody(front.port, '/v1/data/app', `{"input":${long}}`, [['Accept-Encoding', 'gzip']]);
  assert.equal(gunzipSync(Buffer.from(answer, 'latin1')).toString(), `{"result":${long}}\n`);
  assert.equal(await rawBody(front.port, '/v1/data/app', `{"input":${long}}`), `{"result":${long}}\n`);
  const packed = await request(`${front.url}/v1/data/app`, {
    method: 'POST',
    headers: { 'content-encoding': 'gzip' },
    body: gzipSync('{"input":7}'),
  });
  assert.equal(packed.text, '{"result":7}\n');
  assert.deepEqual(front.requests, []);
});

test('health and metrics wake nobody', async () => {
  let isReady = false;
  await using front = await startFront({}, { isReady: () => isReady });
  assert.deepEqual(await statusAndText(`${front.url}/health`), [200, '{}\n']);
  assert.equal((await request(`${front.url}/health?bundles`)).status, 500);
  isReady = true;
  assert.equal((await request(`${front.url}/health?bundles&plugins`)).status, 200);
  await request(`${front.url}/v1/config`);
  const { text, headers } = await request(`${front.url}/metrics`);
  assert.match(headers.get('content-type') ?? '', /^text\/plain; version=0\.0\.4/);
  assert.match(text, /^http_request_duration_seconds_count\{code="200",handler="health",method="get"\} 2$/m);
  assert.match(text, /^http_request_duration_seconds_count\{code="500",handler="health",method="get"\} 1$/m);
  assert.match(text, /^http_request_duration_seconds_count\{code="401",handler="authz",method="get"\} 1$/m);
  assert.deepEqual([front.requests, front.questions], [[], []]);
});

async function statusAndText(url: string): Promise<[number, string]> {
  const { status, text } = await request(url);
  return [status, text];
}

test('a port that another program has is named, with the reason of the system', async () => {
  await using front = await startFront();
  await assert.rejects(startFront({ port: front.port }), (error: SyncError) => {
    assert.equal(error.code, 'listen_failed');
    assert.match(error.message, new RegExp(`127\\.0\\.0\\.1:${front.port}`));
    return (error.cause as NodeJS.ErrnoException).code === 'EADDRINUSE';
  });
});

test('a stop answers what is under way, closes kept connections, and can be called again', async () => {
  const answers: (() => void)[] = [];
  const waits = () =>
    new Promise<{ text: string; by: 'go'; policy: undefined }>((resolve) => {
      answers.push(() => resolve({ text: '1', by: 'go', policy: undefined }));
    });
  await using front = await startFront({}, { decide: waits });
  const agent = new Agent({ keepAlive: true });
  const idle = get(`${front.url}/health`, { agent });
  const [response] = await once(idle, 'response');
  response.resume();
  await once(response, 'end');
  const underWay = request(`${front.url}/v1/data/app`);
  await until(() => answers.length === 1, { withinMs: 5_000, what: 'the question arrives' });
  const closed = front.close();
  for (const answer of answers) answer();
  assert.equal((await underWay).text, '{"result":1}\n');
  await closed;
  await front.close();
  agent.destroy();
  await assert.rejects(request(`${front.url}/health`));
});
