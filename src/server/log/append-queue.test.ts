import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SyncError } from '../../lib/errors.js';
import { silentLogger } from '../../lib/observe/log.js';
import { AppendQueue, type OwnRow } from './append-queue.js';
import type { Appended } from './log-store.js';

/** A queue over a store that refuses rows with these bodies, all that come with one. */
function queue(refusal: (body: string) => SyncError | undefined): { append(body: string): Promise<Appended> } {
  let seq = 0;
  const append = async (rows: readonly OwnRow[]): Promise<Appended[]> => {
    for (const { row } of rows) {
      const error = refusal(row.body);
      if (error !== undefined) throw error;
    }
    return rows.map(() => ({ seq: ++seq, duplicate: false }));
  };
  const made = new AppendQueue({ append, log: silentLogger() });
  return { append: (body) => made.append({ row: { kind: 'update', body } }) };
}

test('a row that the store does not take is refused alone, whatever else came in the same moment', async () => {
  const tooLarge = new SyncError('inline_data_too_large', 'more than the store takes');
  const { append } = queue((body) => (body === 'large' ? tooLarge : undefined));
  const outcomes = await Promise.allSettled(['a', 'large', 'b', 'large', 'c'].map(append));
  assert.deepEqual(
    outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value.seq : outcome.reason.code)),
    [1, 'inline_data_too_large', 2, 'inline_data_too_large', 3],
  );
});

test('where it is not known what was written, nothing is tried again', async () => {
  let calls = 0;
  const { append } = queue(() => {
    calls++;
    return new SyncError('backbone_unavailable', 'away');
  });
  const outcomes = await Promise.allSettled(['a', 'b', 'c'].map(append));
  assert.deepEqual([calls, new Set(outcomes.map(({ status }) => status))], [1, new Set(['rejected'])]);
});
