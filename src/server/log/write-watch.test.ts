import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../../test/support/until.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import { afterRefused, afterTaken, type Refused, WriteWatch } from './write-watch.js';

const RETRY = { minMs: 1, maxMs: 5 };
const KIB64 = 64 * 1024;
const WITHIN = { withinMs: 20_000 };

/** A store that takes writes up to so many bytes. */
class Disk {
  room = 1000;
  /** What it says of its room; undefined: it does not know. */
  says: number | undefined;
  readonly probes: number[] = [];
  readonly watch = new WriteWatch(
    {
      probe: async (bytes) => {
        this.probes.push(bytes);
        this.#take(bytes);
      },
      room: async () => this.says,
      log: silentLogger(),
      now: () => 7,
    },
    { retry: RETRY, lookMs: 2 },
  );

  /** Writes rows with so many bytes each. */
  async write(...rows: number[]): Promise<void> {
    await this.watch.during(rows, async () => this.#take(rows.reduce((sum, bytes) => sum + bytes)));
  }

  #take(bytes: number): void {
    if (bytes <= this.room) return;
    throw new SyncError('log_unwritable', 'the update log /secret/path cannot be used', {
      cause: new Error('disk full'),
    });
  }
}

const FULL = { ok: false, reason: 'disk full', sinceMs: 7, fromBytes: undefined };

test('a refused write is known, and that there is room again is known without another write', async () => {
  const disk = new Disk();
  await disk.write(1000);
  assert.deepEqual(disk.watch.status, { ok: true });
  disk.room = 0;
  await assert.rejects(disk.write(10), { code: 'log_unwritable' });
  assert.deepEqual(disk.watch.status, { ...FULL, fromBytes: 10 });
  await until(() => disk.probes.length > 2, { ...WITHIN, what: 'several probes' });
  assert.deepEqual(disk.watch.status, FULL, 'nor are smaller ones taken');
  disk.room = 10;
  await until(() => disk.watch.status.ok, { ...WITHIN, what: 'it is known' });
  const probes = disk.probes.length;
  assert.deepEqual([...new Set(disk.probes)], [10, 1]);
  await disk.write(5);
  assert.equal(disk.probes.length, probes, 'nothing is probed while all is well');
  await disk.watch.close();
});

test('one large update that is refused says nothing of small ones, which go on', async () => {
  const disk = new Disk();
  const from = (fromBytes: number): object => ({ ...FULL, fromBytes });
  await assert.rejects(disk.write(5000), { code: 'log_unwritable' });
  await until(() => disk.probes.length > 3, { ...WITHIN, what: 'small ones are probed, too' });
  await disk.write(100);
  assert.deepEqual(disk.watch.status, from(5000));
  await assert.rejects(disk.write(2000), { code: 'log_unwritable' });
  assert.deepEqual(disk.watch.status, from(2000));
  disk.room = 2000;
  await disk.write(2000);
  assert.deepEqual(disk.watch.status, from(5000), 'the larger one would still be refused');
  await assert.rejects(disk.write(300, 1500, 1500), { code: 'log_unwritable' });
  assert.deepEqual(disk.watch.status, from(300), 'each update of a batch was refused');
  disk.room = 5000;
  await disk.write(5000);
  assert.deepEqual(disk.watch.status, { ok: true });
  await disk.watch.close();
});

test('what is known after each outcome', () => {
  const known: Refused = { reason: 'r', sinceMs: 1, least: 10, most: 50 };
  const refused = (least: number, most: number): Refused => afterRefused(known, { reason: 's', nowMs: 9, least, most });
  assert.deepEqual(afterRefused(undefined, { reason: 'r', nowMs: 1, least: 10, most: 50 }), known);
  assert.deepEqual(refused(5, 7), { ...known, reason: 's', least: 5 });
  assert.deepEqual(refused(20, 70), { ...known, reason: 's', most: 70 });
  assert.equal(afterTaken(undefined, 0), undefined);
  assert.deepEqual(afterTaken(known, 9), known);
  assert.deepEqual(afterTaken(known, 10), { ...known, least: 50 });
  assert.equal(afterTaken(known, 50), undefined);
  assert.equal(afterTaken({ ...known, most: 2 ** 40 }, 2 ** 20), undefined, 'more than a MiB is not probed');
});

test('a store that is full at the start is known to be before anybody writes, and so is that it has room again', async () => {
  const disk = new Disk();
  disk.room = 0;
  await disk.watch.start();
  assert.deepEqual(disk.watch.status, { ...FULL, fromBytes: KIB64 });
  await until(() => disk.probes.includes(1), { ...WITHIN, what: 'a small probe' });
  await until(() => !disk.watch.status.ok && disk.watch.status.fromBytes === undefined, {
    ...WITHIN,
    what: 'none is taken',
  });
  disk.room = KIB64;
  await until(() => disk.watch.status.ok, { ...WITHIN, what: 'there is room' });
  await disk.watch.close();
});

test('an idle store that fills up is known to be full; one with much room, or that does not know, is not written to', async () => {
  const disk = new Disk();
  disk.room = KIB64;
  await disk.watch.start();
  let asked = 0;
  const looks = async (what: string): Promise<void> => {
    const from = asked;
    await until(() => asked > from + 2, { ...WITHIN, what });
  };
  let room: number | undefined = 2 ** 30;
  Object.defineProperty(disk, 'says', {
    get: () => {
      asked++;
      return room;
    },
  });
  await looks('looks at much room');
  room = undefined;
  await looks('looks at a store that does not know');
  assert.deepEqual(disk.probes, [KIB64], 'the one of the start');
  [disk.room, room] = [0, 4096];
  await until(() => !disk.watch.status.ok, { ...WITHIN, what: 'it is known' });
  await disk.watch.close();
});

test('a probe writes a MiB at most', async () => {
  const disk = new Disk();
  await assert.rejects(disk.write(50 * 1024 * 1024), { code: 'log_unwritable' });
  disk.room = 1024 * 1024;
  await until(() => disk.watch.status.ok, { ...WITHIN, what: 'there is room for a MiB' });
  assert.deepEqual([...new Set(disk.probes)], [1024 * 1024]);
  await disk.watch.close();
});

test('other errors say nothing, a part that was refused does, and so does no write at all', async () => {
  const { watch } = new Disk();
  const reject = (error: Error) =>
    assert.rejects(
      watch.during([1], () => Promise.reject(error)),
      error,
    );
  await reject(new SyncError('log_conflict', 'somebody was faster'));
  await reject(new Error('the connection was closed'));
  assert.deepEqual(watch.status, { ok: true });
  const cause = new SyncError('log_unwritable', 'refused to write', { cause: new Error('disk full') });
  await reject(new SyncError('backbone_unavailable', '2 of 3 rows were written', { cause }));
  assert.deepEqual(watch.status, FULL);
  await watch.during(
    [1],
    async () => 'a duplicate',
    () => 0,
  );
  assert.deepEqual(watch.status, FULL);
  await watch.close();
});

test('closing ends the probes', async () => {
  const disk = new Disk();
  disk.room = 0;
  await assert.rejects(disk.write(1), { code: 'log_unwritable' });
  await disk.watch.close();
  const probes = disk.probes.length;
  await assert.rejects(disk.write(1), { code: 'log_unwritable' });
  await disk.watch.close();
  assert.equal(disk.probes.length, probes);
});
