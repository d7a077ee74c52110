import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { it } from 'node:test';
import { whenFree } from './opa-address.js';

/** A program that takes connections and says nothing; `onAsked` hears of each. */
async function silent(onAsked: (server: Server) => void): Promise<{ server: Server; address: string }> {
  const server = createServer((socket) => {
    socket.destroy();
    onAsked(server);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { server, address: `127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const never = new AbortController().signal;

it('waits for an engine that was just ending: it does not answer any more, and then the address is free', async () => {
  const { address } = await silent((server) => server.close());
  await whenFree(address, { engineUrl: `http://${address}` }, never);
});

it('names the address that a program keeps which does not answer', async () => {
  let asked = 0;
  const { server, address } = await silent(() => asked++);
  const free = whenFree(address, { engineUrl: `http://${address}` }, never);
  await assert.rejects(free, { code: 'engine_address_in_use', message: new RegExp(address) });
  assert(asked > 1, 'it was asked more than once');
  server.close();
});
