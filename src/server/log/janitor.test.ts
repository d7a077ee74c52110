import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '../../lib/log.js';
import { Janitor } from './janitor.js';

test('what cannot be marked is tried again each second, and logged once; after the close nothing is', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let tries = 0;
  let isAway = true;
  const store = {
    retire: async (): Promise<void> => {
      tries++;
      if (isAway) throw new Error('away');
    },
    dropRetired: async () => 0,
  };
  let warnings = 0;
  const log = Object.assign(silentLogger(), { warn: () => void warnings++ });
  const janitor = new Janitor({ keptMs: 1000, keptRows: 10 }, { store, log, now: () => 0 });
  const second = async (): Promise<void> => {
    t.mock.timers.tick(1000);
    await new Promise((resolve) => setImmediate(resolve));
  };
  janitor.take([1]);
  for (let count = 0; count < 3; count++) await second();
  assert.deepEqual({ tries, warnings }, { tries: 3, warnings: 1 });
  isAway = false;
  await second();
  await second();
  assert.deepEqual({ tries, warnings }, { tries: 4, warnings: 1 });

  isAway = true;
  janitor.take([2]);
  await janitor.close();
  assert.deepEqual({ tries, warnings }, { tries: 5, warnings: 2 });
  await second();
  assert.equal(tries, 5);
});
