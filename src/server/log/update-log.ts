import type { DataSourceEntry, PeerEntry } from '../../wire/data.js';

/**
 * The update log: the one ordered, durable record of data updates (design 3). Everything that publishes appends here
 * first; everything that delivers reads from here. The embedded store is the first implementation, a backbone shared by
 * several instances comes behind the same interface.
 */

/** A data update as it is recorded. */
export interface NewRecord {
  /** Update id: the publisher's, or made by the server. */
  id: string;
  /** Subject of the publisher's token; null where authentication is off. */
  publisher: string | null;
  reason: string | null;
  /** Entries with their topics as published (already expanded). */
  entries: readonly DataSourceEntry[];
  /** One-time callbacks, as the wire has them. */
  callbacks: readonly unknown[];
}

/** A record in the log. */
export interface LogRecord extends NewRecord {
  /** Position: 1 for the first record, no gaps. Base entries have positions of the same sequence. */
  seq: number;
  /** Milliseconds since 1970. */
  timeMs: number;
}

/** One entry of the fold: what a newcomer has to apply, in this order. */
export interface FoldedEntry {
  seq: number;
  /** `base` for an entry of SYNC_DATA_CONFIG_SOURCES, `update` for a published one. */
  origin: 'base' | 'update';
  entry: DataSourceEntry | PeerEntry;
}

export interface UpdateLog {
  /** Identifies this log; another epoch means that positions do not compare. */
  readonly epoch: string;
  /** Position of the last durable record; 0 when empty. */
  readonly head: number;
  /**
   * Rejects when the log has failed for good: only another start helps. Otherwise never settles. Its rejection counts as
   * handled.
   */
  readonly failed?: Promise<never>;
  /**
   * Appends; the promise resolves when the record is durable (appends of one moment share one disk flush) and part of
   * the fold. Promises resolve in the order of `seq`. Rejects with `log_unwritable` when it cannot be written: then it
   * is not in the log, and the next append tries afresh. Rejects with `request_invalid` a record that has no form as
   * JSON text (nested too deep).
   */
  append(record: NewRecord): Promise<LogRecord>;
  /**
   * Takes the operator's base entries: one that the log has not seen takes its place now, one that was removed leaves
   * the fold (design 9.6). `undefined` (nothing configured) changes nothing. Rejects like {@link UpdateLog.append}.
   */
  adoptBase(entries: readonly PeerEntry[] | undefined): Promise<void>;
  /**
   * Base entries and updates that are not superseded, in seq order. The array never changes; a later call may answer
   * another.
   */
  fold(): readonly FoldedEntry[];
  /**
   * Durable updates after a position, in order, at most `limit` (default 1000). Positions of base entries are not in
   * it, nor of records that were superseded long ago: what superseded them is. An empty answer is the end.
   */
  tail(after: number, limit?: number): Promise<readonly LogRecord[]>;
  /** Flushes and releases the store; appends after it are refused. Calling it again waits for the same end. */
  close(): Promise<void>;
}
