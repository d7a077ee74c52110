import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { jetstreamManager, type StreamConfig } from '@nats-io/jetstream';
import { connect } from '@nats-io/transport-node';
import { Secret, silentLogger } from '../../src/lib/log.js';
import { openBackbone } from '../../src/server/backbone/open-backbone.js';
import { backboneContract } from '../support/backbone-contract.js';
import { BACKBONE_PASSWORD, type BackboneServer, backboneOffer } from '../support/backbone-servers.js';

await backboneContract('NATS', {
  weak: { lines: [], reason: /cannot be queried; set SYNC_BROADCAST_NATS_SYNC_ALWAYS/ },
});

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
});
