import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync, gzipSync } from 'node:zlib';
import { acceptsGzip, dataAnswer, gzipped, inflated, isWorthGzip } from './rest-answers.js';

test('who accepts gzip, as OPA reads it', () => {
  for (const header of ['gzip', 'gzip, deflate', 'br, GZIP;q=0.5', ' gzip ', 'gzip;q=1'])
    assert(acceptsGzip(header), header);
  for (const header of [undefined, '', '*', 'identity', 'gzip;q=0', 'br', 'x-gzip', 'gzip;q=0, gzip'])
    assert(!acceptsGzip(header), header);
});

test('from 1024 bytes on a response is worth it', async () => {
  const frame = '{"result":""}\n'.length;
  assert(!isWorthGzip(dataAnswer(`"${'a'.repeat(1023 - frame)}"`, false)));
  const answer = dataAnswer(`"${'é'.repeat(600)}"`, false);
  assert(isWorthGzip(answer));
  const { body, headers } = await gzipped(answer);
  assert.equal(gunzipSync(body).toString(), answer.body);
  assert.deepEqual(headers.slice(0, 2), ['Content-Encoding', 'gzip']);
});

test('a compressed body is unpacked whole, within a limit, or not at all', async () => {
  const bytes = Buffer.from('{"input":1}');
  assert.deepEqual(await inflated(gzipSync(bytes), 11), bytes);
  assert.deepEqual(await inflated(Buffer.concat([gzipSync('{"input"'), gzipSync(':1}')]), 11), bytes);
  assert.equal(await inflated(gzipSync(bytes), 10), 'too large');
  assert.equal(await inflated(gzipSync(Buffer.alloc(10_000_000)), 1_000_000), 'too large');
  assert.equal(await inflated(bytes, 100), undefined);
  assert.equal(await inflated(gzipSync(bytes).subarray(0, -3), 100), undefined);
  assert.equal(await inflated(Buffer.concat([gzipSync(bytes), Buffer.from('more')]), 100), undefined);
  assert.equal(await inflated(Buffer.alloc(0), 100), undefined);
});
