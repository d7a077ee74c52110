import { failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { type Appended, isBackboneAway, type NewRow } from './log-store.js';

/** A row on its way into the log. */
export interface Pending {
  readonly row: NewRow;
  /** Called once, with where it went. */
  resolve(place: Appended): void;
  reject(error: unknown): void;
}

/** Something that needs the log to itself: no append is under way while it runs. */
export interface ExclusiveTask {
  run(): Promise<void>;
  reject(error: unknown): void;
}

/** A row that the store does not take at all, so that nothing was written: no reason to refuse those of others. */
function isOfOneRow(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'inline_data_too_large';
}

/** Rows of one transaction, and their characters: bounds what one failure refuses, and how long the next append waits. */
const BATCH_ROWS = 1000;
const BATCH_CHARS = 8 * 1024 * 1024;

/**
 * The one writer of an instance: works off what is to be appended, one call of the store at a time. What arrives in one turn of
 * the event loop, or while the one before is written, shares a call, and so a disk flush.
 */
export class AppendQueue {
  readonly #deps: { append(rows: readonly NewRow[]): Promise<readonly Appended[]>; log: Logger };
  /** Called after each call of the store, before the promises of its rows resolve. */
  readonly #applied: (batch: readonly Pending[], places: readonly Appended[]) => Promise<void>;
  readonly #pending: (Pending | ExclusiveTask)[] = [];
  #flushing: Promise<void> | undefined;
  #closed = false;

  constructor(
    deps: { append(rows: readonly NewRow[]): Promise<readonly Appended[]>; log: Logger },
    applied: (batch: readonly Pending[], places: readonly Appended[]) => Promise<void>,
  ) {
    this.#deps = deps;
    this.#applied = applied;
  }

  add(item: Pending | ExclusiveTask): void {
    if (this.#closed) {
      item.reject(new SyncError('log_unwritable', 'the update log is closed'));
      return;
    }
    this.#pending.push(item);
    this.#flushing ??= this.#flush();
  }

  /** Refuses what comes from now on, and returns when all that came before is done. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#flushing;
  }

  /** Never rejects: each failure goes to those who asked. */
  async #flush(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    for (let first = this.#pending[0]; first !== undefined; first = this.#pending[0]) {
      const batch = 'run' in first ? this.#pending.splice(0, 1) : this.#pending.splice(0, this.#batchLength());
      await this.#carryOut(batch);
    }
    this.#flushing = undefined;
  }

  async #carryOut(batch: readonly (Pending | ExclusiveTask)[]): Promise<void> {
    const [first] = batch;
    try {
      if (first !== undefined && 'run' in first) await first.run();
      else await this.#append(batch.filter((item) => 'row' in item));
    } catch (error) {
      if (batch.length > 1 && isOfOneRow(error)) {
        for (const item of batch) await this.#carryOut([item]);
        return;
      }
      if (!isBackboneAway(error)) {
        this.#deps.log.error({ ...failureFields(error), records: batch.length }, 'the update log could not be written');
      }
      for (const item of batch) item.reject(error);
    }
  }

  async #append(batch: readonly Pending[]): Promise<void> {
    const places = await this.#deps.append(batch.map(({ row }) => row));
    await this.#applied(batch, places);
    for (const [index, item] of batch.entries()) {
      const place = places[index];
      if (place === undefined) throw new Error('the store answered too few places');
      item.resolve(place);
    }
  }

  /** Rows up to the next that runs alone, or that has a dedup text which is in the batch already. */
  #batchLength(): number {
    const dedups = new Set<string>();
    let chars = 0;
    for (const [index, item] of this.#pending.slice(0, BATCH_ROWS).entries()) {
      if ('run' in item) return index;
      const { dedup, body } = item.row;
      chars += body.length;
      if (index > 0 && (chars > BATCH_CHARS || (dedup !== undefined && dedups.has(dedup)))) return index;
      if (dedup !== undefined) dedups.add(dedup);
    }
    return BATCH_ROWS;
  }
}
