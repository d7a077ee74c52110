import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Redis } from 'ioredis';
import { Secret, silentLogger } from '../../src/lib/observe/log.js';
import { openBackbone } from '../../src/server/log/backbone/open-backbone.js';
import { backboneContract, type Damage } from '../support/backbone-contract.js';
import { backboneOffer } from '../support/backbone-servers.js';
import { until } from '../support/until.js';

await backboneContract('Redis', {
  weak: {
    lines: ['appendfsync everysec', 'maxmemory-policy allkeys-lru', 'user default off'],
    reason: /appendfsync is everysec, not always, maxmemory-policy is allkeys-lru, not noeviction, the user "default"/,
  },
  deletions: {
    'the texts of presence': deleted('presence'),
    'the ends of presence': deleted('presence-ends'),
    'both keys of presence': deleted('presence', 'presence-ends'),
    'the parts of presence': deleted('presence-parts:one before', 'presence-parts:one after'),
    'the key of mail': deleted('mail'),
    'the key of what is retired': deleted('retired'),
    'the scripts': (uri) => asked(uri, (redis) => redis.call('SCRIPT', 'FLUSH')),
  },
  spoilers: {
    'a text in place of the texts of presence': { of: 'presence', spoil: textAt('presence') },
    'a text in place of the mail': { of: 'mail', spoil: textAt('mail') },
  },
  loss: deleted('log'),
});

function deleted(...keys: readonly string[]): Damage {
  return (uri, name) => asked(uri, (redis) => redis.del(...keys.map((key) => `{${name}}:${key}`)));
}

function textAt(key: string): Damage<AsyncDisposable> {
  return async (uri, name) => {
    await asked(uri, (redis) => redis.set(`{${name}}:${key}`, 'of somebody else'));
    return { [Symbol.asyncDispose]: () => deleted(key)(uri, name) };
  };
}

async function asked(uri: string, ask: (redis: Redis) => Promise<unknown>): Promise<void> {
  const redis = new Redis(uri);
  await ask(redis);
  redis.disconnect();
}

const offer = await backboneOffer('Redis');

test('a user to whom the key of mail is closed does without mail, and the log works', {
  skip: offer.missing ?? false,
}, async () => {
  const keys = ['meta', 'log', 'retired', 'dedup*', 'presence', 'presence-ends'].map((key) => `~{narrow}:${key}`);
  await using server = await offer.start({ lines: [`user narrow on >secret ${keys.join(' ')} &* +@all`] });
  const uri = new URL(server.uri);
  uri.username = 'narrow';
  uri.password = 'secret';
  const store = await openBackbone({ uri: new Secret(uri.href), name: 'narrow' }, { log: silentLogger() });
  try {
    let calls = 0;
    store.watch(() => calls++);
    await assert.rejects(store.mail.send('text'), /permission/i);
    assert.deepEqual(store.status, { up: true });
    const before = calls;
    await store.append([{ kind: 'update', body: '"a"' }]);
    await until(() => calls > before, { withinMs: 20_000, what: 'the watcher is called' });
    assert.deepEqual(store.status, { up: true });
  } finally {
    await store.close();
  }
});

test('a Redis whose memory is full refuses rows and probes, and takes both when it has room', {
  skip: offer.missing ?? false,
}, async () => {
  await using server = await offer.start();
  const store = await openBackbone({ uri: new Secret(server.uri), name: 'full' }, { log: silentLogger() });
  const admin = new Redis(server.uri);
  try {
    const row = { kind: 'update', body: '"a"' } as const;
    await store.append([row]);
    await admin.config('SET', 'maxmemory', '1');
    await assert.rejects(store.append([row]), { code: 'log_unwritable' });
    await assert.rejects(store.probe(10), { code: 'log_unwritable' });
    assert.deepEqual(store.status, { up: true });
    await admin.config('SET', 'maxmemory', '0');
    await store.probe(10);
    assert.deepEqual(await store.append([row]), [{ seq: 2, duplicate: false }]);
  } finally {
    admin.disconnect();
    await store.close();
  }
});

test('what Redis remembers of Idempotency-Keys has a bound', { skip: offer.missing ?? false }, async () => {
  await using server = await offer.start();
  const dedup = { ms: 3_600_000, rows: 100 };
  const store = await openBackbone({ uri: new Secret(server.uri), name: 'keys', dedup }, { log: silentLogger() });
  try {
    for (let at = 0; at < 1000; at += 50) {
      await store.append(Array.from({ length: 50 }, (_, n) => ({ kind: 'update', body: '1', dedup: `key ${at + n}` })));
    }
    await asked(server.uri, async (redis) => {
      assert.deepEqual([await redis.hlen('{keys}:dedup'), await redis.llen('{keys}:dedup-order')], [100, 100]);
      assert.deepEqual((await redis.keys('*')).sort(), [
        '{keys}:dedup',
        '{keys}:dedup-order',
        '{keys}:log',
        '{keys}:meta',
      ]);
      await redis.hset('{keys}:meta', 'form', '1');
    });
    const opening = openBackbone({ uri: new Secret(server.uri), name: 'keys' }, { log: silentLogger() });
    await assert.rejects(opening, { code: 'log_damaged', message: /an older version wrote the update log/ });
  } finally {
    await store.close();
  }
});
