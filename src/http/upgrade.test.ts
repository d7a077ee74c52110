import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { test } from 'node:test';
import { onWebSocketUpgrade, upgradeOptions } from './upgrade.js';

/** Sends parts with a turn of the other side between them and reads until the connection ends. */
async function talk(parts: readonly string[]): Promise<{ received: string; upgrades: number }> {
  let upgrades = 0;
  const server: Server = createServer(
    upgradeOptions(() => server),
    async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      response.end(`${request.method} ${request.url} ${body} ${request.headers['x-own']};`);
    },
  );
  onWebSocketUpgrade(server, (_request, socket) => {
    upgrades++;
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\nhandled');
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').setNoDelay();
  const closed = once(socket, 'close');
  let received = '';
  socket.on('data', (chunk) => {
    received += chunk;
  });
  for (const part of parts) {
    socket.write(part);
    await new Promise((resolve) => setTimeout(resolve, 20)); // so that the parts arrive apart
  }
  await closed;
  server.close();
  await once(server, 'close');
  return { received, upgrades };
}

const OFFER =
  'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\nHost: x\r\nX-Own: mine\r\n';

test('an offer of another protocol is ignored: the request is served with its body, and the connection goes on', async () => {
  const { received, upgrades } = await talk([
    `POST /a HTTP/1.1\r\n${OFFER}Content-Length: 10\r\n\r\n01234`,
    '56789',
    `GET /b HTTP/1.1\r\n${OFFER}\r\n`,
    'POST /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n',
  ]);
  assert.match(received, /POST \/a 0123456789 mine;/);
  assert.match(received, /GET \/b {2}mine;/);
  assert.match(received, /POST \/c abc undefined;/);
  assert.equal(upgrades, 0);
});

test('whoever closes after its request is let go', async () => {
  const { received } = await talk([`GET /a HTTP/1.1\r\n${OFFER.replace('Upgrade,', 'close, Upgrade,')}\r\n`]);
  assert.match(received, /GET \/a /);
});

test('WebSocket is handed on', async () => {
  const upgrade = 'GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\r\n';
  assert.deepEqual(await talk([upgrade]), { received: 'HTTP/1.1 400 Bad Request\r\n\r\nhandled', upgrades: 1 });
});
