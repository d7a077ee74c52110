import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { type JetStreamClient, jetstream } from '@nats-io/jetstream';
import { connect, headers } from '@nats-io/transport-node';
import { Redis } from 'ioredis';
import pg from 'pg';
import { type Logger, Secret, silentLogger } from '../../src/lib/observe/log.js';
import { openBackbone } from '../../src/server/log/backbone/open-backbone.js';
import { FoldedLog } from '../../src/server/log/folded-log.js';
import {
  BACKBONE_PASSWORD,
  type BackboneKind,
  type BackboneServer,
  backboneOffer,
} from '../support/backbone-servers.js';
import { until } from '../support/until.js';

/** What only the stores themselves can be told, by whoever may write to their server: entries without fields, texts that are bombs. */

const MIB = 1024 * 1024;
const PART = gzipSync(Buffer.alloc(MIB, ' '), { level: 9 });
/** 700 MiB in as many parts. */
const BOMB = Buffer.concat(Array.from({ length: 700 }, () => PART));
const TIMES = { connectMs: 30_000, callMs: 30_000, lookMs: 100, openMs: 30_000 };
const body = (path: string): string => {
  const entry = { url: '', topics: ['t'], dst_path: path, save_method: 'PUT', data: 1 };
  return JSON.stringify({ id: path, publisher: null, reason: null, entries: [entry], callbacks: [] });
};

/** An instance on a log, and how often it lost its backbone. */
async function instance({ uri }: BackboneServer, name: string) {
  let losses = 0;
  const log: Logger = { ...silentLogger(), error: () => losses++ } as unknown as Logger;
  const store = await openBackbone({ uri: new Secret(uri), name, times: TIMES }, { log });
  const options = { exclusive: false, patchesPerPath: 10, retention: { maxAgeMs: 1, maxRows: 10 }, pollMs: 50 };
  const folded = await FoldedLog.open(store, options, { log: silentLogger() }).catch(async (error: unknown) => {
    await store.close();
    throw error;
  });
  return { store, log: folded, losses: () => losses, [Symbol.asyncDispose]: () => folded.close() };
}

/** Whether an instance stands before a row, names it, and lost nothing else. */
async function standsBefore(one: Awaited<ReturnType<typeof instance>>, what: string, head = 1): Promise<void> {
  await until(() => !one.log.status.up, { withinMs: 10_000, what: `${what}: it says so` });
  const { status } = one.log;
  assert.match(status.up ? 'up' : status.reason, /^record \S+ of the update log/, what);
  assert.deepEqual([one.log.head, one.store.status.up, one.losses()], [head, true, 0], what);
}

/** What has seen a row, and looks whether the log still has it, must not take a forged one for its own. */
async function looksAgain(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 4 * TIMES.lookMs));
}

/** A row where the next one belongs: the store says so, and stays connected. */
async function refusesToAppend({ store }: Awaited<ReturnType<typeof instance>>, what: string): Promise<void> {
  await assert.rejects(
    store.append([{ kind: 'update', body: body('/c') }]),
    { code: 'log_damaged', message: /^record \S+ of the update log comes after its last one/ },
    what,
  );
  assert(store.status.up, what);
}

/** One that starts all the same is ended: it would keep this process for ever. */
async function refusesToStart(server: BackboneServer, name: string, what: string): Promise<void> {
  const start = async (): Promise<void> => {
    await using _started = await instance(server, name);
  };
  await assert.rejects(start(), { code: 'log_damaged' }, what);
}

async function suite(kind: BackboneKind, tests: (server: () => BackboneServer) => void): Promise<void> {
  const offer = await backboneOffer(kind);
  describe(`a ${kind} that somebody else writes to`, { skip: offer.missing ?? false }, () => {
    let server: BackboneServer;
    before(async () => {
      server = await offer.start({ isHasty: true });
    });
    after(() => server[Symbol.asyncDispose]());
    tests(() => server);
  });
}

