import { SyncError } from '../../lib/errors.js';
/**
 * The narrow interface between the update log and where it is kept (design D14, D26): the embedded store, or a backbone that
 * several instances share. A store knows rows and their order; what they mean is for `folded-log.ts`. The contract suite
 * `test/contracts/log-store.test.ts` runs against every implementation.
 */

/** What a row is: data update, generation of the base configuration, head of the policy source. */
export type RowKind = 'update' | 'base' | 'policy';

/** One row. Its body is JSON text, numbers as written (design D33). */
export interface StoredRow {
  /** 1 for the first row of an epoch. A reader never sees a row before all lower ones that it will ever see. */
  readonly seq: number;
  readonly kind: RowKind;
  /** Milliseconds since 1970, of the clock of whoever keeps the log. */
  readonly timeMs: number;
  readonly body: string;
}

/** A row to append. */
export interface NewRow {
  readonly kind: RowKind;
  readonly body: string;
  /**
   * Makes a repeated append harmless: within 24 h a second row with the same text is not written, and the answer names
   * the first one (design D27, `Idempotency-Key`).
   */
  readonly dedup?: string | undefined;
}

/** Where an appended row went. */
export interface Appended {
  readonly seq: number;
  /** True: a row with this `dedup` was there already, this is its place. */
  readonly duplicate: boolean;
  /** Its {@link StoredRow.timeMs}, where the store knows it: the log then needs not read the row again. */
  readonly timeMs?: number;
}

/**
 * Append only if nobody else was faster (compare-and-append): the last row of the kind, of `any` kind, is still the one that was
 * seen.
 */
export interface Expectation {
  readonly kind: 'base' | 'policy' | 'any';
  /** Its seq; 0: there is none. */
  readonly lastSeq: number;
}

/**
 * Characters of bodies (or bytes) with which a page of rows ends, however many rows were asked for: a thousand of the largest would take
 * more memory and time than there is. The last row may go beyond.
 */
export const ANSWER_CHARS = 16 * 1024 * 1024;

/** How far a 200 can be trusted. */
export type Durability = { readonly level: 'durable' } | { readonly level: 'weak'; readonly reason: string };

/** Whether the store can be reached now. */
export type StoreStatus =
  | { readonly up: true }
  | { readonly up: false; readonly reason: string; readonly sinceMs: number };

/** A short-lived fact of one instance that all may read: who is connected to it. It vanishes when the instance does. */
export interface Presence {
  /** Replaces what this instance says; gone `ttlMs` after the last call. Rejects with `backbone_unavailable`. */
  put(instance: string, text: string, ttlMs: number): Promise<void>;
  /** What all live instances say, by instance. Rejects with `backbone_unavailable`. */
  list(): Promise<ReadonlyMap<string, string>>;
}

export interface LogStore {
  /** Identifies the log itself. A log that was emptied is another one. */
  readonly epoch: string;
  /** Verified when the store was opened. */
  readonly durability: Durability;
  readonly status: StoreStatus;
  /** Rejects when the store has failed for good: only another start helps. Otherwise never settles; handled. */
  readonly failed: Promise<never>;
  readonly presence: Presence;
  /**
   * Highest seq ever given, and the rows that are not retired, in order: what a start needs. In pages, so that a large log is never in
   * memory twice. The head is taken first: rows appended meanwhile may or may not be among them.
   */
  load(): Promise<{ readonly head: number; readonly rows: AsyncIterable<readonly StoredRow[]> }>;
  /**
   * Appends all rows or none; resolves when they are durable. The places of one call are consecutive. (NATS: each row is a record of
   * its own, so others may come between, unless `any` is expected, and after `backbone_unavailable` some of them may be there.) Rejects with `log_unwritable`
   * (507, nothing was written), `backbone_unavailable` (503 with `Retry-After`: it is not known whether it was written; a
   * `dedup` makes trying again safe), `log_conflict` (the expectation does not hold), `inline_data_too_large` (a row is more than the
   * store takes, nothing was written).
   */
  append(rows: readonly NewRow[], expect?: Expectation): Promise<readonly Appended[]>;
  /**
   * Rows after a position, in order, also retired ones that are still there; fewer than `limit` also where they are large
   * ({@link ANSWER_CHARS}). None: there are none. Rejects with `backbone_unavailable`.
   */
  read(after: number, limit: number): Promise<readonly StoredRow[]>;
  /** Rows before a position (exclusive), newest first, also retired ones: for the audit. Fewer where they are large. */
  readBack(before: number, limit: number): Promise<readonly StoredRow[]>;
  /** Marks rows that the fold does not need any more; they stay for readers until {@link LogStore.dropRetired}. Twice is once. */
  retire(seqs: readonly number[]): Promise<void>;
  /** Forgets rows that were retired before a moment, some of them each call; never the last row. Answers how many. */
  dropRetired(beforeMs: number): Promise<number>;
  /**
   * Calls back when there may be new rows (also by others), and when {@link LogStore.status} changes. A hint: the caller reads.
   * Answers how to end it.
   */
  watch(listener: () => void): () => void;
  /** Releases everything; later calls reject. */
  close(): Promise<void>;
}

/**
 * True for what a call says while the backbone is away. That is one event, which the keeper of the connection logs: nobody else does,
 * however many calls fail of it.
 */
export function isBackboneAway(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'backbone_unavailable';
}
