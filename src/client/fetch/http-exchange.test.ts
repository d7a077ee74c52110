import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { Agent } from 'undici';
import { charsetOf } from '../../lib/json/charset.js';
import { exchange, jsonStringOf } from './http-exchange.js';
import { firstHop } from './http-rules.js';

const HOP = firstHop({ url: 'http://source.example/users' });
const REASON = new Error('not wanted any more');

describe('a request that waits for a connection which never comes', () => {
  /** Its connector hears of nothing. */
  const neverConnects = (): Agent => new Agent({ connect: () => undefined });

  it('ends when its signal aborts', async () => {
    const agent = neverConnects();
    const stop = new AbortController();
    const answer = exchange(agent, HOP, { signal: stop.signal, silenceTimeoutMs: 3_600_000 });
    stop.abort(REASON);
    await assert.rejects(answer, REASON);
    await agent.destroy();
  });

  it('is not even made when its signal has aborted before', async () => {
    const agent = neverConnects();
    const answer = exchange(agent, HOP, { signal: AbortSignal.abort(REASON), silenceTimeoutMs: 3_600_000 });
    await assert.rejects(answer, REASON);
    await agent.destroy();
  });
});

async function read(bytes: readonly Uint8Array[], charset = 'utf-8'): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of jsonStringOf(pieces(bytes), charset)) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

async function* pieces(bytes: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* bytes;
}

test('a text becomes one JSON string, wherever its bytes are cut', async () => {
  const text = 'line "one"\nüber \\ 𝄞\u0000 end';
  const bytes = Buffer.from(text);
  const whole = JSON.stringify(text);
  assert.equal(await read([bytes]), whole);
  assert.equal(await read([...bytes].map((byte) => Uint8Array.of(byte))), whole);
  assert.equal(await read([]), '""');
});

test('a text is read by the charset of its content type', async () => {
  assert.equal(await read([Uint8Array.of(0xfc)], 'latin1'), '"ü"');
  assert.equal(await read([Uint8Array.of(0xff, 0xfe), Uint8Array.of(0x41, 0x00)], 'utf-16le'), '"A"');
  const table: [string | undefined, string][] = [
    [undefined, 'utf-8'],
    ['text/plain', 'utf-8'],
    ['text/plain; charset=ISO-8859-1', 'ISO-8859-1'],
    ['text/csv; header=present; Charset="utf-8"; x=1', 'utf-8'],
  ];
  for (const [type, charset] of table) assert.equal(charsetOf(type), charset);
});

test('bytes that are not of the charset are refused, and so is a charset that nobody knows', async () => {
  await assert.rejects(read([Uint8Array.of(0xff)]), { code: 'fetch_not_json', message: 'the text is not valid utf-8' });
  await assert.rejects(read([Uint8Array.of(0xc3)]), /not valid utf-8/, 'cut within a character');
  await assert.rejects(read([], 'klingon'), { code: 'fetch_not_json', message: 'the charset "klingon" is not known' });
});
