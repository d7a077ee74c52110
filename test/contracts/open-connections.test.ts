import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { connect as tlsConnect } from 'node:tls';
import { OpenConnections } from '../../src/lib/net/open-connections.js';
import { makeAuthority } from '../support/certificates.js';
import { closeOf } from '../support/close-of.js';
import { until } from '../support/until.js';

const REQUEST = 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n';

/** Of three connections that may be open one is asked something, one was, and one says nothing; a fourth comes, and a fifth. */
async function judge(server: Server, open: (port: number) => Socket, answer: () => void): Promise<void> {
  const connections = new OpenConnections(3);
  connections.follow(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const opened = async (): Promise<Socket> => {
    const before = connections.count + connections.gaveWay;
    const socket = open(port).on('error', () => undefined);
    socket.resume();
    await once(socket, open === connectPlain ? 'connect' : 'secureConnect');
    await until(() => connections.count + connections.gaveWay > before, { withinMs: 5_000, what: 'it is counted' });
    return socket;
  };
  const asked = await opened();
  asked.write(REQUEST);
  const served = await opened();
  served.write(REQUEST.replace('/ ', '/now '));
  await once(served, 'data');
  const silent = await opened();
  await until(() => connections.count === 3, { withinMs: 5_000, what: 'all are counted' });

  const silentEnds = closeOf(silent);
  const servedEnds = closeOf(served);
  const fourth = await opened();
  await silentEnds;
  assert.deepEqual([connections.count, connections.gaveWay, served.closed, asked.closed], [3, 1, false, false]);
  const fourthServed = once(fourth, 'data');
  fourth.write(REQUEST.replace('/ ', '/now '));
  await fourthServed;
  const fifth = await opened();
  await servedEnds;
  const answered = once(asked, 'data');
  answer();
  const [text] = (await answered) as [Buffer];
  assert.match(String(text), /^HTTP\/1\.1 200/);
  for (const socket of [asked, fourth, fifth]) socket.destroy();
  await until(() => connections.count === 0, { withinMs: 5_000, what: 'none is left' });
  const closed = once(server, 'close');
  server.close();
  await closed;
}

const connectPlain = (port: number): Socket => connect(port, '127.0.0.1');

/** Answers one path at once, and the others when it is told to. */
function listener(): { listen: RequestListener; answer: () => void } {
  const waiting: (() => void)[] = [];
  return {
    listen: (request, response) => {
      if (request.url === '/now') response.end('x');
      else waiting.push(() => response.end('x'));
    },
    answer: () => {
      for (const end of waiting) end();
    },
  };
}

test('where as many connections are open as may be, one on which nothing happens gives way', async () => {
  const { listen, answer } = listener();
  await judge(createServer(listen), connectPlain, answer);
});

test('the same over TLS, whose requests come from another socket than the one that was accepted', async () => {
  await using authority = await makeAuthority('test authority');
  const { cert, key } = await authority.issue('server');
  const { listen, answer } = listener();
  const server = createTlsServer({ cert: await readFile(cert), key: await readFile(key) }, listen);
  await judge(server, (port) => tlsConnect({ port, host: '127.0.0.1', rejectUnauthorized: false }), answer);
});
