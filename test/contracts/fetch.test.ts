import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import { brotliCompressSync, createGzip, deflateSync, gzipSync } from 'node:zlib';
import { HttpProvider, type HttpProviderOptions } from '../../src/client/fetch/http-fetch.js';
import type { FetcherOptions } from '../../src/client/fetch/providers.js';
import { failureOf, startFetcher, type TestFetcher, textOf } from '../support/fetcher.js';
import { until } from '../support/until.js';

const never = new AbortController().signal;
const DOCUMENT = '{"users":{"alice":{"roles":["admin"]}},"n":12345678901234567890}';

interface Source extends AsyncDisposable {
  readonly url: string;
  readonly requests: IncomingMessage[];
  readonly sockets: Set<Socket>;
}

async function listening(server: Server, requests: IncomingMessage[] = []): Promise<Source> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined); // a client that goes away is part of these tests
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** A data source. */
function source(listener: RequestListener): Promise<Source> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    return listener(request, response);
  });
  return listening(server, requests);
}

/** A data source that writes these bytes for any request, and then does as told. */
function rawSource(bytes: string, then: (socket: Socket) => void): Promise<Source> {
  return listening(
    createTcpServer((socket) => {
      socket.once('data', () => socket.write(bytes, () => then(socket)));
    }),
  );
}

type Options = FetcherOptions & HttpProviderOptions & { limitBytes: number };

async function setup(options: Partial<Options> = {}): Promise<TestFetcher> {
  const { limitBytes = 1_000_000, silenceTimeoutMs = 5000, env = {}, ...rest } = options;
  return startFetcher(new HttpProvider({ silenceTimeoutMs, env }), { limitBytes, ...rest });
}

