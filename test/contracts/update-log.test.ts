import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { SyncError } from '../../src/lib/errors.js';
import { JsonText } from '../../src/lib/json/json-text.js';
import { silentLogger } from '../../src/lib/observe/log.js';
import { recentUpdates } from '../../src/server/clients/recent-updates.js';
import { outlineOf } from '../../src/server/log/large-rows.js';
import type { RetentionLimits } from '../../src/server/log/retention.js';
import { LOG_FILE } from '../../src/server/log/sqlite/sqlite-store.js';
import type { AuditRecord, LogRecord, LogTail, NewRecord, UpdateLog } from '../../src/server/log/update-log.js';
import { type PeerEntry, peerEntry, type SaveMethod } from '../../src/wire/data.js';
import { openSqliteLog } from '../support/sqlite-log.js';
import { until } from '../support/until.js';

const DAY_MS = 24 * 60 * 60 * 1000;
const WRITER = fileURLToPath(new URL('./update-log-writer.js', import.meta.url));

let stateDir = '';
let opened: UpdateLog[] = [];

async function open(now?: () => number, retention?: RetentionLimits): Promise<UpdateLog> {
  const log = await openSqliteLog(
    { stateDir, retention },
    { log: silentLogger(), ...(now === undefined ? {} : { now }) },
  );
  opened.push(log);
  return log;
}

/** A deletion where no commit and no source has anything. */
function removal(...paths: readonly string[]): NewRecord {
  const entries = paths.map((dst_path) => peerEntry.parse({ url: '', topics: ['t'], dst_path, save_method: 'DELETE' }));
  return { ...record(''), entries: entries.map((entry) => ({ ...entry, only_removes: true })) };
}

function record(dst_path: string, data = '1', save_method: SaveMethod = 'PUT', topics = ['t']): NewRecord {
  return {
    id: `id of ${dst_path}`,
    publisher: 'someone',
    reason: null,
    entries: [{ url: '', topics, dst_path, save_method, data: JsonText.trusted(data) }],
    callbacks: ['http://cb'],
  };
}

function base(url: string, dst_path: string, fields: object = {}): PeerEntry {
  return peerEntry.parse({ url, dst_path, topics: ['t'], ...fields });
}

/** The fold as `seq origin path`. */
function shown(log: UpdateLog): string[] {
  return log.fold().map(({ seq, origin, entry }) => `${seq} ${origin} ${entry.dst_path}`);
}

/** Every update that is still kept, the oldest first: as the audit has it, and whole. */
async function wholeTail(log: UpdateLog): Promise<LogRecord[]> {
  const found: AuditRecord[] = [];
  for (let before: number | undefined = log.head + 1; before !== undefined; ) {
    const page = await log.audit(before, 1000);
    found.push(...page.records);
    before = page.next;
  }
  const records = await Promise.all(found.reverse().map(async ({ seq }) => (await log.record(seq)) as LogRecord));
  assert.deepEqual(found, records.map(outlineOf));
  return records;
}

function refused(code: string, pattern: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof SyncError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, pattern);
    return true;
  };
}