await suite('Redis', (server) => {
  const redis = (): Redis => new Redis(`${server().uri}`);

  const commands = async (client: Redis): Promise<number> =>
    Number(/total_commands_processed:(\d+)/.exec(await client.info('stats'))?.[1]);

  test('entries without the fields of a row, or beside a place, are named, and nothing is connected again and again', async () => {
    for (const [what, id, fields] of [
      ['no field of ours', '2-0', ['x', 'y']],
      ['no body', '2-0', ['k', 'update', 't', '1']],
      ['beside a place', '1-7', ['k', 'update', 't', '1', 'b', body('/twice')]],
      ['a time that is none', '2-0', ['k', 'update', 't', 'soon', 'b', body('/b')]],
    ] as const) {
      const name = what.replaceAll(' ', '_');
      const client = redis();
      try {
        await using one = await instance(server(), name);
        await one.store.append([{ kind: 'update', body: body('/a') }]);
        await until(() => one.log.head === 1, { withinMs: 10_000, what: `${what}: the first row` });
        await client.xadd(`{${name}}:log`, id, ...fields);
        await standsBefore(one, what);
        const asked = await commands(client);
        await looksAgain();
        const more = (await commands(client)) - asked;
        assert(more < 100, `${what}: ${more} calls in 3 looks`);
        await standsBefore(one, `${what}, after several looks`);
        if (id === '2-0') await refusesToAppend(one, what);
        await refusesToStart(server(), name, what);
      } finally {
        client.disconnect();
      }
    }
  });

  test('a row far after the head, or one with a head and without a time, is no sign of another log', async () => {
    const client = redis();
    try {
      await using one = await instance(server(), 'late');
      await client.xadd('{late}:log', '4-0', 'k', 'update', 't', '1', 'b', body('/b'));
      await standsBefore(one, 'after the head', 0);
      await using other = await instance(server(), 'timeless');
      await other.store.append([{ kind: 'update', body: body('/a') }]);
      await client.xadd('{timeless}:log', '2-0', 'k', 'update', 't', 'soon', 'b', body('/b'));
      await client.hset('{timeless}:meta', 'head', 2);
      await looksAgain();
      await standsBefore(other, 'a time that is none');
    } finally {
      client.disconnect();
    }
  });

  test('a head that is no number is named, and not taken for an empty log', async () => {
    const client = redis();
    try {
      await using one = await instance(server(), 'heads');
      await one.store.append([{ kind: 'update', body: body('/a') }]);
      for (const head of ['none', '1e400', '-1', '2.5', '99999999999999999999']) {
        await client.hset('{heads}:meta', 'head', head);
        await refusesToStart(server(), 'heads', head);
      }
      await client.hset('{heads}:meta', 'head', '1');
      await until(() => one.store.status.up, { withinMs: 10_000, what: 'it is back when the head is' });
    } finally {
      client.disconnect();
    }
  });

  test('announcements of any form, and keys of another kind, hide no other and are in the way of no append', async () => {
    const client = redis();
    try {
      await using one = await instance(server(), 'said');
      const { presence } = one.store;
      await presence.put('honest', 'what it says', 60_000);
      for (const [name, ends] of [
        ['far', '9e15'],
        ['late', '-inf'],
      ] as const) {
        await client.hset('{said}:presence', name, 'x');
        await client.zadd('{said}:presence-ends', ends, name);
      }
      await client.hset('{said}:presence', 'endless', 'x', '', 'x', '__proto__', 'x');
      await client.hset('{said}:presence-parts:honest', 'none', 'x', '-1', 'x', '1e999', 'x');
      const texts = await presence.list();
      assert.equal(texts.get('honest')?.text, 'what it says');
      for (const [name, { leftMs }] of texts) assert(Number.isFinite(leftMs), `${name}: ${leftMs}`);
      assert.deepEqual([...(await presence.parts('honest', [0]))], []);
      for (const key of ['presence', 'presence-ends', 'mail']) {
        await client.del(`{said}:${key}`);
        await client.set(`{said}:${key}`, 'of another kind');
        const said = await presence.list().catch(({ code }: { code: string }) => code);
        assert(typeof said !== 'string' || said === 'presence_unavailable', `${key}: ${String(said)}`);
        await one.store.append([{ kind: 'update', body: body(`/${key}`) }]);
        await client.del(`{said}:${key}`);
      }
      assert.deepEqual([one.store.status.up, one.losses()], [true, 0]);
    } finally {
      client.disconnect();
    }
  });
});

