import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { patience, until } from '../../test/support/until.js';
import { silentLogger } from '../lib/observe/log.js';
import { createHttpApp } from './app.js';
import { EventStream, eventText, type StreamTimes } from './event-stream.js';
import { addRoute } from './route.js';

test('streams that wait for their turn on a connection end with it', async () => {
  const app = createHttpApp({ bodyLimitBytes: 1024 }, { log: silentLogger() });
  let begun = 0;
  let open = 0;
  addRoute(
    app,
    { method: 'GET', path: '/stream', access: 'everyone', strangers: 'all', tag: 'Test', summary: 'A stream' },
    ({ reply }) => {
      const stream = new EventStream();
      begun++;
      open++;
      stream.onClosed = () => open--;
      return stream.open(reply, 1000);
    },
  );
  try {
    await app.listen({ port: 0, host: '127.0.0.1' });
    const address = app.server.address();
    assert(typeof address === 'object' && address !== null);
    const socket = connect(address.port, '127.0.0.1');
    socket.write('GET /stream HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(5));
    await until(() => begun === 5, { withinMs: 10_000, what: 'all have begun' });
    socket.destroy();
    await until(() => open === 0, { withinMs: 10_000, what: 'all have ended' });
  } finally {
    await app.close();
  }
});

const LARGE = Buffer.from(eventText('snapshot', 'x'.repeat(32 * 1024 * 1024)));

/**
 * A server with one route of streams, each of which begins with a large event; and a reader of it
 * that reads or not.
 */
async function largeStream({ times, reads }: { times: StreamTimes; reads: boolean }) {
  const app = createHttpApp({ bodyLimitBytes: 1024 }, { log: silentLogger() });
  const opened: EventStream[] = [];
  let open = 0;
  addRoute(
    app,
    { method: 'GET', path: '/stream', access: 'everyone', strangers: 'all', tag: 'Test', summary: 'A stream' },
    ({ reply }) => {
      const stream = new EventStream(times);
      opened.push(stream);
      open++;
      stream.onClosed = () => open--;
      const response = stream.open(reply, 1000);
      stream.restart(LARGE);
      return response;
    },
  );
  await app.listen({ port: 0, host: '127.0.0.1' });
  const address = app.server.address();
  assert(typeof address === 'object' && address !== null);
  const socket = connect(address.port, '127.0.0.1');
  socket.on('error', () => undefined); // it is cut: the test says when
  let bytes = 0;
  if (reads) socket.on('data', (chunk) => (bytes += chunk.length));
  socket.write('GET /stream HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(() => opened.length === 1, { withinMs: 10_000, what: 'the stream' });
  return {
    stream: opened[0] as EventStream,
    isOpen: () => open === 1,
    bytes: () => bytes,
    connections: () =>
      new Promise<number>((resolve, reject) =>
        app.server.getConnections((error, count) => (error === null ? resolve(count) : reject(error))),
      ),
    [Symbol.asyncDispose]: async () => {
      socket.destroy();
      await app.close();
    },
  };
}

test('a reader that takes nothing of what waits for it is cut off, and one that reads is not', async () => {
  await using mute = await largeStream({ times: { takeMs: 400, endMs: 60_000 }, reads: false });
  // A busy machine takes long to carry so much.
  await using reader = await largeStream({ times: { takeMs: 3000 * patience(), endMs: 60_000 }, reads: true });
  await until(async () => !mute.isOpen() && (await mute.connections()) === 0, { withinMs: 10_000, what: 'the cut' });
  await until(() => reader.bytes() > LARGE.length, { withinMs: 10_000, what: 'all of it' });
  assert(reader.isOpen());
});

test('an ended stream whose reader does not take the rest leaves no connection behind', async () => {
  await using mute = await largeStream({ times: { takeMs: 60_000, endMs: 200 }, reads: false });
  assert.equal(await mute.connections(), 1);
  mute.stream.end(eventText('end', '{}'));
  assert.equal(mute.isOpen(), false);
  await until(async () => (await mute.connections()) === 0, { withinMs: 10_000, what: 'the cut' });
});

test('an ended stream whose reader has taken all keeps its connection for the next request', async () => {
  await using reader = await largeStream({ times: { takeMs: 60_000, endMs: 100 }, reads: true });
  await until(() => reader.bytes() > LARGE.length, { withinMs: 10_000, what: 'all of it' });
  const before = reader.bytes();
  reader.stream.end(eventText('end', '{}'));
  await until(() => reader.bytes() > before, { withinMs: 10_000, what: 'the end' });
  const endedMs = performance.now();
  await until(() => performance.now() > endedMs + 300, { withinMs: 10_000, what: 'more than the time that it has' });
  assert.equal(await reader.connections(), 1);
});
