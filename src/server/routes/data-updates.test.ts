import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createHttpApp } from '../../http/app.js';
import { JsonText } from '../../lib/json/json-text.js';
import { silentLogger } from '../../lib/observe/log.js';
import type { LogRecord } from '../log/update-log.js';
import { type DataUpdatesDeps, dataUpdatesRoutes } from './data-updates.js';

const NOTHING_LIVE = {
  fold: () => [],
  foldOn: () => [],
  ended: () => [],
  foldVersion: () => 1,
  repeatsBase: () => false,
};

function record(seq: number): LogRecord {
  const entries = [{ url: '', topics: ['t'], dst_path: `/p${seq}`, save_method: 'PUT' as const, data: JsonText.of(1) }];
  return { seq, timeMs: 0, id: `id${seq}`, publisher: null, reason: null, entries, callbacks: [] };
}

test('the last page of a tail has the head that it was read up to: what is appended amid the answer is not counted as read', async () => {
  const records = [record(1), record(2)];
  const log: DataUpdatesDeps['updateLog'] = {
    epoch: 'e',
    status: { up: true },
    get head() {
      return records.length;
    },
    ...NOTHING_LIVE,
    heads: () => ({}),
    tail: async (after) => {
      const page = { records: records.slice(after), through: records.length, more: false };
      // As where one chunk of a backbone's connection has the answers to this and to the follower's
      // read.
      queueMicrotask(() => records.push(record(records.length + 1)));
      return page;
    },
  };
  const app = createHttpApp({ bodyLimitBytes: 1000 }, { log: silentLogger() });
  dataUpdatesRoutes(app, { updatesRetained: true, isShared: true }, { updateLog: log });
  const answer = await app.inject('/data/updates?epoch=e&after=0');
  const { head, more, updates } = answer.json<{ head: number; more: boolean; updates: { seq: number }[] }>();
  assert.deepEqual({ head, more, seqs: updates.map(({ seq }) => seq) }, { head: 2, more: false, seqs: [1, 2] });
  assert.equal(log.head, 3);
  await app.close();
});

test('who holds more of a shared log than this instance has read waits for it, and comes again where it lasts', async (t) => {
  const records = [record(1)];
  const log = {
    epoch: 'e',
    status: { up: true } as const,
    get head() {
      return records.length;
    },
    ...NOTHING_LIVE,
    heads: () => ({}),
    tail: async (after: number) => ({ records: records.slice(after), through: records.length, more: false }),
  };
  const asked = async (isShared: boolean): Promise<[status: number, from: unknown, retryAfter: unknown]> => {
    const app = createHttpApp({ bodyLimitBytes: 1000 }, { log: silentLogger() });
    dataUpdatesRoutes(app, { updatesRetained: true, isShared }, { updateLog: log });
    const { statusCode, headers, ...answer } = await app.inject('/data/updates?epoch=e&after=2');
    await app.close();
    return [statusCode, answer.json<{ from?: string }>().from, headers['retry-after']];
  };
  const late = asked(true);
  await new Promise((resolve) => setImmediate(resolve));
  records.push(record(2));
  assert.deepEqual(await late, [200, 'tail', undefined]);

  records.pop();
  assert.deepEqual(await asked(false), [200, 'fold', undefined], 'a file that was restored');
  t.mock.method(
    performance,
    'now',
    (() => {
      let ms = 0;
      return () => (ms += 1000);
    })(),
  );
  assert.deepEqual(await asked(true), [503, undefined, '2']);
});
