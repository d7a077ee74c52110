import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createTraceMemory } from '../changes/change-times.js';
import type { FleetSources } from './gather.js';
import { readChanges } from './read-changes.js';

test('a page ends early where its updates are large, and the next one goes on', async () => {
  const entries = [{ topics: ['t', 'x'.repeat(2_500_000)], dst_path: '/a', url: '', save_method: 'PUT' }];
  const record = (seq: number) => ({
    ...{ seq, id: `u${seq}`, timeMs: seq, publisher: null, reason: null, callbacks: [], entries },
  });
  const sources = {
    instance: 'i',
    log: {
      ...{ epoch: 'e', head: 5 },
      audit: async (before: number) => ({
        records: [5, 4, 3, 2, 1].filter((seq) => seq < before).map(record),
        next: undefined,
      }),
    },
    everyone: async () => ({ named: [], views: [], incomplete: null }),
    memory: createTraceMemory(),
    tracker: undefined,
    commits: { served: () => [] },
    abouts: { known: new Map(), read: () => undefined },
    instances: { list: () => [] },
    now: Date.now,
  } as unknown as FleetSources;
  const limits = { permittedTopics: undefined, permittedPaths: undefined, isLimited: false };
  const page = async (before: string | undefined) => {
    const { changes, next } = await readChanges(sources, { before, limit: 100, limits, seesPublisher: true });
    return { ids: changes.map(({ id }) => id), next };
  };
  const first = await page(undefined);
  assert.deepEqual(first, { ids: ['5', '4'], next: '4' });
  assert.deepEqual(await page('4'), { ids: ['3', '2'], next: '2' });
  assert.deepEqual(await page('2'), { ids: ['1'], next: null });
});
