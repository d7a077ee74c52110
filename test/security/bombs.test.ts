import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import { cpuTimer } from '../support/cpu-time.js';
import { exchange, requestBytes, upgradeBytes, wsFrame } from '../support/hostile-wire.js';
import { postJson, request } from '../support/http.js';
import { type StartedServer, startServer } from '../support/start-server.js';

/**
 * Few bytes that mean many, or much work. Lists are in long-lists.test.ts; archives in src/server/policy/source/archive.test.ts ("stops a bomb
 * where it gets too large, not when it is unpacked"); compressed documents in test/contracts/fetch.test.ts.
 */

const MIB = 1024 * 1024;
/** Most processor time for one answer: the server is in this process. */
const WITHIN_MS = 5_000;

describe('bombs', () => {
  let server: StartedServer;
  before(async () => {
    server = await startServer();
  });
  after(() => server?.[Symbol.asyncDispose]());

  const update = (data: string): string => `{"entries":[{"url":"","topics":["t"],"dst_path":"/bomb","data":${data}}]}`;

  async function statusOf(
    body: Buffer | string,
    headers: readonly (readonly [string, string])[] = [],
  ): Promise<number> {
    const cpuMs = cpuTimer();
    const [answer, health] = await Promise.all([
      exchange(server.port, requestBytes({ method: 'POST', target: '/data/config', headers, body: Buffer.from(body) })),
      request(`${server.url}/healthcheck`),
    ]);
    assert.equal(health.status, 200);
    assert(cpuMs() < WITHIN_MS, `${cpuMs()} ms`);
    assert(answer.text.length < 20_000, `an answer of ${answer.text.length} characters`);
    return answer.status;
  }

  it('compressed bodies are never unpacked', async () => {
    const plain = Buffer.from(update(`"${'x'.repeat(64 * MIB)}"`));
    const packed = gzipSync(plain, { level: 1 });
    const before = process.memoryUsage().rss;
    for (const [coding, body] of [
      ['gzip', packed],
      ['deflate', deflateSync(plain, { level: 1 })],
      ['br', brotliCompressSync(plain, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } })],
      ['gzip, gzip', gzipSync(packed)],
      ['identity, gzip', packed],
    ] as const) {
      for (let round = 0; round < 5; round++) {
        assert.equal(await statusOf(body, [['Content-Encoding', coding]]), 422, coding);
      }
    }
    assert(process.memoryUsage().rss - before < 64 * MIB, 'not one of them was unpacked');
  });

  it('messages over the socket are never unpacked', async () => {
    const offer = ['Sec-WebSocket-Extensions', 'permessage-deflate; client_max_window_bits'] as const;
    const frame = wsFrame(1, deflateSync(Buffer.alloc(16 * MIB, ' ')), { rsv: 4 });
    const answer = await exchange(server.port, Buffer.concat([upgradeBytes([offer]), frame]), { finish: true });
    assert.equal(answer.status, 101);
    assert.doesNotMatch(
      answer.text,
      /permessage-deflate/i,
      'the offer is declined, and a compressed frame ends the connection',
    );
  });

  it('JSON that is deep is refused or kept as text, and never runs out of stack', async () => {
    for (const levels of [10_001, 100_000, 1_000_000]) {
      for (const [open, close] of [
        ['[', ']'],
        ['{"a":', '}'],
      ] as const) {
        const deep = open.repeat(levels) + (open === '[' ? '' : '1') + close.repeat(levels);
        assert.equal(await statusOf(update(deep)), 422);
        assert.equal(await statusOf(deep), 422);
        assert.equal(
          await statusOf(`{"entries":[{"url":"http://x","topics":["t"],"dst_path":"/a","config":${deep}}]}`),
          422,
        );
        assert.equal(await statusOf(open.repeat(levels)), 422, 'it does not end');
      }
    }
  });

  it('numbers of a million digits are refused at once; long ones, and exponents beyond all numbers, change nothing', async () => {
    for (const number of ['9'.repeat(2000), `-${'9'.repeat(2000)}`, `0.${'9'.repeat(1900)}`, '1e999999999'])
      assert.equal(await statusOf(update(number)), 200, number.slice(0, 20));
    const digits = '9'.repeat(MIB);
    for (const number of [digits, `1e${digits}`, `0.${digits}`, `-${digits}`]) {
      assert.equal(await statusOf(update(number)), 422, number.slice(0, 20));
    }
    for (const number of [digits, `1e${digits}`, `0.${digits}`, `-${digits}`, '1e999999999']) {
      for (const field of ['"retain":', '"id":', '"entries":']) {
        const status = await statusOf(`{${field}${number},"entries":[]}`);
        assert.equal(status, 422, `${field} ${number.slice(0, 20)}`);
      }
    }
  });

  it('a body with a hundred thousand names, the same name or long ones, is answered at once and briefly', async () => {
    const names = (name: (index: number) => string): string =>
      `{${Array.from({ length: 100_000 }, (_, index) => `"${name(index)}":1`).join(',')}}`;
    for (const body of [
      names((index) => `n${index}`),
      names(() => 'entries'),
      names((index) => `${'x'.repeat(100)}${index}`),
    ]) {
      assert.equal(await statusOf(body), 422);
      assert.equal(await statusOf(`{"entries":[${body}]}`), 422);
    }
    // Names that share a slot of a hash table that is filled by the digits of its keys.
    assert.equal(await statusOf(names((index) => String(index * 65_536))), 422);
  });

  it('texts that make expressions look long are looked at once', async () => {
    const evil = [
      'a/'.repeat(100_000),
      '%'.repeat(100_000),
      '%2f'.repeat(50_000),
      ' '.repeat(100_000),
      '~0~1'.repeat(50_000),
      ':'.repeat(100_000),
    ];
    for (const text of evil) {
      const json = JSON.stringify(text);
      for (const field of [`"dst_path":${json},"topics":["t"]`, `"dst_path":"/a","topics":[${json}]`]) {
        assert.equal(await statusOf(`{"entries":[{"url":"http://x",${field}}]}`), 422, text.slice(0, 10));
      }
      const patch = update(`[{"op":"add","path":${json},"value":1}]`).replace('"data"', '"save_method":"PATCH","data"');
      assert([200, 409, 422].includes(await statusOf(patch)), text.slice(0, 10));
    }
    for (const text of evil) {
      const query = encodeURIComponent(text.slice(0, 4_000)).slice(0, 8_000);
      const cpuMs = cpuTimer();
      assert((await request(`${server.url}/policy?path=${query}`)).status < 600);
      assert(cpuMs() < WITHIN_MS);
    }
  });

  it('afterwards it serves as before', async () => {
    const answer = await postJson(`${server.url}/data/config`, JSON.parse(update('{"still":"here"}')));
    assert.equal(answer.status, 200, answer.text);
  });
});
