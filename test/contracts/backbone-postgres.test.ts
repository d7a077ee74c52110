import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { errorCode } from '../../src/lib/errors.js';
import { Secret, silentLogger } from '../../src/lib/observe/log.js';
import { openBackbone } from '../../src/server/log/backbone/open-backbone.js';
import { backboneContract, type Damage } from '../support/backbone-contract.js';
import { backboneOffer } from '../support/backbone-servers.js';
import { until } from '../support/until.js';

await backboneContract('Postgres', {
  weak: { lines: ['fsync=off'], reason: /fsync is off/ },
  deletions: {
    'the table of presence': sql((name) => `DROP TABLE "${name}_presence"`),
    'the table of parts of presence': sql((name) => `DROP TABLE "${name}_presence_part"`),
    'the table of dedup keys, and an index': sql(
      (name) => `DROP TABLE "${name}_log_dedup"; DROP INDEX "${name}_log_live"`,
    ),
    'the function that appends': sql((name) => `DROP FUNCTION "${name}_append_v2"`),
  },
  spoilers: {
    'the table of presence locked': { of: 'presence', spoil: locked('presence') },
    'the table of parts of presence locked': { of: 'presence', spoil: locked('presence_part') },
    'a view in place of the table of presence': {
      of: 'presence',
      spoil: async (uri, name) => {
        const table = `"${name}_presence"`;
        await sql(() => `DROP TABLE ${table}; CREATE VIEW ${table} AS SELECT 1 AS other`)(uri, name);
        return { [Symbol.asyncDispose]: () => sql(() => `DROP VIEW ${table}`)(uri, name) };
      },
    },
  },
  loss: sql((name) => `DROP TABLE "${name}_log"`),
});

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

function sql(text: (name: string) => string): Damage {
  return async (uri, name) => {
    const client = await connected(uri);
    await client.query(text(name));
    await client.end();
  };
}

function locked(table: string): Damage<AsyncDisposable> {
  return async (uri, name) => {
    const client = await connected(uri);
    await client.query('BEGIN');
    await client.query(`LOCK TABLE "${name}_${table}" IN ACCESS EXCLUSIVE MODE`);
    return { [Symbol.asyncDispose]: () => client.end() };
  };
}

async function connected(uri: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: uri });
  await client.connect();
  return client;
}

test('what Postgres remembers of Idempotency-Keys has a bound', { skip: offer.missing ?? false }, async () => {
  await using server = await offer.start();
  const dedup = { ms: 3_600_000, rows: 100 };
  const store = await openBackbone({ uri: new Secret(server.uri), name: 'keys', dedup }, { log: silentLogger() });
  const admin = new pg.Client({ connectionString: server.uri });
  await admin.connect();
  try {
    for (let at = 0; at < 1000; at += 50) {
      await store.append(Array.from({ length: 50 }, (_, n) => ({ kind: 'update', body: '1', dedup: `key ${at + n}` })));
    }
    const { rows } = await admin.query('SELECT count(*)::int AS kept FROM keys_log_dedup');
    assert.deepEqual(rows, [{ kept: 100 }]);
  } finally {
    await admin.end();
    await store.close();
  }
});
