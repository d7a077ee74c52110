import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { type JetStreamManager, jetstreamManager, type StreamConfig, type StreamInfo } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { Secret, silentLogger } from '../../src/lib/observe/log.js';
import { openBackbone } from '../../src/server/log/backbone/open-backbone.js';
import { FoldedLog } from '../../src/server/log/folded-log.js';
import { backboneContract, type Damage } from '../support/backbone-contract.js';
import { BACKBONE_PASSWORD, type BackboneServer, backboneOffer } from '../support/backbone-servers.js';
import { cutCable } from '../support/cut-cable.js';
import { freePort } from '../support/opa.js';
import { together } from '../support/together.js';
import { patience, until } from '../support/until.js';

await backboneContract('NATS', {
  weak: { lines: [], reason: /cannot be queried; set SYNC_BROADCAST_NATS_SYNC_ALWAYS/ },
  deletions: {
    'the stream of presence': managed((streams, name) => streams.delete(`${name}_presence`)),
    'the stream of parts of presence': managed((streams, name) => streams.delete(`${name}_presence_parts`)),
    'the stream of what is retired': managed((streams, name) => streams.delete(`${name}_retired`)),
    'the consumers of rows': (uri, name) =>
      managing(uri, async ({ consumers }) => {
        for await (const { name: consumer } of consumers.list(`${name}_log`))
          await consumers.delete(`${name}_log`, consumer);
      }),
  },
  spoilers: {
    'a stream of somebody else with the subjects of presence': {
      of: 'presence',
      spoil: async (uri, name) => {
        await managed(async (streams) => {
          await streams.delete(`${name}_presence`);
          await streams.add({ name: `${name}_other`, subjects: [`${name}.presence.>`] });
        })(uri, name);
        return { [Symbol.asyncDispose]: () => managed((streams) => streams.delete(`${name}_other`))(uri, name) };
      },
    },
  },
  loss: managed((streams, name) => streams.purge(`${name}_log`)),
});

function managed(work: (streams: JetStreamManager['streams'], name: string) => Promise<unknown>): Damage {
  return (uri, name) => managing(uri, ({ streams }) => work(streams, name));
}

async function managing(uri: string, work: (manager: JetStreamManager) => Promise<unknown>): Promise<void> {
  const { host } = new URL(uri);
  const connection = await connect({ servers: host, user: 'app', pass: BACKBONE_PASSWORD });
  await work(await jetstreamManager(connection));
  await connection.close();
}

const offer = await backboneOffer('NATS');
describe('a NATS stream that is full', { skip: offer.missing ?? false }, () => {
  let server: BackboneServer;
  before(async () => {
    server = await offer.start();
  });
  after(async () => {
    await server[Symbol.asyncDispose]();
  });

  /** A log whose stream takes two rows of this size, and no third one. */
  async function openSmall(name: string, body: string) {
    const connection = await connect({ servers: `127.0.0.1:${server.port}`, user: 'app', pass: BACKBONE_PASSWORD });
    const manager = await jetstreamManager(connection);
    const day = 24 * 60 * 60 * 1_000_000_000;
    const config: Partial<StreamConfig> = { subjects: [`${name}.log.*`], allow_direct: true, duplicate_window: day };
    await manager.streams.add({ ...config, name: `${name}_log`, max_bytes: 3 * body.length, discard: 'new' as const });
    await connection.close();
    return await openBackbone({ uri: new Secret(server.uri), name }, { log: silentLogger() });
  }

  async function changeStream(name: string, config: Partial<StreamConfig>): Promise<void> {
    const connection = await connect({ servers: `127.0.0.1:${server.port}`, user: 'app', pass: BACKBONE_PASSWORD });
    await (await jetstreamManager(connection)).streams.update(`${name}_log`, config);
    await connection.close();
  }

  test('a row that it refuses was not written; of rows of which it took some, that is not said', async () => {
    const body = JSON.stringify('x'.repeat(4000));
    const store = await openSmall('small', body);
    const rows = ['a', 'b', 'c'].map((dedup) => ({ kind: 'update' as const, body, dedup }));
    await assert.rejects(store.append(rows), { code: 'backbone_unavailable', message: /2 of 3 rows were written/ });
    assert.equal((await store.read(0, 10)).length, 2);
    await assert.rejects(store.append(rows.slice(2)), { code: 'log_unwritable' });
    assert.deepEqual(await store.append(rows.slice(0, 1)), [{ seq: 1, duplicate: true }]);
    await assert.rejects(store.append(rows), { code: 'log_unwritable' }, 'nothing new was written');
    await assert.rejects(store.probe(body.length), { code: 'log_unwritable' });
    await changeStream('small', { max_bytes: 10 * body.length });
    await store.probe(body.length);
    await store.append(rows.slice(2));
    await store.close();

    const guarded = await openSmall('guarded', body);
    const expect = { kind: 'any', lastSeq: 0 } as const;
    await assert.rejects(guarded.append(rows, expect), { code: 'backbone_unavailable', message: /2 of 3 rows/ });
    await guarded.close();
  });

  test('an instance at which nobody publishes learns that the stream is full, and that it has room again', async () => {
    const body = JSON.stringify('x'.repeat(60_000));
    const busy = await openSmall('idle', body);
    const idle = await openBackbone({ uri: new Secret(server.uri), name: 'idle' }, { log: silentLogger() });
    const options = { exclusive: false, patchesPerPath: 10, retention: { maxAgeMs: 100_000, maxRows: 1000 } };
    const probes = { retry: { minMs: 1, maxMs: 50 }, lookMs: 20 };
    const log = await FoldedLog.open(idle, { ...options, probes }, { log: silentLogger() });
    assert.deepEqual(log.writes, { ok: true });
    await busy.append([{ kind: 'policy', body }]);
    await busy.append([{ kind: 'policy', body }]);
    await until(() => !log.writes.ok, { withinMs: 20_000, what: 'it is known' });
    const { writes } = log;
    assert(!writes.ok);
    assert.match(writes.reason, /the stream idle_log is full/);
    await changeStream('idle', { max_bytes: 10 * body.length });
    await until(() => log.writes.ok, { withinMs: 20_000, what: 'there is room' });
    await log.close();
    await busy.close();
  });
});

