import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { silentLogger } from '../lib/log.js';
import { AddressLimits } from './address-limits.js';
import { closeHttpApp, createHttpApp, listenHttp } from './app.js';
import { ClientAddresses } from './client-address.js';
import { addRoute } from './route.js';

const deps = { log: silentLogger() };

async function openApp(bounds: { connections: number; bytes: number }) {
  const limits = new AddressLimits(bounds, { addresses: new ClientAddresses(), ...deps });
  const app = createHttpApp({ bodyLimitBytes: 1000, limits, unauthenticatedBodyTimeoutMs: 50 }, deps);
  const route = { method: 'POST', tag: 'T', summary: 'Take', rawBody: true } as const;
  addRoute(app, { ...route, path: '/open', access: 'everyone' }, ({ raw }) => ({ bytes: raw.length }));
  addRoute(app, { ...route, path: '/known', access: 'token' }, ({ raw }) => ({ bytes: raw.length }));
  const { port } = await listenHttp(app, { host: '127.0.0.1', port: 0 });
  return { port, limits, [Symbol.asyncDispose]: () => closeHttpApp(app, 0) };
}

const head = (path: string, length: number): string =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n\r\n`;

test('the body of an unauthenticated caller has little time; that of another has more', async () => {
  await using app = await openApp({ connections: 10, bytes: 1000 });
  const open = connect(app.port, '127.0.0.1');
  open.on('error', () => undefined); // it is cut
  open.write(`${head('/open', 10)}12345`);
  const known = connect(app.port, '127.0.0.1');
  known.write(`${head('/known', 10)}12345`);
  await once(open, 'close');
  known.write('67890');
  const [answer] = (await once(known, 'data')) as [Buffer];
  assert.match(answer.toString(), /^HTTP\/1\.1 200 /);
  known.destroy();
});

test('room for bodies is given back when they were answered, and when their caller leaves', async () => {
  await using app = await openApp({ connections: 10, bytes: 100 });
  const send = (body: string) => fetch(`http://127.0.0.1:${app.port}/open`, { method: 'POST', body });
  for (let count = 0; count < 5; count++) assert.equal((await send('x'.repeat(100))).status, 200);
  assert.equal((await send('x'.repeat(101))).status, 429);
  assert.equal((await send('x'.repeat(100))).status, 200);
});

test('connections count until somebody on them was let in, and no longer than they last', async () => {
  await using app = await openApp({ connections: 2, bytes: 100 });
  const opened = [1, 2, 3].map(() => connect(app.port, '127.0.0.1').on('error', () => undefined));
  const third = opened[2];
  assert(third);
  if (!third.closed) await once(third, 'close');
  assert.equal(app.limits.countOf('127.0.0.1'), 2);
  opened[0]?.write(`${head('/known', 1)}x`);
  await once(opened[0] ?? third, 'data');
  assert.equal(app.limits.countOf('127.0.0.1'), 1);
  for (const socket of opened) socket.destroy();
});
