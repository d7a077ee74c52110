import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { SyncError } from '../../src/lib/errors.js';
import { JsonText } from '../../src/lib/json-text.js';
import { silentLogger } from '../../src/lib/log.js';
import { LOG_FILE, openSqliteLog } from '../../src/server/log/sqlite-log.js';
import type { LogRecord, NewRecord, UpdateLog } from '../../src/server/log/update-log.js';
import { type PeerEntry, peerEntry, type SaveMethod } from '../../src/wire/data.js';

const DAY_MS = 24 * 60 * 60 * 1000;
const WRITER = fileURLToPath(new URL('./update-log-writer.js', import.meta.url));

let stateDir = '';
let opened: UpdateLog[] = [];

beforeEach(async () => {
  stateDir = await mkdtemp(join(tmpdir(), 'policysync-log-'));
  opened = [];
});
afterEach(async () => {
  for (const log of opened) await log.close();
  await rm(stateDir, { recursive: true, force: true });
});

async function open(now?: () => number): Promise<UpdateLog> {
  const log = await openSqliteLog({ stateDir }, { log: silentLogger(), ...(now === undefined ? {} : { now }) });
  opened.push(log);
  return log;
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

async function wholeTail(log: UpdateLog, after = 0): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  for (;;) {
    const page = await log.tail(records.at(-1)?.seq ?? after);
    if (page.length === 0) return records;
    records.push(...page);
  }
}

function refused(code: string, pattern: RegExp) {
  return (error: unknown): boolean => {
    assert.ok(error instanceof SyncError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, pattern);
    return true;
  };
}

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
  assert.deepEqual(
    (await log.tail(2000, 3)).map(({ seq }) => seq),
    [2001, 2002, 2003],
  );
  assert.deepEqual(await log.tail(2500), []);
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
  await assert.rejects(open(), refused('log_unwritable', /state folder .*file/));
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
  assert.deepEqual(shown(log), ['1 base /x', '2 base /y', '3 update /x/sub', '4 update /z']);

  await log.adoptBase(undefined);
  await log.adoptBase([
    base('http://y', '/y', { config: { headers: { k: 'v' } } }),
    base('http://x', 'x/'),
    base('http://w', '/z'),
  ]);
  assert.deepEqual(shown(log), ['1 base x/', '2 base /y', '3 update /x/sub', '5 base /z']);
  assert.deepEqual(log.fold()[1]?.entry.config, { headers: { k: 'v' } });
  await log.close();

  log = await open();
  assert.deepEqual(shown(log), ['1 base x/', '2 base /y', '3 update /x/sub', '5 base /z']);
  assert.equal(log.head, 5);
  await log.adoptBase([base('http://y', '/y')]);
  assert.deepEqual(shown(log), ['2 base /y', '3 update /x/sub']);
  await log.adoptBase([]);
  assert.deepEqual(shown(log), ['3 update /x/sub']);
  assert.equal((await log.append(record('/n'))).seq, 6);
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
  await log.close();

  log = await open(() => start + 8 * DAY_MS);
  assert.deepEqual(
    (await wholeTail(log)).map(({ seq }) => seq),
    [3, 4],
  );
  assert.deepEqual(shown(log), ['3 update /a', '4 update /keep']);
  assert.equal((await log.append(record('/n'))).seq, 6);
});

test('a server that never restarts drops what was superseded long ago while it writes', async () => {
  const start = 1_700_000_000_000;
  let nowMs = start;
  const log = await open(() => nowMs);
  await Promise.all(Array.from({ length: 501 }, (_, index) => log.append(record('/a', `${index}`))));
  await log.adoptBase([]);
  await log.append(record('/keep')); // marks the others as superseded
  assert.equal((await wholeTail(log)).length, 502);

  nowMs = start + 8 * DAY_MS;
  await log.append(record('/b'));
  assert.equal((await wholeTail(log)).length, 303, 'a bounded number goes with one write');
  await log.append(record('/b'));
  await log.append(record('/b'));
  assert.deepEqual(
    (await wholeTail(log)).map(({ seq }) => seq),
    [501, 502, 503, 504, 505],
  );
  assert.deepEqual(shown(log), ['501 update /a', '502 update /keep', '505 update /b']);
});

test('a write keeps the newest row, also where it is long retired', async () => {
  let nowMs = 1_700_000_000_000;
  let log = await open(() => nowMs);
  await log.adoptBase([base('http://x', '/x'), base('http://y', '/y')]);
  await log.adoptBase([base('http://x', '/x')]);
  nowMs += 8 * DAY_MS;
  await log.adoptBase([]);
  await log.close();
  log = await open(() => nowMs);
  assert.equal(log.head, 2);
  assert.equal((await log.append(record('/b'))).seq, 3);
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

test('20,000 updates on 100 paths: the fold has 100 entries, and so has the next start', async () => {
  const log = await open();
  for (let round = 0; round < 20; round++) {
    await Promise.all(Array.from({ length: 1000 }, (_, index) => log.append(record(`/users/u${index % 100}`))));
  }
  assert.equal(log.fold().length, 100);
  await log.close();
  const again = await open();
  assert.equal(again.head, 20_000);
  assert.deepEqual(again.fold(), log.fold());
});

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

test('after kill -9 while appending, every acknowledged record is there, and positions have no gap', async () => {
  let before = 0;
  for (const count of [1, 40, 333, 90]) {
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
