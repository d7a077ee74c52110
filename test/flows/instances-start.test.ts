import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { type BackboneKind, type BackboneServer, backboneOffer } from '../support/backbone-servers.js';
import { startServer } from '../support/start-server.js';

/** An instance that starts waits for its backbone (docs/backbone.md), also for one that goes away amid the start. */

const ENTRY = { url: 'http://127.0.0.1:1/never', topics: ['policy_data'], dst_path: '/base' };

/** Leads to a port, and ends all connections once, with the answer number `at` (counted from 1) that passes. */
async function cutWithAnswer(port: number, at: number): Promise<AsyncDisposable & { port: number; wasCut: boolean }> {
  let answers = 0;
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => socket.destroy()); // broken connections are what this is for
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
    }
    near.on('data', (chunk) => far.write(chunk));
    far.on('data', (chunk) => {
      if (++answers === at) for (const socket of sockets) socket.destroy();
      else near.write(chunk);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    get wasCut() {
      return answers >= at;
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Starts an instance with a log of its own, so that making it is cut, too; answers whether its start had so many answers. */
async function startsThoughCut(backbone: BackboneServer, at: number): Promise<boolean> {
  await using wire = await cutWithAnswer(backbone.port, at);
  const uri = new URL(backbone.uri);
  uri.port = String(wire.port);
  await using server = await startServer({
    SYNC_BROADCAST_URI: uri.href,
    SYNC_BROADCAST_CHANNEL_NAME: `log-${at}`,
    SYNC_DATA_CONFIG_SOURCES: JSON.stringify({ config: { entries: [ENTRY] } }),
  }).catch((cause: unknown) => {
    throw new Error(`cut with answer ${at}`, { cause });
  });
  assert.match(server.url, /^http/);
  return wire.wasCut;
}

/** Starts that are tried at once: most of their time is waiting. */
const AT_ONCE = 8;

for (const kind of ['Postgres', 'Redis', 'NATS'] satisfies BackboneKind[]) {
  const offer = await backboneOffer(kind);
  test(`an instance starts though ${kind} goes away at any moment of its start`, { skip: offer.missing }, async () => {
    await using backbone = await offer.start();
    let cuts = 0;
    for (let from = 1; cuts === from - 1; from += AT_ONCE) {
      const moments = Array.from({ length: AT_ONCE }, (_, index) => from + index);
      const wereCut = await Promise.all(moments.map((at) => startsThoughCut(backbone, at)));
      cuts += wereCut.filter(Boolean).length;
    }
    assert.ok(cuts > 3, `${cuts} moments`);
  });
}
