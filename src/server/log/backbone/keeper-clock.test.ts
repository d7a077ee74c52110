import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../../../lib/observe/log.js';
import { BACKBONE_TIMES, type Session, SessionKeeper } from './session-keeper.js';

const HOUR = 3_600_000;

test('each look tells how far the clock of the backbone is ahead of ours', async () => {
  for (const ahead of [0, HOUR, -HOUR]) {
    const session = {
      look: async () => ({ epoch: 'e', head: 0, rowMs: undefined, nowMs: Date.now() + ahead }),
      renewEpoch: async () => undefined,
      prepare: async () => 'e',
      mend: async () => undefined,
      durability: async () => ({ level: 'durable' }),
      mail: async () => undefined,
      end: () => undefined,
    } as unknown as Session;
    const deps = { what: 'Backbone at here:1', times: BACKBONE_TIMES, log: silentLogger() };
    const keeper = await SessionKeeper.open({ ...deps, connect: async () => session });
    assert.equal(keeper.clockAheadMs, undefined, 'nothing was asked yet');
    await keeper.call((each) => keeper.look(each, 0));
    const off = Math.abs((keeper.clockAheadMs ?? Number.NaN) - ahead);
    assert(off < 1000, `${ahead}: ${keeper.clockAheadMs}`);
    await keeper.close();
  }
});
