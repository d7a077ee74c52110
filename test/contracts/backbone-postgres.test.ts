import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { errorCode } from '../../src/lib/errors.js';
import { Secret, silentLogger } from '../../src/lib/log.js';
import { openBackbone } from '../../src/server/backbone/open-backbone.js';
import { backboneContract } from '../support/backbone-contract.js';
import { backboneOffer } from '../support/backbone-servers.js';
import { until } from '../support/until.js';

await backboneContract('Postgres', { weak: { lines: ['fsync=off'], reason: /fsync is off/ } });

const offer = await backboneOffer('Postgres');

test('a Postgres that is read-only, as one whose disk is nearly full, refuses rows and probes, and can be read', {
  skip: offer.missing ?? false,
}, async () => {
  await using server = await offer.start();
  const store = await openBackbone({ uri: new Secret(server.uri), name: 'full' }, { log: silentLogger() });
  const admin = new pg.Client({ connectionString: server.uri });
  await admin.connect();
  const readOnly = async (value: 'on' | 'off'): Promise<void> => {
    await admin.query(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
    await admin.query('SELECT pg_reload_conf()');
    const probed = value === 'on' ? 'log_unwritable' : 'written';
    const probe = (): Promise<unknown> => store.probe(10).then(() => 'written', errorCode);
    await until(async () => (await probe()) === probed, { withinMs: 20_000, what: `a probe is ${probed}` });
  };
  try {
    const row = { kind: 'update', body: '"a"' } as const;
    await store.append([row]);
    await readOnly('on');
    for (let call = 0; call < 2; call++) {
      await assert.rejects(store.append([row]), { code: 'log_unwritable' });
      await assert.rejects(store.probe(10), { code: 'log_unwritable' });
    }
    assert.deepEqual([store.status, (await store.read(0, 10)).length], [{ up: true }, 1]);
    await readOnly('off');
    assert.deepEqual(await store.append([row]), [{ seq: 2, duplicate: false }]);
  } finally {
    await admin.end();
    await store.close();
  }
});
