import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { test } from 'node:test';
import { Secret, silentLogger } from '../../src/lib/observe/log.js';
import { recentUpdates } from '../../src/server/clients/recent-updates.js';
import { openBackbone } from '../../src/server/log/backbone/open-backbone.js';
import { retryUntilAvailable } from '../../src/server/log/backbone/retry-until-available.js';
import { FoldedLog } from '../../src/server/log/folded-log.js';
import { peerEntry } from '../../src/wire/data.js';
import { type BackboneKind, type BackboneServer, backboneOffer } from '../support/backbone-servers.js';
import { startServer } from '../support/start-server.js';

/** An instance that starts waits for its backbone (docs/how-to/several-instances.md), also for one that goes away amid the start. */

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

/** What a start needs of its backbone and does in order, without the rest of an instance, which is the same over each. */
async function opensThoughCut(backbone: BackboneServer, at: number): Promise<boolean> {
  await using wire = await cutWithAnswer(backbone.port, at);
  const uri = new URL(backbone.uri);
  uri.port = String(wire.port);
  const deps = { log: silentLogger(), signal: new AbortController().signal };
  const store = await openBackbone({ uri: new Secret(uri.href), name: `log-${at}`, natsSyncAlways: true }, deps);
  try {
    const retention = { maxAgeMs: 60_000, maxRows: 100 };
    const options = { exclusive: false, retention, patchesPerPath: 10 };
    const log = await retryUntilAvailable(() => FoldedLog.open(store, options, deps), deps);
    await retryUntilAvailable(() => log.adoptBase([peerEntry.parse(ENTRY)]), deps);
    (await retryUntilAvailable(() => recentUpdates(log), deps)).close();
    const paths = log.fold().map(({ entry }) => entry.dst_path);
    assert.deepEqual(paths, ['/base'], `cut with answer ${at}`);
    await log.close();
  } finally {
    await store.close();
  }
  return wire.wasCut;
}

/** Starts that are tried at once: most of their time is waiting. */
const AT_ONCE = 8;

async function cutAtEachMoment(backbone: BackboneServer, start: typeof startsThoughCut): Promise<void> {
  let cuts = 0;
  for (let from = 1; cuts === from - 1; from += AT_ONCE) {
    const moments = Array.from({ length: AT_ONCE }, (_, index) => from + index);
    const wereCut = await Promise.all(moments.map((at) => start(backbone, at)));
    cuts += wereCut.filter(Boolean).length;
  }
  assert.ok(cuts > 3, `${cuts} moments`);
}

const redis = await backboneOffer('Redis');
test('an instance starts though Redis goes away at any moment of its start', { skip: redis.missing }, async () => {
  await using backbone = await redis.start();
  await cutAtEachMoment(backbone, startsThoughCut);
});

for (const kind of ['Postgres', 'NATS'] satisfies BackboneKind[]) {
  const offer = await backboneOffer(kind);
  test(`the log of an instance opens though ${kind} goes away at any moment of that`, {
    skip: offer.missing,
  }, async () => {
    await using backbone = await offer.start();
    await cutAtEachMoment(backbone, opensThoughCut);
  });
}
