import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { ANONYMOUS, type Authenticator, bearerToken } from '../auth/caller.js';
import { silentLogger } from '../lib/observe/log.js';
import { closeHttpApp, createHttpApp, listenHttp } from './app.js';
import { createCallerBudgets } from './caller-budgets.js';
import { addRoute } from './route.js';

const deps = { log: silentLogger() };
const MIB = 1024 * 1024;

/** Each bearer token is a subject of its own. */
const authenticator: Authenticator = {
  enabled: true,
  authenticate: async (authorization) => ({ ...ANONYMOUS, subject: bearerToken(authorization) ?? null }),
};

async function openApp(add: (app: ReturnType<typeof createHttpApp>) => void) {
  const budgets = createCallerBudgets({ responseBytes: 4 * MIB, bodyBytes: MIB, scans: 4 });
  const app = createHttpApp({ bodyLimitBytes: MIB, authenticator, budgets }, deps);
  add(app);
  const { port, url } = await listenHttp(app, { host: '127.0.0.1', port: 0 });
  const ask = (path: string, token: string) => fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
  return { port, ask, budgets, [Symbol.asyncDispose]: () => closeHttpApp(app, 0) };
}

const ROUTE = { method: 'GET', access: 'token', limited: 'all', tag: 'T', summary: 'S' } as const;

test('of work that grows so much is done at a time, and another token does not wait for it', async () => {
  let running = 0;
  let most = 0;
  const ends: (() => void)[] = [];
  await using app = await openApp((one) =>
    addRoute(one, { ...ROUTE, path: '/scan', scans: true }, async () => {
      most = Math.max(most, ++running);
      await new Promise<void>((resolve) => ends.push(resolve));
      running--;
      return {};
    }),
  );
  const greedy = Array.from({ length: 20 }, () => app.ask('/scan', 'greedy'));
  while (app.budgets.scans.waiting < 18) await new Promise(setImmediate);
  const other = app.ask('/scan', 'other');
  while (running < 3) await new Promise(setImmediate);
  ends[2]?.();
  assert.equal((await other).status, 200);
  assert.equal(most, 3);
  for (let ended = 0; ended < 21; await new Promise(setImmediate)) {
    for (; ended < ends.length; ended++) ends[ended]?.();
  }
  for (const { status } of await Promise.all(greedy)) assert.equal(status, 200);
  assert.equal(most, 3);
});

test('a turn ends with the work, not when the caller has read the response', async () => {
  const text = Buffer.alloc(0.7 * MIB, 'x');
  await using app = await openApp((one) =>
    addRoute(one, { ...ROUTE, path: '/scan', scans: true }, async ({ reply }) => reply.type('text/plain').send(text)),
  );
  const sockets = await Promise.all(
    Array.from({ length: 6 }, async () => {
      const socket = connect(app.port, '127.0.0.1');
      await once(socket, 'connect');
      socket.write('GET /scan HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\n\r\n'.repeat(20));
      return socket;
    }),
  );
  assert.equal((await app.ask('/scan', 'a')).status, 200);
  for (const socket of sockets) socket.destroy();
});

test('what a lost connection had under way is given back, also by responses that wait for others before them', async () => {
  let made = 0;
  await using app = await openApp((one) =>
    addRoute(one, { ...ROUTE, path: '/large' }, ({ reply }) => {
      made++;
      return reply.type('text/plain').send(Buffer.alloc(MIB, 'x'));
    }),
  );
  const socket = connect(app.port, '127.0.0.1').on('error', () => undefined);
  await once(socket, 'connect');
  socket.write('GET /large HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a\r\n\r\n'.repeat(30));
  while (made < 30) await new Promise(setImmediate);
  socket.destroy();
  while (app.budgets.responses.state.used > 0) await new Promise(setImmediate);
  assert.equal((await app.ask('/large', 'a')).status, 200);
});

test('a refusal has no header of the response in whose place it is', async () => {
  await using app = await openApp((one) =>
    addRoute(one, { ...ROUTE, path: '/large' }, ({ reply }) =>
      reply.headers({ 'content-encoding': 'gzip', etag: '"1"', 'cache-control': 'no-cache' }).send(Buffer.alloc(MIB)),
    ),
  );
  const holder = { subject: 'a', address: '127.0.0.1' };
  const taken = app.budgets.responses.take(holder, 2 * MIB);
  const { status, headers } = await app.ask('/large', 'a');
  const named = ['content-encoding', 'etag', 'cache-control', 'x-sync-error', 'retry-after'];
  assert.deepEqual([status, ...named.map((name) => headers.get(name))], [429, null, null, null, 'share_used_up', '1']);
  assert(typeof taken === 'function');
  taken();
});
