import assert from 'node:assert/strict';
import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import Libsql from 'libsql';
import { errorCode, errorText, isConfigurationError } from '../../src/lib/errors.js';
import { JsonText } from '../../src/lib/json-text.js';
import { silentLogger } from '../../src/lib/log.js';
import { LOG_FILE, openSqliteStore } from '../../src/server/log/sqlite-store.js';
import { peerEntry } from '../../src/wire/data.js';
import { openSqliteLog } from '../support/sqlite-log.js';
import { tempDir } from '../support/temp-dir.js';

const HOUR_MS = 60 * 60 * 1000;

test('a dedup text counts for a day', async () => {
  await using folder = await tempDir();
  let nowMs = 1_700_000_000_000;
  const store = await openSqliteStore({ stateDir: folder.path }, { now: () => nowMs });
  const append = async () => (await store.append([{ kind: 'update', body: '1', dedup: 'k' }]))[0];
  assert.deepEqual(await append(), { seq: 1, duplicate: false, timeMs: nowMs });
  nowMs += 23 * HOUR_MS;
  assert.deepEqual(await append(), { seq: 1, duplicate: true, timeMs: 1_700_000_000_000 });
  nowMs += 2 * HOUR_MS;
  assert.deepEqual(await append(), { seq: 2, duplicate: false, timeMs: nowMs });
  await store.close();
});

test('a folder that cannot be made, or a log that cannot be, says why, and that only a person can help', async () => {
  await using folder = await tempDir();
  const file = join(folder.path, 'a-file');
  await writeFile(file, '');
  for (const [stateDir, why] of [
    [file, /the state folder .*a-file cannot be used: something else is there$/],
    [join(file, 'state'), /the state folder .*a-file\/state cannot be used: a part of its path is no folder$/],
  ] as const) {
    await assert.rejects(openSqliteStore({ stateDir }), (error) => {
      assert.deepEqual([errorCode(error), isConfigurationError(error)], ['state_dir_unusable', true]);
      assert.match(errorText(error), why);
      return true;
    });
  }
});

test('the store is durable, and says so after it has looked', async () => {
  await using folder = await tempDir();
  const store = await openSqliteStore({ stateDir: folder.path });
  assert.deepEqual(store.durability, { level: 'durable' });
  await store.close();
});

test('a log of the first version is taken over: epoch, places, base entries and what was retired', async () => {
  await using folder = await tempDir();
  const database = new Libsql(join(folder.path, LOG_FILE));
  database.exec(`
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE record (
      seq INTEGER PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('base', 'update')),
      time_ms INTEGER NOT NULL, body TEXT NOT NULL, retired_ms INTEGER
    );
    CREATE INDEX record_live ON record (seq) WHERE retired_ms IS NULL;
    CREATE INDEX record_retired ON record (retired_ms) WHERE retired_ms IS NOT NULL;
    INSERT INTO meta VALUES ('epoch', 'of-before');
    PRAGMA user_version = 1;
  `);
  const insert = database.prepare('INSERT INTO record VALUES (?, ?, ?, ?, ?)');
  const base = (path: string, more = '') =>
    `{"entries":[{"url":"http://b${path}","topics":["t"],"dst_path":"${path}","save_method":"PUT"${more}}]}`;
  const update = (path: string) =>
    `{"id":"u","publisher":null,"reason":null,"entries":[{"url":"","topics":["t"],"dst_path":"${path}","save_method":"PUT","data":1.0}],"callbacks":[]}`;
  insert.run(1, 'base', 1000, base('/gone'), 2000);
  insert.run(2, 'base', 1000, base('/x'), null);
  insert.run(3, 'update', 1000, update('/x/y'), null);
  insert.run(4, 'base', 1000, base('/n', ',"data":{"n":12345678901234567890}'), null);
  insert.run(5, 'update', 1000, update('/z'), null);
  database.close();

  const now = () => 3000;
  const open = () => openSqliteLog({ stateDir: folder.path }, { log: silentLogger(), now });
  let log = await open();
  const shown = () => log.fold().map(({ seq, origin, entry }) => `${seq} ${origin} ${entry.dst_path}`);
  assert.deepEqual([log.epoch, log.head], ['of-before', 6]);
  const entries = ['2 base /x', '3 update /x/y', '4 base /n', '5 update /z'];
  assert.deepEqual(shown(), entries);
  assert.equal(log.fold()[2]?.entry.data?.text, '{"n":12345678901234567890}');
  const page = await log.tail(0);
  assert.deepEqual(
    page?.records.map(({ seq }) => seq),
    [3, 5],
  );
  const configured = [
    peerEntry.parse({ url: 'http://b/x', topics: ['t'], dst_path: '/x' }),
    peerEntry.parse({ url: 'http://b/new', topics: ['t'], dst_path: '/new' }),
  ];
  await log.adoptBase(configured);
  assert.deepEqual(shown(), ['2 base /x', '3 update /x/y', '5 update /z', '7 base /new']);
  await log.close();
  log = await open();
  assert.deepEqual(shown(), ['2 base /x', '3 update /x/y', '5 update /z', '7 base /new']);
  await log.close();
});

test('a log of a newer version is refused by name', async () => {
  await using folder = await tempDir();
  const database = new Libsql(join(folder.path, LOG_FILE));
  database.exec('PRAGMA user_version = 99');
  database.close();
  await assert.rejects(openSqliteStore({ stateDir: folder.path }), { code: 'log_damaged', message: /update-log\.db/ });
});

const MANY = process.env.SYNC_TEST_LONG === '1' ? 1_000_000 : 50_000;

test(`the log takes the room of what is live: ${MANY} updates on a thousand paths`, async (context) => {
  await using folder = await tempDir();
  const retention = { maxAgeMs: 7 * 24 * HOUR_MS, maxRows: 5000 };
  const log = await openSqliteLog({ stateDir: folder.path, retention }, { log: silentLogger() });
  const size = async () => {
    const files = await Promise.all(['', '-wal'].map((end) => stat(join(folder.path, `${LOG_FILE}${end}`))));
    return files.reduce((sum, file) => sum + file.size, 0);
  };
  const publish = (index: number) =>
    log.append({
      id: `update ${index}`,
      publisher: 'somebody',
      reason: null,
      entries: [
        {
          url: '',
          topics: ['policy_data', 'policy_data/users'],
          dst_path: `/users/u${index % 1000}`,
          save_method: 'PUT',
          data: JsonText.of({ index, role: 'x'.repeat(100) }),
        },
      ],
      callbacks: [],
    });
  const startedMs = performance.now();
  const sizes: number[] = [];
  for (let done = 0; done < MANY; done += 1000) {
    await Promise.all(Array.from({ length: 1000 }, (_, index) => publish(done + index)));
    if ((done + 1000) % (MANY / 5) === 0) sizes.push(await size());
  }
  const seconds = (performance.now() - startedMs) / 1000;
  context.diagnostic(`${Math.round(MANY / seconds)} updates/s; bytes after each fifth: ${sizes.join(', ')}`);
  const [first = 0] = sizes;
  assert.ok((sizes.at(-1) ?? 0) < 2 * first + 1024 * 1024, `it grows: ${sizes.join(', ')}`);
  assert.ok((sizes.at(-1) ?? 0) < 16 * 1024 * 1024, `it is large: ${sizes.join(', ')}`);
  assert.equal(log.fold().length, 1000);
  await log.close();
  const again = await openSqliteLog({ stateDir: folder.path, retention }, { log: silentLogger() });
  assert.equal(again.head, MANY);
  assert.equal(again.fold().length, 1000);
  await again.close();
});
