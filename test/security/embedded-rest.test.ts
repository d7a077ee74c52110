import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { closeOf } from '../support/close-of.js';
import { exchange, type RawAnswer, requestBytes } from '../support/hostile-wire.js';
import { postJson, request } from '../support/http.js';
import { startFront } from '../support/opa-front.js';
import { until } from '../support/until.js';

/** OPA's REST API of the embedded engine, before whatever stands behind it: what is refused here never gets that far. */
describe('the REST API of the embedded engine', () => {
  const REFUSED = {
    code: 'unauthorized',
    message: 'request rejected by administrative policy',
  };

  it('has no way to write, and shows no configuration, in any spelling', async () => {
    await using front = await startFront();
    const paths = [
      '/',
      '/v1/data',
      '/v1/data/app',
      '/v1/policies',
      '/v1/policies/app.rego',
      '/v0/data/app',
      '/v1/query',
    ];
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      for (const path of [...paths, '/v1/config', '/v1/status', '/health', '/metrics']) {
        const answer = await request(front.url + path, { method, body: 'package evil' });
        assert.equal(answer.status, 401, `${method} ${path}`);
        assert.deepEqual(answer.json, REFUSED);
      }
    }
    const targets = [
      '/v1/config',
      '/v1/status',
      '/v1/%63onfig',
      '//v1/config',
      '/v1//config',
      '/./v1/config',
      '/V1/config',
    ];
    for (const target of [
      ...targets,
      '/v1/config?pretty',
      'http://localhost/v1/config',
      '/debug/pprof/heap',
      '*',
      '/v1/',
    ]) {
      const { status } = await exchange(front.port, requestBytes({ method: 'GET', target, headers: [] }));
      assert.equal(status, 401, target);
    }
    const overridden = await postJson(`${front.url}/v1/policies/evil`, '{}', {
      'x-http-method-override': 'PUT',
      'x-http-method': 'PUT',
    });
    assert.equal(overridden.status, 401);
    assert.deepEqual([front.requests, front.questions], [[], []]);
  });

  it('passes on only GET and POST, whatever follows a path that is served', async () => {
    await using front = await startFront();
    for (const target of [
      '/v1/data/../policies/x',
      '/v1/data/%2e%2e/config',
      '/v1/data/..%2f..%2fconfig',
      '/v1/data//x',
    ]) {
      await exchange(front.port, requestBytes({ method: 'GET', target, headers: [] }));
      await exchange(front.port, requestBytes({ method: 'POST', target, headers: [], body: Buffer.from('{}') }));
      await exchange(front.port, requestBytes({ method: 'PUT', target, headers: [], body: Buffer.from('{}') }));
    }
    assert(front.requests.every(({ method }) => method === 'GET' || method === 'POST'));
    assert.equal(front.requests.length, 8);
    assert.deepEqual(front.questions, []);
  });

  it('does not answer pages of other sites, nor a name that was led to this machine', async () => {
    await using front = await startFront();
    const foreign = [{ origin: 'https://evil.example' }, { origin: 'null' }, { 'sec-fetch-site': 'cross-site' }];
    for (const headers of foreign) {
      for (const path of ['/v1/data/app', '/v1/policies', '/health', '/v1/query?q=1']) {
        const answer = await request(front.url + path, { headers });
        assert.deepEqual([answer.status, answer.json], [401, REFUSED], path);
        assert.equal(answer.headers.get('access-control-allow-origin'), null);
      }
      assert.equal((await postJson(`${front.url}/v1/data/app`, '{"input":1}', headers)).status, 401);
    }
    for (const host of ['evil.example', '127.0.0.1.evil.example', 'evil.example:8181', 'localhost.evil']) {
      for (const target of ['/v1/data/app', '/health', '/v1/config', 'http://evil.example/v1/data/app']) {
        const headers = [['Host', host]] as const;
        const { status, text } = await exchange(front.port, requestBytes({ method: 'GET', target, headers }));
        assert.equal(status, 421, `${host} ${target}`);
        assert.match(text, /SYNC_ALLOWED_HOSTS/);
      }
    }
    const absolute = requestBytes({ method: 'GET', target: 'http://evil.example/v1/data/app', headers: [] });
    assert.equal((await exchange(front.port, absolute)).status, 421);
    assert.deepEqual([front.requests, front.questions], [[], []]);
    for (const host of ['localhost:1', '127.0.0.1', '[::1]', 'opa.example']) {
      const headers = [['Host', host]] as const;
      const { status } = await exchange(front.port, requestBytes({ method: 'GET', target: '/v1/data/app', headers }));
      assert.equal(status, 200, host);
    }
  });

  it('takes no query in a URL that could send a request or show the configuration', async () => {
    await using front = await startFront();
    for (const q of ['x:=http.send({})', 'opa.runtime()', 'net.lookup_ip_addr("a")'])
      assert.equal((await request(`${front.url}/v1/query?q=${encodeURIComponent(q)}`)).status, 401, q);
    assert.deepEqual(front.requests, []);
  });

  it('reads no body beyond its limit, as it is sent or unpacked, in one piece or in chunks', async () => {
    await using front = await startFront({ bodyBytes: 100_000, totalBodyBytes: 150_000 });
    const large = `{"input":"${'x'.repeat(100_000)}"}`;
    const declared = requestBytes({
      ...{ method: 'POST', target: '/v1/data/app' },
      headers: [['Content-Length', '99999999999']],
      body: Buffer.from('{"input":'),
    });
    const chunked = requestBytes({
      ...{ method: 'POST', target: '/v1/data/app' },
      headers: [['Transfer-Encoding', 'chunked']],
      body: Buffer.from(`${large.length.toString(16)}\r\n${large}\r\n0\r\n\r\n`),
    });
    for (const bytes of [declared, chunked]) {
      const { status, text } = await exchange(front.port, bytes);
      assert.equal(status, 400, text);
      assert.match(text, /request body too large/);
    }
    for (const path of ['/v1/data/app', '/v0/data/app', '/', '/v1/data/app?pretty', '/v1/compile', '/v1/compile/app']) {
      const bomb = await request(front.url + path, {
        method: 'POST',
        headers: { 'content-encoding': 'gzip' },
        body: gzipSync(Buffer.alloc(20_000_000, 0x20)),
      });
      assert.equal(bomb.status, 400, path);
      assert.match(bomb.text, /gzip payload too large/);
    }
    assert.deepEqual([front.requests, front.questions], [[], []]);
    assert.equal((await postJson(`${front.url}/v1/data/app`, '{"input":1}')).status, 200, 'the room is free again');
  });

  it('holds no more bodies at a time than its limit, and says so', async () => {
    await using front = await startFront({ bodyBytes: 100_000, totalBodyBytes: 150_000 });
    const slow = connect(front.port, '127.0.0.1');
    slow.on('error', () => undefined);
    const head = (length: number): string =>
      `POST /v1/data/app HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n\r\n`;
    slow.write(head(100_000) + 'x'.repeat(99_000));
    const body = `{"input":"${'x'.repeat(80_000)}"}`;
    const busy = await until(
      async () => {
        const answer = await request(`${front.url}/v1/data/app`, { method: 'POST', body });
        return answer.status === 503 ? answer : undefined;
      },
      { withinMs: 5_000, what: 'the room is taken' },
    );
    assert.match(busy.text, /too many requests are under way/);
    assert.equal(busy.headers.get('retry-after'), '1');
    assert.equal((await postJson(`${front.url}/v1/data/app`, '{"input":1}')).status, 200, 'small ones still fit');
    slow.destroy();
    await until(async () => (await request(`${front.url}/v1/data/app`, { method: 'POST', body })).status === 200, {
      withinMs: 5_000,
      what: 'the room of a caller that went away is free',
    });
  });

  it('bodies that stall at their last byte keep nobody out: they give way', async () => {
    await using front = await startFront({ bodyBytes: 200_000, totalBodyBytes: 1_000_000 });
    const head = 'POST /v1/data/app HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n';
    const stalled = Array.from({ length: 5 }, () => {
      const socket = connect(front.port, '127.0.0.1').on('error', () => undefined);
      socket.write(head + ' '.repeat(199_999));
      return socket;
    });
    const body = `{"input":"${'x'.repeat(190_000)}"}`;
    const ask = async (text: string) =>
      (await request(`${front.url}/v1/data/app`, { method: 'POST', body: text })).status;
    await until(async () => (await ask(body)) === 503, { withinMs: 5_000, what: 'their room is taken' });
    assert.equal(await ask('{"input":1}'), 200, 'small ones have room');
    await until(async () => (await ask(body)) === 200, { withinMs: 10_000, what: 'they give way' });
    for (const socket of stalled) socket.destroy();
  });

  it('connections on which nothing happens give way to new ones, first those that never asked', async () => {
    await using front = await startFront({ connections: 20 });
    const open = (): Socket => connect(front.port, '127.0.0.1').on('error', () => undefined);
    const kept = open();
    const ask = async (): Promise<string> => {
      const [answer] = await Promise.all([
        once(kept, 'data'),
        kept.write('GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'),
      ]);
      return String(answer[0]).slice(0, 12);
    };
    assert.equal(await ask(), 'HTTP/1.1 200');
    const idle = Array.from({ length: 40 }, open);
    await until(() => idle.filter(({ closed }) => closed).length >= 21, { withinMs: 5_000, what: 'the oldest ended' });
    for (let count = 0; count < 5; count++) {
      const answer = await request(`${front.url}/health`, { headers: { connection: 'close' } });
      assert.equal(answer.status, 200);
    }
    assert.equal(await ask(), 'HTTP/1.1 200', 'who has asked stays before those who have not');
    for (const socket of [kept, ...idle]) socket.destroy();
  });

  it('holds no more responses at a time than its limit, and small ones have room', async () => {
    const large = JSON.stringify('x'.repeat(1_000_000));
    await using front = await startFront(
      { responseBytes: 8_000_000 },
      { decide: async ({ input }) => ({ text: input === '1' ? '1' : large, by: 'go', policy: undefined }) },
    );
    const socket = connect(front.port, '127.0.0.1').on('error', () => undefined);
    const count = 60;
    socket.write('GET /v1/data/app HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(count));
    await until(() => front.questions.length === count, { withinMs: 5_000, what: 'the questions' });
    assert.equal((await postJson(`${front.url}/v1/data/app`, '{"input":1}')).status, 200);
    let text = '';
    socket.setEncoding('latin1').on('data', (more: string) => {
      text += more;
    });
    const statuses = (): (string | undefined)[] => [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    await until(() => statuses().length === count, { withinMs: 10_000, what: 'all answers' });
    assert(statuses().filter((status) => status === '503').length >= 20, statuses().join());
    await until(async () => (await request(`${front.url}/v1/data/app`)).status === 200, {
      withinMs: 5_000,
      what: 'room again',
    });
    socket.destroy();
  });

  it('ends connections whose headers or body come too slowly, or whose headers are too long', async () => {
    await using front = await startFront({ headersTimeoutMs: 200, requestTimeoutMs: 400 });
    for (const start of [
      'GET /v1/data HTTP/1.1\r\nHost: localhost\r\nX: ',
      'POST /v1/data HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{',
    ]) {
      const { status } = await exchange(front.port, Buffer.from(start));
      assert.equal(status, 408, start);
    }
    const long = requestBytes({ method: 'GET', target: '/v1/data', headers: [['X', 'x'.repeat(200_000)]] });
    assert.equal((await exchange(front.port, long)).status, 431);
    assert.deepEqual([front.requests, front.questions], [[], []]);
  });

  it('has a bounded number of requests of one connection under way', async () => {
    let asked = 0;
    const pending: (() => void)[] = [];
    await using front = await startFront(
      {},
      {
        decide: () =>
          new Promise((resolve) => {
            asked += 1;
            pending.push(() => resolve({ text: '1', by: 'go', policy: undefined }));
          }),
      },
    );
    const socket = connect(front.port, '127.0.0.1');
    const closed = closeOf(socket);
    let text = '';
    socket.setEncoding('latin1').on('data', (more: string) => {
      text += more;
    });
    const count = 150;
    socket.write('GET /v1/data/app HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(count));
    await until(() => asked === 100, { withinMs: 5_000, what: 'the questions that may wait' });
    for (const answer of pending) answer();
    await until(() => [...text.matchAll(/HTTP\/1\.1 /g)].length === count, { withinMs: 5_000, what: 'all answers' });
    const statuses = [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status);
    assert.deepEqual(statuses, [...new Array(100).fill('200'), ...new Array(count - 100).fill('503')]);
    assert.equal(asked, 100);
    socket.destroy();
    await closed;
  });

  it('ends a connection that reads nothing of its response', async () => {
    const huge = JSON.stringify('x'.repeat(50_000_000));
    await using front = await startFront(
      { readerTimeoutMs: 200 },
      {
        decide: async () => ({ text: huge, by: 'go', policy: undefined }),
      },
    );
    const socket = connect(front.port, '127.0.0.1');
    socket.on('error', () => undefined);
    socket.write('GET /v1/data/app HTTP/1.1\r\nHost: localhost\r\n\r\n');
    await until(() => front.questions.length === 1, { withinMs: 5_000, what: 'the question' });
    // Whoever writes to a connection that is gone learns it without reading; to write often would count as activity.
    let wroteMs = performance.now();
    const isGone = (): boolean => {
      if (performance.now() - wroteMs > 500) {
        wroteMs = performance.now();
        socket.write('\r\n');
      }
      return socket.destroyed;
    };
    await until(isGone, { withinMs: 20_000, what: 'the end of the connection' });
  });

  it('reads one request, or none, of what two readers could count differently', async () => {
    await using front = await startFront();
    const hidden = 'GET /v1/data/smuggled HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n';
    const post = (lines: readonly string[], rest: string): string =>
      ['POST /v1/data/app HTTP/1.1', 'Host: localhost', ...lines, '', rest].join('\r\n');
    const cases: Record<string, string> = {
      'CL.TE': post(['Content-Length: 6', 'Transfer-Encoding: chunked'], `0\r\n\r\n${hidden}`),
      'TE.CL': post(['Transfer-Encoding: chunked', 'Content-Length: 3'], `8\r\n{}      \r\n0\r\n\r\n${hidden}`),
      'CL.CL': post(['Content-Length: 2', `Content-Length: ${hidden.length + 2}`], `{}${hidden}`),
      'a length with a sign': post(['Content-Length: +2'], `{}${hidden}`),
      'a coding that only some know': post(['Transfer-Encoding: xchunked'], `0\r\n\r\n${hidden}`),
      'a size with a sign': post(['Transfer-Encoding: chunked'], `+2\r\n{}\r\n0\r\n\r\n${hidden}`),
      'a blank before the colon': post(['Content-Length : 2'], `{}${hidden}`),
      'no host': 'GET /v1/data/smuggled HTTP/1.1\r\n\r\n',
      'a preface of HTTP/2': `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${hidden}`,
    };
    for (const [name, text] of Object.entries(cases)) {
      const answer: RawAnswer = await exchange(front.port, Buffer.from(text, 'latin1'));
      const statuses = [...answer.text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status));
      assert(statuses.length <= 1 && statuses.every((status) => status >= 400 && status < 500), `${name}: ${statuses}`);
      assert(!front.questions.some(({ path }) => path.includes('smuggled')), name);
    }
    const refused = await exchange(
      front.port,
      Buffer.from(
        `PUT /v1/data HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${hidden.length}\r\n\r\n${hidden}GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
      ),
    );
    assert.deepEqual(
      [...refused.text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => status),
      ['401', '200'],
    );
    assert(!front.questions.some(({ path }) => path.includes('smuggled')), 'the body of a refused request');
  });

  it('opens no tunnel and no socket', async () => {
    await using front = await startFront();
    const connectTo = Buffer.from('CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: localhost\r\n\r\n');
    assert.equal((await exchange(front.port, connectTo)).status, 0);
    const upgrade = requestBytes({
      ...{ method: 'GET', target: '/v1/config' },
      headers: [
        ['Connection', 'Upgrade, close'],
        ['Upgrade', 'websocket'],
        ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
      ],
    });
    assert.equal((await exchange(front.port, upgrade)).status, 401);
  });
});
