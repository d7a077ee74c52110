import assert from 'node:assert/strict';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { until } from '../../../../test/support/until.js';
import { Secret, silentLogger } from '../../../lib/observe/log.js';
import { openBackbone } from './open-backbone.js';

const TIMES = { connectMs: 100, callMs: 100, lookMs: 100, openMs: 1000 };

for (const scheme of ['postgres', 'redis']) {
  test(`${scheme}: attempts to connect to a server that accepts and says nothing leave no connection behind`, async () => {
    let attempts = 0;
    const server = createServer((socket) => {
      attempts++;
      socket.resume().on('error', () => undefined); // cut off: that is what is tested
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const uri = new Secret(`${scheme}://u:p@127.0.0.1:${(server.address() as AddressInfo).port}/0`);
    await assert.rejects(openBackbone({ uri, name: 'log', times: TIMES }, { log: silentLogger() }), {
      code: 'backbone_unavailable',
    });
    // Ends once all are closed.
    await new Promise((resolve) => server.close(resolve));
    assert.ok(attempts > 1);
  });
}

test('a start that is given up waits for no backbone any more', async () => {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.resume().on('error', () => undefined); // cut off: that is what is tested
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  for (const uri of [`redis://u:p@127.0.0.1:${port}/0`, 'redis://u:p@127.0.0.1:1/0']) {
    const stop = new AbortController();
    const said: string[] = [];
    const log = Object.assign(silentLogger(), { warn: (_fields: object, text: string) => said.push(text) });
    // Longer than any test: whether it waits for an answer or between two attempts, only the signal
    // ends it.
    const times = { connectMs: 3_600_000, callMs: 3_600_000, openMs: 3_600_000 };
    const opening = openBackbone({ uri: new Secret(uri), name: 'log', times }, { log, signal: stop.signal });
    const refused = assert.rejects(opening, { name: 'AbortError' });
    await until(() => sockets.size > 0 && (uri.includes(`:${port}/`) || said.length > 0), {
      withinMs: 20_000,
      what: 'it waits',
    });
    stop.abort();
    await refused;
  }
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
});
