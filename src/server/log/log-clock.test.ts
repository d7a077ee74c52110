import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryLog } from '../../../test/support/memory-log-store.js';
import { silentLogger } from '../../lib/observe/log.js';
import { withOverrides } from '../../lib/run/with-overrides.js';
import { FoldedLog } from './folded-log.js';

const HOUR = 3_600_000;
const RETENTION = { maxAgeMs: 60_000, maxRows: 1000 };

test('rows expire, and are dropped, by the clock of the store', async () => {
  for (const oursAhead of [0, HOUR, -HOUR]) {
    const dropped: number[] = [];
    const shared = new MemoryLog();
    const store = withOverrides(shared.handle(), {
      clockAheadMs: -oursAhead,
      dropRetired: async (beforeMs: number) => {
        dropped.push(beforeMs);
        return 0;
      },
    });
    const clock = { ours: Date.now() + oursAhead };
    const options = { exclusive: true, retention: RETENTION, patchesPerPath: 100 };
    const log = await FoldedLog.open(store, options, { log: silentLogger(), now: () => clock.ours });
    const entry = { url: '', topics: ['t'], dst_path: '/a', save_method: 'PUT' as const, data: 1 };
    await log.append({
      ...{ id: 'u', publisher: null, reason: null, callbacks: [], retain: 60 },
      entries: [entry] as never,
    });
    assert.equal(log.fold().length, 1, `ours is ${oursAhead} ms ahead`);
    clock.ours += 50_000;
    assert.equal(log.fold().length, 1);
    clock.ours += 20_000;
    assert.equal(log.fold().length, 0);
    await log.close();
    assert(dropped.length > 0);
    for (const beforeMs of dropped) {
      const ageMs = clock.ours - oursAhead - beforeMs;
      assert(ageMs >= 60_000 && ageMs < 200_000, `rows of ${ageMs} ms ago are dropped`);
    }
  }
});