describe('http fetcher, documents', () => {
  it('gives the bytes as they were sent, with their hash, and sends what the entry asks for', async () => {
    await using fetcher = await setup();
    await using api = await source((request, response) => {
      request.resume().on('end', () => response.end(DOCUMENT));
    });
    const config = { method: 'post' as const, headers: { Authorization: 'Bearer t', 'X-Own': 'y' }, data: { q: 1 } };
    const result = await fetcher.fetch({ url: `${api.url}/users?team=a`, config }, never);
    assert.equal(result.outcome, 'body');
    assert.equal(result.body.text(), DOCUMENT);
    assert.equal(result.body.sizeBytes, DOCUMENT.length);
    assert.equal(result.body.hash, createHash('sha256').update(DOCUMENT).digest('hex'));
    const [request] = api.requests;
    assert.equal(request?.method, 'POST');
    assert.equal(request.url, '/users?team=a');
    assert.equal(request.headers.authorization, 'Bearer t');
    assert.equal(request.headers['x-own'], 'y');
    assert.equal(request.headers['content-type'], 'application/json');
    assert.equal(request.headers['content-length'], '7');
  });

  it('takes JSON of any content type', async () => {
    await using fetcher = await setup();
    await using api = await source((_, response) => response.setHeader('content-type', 'text/html').end(' [1.0] '));
    assert.equal(await textOf(fetcher, { url: api.url }), ' [1.0] ');
  });

  it('undoes compression: gzip, br, deflate and several', async () => {
    await using fetcher = await setup();
    const encodings: Record<string, Buffer> = {
      gzip: gzipSync(DOCUMENT),
      br: brotliCompressSync(DOCUMENT),
      deflate: deflateSync(DOCUMENT),
      'br, gzip': gzipSync(brotliCompressSync(DOCUMENT)),
      identity: Buffer.from(DOCUMENT),
    };
    await using api = await source((request, response) => {
      const encoding = decodeURIComponent(request.url?.slice(1) ?? '');
      response.setHeader('content-encoding', encoding).end(encodings[encoding]);
    });
    for (const encoding of Object.keys(encodings)) {
      assert.equal(await textOf(fetcher, { url: `${api.url}/${encodeURIComponent(encoding)}` }), DOCUMENT, encoding);
    }
  });

  it('says "unchanged" for 304 when it asked so, and gives the validators for the next time', async () => {
    await using fetcher = await setup();
    await using api = await source((request, response) => {
      response.setHeader('etag', '"v1"');
      if (request.headers['if-none-match'] === '"v1"' || request.url === '/always-304') response.writeHead(304).end();
      else response.end(DOCUMENT);
    });
    const first = await fetcher.fetch({ url: api.url }, never);
    assert.equal(first.outcome, 'body');
    assert.equal(first.etag, '"v1"');
    const previous = { etag: first.etag };
    assert.deepEqual(await fetcher.fetch({ url: api.url, previous }, never), { outcome: 'unchanged' });
    assert.equal(await textOf(fetcher, { url: api.url, previous: { etag: '"v0"' } }), DOCUMENT);
    const failure = await failureOf(fetcher.fetch({ url: `${api.url}/always-304` }, never));
    assert.match(failure.message, /answered 304$/);
  });

  it('follows redirects and keeps configured headers within their origin', async () => {
    await using fetcher = await setup();
    await using other = await source((_, response) => response.setHeader('etag', '"other"').end(DOCUMENT));
    await using api = await source((request, response) => {
      const location = request.url === '/start' ? '/same' : `${other.url}/far`;
      response.writeHead(302, { location }).end('moved');
    });
    const headers = { Authorization: 'Bearer t', Cookie: 'c=1', 'X-Own': 'y' };
    const result = await fetcher.fetch({ url: `${api.url}/start`, config: { headers } }, never);
    assert.equal(result.outcome, 'body');
    assert.equal(result.body.text(), DOCUMENT);
    assert.equal(result.etag, undefined, 'the validator belongs to the other URL');
    assert.deepEqual(
      api.requests.map(({ url, headers: sent }) => [url, sent.authorization, sent.cookie]),
      [
        ['/start', 'Bearer t', 'c=1'],
        ['/same', 'Bearer t', 'c=1'],
      ],
    );
    const [far] = other.requests;
    assert.deepEqual(
      [far?.headers.authorization, far?.headers.cookie, far?.headers['x-own']],
      [undefined, undefined, undefined],
    );
  });

  it('gives up on a circle of redirects', async () => {
    await using fetcher = await setup();
    await using api = await source((_, response) => response.writeHead(307, { location: '/again' }).end());
    const failure = await failureOf(fetcher.fetch({ url: api.url }, never));
    assert.match(failure.message, /more than 10 redirects/);
    assert.equal(failure.retryable, false);
    assert.equal(api.requests.length, 11);
  });

  it('spools 150 MB to a file without holding them in memory', async () => {
    await using fetcher = await setup({ limitBytes: 200_000_000 });
    const row = Buffer.from(`${JSON.stringify({ name: 'x'.repeat(1000), roles: ['a', 'b'] })},\n`);
    const chunk = Buffer.concat(Array.from({ length: 64 }, () => row));
    const count = Math.ceil(150_000_000 / chunk.length);
    const expected = createHash('sha256');
    function* parts(): Generator<Buffer> {
      yield Buffer.from('[');
      for (let index = 0; index < count; index++) yield chunk;
      yield Buffer.from('null]');
    }
    for (const part of parts()) expected.update(part);
    await using api = await source((_, response) => void Readable.from(parts()).pipe(response));
    let peak = 0;
    const before = memoryUse();
    const watch = setInterval(() => {
      peak = Math.max(peak, memoryUse() - before);
    }, 5);
    const result = await fetcher.fetch({ url: api.url }, never);
    clearInterval(watch);
    assert.equal(result.outcome, 'body');
    assert.equal(result.body.hash, expected.digest('hex'));
    assert.equal(result.body.sizeBytes, count * chunk.length + 6);
    assert.equal((await fetcher.files()).length, 1);
    // Measured: 35 to 61 MB of garbage and buffers on both sides, not growing with the size. Holding the body would take 150 more.
    assert.ok(peak < 100_000_000, `${peak} bytes more in use`);
    await result.body.dispose();
    assert.deepEqual(await fetcher.files(), []);
  });
});

