import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { until } from '../../test/support/until.js';
import { SyncError } from '../lib/errors.js';
import { OpenConnections } from '../lib/net/open-connections.js';
import { silentLogger } from '../lib/observe/log.js';
import { AddressLimits, ClientAddresses } from './address-limits.js';
import { closeHttpApp, createHttpApp, listenHttp } from './app.js';
import { addRoute } from './route.js';

function from(proxies: readonly string[], remoteAddress: string | undefined, forwarded?: string): string {
  const socket = { remoteAddress } as Parameters<ClientAddresses['of']>[0]['socket'];
  return new ClientAddresses(proxies).of({
    socket,
    headers: forwarded === undefined ? {} : { 'x-forwarded-for': forwarded },
  });
}

test('without trusted proxies nobody says where he comes from', () => {
  assert.equal(from([], '203.0.113.7', '10.0.0.1'), '203.0.113.7');
  assert.equal(from([], '::ffff:203.0.113.7', '10.0.0.1'), '203.0.113.7');
  assert.equal(from(['10.0.0.0/8'], '203.0.113.7', '198.51.100.1'), '203.0.113.7');
  assert.equal(from(['10.0.0.0/8'], undefined, '198.51.100.1'), '?');
});

test('behind trusted proxies it is the rightmost address that is none of them', () => {
  const proxies = ['10.0.0.0/8', '2001:db8::/32', '192.0.2.4'];
  assert.equal(from(proxies, '10.1.2.3', '198.51.100.1'), '198.51.100.1');
  assert.equal(from(proxies, '::ffff:10.1.2.3', '1.1.1.1, 198.51.100.1, 192.0.2.4'), '198.51.100.1');
  assert.equal(from(proxies, '2001:db8::1', '[2001:dead::9]:4711,10.0.0.1'), '2001:dead::9');
  assert.equal(from(proxies, '10.1.2.3', '198.51.100.1:5000'), '198.51.100.1');
});

test('a proxy is one in every form of its address: a listener on :: has IPv4 peers as ::ffff:10.0.0.1', () => {
  const addresses = new ClientAddresses(['10.0.0.0/8', '2001:db8::/32']);
  const isFromProxy = (remoteAddress: string | undefined): boolean =>
    addresses.isFromProxy({ remoteAddress } as Parameters<ClientAddresses['isFromProxy']>[0]);
  for (const proxy of ['10.1.2.3', '::ffff:10.1.2.3', '2001:DB8:0::1']) assert.equal(isFromProxy(proxy), true, proxy);
  for (const other of ['203.0.113.7', '::ffff:203.0.113.7', '', undefined]) assert.equal(isFromProxy(other), false);
});

test('what is no address, and all to the left of it, counts for nothing', () => {
  const proxies = ['10.0.0.0/8'];
  assert.equal(from(proxies, '10.1.2.3'), '10.1.2.3');
  assert.equal(from(proxies, '10.1.2.3', ''), '10.1.2.3');
  assert.equal(from(proxies, '10.1.2.3', 'unknown'), '10.1.2.3');
  assert.equal(from(proxies, '10.1.2.3', '198.51.100.1, () { :; }; id, 10.0.0.9'), '10.0.0.9');
  assert.equal(from(proxies, '10.1.2.3', '10.0.0.8, 10.0.0.9'), '10.0.0.8');
});

test('a proxy that is no address is named', () => {
  for (const bad of ['load-balancer', '10.0.0.0/33', '10.0.0']) {
    assert.throws(
      () => new ClientAddresses([bad]),
      (error) => error instanceof SyncError && error.code === 'config_invalid' && error.message.includes(bad),
    );
  }
});

const deps = { log: silentLogger() };

async function openApp(bounds: { connections: number; bytes: number }, unauthenticatedBodyTimeoutMs = 50) {
  const connections = new OpenConnections(100);
  const limits = new AddressLimits(bounds, { addresses: new ClientAddresses(), connections, ...deps });
  const app = createHttpApp({ bodyLimitBytes: 1000, limits, unauthenticatedBodyTimeoutMs }, deps);
  const route = { method: 'POST', tag: 'T', summary: 'Take', rawBody: true } as const;
  addRoute(app, { ...route, path: '/open', access: 'everyone', strangers: 'all' }, ({ raw }) => ({
    bytes: raw.length,
  }));
  const large = { bodyLimitBytes: 100, largeBodyBytes: 4000 };
  addRoute(app, { ...route, ...large, path: '/large', access: 'everyone', strangers: 'all' }, ({ raw }) => ({
    bytes: raw.length,
  }));
  addRoute(app, { ...route, path: '/known', access: 'token', limited: 'all' }, ({ raw }) => ({ bytes: raw.length }));
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

test('of large bodies, where a route takes them, one address has one at a time, and small ones go on beside it', async () => {
  await using app = await openApp({ connections: 10, bytes: 1000 }, 60_000);
  const send = (bytes: number) =>
    fetch(`http://127.0.0.1:${app.port}/large`, { method: 'POST', body: 'x'.repeat(bytes) });
  /** Without a length. */
  const stream = async (bytes: number) => {
    const body = new ReadableStream({
      start: (to) => {
        to.enqueue(Buffer.from('x'.repeat(bytes)));
        to.close();
      },
    });
    const { status } = await fetch(`http://127.0.0.1:${app.port}/large`, { method: 'POST', body, duplex: 'half' });
    return status;
  };
  assert.equal((await send(4000)).status, 200);
  assert.equal((await send(4001)).status, 413);
  const slow = connect(app.port, '127.0.0.1').on('error', () => undefined);
  const taken = once(slow, 'data') as Promise<[Buffer]>;
  slow.write(`${head('/large', 3000)}x`);
  // Its place is taken once its head was read.
  await until(async () => (await send(101)).status === 429, { withinMs: 20_000, what: 'the place is taken' });
  const refused = await send(3000);
  assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '5']);
  assert.equal(await stream(3000), 429);
  assert.equal((await send(100)).status, 200);
  assert.equal(await stream(100), 200);
  slow.write('x'.repeat(2999));
  assert.match((await taken)[0].toString(), /^HTTP\/1\.1 200 /);
  assert.equal((await send(3000)).status, 200);
  assert.equal(await stream(3000), 200);
  slow.destroy();
});

test('connections count until somebody on them was let in, and no longer than they last', async () => {
  await using app = await openApp({ connections: 2, bytes: 100 });
  const opened = [1, 2, 3].map(() => connect(app.port, '127.0.0.1').on('error', () => undefined));
  const [first, second] = opened;
  assert(first && second);
  // The one that has been idle longest gives way to the third.
  if (!first.closed) await once(first, 'close');
  assert.equal(app.limits.countOf('127.0.0.1'), 2);
  second.write(`${head('/known', 1)}x`);
  await once(second, 'data');
  assert.equal(app.limits.countOf('127.0.0.1'), 1);
  for (const socket of opened) socket.destroy();
});