await suite('Postgres', (server) => {
  test('a row after the head is named, stops no look, and is in the way of no other server', async () => {
    const client = new pg.Client({ connectionString: server().uri });
    await client.connect();
    try {
      for (const seq of [2, 7]) {
        const name = `after${seq}`;
        await using one = await instance(server(), name);
        await one.store.append([{ kind: 'update', body: body('/a') }]);
        await until(() => one.log.head === 1, { withinMs: 10_000, what: 'the first row' });
        await client.query(`INSERT INTO "${name}_log" VALUES ($1, 'update', 1, $2)`, [seq, body('/b')]);
        await standsBefore(one, name);
        await looksAgain();
        await standsBefore(one, `${name}, after several looks`);
        assert.deepEqual(
          (await one.store.scan({ after: 0 }, 10, [])).map((row) => row.seq),
          [1],
        );
        if (seq === 2) await refusesToAppend(one, name);
        await refusesToStart(server(), name, name);
      }
    } finally {
      await client.end();
    }
  });

  test('a head that no log has is named, and not taken for an empty log', async () => {
    const client = new pg.Client({ connectionString: server().uri });
    await client.connect();
    try {
      await using one = await instance(server(), 'heads');
      await one.store.append([{ kind: 'update', body: body('/a') }]);
      for (const head of ['-1', '9007199254740993', '9223372036854775807']) {
        await client.query('UPDATE "heads_log_meta" SET head = $1', [head]);
        await refusesToStart(server(), 'heads', head);
      }
      await client.query('UPDATE "heads_log_meta" SET head = 1');
      await until(() => one.store.status.up, { withinMs: 10_000, what: 'it is back when the head is' });
    } finally {
      await client.end();
    }
  });

  test('announcements and mail of any form hide no other, and are in the way of no append', async () => {
    const client = new pg.Client({ connectionString: server().uri });
    await client.connect();
    try {
      await using one = await instance(server(), 'said');
      const { presence } = one.store;
      await presence.put('honest', 'what it says', 60_000);
      for (const [name, until] of [
        ['forever', '9223372036854775807'],
        ['late', '-9223372036854775808'],
        ['', '9007199254740993'],
        ['__proto__', '9007199254740993'],
      ])
        await client.query('INSERT INTO "said_presence" VALUES ($1, $2, $3)', [name, 'x', until]);
      for (const part of [-1, 2 ** 31 - 1])
        await client.query('INSERT INTO "said_presence_part" VALUES ($1, $2, $3, 0)', ['honest', part, 'x']);
      const texts = await presence.list();
      assert.equal(texts.get('honest')?.text, 'what it says');
      for (const [name, { leftMs }] of texts) assert(Number.isFinite(leftMs), `${name}: ${leftMs}`);
      assert.deepEqual([...(await presence.parts('honest', [0]))], []);
      for (const text of ['', '-1', '1e999', '9'.repeat(7000), 'mail:', `mail:x:0:1:${'x'.repeat(7000)}`, '\u001b[2J'])
        await client.query(`SELECT pg_notify('said_log', $1)`, [text]);
      await one.store.append([{ kind: 'update', body: body('/a') }]);
      await until(() => one.log.head === 1, { withinMs: 10_000, what: 'the row' });
      assert.deepEqual([one.store.status.up, one.losses()], [true, 0]);
      await client.query('DROP TABLE "said_presence"');
      await client.query('CREATE TABLE "said_presence" (instance int, body int)');
      const said = await presence.list().catch(({ code }: { code: string }) => code);
      assert.equal(said, 'presence_unavailable');
      await one.store.append([{ kind: 'update', body: body('/b') }]);
      assert.deepEqual([one.store.status.up, one.losses()], [true, 0]);
    } finally {
      await client.end();
    }
  });
});