/** Bytes of objects and buffers. */
function memoryUse(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

describe('http fetcher, bad sources', () => {
  it('names source and status of a refusal, with the start of its text and without secrets', async () => {
    await using fetcher = await setup();
    await using api = await source((request, response) => {
      const [, status = ''] = request.url?.split(/[/?]/) ?? [];
      if (status === '429' || status === '503') response.setHeader('retry-after', '7');
      response.writeHead(Number(status)).end(`no ${request.url} for you ${'-'.repeat(500)}`);
    });
    const cases: [number, boolean, number | undefined][] = [
      [404, false, undefined],
      [401, false, undefined],
      [500, true, undefined],
      [429, true, 7],
      [503, true, 7],
      [206, false, undefined],
    ];
    for (const [status, retryable, retryAfterSeconds] of cases) {
      const failure = await failureOf(fetcher.fetch({ url: `${api.url}/${status}?token=s3cr3ts3cr3t` }, never));
      assert.equal(failure.code, 'fetch_failed');
      assert.equal(failure.retryable, retryable, String(status));
      assert.equal(failure.retryAfterSeconds, retryAfterSeconds);
      assert.ok(
        failure.message.startsWith(`GET ${api.url}/${status}?*** answered ${status}: no /${status}?*** for you -`),
      );
      assert.ok(failure.message.length < 300);
      assert.ok(!failure.message.includes('s3cr3t'));
    }
  });

  it('reads the text of a compressed refusal', async () => {
    await using fetcher = await setup();
    await using api = await source((_, response) =>
      response.writeHead(500, { 'content-encoding': 'gzip' }).end(gzipSync('database is down')),
    );
    assert.match((await failureOf(fetcher.fetch({ url: api.url }, never))).message, /answered 500: database is down$/);
  });

  it('refuses HTML, broken JSON and nothing, naming the content type', async () => {
    await using fetcher = await setup();
    const bodies: Record<string, string> = {
      html: '<!doctype html><p>Log in',
      cut: '{"a":[1,',
      more: '{"a":1}{"b":2}',
      none: '',
    };
    await using api = await source((request, response) =>
      response.setHeader('content-type', 'text/html; charset=utf-8').end(bodies[request.url?.slice(1) ?? '']),
    );
    for (const name of Object.keys(bodies)) {
      const failure = await failureOf(fetcher.fetch({ url: `${api.url}/${name}` }, never));
      assert.equal(failure.code, 'fetch_not_json');
      assert.equal(failure.retryable, false);
      assert.ok(
        failure.message.startsWith(
          `GET ${api.url}/${name} answered 200 with content type "text/html; charset=utf-8": `,
        ),
      );
      assert.match(failure.message, /the document is not JSON: unexpected/);
    }
    assert.deepEqual(await fetcher.files(), []);
  });

  it('refuses what is larger than the limit: announced, sent, or hidden in compressed bytes', async () => {
    await using fetcher = await setup({ limitBytes: 100_000 });
    await using api = await source((request, response) => {
      if (request.url === '/announced') response.writeHead(200, { 'content-length': 5_000_000_000 }).write('[');
      else if (request.url === '/sent') void Readable.from(endlessArray()).pipe(response);
      else {
        response.setHeader('content-encoding', 'gzip');
        void Readable.from(endlessArray()).pipe(createGzip()).pipe(response);
      }
    });
    for (const name of ['announced', 'sent', 'bomb']) {
      const failure = await failureOf(fetcher.fetch({ url: `${api.url}/${name}` }, never));
      assert.equal(failure.code, 'fetch_too_large');
      assert.ok(failure.message.startsWith(`GET ${api.url}/${name}: the document `), failure.message);
    }
    assert.deepEqual(await fetcher.files(), []);
    await until(() => api.sockets.size === 0, { withinMs: 20_000, what: 'the connections are closed' });
  });

  it('refuses bodies that are cut short: by length, by chunk, by reset, in compressed bytes', async () => {
    await using fetcher = await setup();
    const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';
    const end = (socket: Socket): void => void socket.end();
    const reset = (socket: Socket): void => void socket.resetAndDestroy();
    const short = gzipSync(DOCUMENT.repeat(10)).subarray(0, 40);
    const cases: [string, (socket: Socket) => void, RegExp][] = [
      // Each body so far is a JSON value, so that only its end is wrong.
      [`${head}content-length: 50\r\n\r\n{"a":1}`, end, /other side closed/],
      [`${head}transfer-encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n`, end, /other side closed/],
      [`${head}transfer-encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n`, reset, /ECONNRESET|other side closed/],
      [`${head}transfer-encoding: chunked\r\n\r\nnonsense\r\n`, end, /Invalid character in chunk size/],
      [`HTTP/1.1 200 OK\r\ncontent-length: 7\r\ncontent-length: 9\r\n\r\n{"a":1}`, end, /content-length/],
      [head, reset, /ECONNRESET|other side closed/],
      ['not http at all\r\n\r\n', end, /Expected HTTP/],
    ];
    for (const [bytes, then, message] of cases) {
      await using api = await rawSource(bytes, then);
      const failure = await failureOf(fetcher.fetch({ url: api.url }, never));
      assert.equal(failure.code, 'fetch_failed', bytes);
      assert.ok(failure.message.startsWith(`GET ${api.url}/: `), failure.message);
      assert.match(failure.message, message);
      assert.equal(failure.retryable, true);
    }
    await using less = await rawSource(`${head}content-length: 6\r\n\r\n{"a":1}`, end);
    assert.equal((await failureOf(fetcher.fetch({ url: less.url }, never))).code, 'fetch_not_json');
    await using api = await source((_, response) => response.setHeader('content-encoding', 'gzip').end(short));
    const failure = await failureOf(fetcher.fetch({ url: api.url }, never));
    assert.equal(failure.code, 'fetch_failed');
    assert.match(failure.message, /the compressed body is damaged or incomplete \(unexpected end of file\)/);
    assert.deepEqual(await fetcher.files(), []);
  });

  it('closes the connection of a refusal that it cannot read', async () => {
    await using fetcher = await setup();
    await using api = await source((_, response) =>
      response.writeHead(500, { 'content-encoding': 'zstd' }).write('x'.repeat(10)),
    );
    assert.match((await failureOf(fetcher.fetch({ url: api.url }, never))).message, /answered 500$/);
    await until(() => api.sockets.size === 0, { withinMs: 20_000, what: 'the connection is closed' });
  });

  it('refuses an encoding that it does not know and bytes that are not of their encoding', async () => {
    await using fetcher = await setup();
    await using api = await source((request, response) =>
      response.setHeader('content-encoding', request.url?.slice(1) ?? '').end(DOCUMENT),
    );
    const unknown = await failureOf(fetcher.fetch({ url: `${api.url}/zstd` }, never));
    assert.match(unknown.message, /content encoding "zstd" is not known/);
    for (const encoding of ['gzip', 'br', 'deflate']) {
      const failure = await failureOf(fetcher.fetch({ url: `${api.url}/${encoding}` }, never));
      assert.equal(failure.code, 'fetch_failed');
      assert.match(failure.message, /the compressed body is damaged/, encoding);
    }
  });

  it('says what cannot be reached', async () => {
    await using fetcher = await setup();
    const gone = await source((_, response) => response.end());
    await gone[Symbol.asyncDispose]();
    const refusal = await failureOf(fetcher.fetch({ url: gone.url }, never));
    assert.match(refusal.message, /^GET http:\/\/127\.0\.0\.1:\d+\/: connect ECONNREFUSED/);
    assert.equal(refusal.retryable, true);
    const unknown = await failureOf(fetcher.fetch({ url: 'http://no-such-host.invalid/x' }, never));
    assert.match(unknown.message, /no-such-host\.invalid/);
    assert.equal(unknown.retryable, true);
    const header = await failureOf(
      fetcher.fetch({ url: gone.url, config: { headers: { 'x-a': 'b\nsecret' } } }, never),
    );
    assert.match(header.message, /invalid x-a header/);
    assert.ok(!header.message.includes('secret'));
    assert.equal(header.retryable, false);
    await assert.rejects(fetcher.fetch({ url: 'file:///etc/passwd' }, never), {
      code: 'fetch_failed',
      retryable: false,
    });
  });
});

describe('http fetcher, time', () => {
  it('gives up on a source that never answers, and on one that falls silent', async () => {
    await using fetcher = await setup({ silenceTimeoutMs: 100 });
    await using api = await source((request, response) => {
      if (request.url === '/silent') response.write('{"a":');
    });
    const mute = await failureOf(fetcher.fetch({ url: `${api.url}/mute` }, never));
    assert.match(mute.message, /\/mute: no answer within 0\.1 s$|\/mute: no answer within 0\.1 s:/);
    const silent = await failureOf(fetcher.fetch({ url: `${api.url}/silent` }, never));
    assert.match(silent.message, /\/silent: silent for 0\.1 s within the body/);
    assert.ok(mute.retryable && silent.retryable);
    await until(() => api.sockets.size === 0, { withinMs: 20_000, what: 'the connections are closed' });
  });

  it('lets a slow source take its time, up to the total', async () => {
    await using api = await source((request, response) => {
      const text = request.url === '/ends' ? `[${'1,'.repeat(20)}1]` : `[${'1,'.repeat(10_000)}`;
      let at = 0;
      const timer = setInterval(() => {
        response.write(text.charAt(at++));
        if (at === text.length) response.end();
      }, 10);
      response.on('close', () => clearInterval(timer));
    });
    await using fetcher = await setup({ silenceTimeoutMs: 300, totalTimeoutMs: 15_000 });
    assert.equal(await textOf(fetcher, { url: `${api.url}/ends` }), `[${'1,'.repeat(20)}1]`);
    await using hasty = await setup({ silenceTimeoutMs: 15_000, totalTimeoutMs: 200 });
    const failure = await failureOf(hasty.fetch({ url: `${api.url}/endless` }, never));
    assert.match(failure.message, /\/endless was not read within 0\.2 s$/);
    assert.equal(failure.retryable, true);
    await until(() => api.requests.at(-1)?.socket.destroyed, { withinMs: 20_000, what: 'the connection is closed' });
  });

  it('stops at once when asked to, with the reason, and leaves no file', async () => {
    await using fetcher = await setup({ limitBytes: 1e9, concurrency: 2, perHost: 1 });
    await using api = await source((request, response) => {
      if (request.url === '/transfer') void Readable.from(endlessArray()).pipe(response);
    });
    const stop = new AbortController();
    const transfer = fetcher.fetch({ url: `${api.url}/transfer` }, stop.signal);
    const waiting = fetcher.fetch({ url: `${api.url}/waiting` }, stop.signal);
    await until(async () => (await fetcher.files()).length === 1, { withinMs: 20_000, what: 'bytes are on disk' });
    const reason = new Error('stop');
    stop.abort(reason);
    assert.deepEqual(await Promise.allSettled([transfer, waiting]), [
      { status: 'rejected', reason },
      { status: 'rejected', reason },
    ]);
    await assert.rejects(fetcher.fetch({ url: api.url }, stop.signal), reason);
    assert.deepEqual(await fetcher.files(), []);
    assert.deepEqual(
      api.requests.map(({ url }) => url),
      ['/transfer'],
    );
  });

  it('reads other hosts while one hangs', async () => {
    await using fetcher = await setup({ concurrency: 3, perHost: 3 });
    await using dead = await source(() => undefined);
    await using live = await source((_, response) => response.end(DOCUMENT));
    const stop = new AbortController();
    const hanging = Array.from({ length: 20 }, () => fetcher.fetch({ url: dead.url }, stop.signal));
    const ended = Promise.allSettled(hanging);
    await until(() => dead.requests.length === 2, { withinMs: 20_000, what: 'all slots of the dead host are taken' });
    for (let index = 0; index < 10; index++) assert.equal(await textOf(fetcher, { url: live.url }), DOCUMENT);
    assert.equal(dead.requests.length, 2);
    stop.abort();
    await ended;
  });
});

describe('http fetcher, proxy', () => {
  it('goes through the proxy of the given environment, except for the hosts that it excludes', async () => {
    await using api = await source((_, response) => response.end(DOCUMENT));
    await using proxy = await source((_, response) => response.end('"from the proxy"'));
    const env = { HTTP_PROXY: proxy.url.replace('//', '//user:pass@') };
    await using fetcher = await setup({ env });
    assert.equal(await textOf(fetcher, { url: 'http://api.invalid/x' }), '"from the proxy"');
    assert.equal(proxy.requests[0]?.url, 'http://api.invalid/x');
    assert.equal(proxy.requests[0]?.headers['proxy-authorization'], `Basic ${btoa('user:pass')}`);
    await using direct = await setup({ env: { ...env, NO_PROXY: 'invalid' } });
    await assert.rejects(direct.fetch({ url: 'http://api.invalid/x' }, never), { code: 'fetch_failed' });
    assert.equal(await textOf(fetcher, { url: api.url }), DOCUMENT, 'this machine is never behind a proxy');
    await using unset = await setup();
    assert.equal(await textOf(unset, { url: api.url }), DOCUMENT);
    assert.equal(proxy.requests.length, 1);
  });

  it('tunnels https through the proxy, and names the source when the tunnel ends nowhere', async () => {
    const targets: (string | undefined)[] = [];
    await using plain = await listening(createTcpServer((socket) => void socket.end('this is not TLS')));
    const server = createServer();
    server.on('connect', (request, client) => {
      targets.push(request.url);
      const upstream = connect(Number(new URL(plain.url).port), '127.0.0.1', () => {
        client.write('HTTP/1.1 200 OK\r\n\r\n');
        upstream.pipe(client).pipe(upstream);
      });
      upstream.on('error', () => client.destroy());
      client.on('error', () => upstream.destroy());
    });
    await using proxy = await listening(server);
    await using fetcher = await setup({ env: { HTTPS_PROXY: proxy.url } });
    const failure = await failureOf(fetcher.fetch({ url: 'https://source.invalid/x' }, never));
    assert.match(failure.message, /^GET https:\/\/source\.invalid\/x: /);
    assert.equal(targets[0], 'source.invalid:443');
  });

  it('refuses a proxy that is no address', async () => {
    await assert.rejects(setup({ env: { HTTPS_PROXY: 'not an address' } }), { code: 'config_invalid' });
  });
});

/** JSON that never ends. */
function* endlessArray(): Generator<string> {
  yield '[';
  for (;;) yield '1234567890,'.repeat(1000);
}
