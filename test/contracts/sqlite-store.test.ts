import assert from 'node:assert/strict';
import { stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import Libsql from 'libsql';
import { errorCode, errorText, isConfigurationError } from '../../src/lib/errors.js';
import { JsonText } from '../../src/lib/json/json-text.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { LOG_FILE, openSqliteStore } from '../../src/server/log/sqlite/sqlite-store.js';
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

test('what the store remembers of dedup texts has a bound, also of a log of before', async () => {
  await using folder = await tempDir();
  const before = await openSqliteStore({ stateDir: folder.path });
  await before.append(Array.from({ length: 500 }, (_, n) => ({ kind: 'update', body: '1', dedup: `old ${n}` })));
  await before.close();
  const store = await openSqliteStore({ stateDir: folder.path, dedup: { ms: HOUR_MS, rows: 100 } });
  for (let at = 0; at < 1000; at += 50) {
    await store.append(Array.from({ length: 50 }, (_, n) => ({ kind: 'update', body: '1', dedup: `key ${at + n}` })));
  }
  await store.close();
  const database = new Libsql(join(folder.path, LOG_FILE));
  const { kept } = database.prepare('SELECT count(*) AS kept FROM dedup').get() as { kept: number };
  assert.equal(kept, 100);
  database.close();
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

test('a log of another version is refused by name', async () => {
  for (const version of [1, 99]) {
    await using folder = await tempDir();
    const database = new Libsql(join(folder.path, LOG_FILE));
    database.exec(`PRAGMA user_version = ${version}`);
    database.close();
    const refusal = { code: 'log_damaged', message: /update-log\.db/ };
    await assert.rejects(openSqliteStore({ stateDir: folder.path }), refusal);
  }
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