await suite('NATS', (server) => {
  async function publishing(work: (stream: JetStreamClient) => Promise<unknown>): Promise<void> {
    const connection = await connect({ servers: `127.0.0.1:${server().port}`, user: 'app', pass: BACKBONE_PASSWORD });
    await work(jetstream(connection));
    await connection.close();
  }
  const packed = () => {
    const given = headers();
    given.set('Content-Encoding', 'gzip');
    return given;
  };

  test('rows that are bombs, or no gzip, are named, and take no memory', async () => {
    for (const [what, data] of [
      ['a bomb', BOMB],
      ['no gzip', Buffer.from('not packed')],
    ] as const) {
      const name = what.replaceAll(' ', '_');
      await using one = await instance(server(), name);
      await one.store.append([{ kind: 'update', body: body('/a') }]);
      await until(() => one.log.head === 1, { withinMs: 10_000, what: `${what}: the first row` });
      const before = process.memoryUsage.rss();
      await publishing((stream) => stream.publish(`${name}.log.update`, data, { headers: packed() }));
      await standsBefore(one, what);
      const grownMib = (process.memoryUsage.rss() - before) / MIB;
      assert(grownMib < 400, `${what}: ${Math.round(grownMib)} MiB`);
      await refusesToStart(server(), name, what);
    }
  });

  test('announcements that are no gzip, bombs, or of other types hide no other, and take no memory', async () => {
    await using one = await instance(server(), 'said');
    const { presence } = one.store;
    await presence.put('honest', 'what it says', 60_000);
    const pack = (value: unknown): Buffer => gzipSync(JSON.stringify(value));
    const before = process.memoryUsage.rss();
    for (const [at, data] of [
      Buffer.from('not packed'),
      gzipSync('[1,'),
      BOMB,
      pack(null),
      pack({ instance: 7, text: 'x', ttlMs: 60_000 }),
      pack({ instance: 'typed', text: { a: 1 }, ttlMs: 60_000 }),
      pack({ instance: 'timeless', text: 'x', ttlMs: 'long' }),
    ].entries())
      await publishing((stream) => stream.publish(`said.presence.forged${at}`, data));
    const texts = await presence.list();
    assert.equal(texts.get('honest')?.text, 'what it says');
    for (const { text, leftMs } of texts.values()) assert(typeof text === 'string' && Number.isFinite(leftMs));
    assert.equal(texts.size, 8, 'those that cannot be read are there, as unreadable');
    const grownMib = (process.memoryUsage.rss() - before) / MIB;
    assert(grownMib < 300, `${Math.round(grownMib)} MiB`);
  });

  test('what is said to be retired in another form keeps no instance from starting, nor what is retired from going', async () => {
    await using one = await instance(server(), 'gone');
    await one.store.append([
      { kind: 'update', body: body('/a') },
      { kind: 'update', body: body('/b') },
    ]);
    for (const data of ['{"seqs":[1]}', '"1"', '[{}]', '[1e300,"1",-1]', 'no JSON', 'null'])
      await publishing((stream) => stream.publish('gone.retired', data));
    await one.store.retire([1]);
    await using other = await instance(server(), 'gone');
    assert.equal(other.log.head, 2);
    // Unless the instance has done so. Under load a look may take too long, and the connection is made again.
    await until(async () => (await one.store.dropRetired(Date.now() + 60_000)) >= 0, {
      ...{ withinMs: 10_000, what: 'what is retired is dropped' },
    });
    await until(async () => (await one.store.read(0, 10)).map(({ seq }) => seq).join() === '2', {
      ...{ withinMs: 10_000, what: 'the second row is left' },
    });
  });
});
