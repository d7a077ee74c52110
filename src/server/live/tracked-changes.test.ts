import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cpuTimer } from '../../../test/support/cpu-time.js';
import { newClient } from '../clients/known-client.js';
import { RecentUpdates, updateOf } from '../clients/recent-updates.js';
import type { AuditRecord } from '../log/update-log.js';
import { dataFacts } from './change-facts.js';
import { Slices } from './slices.js';
import { TrackedChanges } from './tracked-changes.js';

/** An update with a million topics: as many as the limits of one permit. */
function widest(): AuditRecord {
  const entries = Array.from({ length: 10_000 }, (_, entry) => ({
    ...{ topics: Array.from({ length: 100 }, (_, at) => `${entry}.${at}`), dst_path: '/', url: '', save_method: 'PUT' },
  }));
  return {
    seq: 1,
    id: 'u',
    timeMs: 0,
    publisher: null,
    reason: null,
    callbacks: [],
    entries,
  } as unknown as AuditRecord;
}

test('an update with a million topics is compared with thousands of clients in no time', async () => {
  const record = widest();
  const peer = { host: 'h', port: 1, topics: ['a', 'b', 'c'], connectedAtMs: 0 };
  const all = Array.from({ length: 5000 }, (_, slot) => ({
    client: newClient(
      { kind: 'session', subject: null, clientId: `${slot}` },
      slot === 0 ? { ...peer, topics: ['9999.99'] } : peer,
      { instance: 'i', claimedMs: 0, spans: [] },
    ),
    slot,
  }));
  const facts = dataFacts({}, record, { permittedTopics: undefined, permittedPaths: undefined });
  assert(facts !== undefined);
  const recent = new RecentUpdates(0);
  recent.add(updateOf({}, record));
  const cpuMs = cpuTimer();
  const context = { memories: [], epoch: 'e', isLimited: false };
  const slices = new Slices();
  const [change] = await new TrackedChanges().look([facts], { all, changed: [], gone: [] }, context, slices);
  assert.deepEqual([change?.total, change?.topics.length], [1, 20]);
  const behind = all.filter(({ client }) => recent.lag(null, client.topics, { '9999.99': 1, a: 1 }, 0).updates > 0);
  assert.equal(behind.length, 1);
  assert(cpuMs() < 10_000, `${cpuMs()} ms`); // a search of the list for each client takes much longer
});
