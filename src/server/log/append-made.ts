import { SyncError } from '../../lib/errors.js';
import type { Pending } from './append-queue.js';
import type { Appended, Expectation, NewRow } from './log-store.js';
import type { LogView } from './log-view.js';
import type { NewRecord } from './update-log.js';

/** How often rows are made anew because other instances appended meanwhile. */
const ATTEMPTS = 20;

/** A row with the record that it is made of. */
export interface MadeRow extends Pending {
  readonly record: NewRecord;
}

/**
 * Appends rows that are made of what the log has, together and only if nobody has appended since; otherwise they are made anew. No
 * other append of this instance may be under way. Rejects with `backbone_unavailable` where others are always faster.
 */
export async function appendMade(
  make: () => readonly MadeRow[],
  deps: {
    readonly view: LogView;
    write(rows: readonly NewRow[], expect: Expectation): Promise<readonly Appended[]>;
  },
): Promise<{ rows: readonly MadeRow[]; places: readonly Appended[] }> {
  const { view, write } = deps;
  for (let attempt = 1; ; attempt++) {
    await view.catchUp();
    const lastSeq = view.state.head;
    const rows = make();
    if (rows.length === 0) return { rows, places: [] };
    try {
      const made = rows.map(({ row }) => row);
      const places = await write(made, { kind: 'any', lastSeq });
      await view.takeOwn(rows, places);
      return { rows, places };
    } catch (error) {
      if (!(error instanceof SyncError) || error.code !== 'log_conflict') throw error;
      if (attempt < ATTEMPTS) continue;
      const text = 'other instances append faster than this one can read: nothing was written';
      throw new SyncError('backbone_unavailable', text, { cause: error, retryable: true, retryAfterSeconds: 1 });
    }
  }
}