test('in a cluster, the node dies that leads the stream of presence: log and presence go on, by themselves', {
  skip: offer.missing ?? false,
}, async () => {
  await using nodes = together<BackboneServer>();
  const ports = await Promise.all([freePort(), freePort(), freePort()]);
  const routes = ports.map((port) => `"nats://127.0.0.1:${port}"`).join(', ');
  const started = await Promise.all(
    ports.map((port, at) => {
      const cluster = `cluster { name: fleet, listen: "127.0.0.1:${port}", routes: [${routes}] }`;
      return offer.start({ lines: [`server_name: "${at}"`, cluster] });
    }),
  );
  for (const node of started) nodes.add(node);
  const hosts = started.map(({ port }) => `127.0.0.1:${port}`);
  const uri = new Secret(`nats://app:${encodeURIComponent(BACKBONE_PASSWORD)}@${hosts.join(',')}`);
  const times = { callMs: 2000, connectMs: 2000, lookMs: 500 };
  const store = await openBackbone({ uri, name: 'c', times }, { log: silentLogger() });
  try {
    await managing(started[0]?.uri ?? '', ({ streams }) => streams.update('c_log', { num_replicas: 3 }));
    const leader = await until(
      async () => {
        let found: StreamInfo | undefined;
        await managing(started[0]?.uri ?? '', async ({ streams }) => {
          found = await streams.info('c_presence');
        });
        const replicas = found?.cluster?.replicas ?? [];
        return replicas.length === 2 && replicas.every(({ current }) => current) && found?.cluster?.leader;
      },
      { withinMs: 20_000, what: 'presence has as many replicas as the log' },
    );
    await store.presence.put('one', 'before', 60_000);
    await started[Number(leader)]?.kill();
    const isListed = async (text: string): Promise<boolean> => {
      await store.append([{ kind: 'update', body: '"after"' }]);
      await store.presence.put('one', text, 60_000);
      return (await store.presence.list()).get('one')?.text === text;
    };
    await until(() => isListed('after'), { withinMs: 20_000, what: 'log and presence' });
    const losses: unknown[] = [];
    store.watch(() => {
      if (!store.status.up) losses.push(store.status);
    });
    // A busy machine may be late with an announcement; the log must not suffer from that.
    for (let count = 0; count < 20; count++) {
      await until(() => isListed(String(count)), { withinMs: 20_000, what: 'log and presence go on' });
    }
    assert.deepEqual(losses, []);
  } finally {
    await store.close();
  }
});

test('many rows in one call have more time than one, since NATS flushes each of them by itself', {
  skip: offer.missing ?? false,
}, async () => {
  await using server = await offer.start();
  await using cable = await cutCable(`http://127.0.0.1:${server.port}`);
  const uri = new URL(server.uri);
  uri.port = new URL(cable.url).port;
  const times = { callMs: 1000 * patience(), lookMs: 60_000 };
  const store = await openBackbone({ uri: new Secret(uri.href), name: 'many', times }, { log: silentLogger() });
  try {
    const row = { kind: 'update', body: '"a"' } as const;
    cable.slow(0.55 * times.callMs); // each way
    const places = await store.append(Array.from({ length: 1000 }, () => row));
    assert.deepEqual([places.length, places.at(-1)?.seq], [1000, 1000]);
    await assert.rejects(store.append([row]), { code: 'backbone_unavailable', message: /no answer within/ });
  } finally {
    await store.close();
  }
});

test('NATS remembers Idempotency-Keys for an hour', {
  skip: offer.missing ?? false,
}, async () => {
  await using server = await offer.start();
  const store = await openBackbone({ uri: new Secret(server.uri), name: 'keys' }, { log: silentLogger() });
  await store.close();
  const connection = await connect({ servers: `127.0.0.1:${server.port}`, user: 'app', pass: BACKBONE_PASSWORD });
  const { config } = await (await jetstreamManager(connection)).streams.info('keys_log');
  await connection.close();
  assert.equal(config.duplicate_window, 3_600_000_000_000);
});