/** Starts the writer, kills it with SIGKILL after some acknowledged appends, and gives the highest of those. */
async function appendAndKill(acknowledged: number): Promise<number> {
  const child = spawn(process.execPath, [WRITER, stateDir], { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(child, 'exit');
  let highest = 0;
  for await (const line of createInterface({ input: child.stdout })) {
    highest = Math.max(highest, Number(line));
    if (--acknowledged === 0) child.kill('SIGKILL');
  }
  await exited;
  return highest;
}

describe('the update log in SQLite', () => {
  beforeEach(async () => {
    stateDir = await mkdtemp(join(tmpdir(), 'policysync-log-'));
    opened = [];
  });
  afterEach(async () => {
    for (const log of opened) await log.close();
    await rm(stateDir, { recursive: true, force: true });
  });

  test('appends get positions without gaps, in the order of the calls, and come back in tail', async () => {
    const log = await open(() => 1_700_000_000_000);
    assert.equal(log.head, 0);
    const appended = await Promise.all(Array.from({ length: 2500 }, (_, index) => log.append(record(`/p${index}`))));
    assert.deepEqual(
      appended.map(({ seq }) => seq),
      Array.from({ length: 2500 }, (_, index) => index + 1),
    );
    assert.equal(log.head, 2500);
    assert.deepEqual(await wholeTail(log), appended);
    const page = await log.tail(2000, 3);
    assert.deepEqual([page?.records, page?.through, page?.more], [appended.slice(2000, 2003), 2003, true]);
    assert.deepEqual(await log.tail(2500), { records: [], through: 2500, more: false, chars: 0 });
    assert.equal(await log.tail(2501), undefined, 'a position that is not of this log');
  });

  test('after a restart epoch, head, fold and numbers are the same', async () => {
    const first = await open();
    await first.append(record('/a', '{"n":12345678901234567890,"d":1.0}'));
    await first.append(record('/b'));
    await first.append(record('/b', '2'));
    const fold = first.fold();
    await first.close();

    const second = await open();
    assert.equal(second.epoch, first.epoch);
    assert.match(second.epoch, /^[0-9a-f]{32}$/);
    assert.equal(second.head, 3);
    assert.deepEqual(second.fold(), fold);
    const data = second.fold()[0]?.entry.data;
    assert.ok(data instanceof JsonText);
    assert.equal(data.text, '{"n":12345678901234567890,"d":1.0}');
    assert.equal((await second.append(record('/c'))).seq, 4);
    assert.deepEqual(
      (await wholeTail(second)).map(({ seq }) => seq),
      [1, 2, 3, 4],
    );
  });

  test('the topics of the last updates are known after a restart, and a large one is not read again for them', async () => {
    const before = await open();
    const text = JSON.stringify('x'.repeat(100_000));
    await before.append(record('/gone', text, 'PUT', ['gone']));
    await before.append(record('/a', '1', 'PUT', ['a']));
    await before.append(record('/large', text, 'PUT', ['l', 'm']));
    await before.append(record('/gone', '2', 'PUT', ['gone']));
    await before.append(record('/larger', text, 'PUT', ['n']));
    await before.close();

    const log = await open();
    const read: number[] = [];
    const tail: LogTail['tail'] = async (...args) => {
      const page = await log.tail(...args);
      read.push(...(page?.records ?? []).map(({ seq }) => seq));
      return page;
    };
    const recent = await recentUpdates({
      head: log.head,
      tail,
      onRecord: (listener) => log.onRecord(listener),
      onSkipped: (listener) => log.onSkipped(listener),
      takeLargeLoaded: () => log.takeLargeLoaded?.() ?? new Map(),
    });
    assert.deepEqual(
      [...recent.between(0, 5)].map(({ seq, topics }) => `${seq} ${[...topics].join(' ')}`),
      ['1 gone', '2 a', '3 l m', '4 gone', '5 n'],
    );
    assert.deepEqual(read, [1, 2, 4], 'the first was not loaded: it is superseded');
    const again = await recentUpdates(log);
    for (const one of [recent, again]) one.close();
    assert.deepEqual(
      [...again.between(0, 5)],
      [...recent.between(0, 5)],
      'only the first caller has them; the rest read',
    );
  });

  test('a new folder is another epoch', async () => {
    const first = await open();
    await first.close();
    await rm(join(stateDir, LOG_FILE));
    assert.notEqual((await open()).epoch, first.epoch);
  });

  test('a second server on the folder is refused, and the first one goes on', async () => {
    const first = await open();
    await assert.rejects(open(), refused('state_dir_in_use', /another server has .*update-log\.db open/));
    assert.equal((await first.append(record('/a'))).seq, 1);
    await first.close();
    assert.equal((await open()).head, 1);
  });

  test('a file that is no log is refused by name and left alone', async () => {
    const text = 'this is not a database, it is a text of more than sixteen bytes\n'.repeat(100);
    await writeFile(join(stateDir, LOG_FILE), text);
    await assert.rejects(open(), refused('log_damaged', /update-log\.db/));
    assert.equal(await readFile(join(stateDir, LOG_FILE), 'utf8'), text);
  });

  test('a state folder that cannot be made is an error that names it', async () => {
    await writeFile(join(stateDir, 'file'), '');
    stateDir = join(stateDir, 'file');
    await assert.rejects(open(), refused('state_dir_unusable', /state folder .*file/));
    stateDir = join(stateDir, '..');
  });

  test('appends after close are refused; close twice is one close', async () => {
    const log = await open();
    const last = log.append(record('/a'));
    await Promise.all([log.close(), log.close()]);
    assert.equal((await last).seq, 1);
    await assert.rejects(log.append(record('/b')), refused('log_unwritable', /closed/));
    assert.deepEqual(shown(log), ['1 update /a']);
  });

  test('base entries take their place once, keep it, and leave when they are removed', async () => {
    let log = await open();
    await log.adoptBase([base('http://x', '/x'), base('http://y', '/y')]);
    await log.append(record('/x/sub'));
    await log.append(record('/z'));
    assert.deepEqual(shown(log), ['1 base /x', '1 base /y', '2 update /x/sub', '3 update /z']);

    await log.adoptBase(undefined);
    await log.adoptBase([
      base('http://y', '/y', { config: { headers: { k: 'v' } } }),
      base('http://x', 'x/'),
      base('http://w', '/z'),
    ]);
    assert.deepEqual(shown(log), ['1 base x/', '1 base /y', '2 update /x/sub', '4 base /z']);
    assert.deepEqual(log.fold()[1]?.entry.config, { headers: { k: 'v' } });
    await log.close();

    log = await open();
    assert.deepEqual(shown(log), ['1 base x/', '1 base /y', '2 update /x/sub', '4 base /z']);
    assert.equal(log.head, 4);
    await log.adoptBase([base('http://y', '/y')]);
    assert.deepEqual(shown(log), ['1 base /y', '2 update /x/sub']);
    await log.adoptBase([]);
    assert.deepEqual(shown(log), ['2 update /x/sub']);
    assert.equal((await log.append(record('/n'))).seq, 7);
  });

  test('a base entry that an update superseded stays superseded, also after a restart and a long time', async () => {
    const start = 1_700_000_000_000;
    let log = await open(() => start);
    await log.adoptBase([base('http://x', '/x')]);
    await log.append(record('/x'));
    await log.close();
    log = await open(() => start + 30 * DAY_MS);
    await log.adoptBase([base('http://x', '/x')]);
    assert.deepEqual(shown(log), ['2 update /x']);
    assert.equal(log.head, 2);
  });

  test('a base entry comes back when the base entry that superseded it is removed', async () => {
    const log = await open();
    await log.adoptBase([base('http://x', '/x')]);
    await log.adoptBase([base('http://x', '/x'), base('http://other', '/x')]);
    assert.deepEqual(shown(log), ['2 base /x']);
    await log.adoptBase([base('http://x', '/x')]);
    assert.deepEqual(shown(log), ['1 base /x']);
  });

  test('superseded records stay for tail for a week, then they are dropped; positions are never reused', async () => {
    const start = 1_700_000_000_000;
    let log = await open(() => start);
    for (const data of ['1', '2', '3']) await log.append(record('/a', data));
    await log.append(record('/keep'));
    await log.adoptBase([base('http://x', '/x')]);
    await log.adoptBase([]);
    await log.close();

    log = await open(() => start + 6 * DAY_MS);
    assert.deepEqual(
      (await wholeTail(log)).map(({ seq }) => seq),
      [1, 2, 3, 4],
    );
    assert.equal((await log.tail(0))?.records.length, 4);
    await log.close();

    log = await open(() => start + 8 * DAY_MS);
    await log.append(record('/n'));
    await log.close();
    log = await open(() => start + 8 * DAY_MS);
    assert.deepEqual(
      (await wholeTail(log)).map(({ seq }) => seq),
      [3, 4, 7],
    );
    assert.equal(await log.tail(1), undefined, 'a tail with a hole is none');
    assert.equal((await log.tail(6))?.records.length, 1);
    assert.deepEqual(shown(log), ['3 update /a', '4 update /keep', '7 update /n']);
    assert.equal((await log.append(record('/n'))).seq, 8);
  });

  test('a server that never restarts drops what was superseded long ago, and what is too much', async () => {
    let nowMs = 1_700_000_000_000;
    // A clock that never stands still: rows of one millisecond are dropped together or not at all.
    const log = await open(() => nowMs++, { maxAgeMs: 7 * DAY_MS, maxRows: 3000 });
    const many = (count: number) =>
      Promise.all(Array.from({ length: count }, (_, index) => log.append(record('/a', `${index}`))));
    const kept = async () => (await wholeTail(log)).length;
    await many(1500);
    assert.equal(await kept(), 1500);
    nowMs += 8 * DAY_MS;
    await log.append(record('/keep'));
    await many(1500);
    await until(async () => (await kept()) < 2100, { withinMs: 30_000, what: 'the first ones are dropped' });
    for (let round = 0; round < 5; round++) await many(1000);
    await until(async () => (await kept()) < 4200, { withinMs: 30_000, what: 'so many are dropped' });
    assert.ok((await kept()) >= 3000);
    assert.deepEqual(shown(log), ['1501 update /keep', '8001 update /a']);
  });

  test('the newest row stays, also where it is long retired', async () => {
    let nowMs = 1_700_000_000_000;
    let log = await open(() => nowMs);
    await log.adoptBase([base('http://x', '/x')]);
    await log.append({ ...record('/x'), retain: false });
    await log.close();
    nowMs += 8 * DAY_MS;
    log = await open(() => nowMs);
    assert.equal(log.head, 2);
    await log.close();
    log = await open(() => nowMs + 8 * DAY_MS);
    assert.equal(log.head, 2);
    assert.equal((await log.append(record('/b'))).seq, 3);
  });

  test('every record says which one was before it on each of its topics, also after a restart', async () => {
    let log = await open();
    const seen: unknown[] = [];
    log.onRecord(({ seq, prev }) => seen.push([seq, prev]));
    await log.append(record('/a', '1', 'PUT', ['x']));
    await log.append({ ...record('/a', '1', 'PUT', ['x', 'y']), retain: false });
    await log.append(record('/a', '1', 'PUT', ['y']));
    assert.deepEqual(seen, [
      [1, { x: 0 }],
      [2, { x: 1, y: 0 }],
      [3, { y: 2 }],
    ]);
    await log.close();
    log = await open();
    assert.deepEqual(log.heads(['x', 'y', 'z']), { x: 2, y: 3, z: 0 });
  });

  test('an update that is not retained reaches who listens, is in the tail, and leaves the fold as it was', async () => {
    const log = await open();
    await log.append(record('/a'));
    const heard: number[] = [];
    log.onRecord(({ seq }) => heard.push(seq));
    await log.append({ ...record('/a', '2'), retain: false });
    assert.deepEqual(heard, [2]);
    assert.deepEqual(shown(log), ['1 update /a']);
    assert.deepEqual(
      (await log.tail(0))?.records.map(({ seq }) => seq),
      [1, 2],
    );
  });

  test('an update that is retained for a time leaves the fold when the time is up, and what it stood over is there', async () => {
    let nowMs = 1_700_000_000_000;
    let log = await open(() => nowMs);
    await log.append(record('/a'));
    await log.append({ ...record('/a', '2'), retain: 60 });
    assert.deepEqual(shown(log), ['1 update /a', '2 update /a']);
    await log.close();
    log = await open(() => nowMs);
    assert.deepEqual(shown(log), ['1 update /a', '2 update /a']);
    nowMs += 60_000;
    assert.deepEqual(shown(log), ['1 update /a']);
  });

  test('a deletion that only removes ends with retention, and a log that is read again has nothing of it', async () => {
    const retention = { maxAgeMs: 7 * DAY_MS, maxRows: 10 };
    let log = await open(undefined, retention);
    const both = record('/kept');
    await log.append({ ...both, entries: [...both.entries, ...record('/gone/with/kept').entries] });
    for (let index = 0; index < 50; index++) {
      await log.append(record(`/gone/d${index}`));
      await log.append(removal(`/gone/d${index}`));
    }
    const { seq } = await log.append(removal('/gone/with/kept'));
    assert.deepEqual(shown(log), ['1 update /kept']);
    assert.equal(log.ended().length, 51, 'for those who cannot say what they hold');
    await log.close();
    log = await open(undefined, retention);
    assert.deepEqual([shown(log), log.ended().length], [['1 update /kept'], 51]);
    await Promise.all(Array.from({ length: 1100 }, (_, index) => log.append(record('/z', String(index)))));
    assert.equal(log.ended().length, 10);
    await log.close();
    log = await open(undefined, retention);
    assert.deepEqual(shown(log), ['1 update /kept', `${seq + 1100} update /z`]);
    const live = (await wholeTail(log)).filter(({ entries }) => entries[0]?.dst_path !== '/z');
    // The last one is what keeps a part of the first row away, and others are still kept.
    assert(live.length < 30 && live.some((one) => one.seq === seq), `${live.length} rows are left`);
    assert.equal(await log.tail(1), undefined, 'who was away so long reads the fold');
  });

  test('patches are worked into the inline document under them, numbers as written, and so after a restart', async () => {
    let log = await open();
    await log.append(record('/a', '{"n":12345678901234567890}'));
    await log.append(record('/a', '[{"op":"add","path":"/d","value":1.0}]', 'PATCH'));
    await log.append(record('/a/list', '[{"op":"add","path":"/x","value":2}]', 'PATCH'));
    const whole = ['3 PUT /a {"n":12345678901234567890,"d":1.0,"list":{"x":2}}'];
    const texts = () =>
      log.fold().map(({ seq, entry }) => `${seq} ${entry.save_method} ${entry.dst_path} ${entry.data?.text}`);
    assert.deepEqual(texts(), whole);
    await log.close();
    log = await open();
    assert.deepEqual(texts(), whole);
  });

  test('a document with very many patches is written anew, and its rows go', async () => {
    let log = await open(undefined, { maxAgeMs: 7 * DAY_MS, maxRows: 10 });
    await log.append(record('/a', '{}'));
    for (let round = 0; round < 30; round++) {
      await Promise.all(
        Array.from({ length: 100 }, (_, index) =>
          log.append(record('/a', `[{"op":"add","path":"/k${index}","value":${round}}]`, 'PATCH')),
        ),
      );
    }
    const text = JSON.stringify(Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`k${index}`, 29])));
    assert.deepEqual(
      log.fold().map(({ entry }) => `${entry.save_method} ${entry.data?.text}`),
      [`PUT ${text}`],
    );
    const { head } = log;
    await log.close();
    log = await open();
    assert.equal(log.head >= head, true);
    assert.deepEqual(
      log.fold().map(({ entry }) => `${entry.save_method} ${entry.data?.text}`),
      [`PUT ${text}`],
    );
    assert.ok((await wholeTail(log)).length < 1500, `${(await wholeTail(log)).length} rows are kept`);
  });

  test('patches over a document from a URL stack up to a limit, then a PUT is asked for', async () => {
    const log = await openSqliteLog({ stateDir, patchesPerPath: 3 }, { log: silentLogger() });
    opened.push(log);
    const put = record('/a');
    const url = { ...put, entries: put.entries.map(({ data: _data, ...entry }) => ({ ...entry, url: 'http://x' })) };
    const patch = (path: string) => record('/a', `[{"op":"replace","path":"${path}","value":1}]`, 'PATCH');
    await log.append(url);
    for (const path of ['/1', '/2', '/3', '/1', '/2', '/3']) await log.append(patch(path));
    assert.deepEqual(shown(log), ['1 update /a', '5 update /a', '6 update /a', '7 update /a']);
    await assert.rejects(log.append(patch('/4')), refused('too_many_patches', /3 patches stack at \/a already/));
    await log.append(patch('/3'));
    await log.append(url);
    await log.append(patch('/4'));
    assert.deepEqual(shown(log), ['9 update /a', '10 update /a']);
  });

  test('the limit of patches is of a path and a topic, counts those of one update, and is not passed by many at once', async () => {
    const log = await openSqliteLog({ stateDir, patchesPerPath: 5 }, { log: silentLogger() });
    opened.push(log);
    // Such a patch replaces none before it.
    const patches = (count: number, topic: string) => {
      const one = record('/a', '[{"op":"move","from":"/x","path":"/y"}]', 'PATCH');
      const [entry] = one.entries;
      assert(entry !== undefined);
      return { ...one, entries: Array.from({ length: count }, () => ({ ...entry, topics: [topic] })) };
    };
    await assert.rejects(log.append(patches(6, 'one')), refused('too_many_patches', /5 patches/));
    await log.append(patches(2, 'one'));
    await assert.rejects(log.append(patches(4, 'one')), refused('too_many_patches', /5 patches/));
    const atOnce = await Promise.allSettled(Array.from({ length: 20 }, () => log.append(patches(1, 'one'))));
    assert.equal(atOnce.filter(({ status }) => status === 'fulfilled').length, 3);
    await log.append(patches(5, 'other'));
    await assert.rejects(log.append(patches(1, 'other')), refused('too_many_patches', /5 patches/));
    assert.equal(log.fold().length, 10);
  });

  test('a patch that is repeated under its key is a repetition also where the limit has no room for another', async () => {
    const log = await openSqliteLog({ stateDir, patchesPerPath: 1 }, { log: silentLogger() });
    opened.push(log);
    // One that sets or removes replaces its own first: there is always room for that.
    const patch = (path: string) => record('/a', `[{"op":"move","from":"/x","path":"${path}"}]`, 'PATCH');
    const first = await log.appendOnce(patch('/1'), { key: 'k', digest: 'd' });
    const second = await log.appendOnce(patch('/1'), { key: 'k', digest: 'd' });
    assert.deepEqual([second.replayed, second.record.seq], [true, first.record.seq]);
    await assert.rejects(
      log.appendOnce(patch('/2'), { key: 'other', digest: 'e' }),
      refused('too_many_patches', /1 patches/),
    );
    await assert.rejects(
      log.appendOnce(patch('/2'), { key: 'k', digest: 'e' }),
      refused('idempotency_conflict', /another/),
    );
  });

  test('under one key an update is recorded once, also after a restart; another one is a conflict', async () => {
    let log = await open();
    const once = { key: 'k', digest: 'd' };
    const [first, second] = await Promise.all([
      log.appendOnce(record('/a'), once),
      log.appendOnce({ ...record('/a'), id: 'other' }, once),
    ]);
    assert.deepEqual([first?.replayed, second?.replayed], [false, true]);
    assert.deepEqual([second?.record.id, second?.record.seq], ['id of /a', 1]);
    await log.append(record('/b'));
    await log.close();
    log = await open();
    assert.deepEqual((await log.appendOnce(record('/a'), once)).record.seq, 1);
    await assert.rejects(
      log.appendOnce(record('/a'), { key: 'k', digest: 'e' }),
      refused('idempotency_conflict', /another update was published/),
    );
    assert.equal((await log.appendOnce(record('/a'), { key: 'k2', digest: 'd' })).record.seq, 3);
  });

  test('a head of the policy source is appended if nobody was faster, and is known after a restart', async () => {
    let log = await open();
    const heard: string[] = [];
    log.onPolicy(({ body }) => heard.push(body));
    assert.deepEqual(await log.appendPolicy('"c1"', 0), { seq: 1, body: '"c1"' });
    await assert.rejects(log.appendPolicy('"c2"', 0), refused('log_conflict', /policy/));
    await log.append(record('/a'));
    await log.appendPolicy('"c2"', 1);
    assert.deepEqual([heard, log.policy], [['"c1"', '"c2"'], { seq: 3, body: '"c2"' }]);
    await log.close();
    log = await open();
    assert.deepEqual(log.policy, { seq: 3, body: '"c2"' });
  });

  test('a base entry that is asked for again has a new place, and goes with the configuration', async () => {
    let log = await open();
    const entry = base('http://x', '/x');
    await log.adoptBase([entry]);
    await log.append(record('/z'));
    await log.append({ ...record('/x'), entries: [{ ...entry, origin: 'base' }] });
    assert.deepEqual(shown(log), ['2 update /z', '3 base /x']);
    await log.close();
    log = await open();
    assert.deepEqual(shown(log), ['2 update /z', '3 base /x']);
    await log.adoptBase([base('http://x', '/x', { config: { headers: { k: 'v' } } })]);
    assert.deepEqual(shown(log), ['2 update /z', '3 base /x']);
    await log.adoptBase([]);
    assert.deepEqual(shown(log), ['2 update /z']);
  });

  test('a record that cannot be printed is refused to its publisher alone', async () => {
    const log = await open();
    let deep: unknown = 1;
    for (let depth = 0; depth < 20_000; depth++) deep = [deep];
    const hostile = record('/hostile');
    const entries = hostile.entries.map((entry) => ({ ...entry, config: { data: deep } }));
    const [before, middle, after] = await Promise.allSettled([
      log.append(record('/before')),
      log.append({ ...hostile, entries }),
      log.append(record('/after')),
    ]);
    assert.deepEqual([before.status, after.status], ['fulfilled', 'fulfilled']);
    assert(middle.status === 'rejected');
    refused('request_invalid', /nested too deep/)(middle.reason);
    assert.deepEqual(shown(log), ['1 update /before', '2 update /after']);
  });

  test('5,000 updates on 100 paths: the fold has 100 entries, and so has the next start', async () => {
    const log = await open();
    for (let round = 0; round < 5; round++) {
      await Promise.all(Array.from({ length: 1000 }, (_, index) => log.append(record(`/users/u${index % 100}`))));
    }
    assert.equal(log.fold().length, 100);
    await log.close();
    const again = await open();
    assert.equal(again.head, 5000);
    assert.deepEqual(again.fold(), log.fold());
  });

  test('after kill -9 while appending, every acknowledged record is there, and positions have no gap', async () => {
    let before = 0;
    for (const count of [1, 333, 40]) {
      const highest = await appendAndKill(count);
      assert.ok(highest > before, 'the writer appended');
      const log = await open();
      assert.ok(log.head >= highest, `head ${log.head} is behind the acknowledged ${highest}`);
      assert.deepEqual(
        (await wholeTail(log)).map(({ seq }) => seq),
        Array.from({ length: log.head }, (_, index) => index + 1),
      );
      before = log.head;
      await log.close();
    }
  });

  test('a torn last write loses only what it tore, and the log opens', async () => {
    await appendAndKill(50);
    const wal = join(stateDir, `${LOG_FILE}-wal`);
    const { size } = await stat(wal);
    await truncate(wal, size - 1000);
    const log = await open();
    const seqs = (await wholeTail(log)).map(({ seq }) => seq);
    assert.ok(seqs.length > 0);
    assert.deepEqual(
      seqs,
      Array.from({ length: log.head }, (_, index) => index + 1),
    );
    assert.equal((await log.append(record('/after'))).seq, log.head);
  });

  test('a disk that takes no more refuses with log_unwritable, the fold goes on, and what was acknowledged is kept', async () => {
    // The limit of the shell on file sizes (in blocks of 512 or 1024 bytes) stands for a full disk.
    const child = spawn(
      'sh',
      ['-c', 'ulimit -f 1000; exec "$0" "$@"', process.execPath, WRITER, stateDir, '20000', '2'],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    const exited = once(child, 'exit');
    const lines: string[] = [];
    for await (const line of createInterface({ input: child.stdout })) lines.push(line);
    assert.deepEqual(await exited, [0, null]);

    const highest = Math.max(...lines.slice(0, -1).map(Number));
    assert.match(lines.at(-1) ?? '', /^refused log_unwritable, fold [1-9]/);
    const log = await open();
    assert.equal(log.head, highest);
    assert.equal((await log.append(record('/room-again'))).seq, highest + 1);
  });
});
