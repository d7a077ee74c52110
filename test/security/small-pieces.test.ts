import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { requestBytes } from '../support/hostile-wire.js';
import { startFront } from '../support/opa-front.js';
import { startServer } from '../support/start-server.js';

/** Bodies that are cut into bytes: what they take is as much as they are long, not as many as the pieces are. */

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const MIB = 1024 * 1024;
const PIECES = 200_000;
/** A `Buffer` for each piece takes 50 MiB. */
const MOST_MIB = 10;

/** Memory in use, in MiB. */
async function inUse(): Promise<number> {
  for (let at = 0; at < 3; at++) {
    await sleep(100);
    collect();
  }
  const { heapUsed, external } = process.memoryUsage();
  return (heapUsed + external) / MIB;
}

/** Sends a body of blanks, each in a chunk of its own, and an end. Returns the answer, and what the body took before its end. */
async function cutIntoBytes(port: number, target: string, end: string): Promise<{ answer: string; grownMib: number }> {
  const socket = connect(port, '127.0.0.1');
  const received: string[] = [];
  socket.on('error', () => undefined).on('data', (bytes) => received.push(bytes.toString()));
  const ended = once(socket, 'close');
  socket.write(requestBytes({ method: 'POST', target, headers: [['Transfer-Encoding', 'chunked']] }));
  const before = await inUse();
  for (let sent = 0; sent < PIECES; sent += 10_000) {
    if (!socket.write('1\r\n \r\n'.repeat(10_000))) await once(socket, 'drain');
  }
  const grownMib = (await inUse()) - before;
  socket.write(`${end.length.toString(16)}\r\n${end}\r\n0\r\n\r\n`);
  await ended;
  return { answer: received.join(''), grownMib };
}

describe('a body of 200,000 chunks of one byte', () => {
  it('is a body of 200 KB to the server', async () => {
    await using server = await startServer();
    const update = '{"entries":[{"url":"","data":1,"topics":["t"],"dst_path":"/a"}]}';
    for (const [target, end] of [
      ['/data/config', update],
      ['/webhook', '{}'],
    ] as const) {
      const { answer, grownMib } = await cutIntoBytes(server.port, target, end);
      assert.match(answer, /^HTTP\/1\.1 [24]\d\d /, `${target}: ${answer}`);
      assert(grownMib < MOST_MIB, `${target}: ${grownMib} MiB`);
    }
  });

  it('is a body of 200 KB to the REST API of the embedded engine', async () => {
    await using front = await startFront();
    const { answer, grownMib } = await cutIntoBytes(front.port, '/v1/data/app', '{"input":7}');
    assert.match(answer, /^HTTP\/1\.1 200 /);
    assert.equal(front.questions[0]?.input, '7');
    assert(grownMib < MOST_MIB, `${grownMib} MiB`);
  });
});
