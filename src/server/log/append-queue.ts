import { failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import type { FoldedState } from './folded-state.js';
import { type Appended, isBackboneAway, type NewRow } from './log-store.js';
import { compactionText } from './row.js';
import type { NewRecord } from './update-log.js';

/** A row to append, with the record that it was printed from, so that it is not parsed again. */
export interface OwnRow {
  readonly row: NewRow;
  readonly record?: NewRecord | undefined;
}

/**
 * Where a row was written, and the number of connections that its record was delivered to, if it
 * was delivered here.
 */
export interface AppendedRow extends Appended {
  readonly subscribers?: number | undefined;
}

interface Pending extends OwnRow {
  resolve(place: AppendedRow): void;
  reject(error: unknown): void;
}

/** A task during which no append runs. */
interface ExclusiveTask {
  run(): Promise<void>;
  reject(error: unknown): void;
}

/**
 * True if the store rejected one row and wrote none: the rows of the batch are then appended one by
 * one.
 */
function isOfOneRow(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'inline_data_too_large';
}

/**
 * Errors that are no failure of the log: an invalid record, or a conflict with another instance.
 */
const REFUSALS: ReadonlySet<string> = new Set([
  'request_invalid',
  'too_many_patches',
  'too_many_topics',
  'log_conflict',
]);

function isFailure(error: unknown): boolean {
  return !isBackboneAway(error) && !(error instanceof SyncError && REFUSALS.has(error.code));
}

/**
 * Limits of one transaction: bound how many rows one failure rejects, and how long the next append
 * waits.
 */
const BATCH_ROWS = 1000;
const BATCH_CHARS = 8 * 1024 * 1024;

/**
 * The only writer of an instance: appends one batch at a time. Rows that arrive in the same turn of
 * the event loop, or while a batch is written, share the next batch, and so its disk flush.
 */
export class AppendQueue {
  readonly #deps: { append(batch: readonly OwnRow[]): Promise<readonly AppendedRow[]>; log: Logger };
  readonly #pending: (Pending | ExclusiveTask)[] = [];
  #flushing: Promise<void> | undefined;
  #closed = false;

  /** `append` writes a batch of rows and applies them. */
  constructor(deps: { append(batch: readonly OwnRow[]): Promise<readonly AppendedRow[]>; log: Logger }) {
    this.#deps = deps;
  }

  append({ row, record }: OwnRow): Promise<AppendedRow> {
    return new Promise((resolve, reject) => this.#add({ row, record, resolve, reject }));
  }

  /** Runs a task while no append runs. */
  exclusively<T>(task: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => this.#add({ run: async () => resolve(await task()), reject }));
  }

  #add(item: Pending | ExclusiveTask): void {
    if (this.#closed) {
      item.reject(new SyncError('log_unwritable', 'the update log is closed'));
      return;
    }
    this.#pending.push(item);
    this.#flushing ??= this.#flush();
  }

  /** Rejects later calls, and resolves when all earlier ones are done. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#flushing;
  }

  /** Never rejects: a failure rejects the promises of its items. */
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
      if (isFailure(error)) {
        this.#deps.log.error({ ...failureFields(error), records: batch.length }, 'the update log could not be written');
      }
      for (const item of batch) item.reject(error);
    }
  }

  async #append(batch: readonly Pending[]): Promise<void> {
    const places = await this.#deps.append(batch);
    for (const [index, item] of batch.entries()) {
      const place = places[index];
      if (place === undefined) throw new Error('the store returned too few places');
      item.resolve(place);
    }
  }

  /**
   * Number of rows before the next exclusive task, the limits of a batch, or a dedup text that the
   * batch has already.
   */
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

/** Appends documents with many patches as one PUT each. */
export class Compactor {
  readonly #queue: AppendQueue;
  #underWay = 0;

  constructor(queue: AppendQueue) {
    this.#queue = queue;
  }

  /**
   * Appends what is due, unless earlier compactions are still being appended. After a failure the
   * next patch makes it due again.
   */
  write({ fold, head }: Pick<FoldedState, 'fold' | 'head'>): void {
    if (this.#underWay > 0) return;
    const done = (): void => {
      this.#underWay--;
    };
    for (const compaction of fold.takeCompactions(head)) {
      this.#underWay++;
      // Every instance appends it: the dedup text keeps one row.
      const dedup = `compaction:${compaction.place.join('/')}`;
      const row = { kind: 'update', body: compactionText(compaction), dedup } as const;
      this.#queue.append({ row }).then(done, done); // the queue logs failures
    }
  }
}
