import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ServerEvent, serverEvents } from './event-reader.js';

async function read(...texts: string[]): Promise<{ events: ServerEvent[]; retry: number[] }> {
  const retry: number[] = [];
  const events: ServerEvent[] = [];
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (const text of texts) yield Buffer.from(text, 'latin1');
  }
  for await (const event of serverEvents(chunks(), (ms) => retry.push(ms))) events.push(event);
  return { events, retry };
}

test('reads events in any pieces, comments and the time to come back', async () => {
  const text = 'retry: 1500\n\n:\n\nevent: delta\nid: f-2\ndata: {"a":"b: c"}\n\nevent: end\ndata: {}\n\n';
  const expected = [
    { name: 'delta', data: '{"a":"b: c"}', id: 'f-2' },
    { name: 'end', data: '{}', id: undefined },
  ];
  assert.deepEqual(await read(text), { events: expected, retry: [1500] });
  assert.deepEqual(await read(...text), { events: expected, retry: [1500] });
});

test('an event that is cut off is none, nor is one without a name', async () => {
  assert.deepEqual(await read('event: delta\ndata: 1'), { events: [], retry: [] });
  assert.deepEqual(await read('data: 1\n\nretry: soon\n\n'), { events: [], retry: [] });
});

test('characters of several bytes may be cut anywhere', async () => {
  const bytes = Buffer.from('event: delta\ndata: "ü·×"\n\n').toString('latin1');
  assert.deepEqual((await read(...bytes)).events, [{ name: 'delta', data: '"ü·×"', id: undefined }]);
});
