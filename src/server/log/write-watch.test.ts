import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../../test/support/until.js';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/log.js';
import { WriteWatch } from './write-watch.js';

const RETRY = { minMs: 1, maxMs: 5 };
const WITHIN = { withinMs: 20_000 };

/** A store with so much room, in bytes. */
class Disk {
  room = 1000;
  readonly probes: number[] = [];
  readonly watch = new WriteWatch(
    {
      probe: async (bytes) => {
        this.probes.push(bytes);
        this.#take(bytes);
      },
      log: silentLogger(),
      now: () => 7,
    },
    RETRY,
  );

  async write(bytes: number): Promise<void> {
    await this.watch.during(bytes, async () => this.#take(bytes));
  }

  #take(bytes: number): void {
    if (bytes <= this.room) return;
    throw new SyncError('log_unwritable', 'the update log /secret/path cannot be used', {
      cause: new Error('disk full'),
    });
  }
}

const FULL = { ok: false, reason: 'disk full', sinceMs: 7 };

test('a refused write is known, and that there is room again is known without another write', async () => {
  const disk = new Disk();
  await disk.write(1000);
  assert.deepEqual(disk.watch.status, { ok: true });
  disk.room = 0;
  await assert.rejects(disk.write(10), { code: 'log_unwritable' });
  assert.deepEqual(disk.watch.status, FULL);
  await until(() => disk.probes.length > 2, { ...WITHIN, what: 'several probes' });
  assert.deepEqual(disk.watch.status, FULL);
  disk.room = 10;
  await until(() => disk.watch.status.ok, { ...WITHIN, what: 'it is known' });
  const probes = disk.probes.length;
  assert.deepEqual([...new Set(disk.probes)], [10]);
  await disk.write(5);
  assert.equal(disk.probes.length, probes, 'nothing is probed while all is well');
  await disk.watch.close();
});

test('a small write says nothing about a large one that was refused; a large one does', async () => {
  const disk = new Disk();
  await assert.rejects(disk.write(5000), { code: 'log_unwritable' });
  await disk.write(100);
  assert.deepEqual(disk.watch.status, FULL);
  disk.room = 5000;
  await disk.write(5000);
  assert.deepEqual(disk.watch.status, { ok: true });
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
      watch.during(1, () => Promise.reject(error)),
      error,
    );
  await reject(new SyncError('log_conflict', 'somebody was faster'));
  await reject(new Error('the connection was closed'));
  assert.deepEqual(watch.status, { ok: true });
  const cause = new SyncError('log_unwritable', 'refused to write', { cause: new Error('disk full') });
  await reject(new SyncError('backbone_unavailable', '2 of 3 rows were written', { cause }));
  assert.deepEqual(watch.status, FULL);
  await watch.during(
    1,
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
