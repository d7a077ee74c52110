import type { PeerEntry } from '../../wire/data.js';
import type { Durability, StoreStatus } from './log-store.js';

/**
 * The update log: the one ordered, durable record of data updates (design D14). Everything that publishes appends here
 * first; everything that delivers hears of records here, in order, whoever appended them.
 */

/** How long an update stays in the fold: for ever, not at all, or for so many seconds (design D17). */
export type Retain = boolean | number;

/** A data update as it is recorded. */
export interface NewRecord {
  /** Update id: the publisher's, or made by the server. */
  id: string;
  /** Subject of the publisher's token; null where authentication is off. */
  publisher: string | null;
  reason: string | null;
  /**
   * Entries with their topics as published (already expanded). One with `origin: base` asks for the base entry of this
   * identity to be fetched again; it has no life of its own.
   */
  entries: readonly PeerEntry[];
  /** One-time callbacks, as the wire has them. */
  callbacks: readonly unknown[];
  /** Default true. */
  retain?: Retain | undefined;
  /** Digest of the key of {@link UpdateLog.appendOnce}, which sets it. */
  once?: string | undefined;
}

/** A record in the log. */
export interface LogRecord extends NewRecord {
  /** Position, in the one sequence of all rows of the log; records with lower ones came before. */
  seq: number;
  /** Milliseconds since 1970, of the clock of whoever keeps the log. */
  timeMs: number;
  /**
   * The seq of the update before it on each of its topics, 0 for none: who has not seen that one has missed something.
   * On records that are delivered; what {@link UpdateLog.tail} answers is complete by itself.
   */
  prev?: Readonly<Record<string, number>> | undefined;
}

/** What became of an append. */
export interface Recorded extends LogRecord {
  /** Connections that it was delivered to, by {@link UpdateLog.deliverTo}; undefined where nobody delivers. */
  subscribers?: number | undefined;
}

/** One entry of the fold: what a newcomer has to apply, in this order. */
export interface FoldedEntry {
  seq: number;
  /** `base` for an entry of SYNC_DATA_CONFIG_SOURCES, `update` for a published one. */
  origin: 'base' | 'update';
  entry: PeerEntry;
  /** The update that it came with; undefined for base entries. */
  update?: { id: string; reason: string | null; timeMs: number; once?: string | undefined } | undefined;
  /** When it leaves by itself, in milliseconds since 1970; undefined: never. */
  expiresMs?: number | undefined;
}

/** What makes a repeated append the same one (design D27). */
export interface Idempotency {
  /** Of the publisher alone: another publisher's same key is another one. */
  key: string;
  /** Digest of what was published under it. */
  digest: string;
}

/** Updates after a position. */
export interface TailPage {
  records: readonly LogRecord[];
  /** Everything up to here is in the page. */
  through: number;
  /** False: nothing is after {@link through} at this moment. */
  more: boolean;
}

/** One row of the audit. */
export type AuditRecord = Omit<LogRecord, 'prev'>;

export interface UpdateLog {
  /** Identifies this log; another epoch means that positions do not compare. */
  readonly epoch: string;
  /** Position of the last row that is applied here; 0 when empty. */
  readonly head: number;
  readonly durability: Durability;
  readonly status: StoreStatus;
  /** True: another instance of a newer configuration has set other base entries; those count (design D18). */
  readonly configDiffers: boolean;
  /**
   * Rejects when the log has failed for good: only another start helps. Otherwise never settles. Its rejection counts as
   * handled.
   */
  readonly failed?: Promise<never>;
  /**
   * Appends; the promise resolves when the record is durable (appends of one moment share one disk flush), part of the
   * fold and handed to the listeners. Promises resolve in the order of `seq`. Rejects with `log_unwritable` when it
   * cannot be written (it is not in the log, the next append tries afresh), `backbone_unavailable` when nobody knows
   * whether it was, `too_many_patches`, and `request_invalid` for a record that has no form as JSON text (nested too
   * deep).
   */
  append(record: NewRecord): Promise<Recorded>;
  /**
   * {@link UpdateLog.append} that is done once for each key: a repetition answers what the first one was given. Rejects
   * with `idempotency_conflict` where that was another update.
   */
  appendOnce(record: NewRecord, once: Idempotency): Promise<{ record: Recorded; replayed: boolean }>;
  /**
   * Appends what is made of the fold: no other append of this instance comes between the look at it and these records,
   * which are recorded together. Rejects like {@link UpdateLog.append}, and with what `make` throws.
   */
  appendFrom(make: (fold: readonly FoldedEntry[]) => readonly NewRecord[]): Promise<readonly Recorded[]>;
  /**
   * Takes the operator's base entries: one that the log has not seen takes its place now, one that was removed leaves
   * the fold (design D18). `undefined` (nothing configured) changes nothing. Rejects like {@link UpdateLog.append}.
   */
  adoptBase(entries: readonly PeerEntry[] | undefined): Promise<void>;
  /**
   * Base entries and updates that are not superseded, in order. The array never changes; a later call may answer
   * another, and answers the same one while nothing changed.
   */
  fold(): readonly FoldedEntry[];
  /** Last seq of an update on each of these topics; 0: there was none. */
  heads(topics: readonly string[]): Readonly<Record<string, number>>;
  /**
   * Updates after a position, in order, about `limit` at most (default 1000). Undefined where not all of them are kept
   * any more: only the fold helps.
   */
  tail(after: number, limit?: number): Promise<TailPage | undefined>;
  /** Updates before a position, newest first, about `limit` at most; `next` is where to go on, undefined at the end. */
  audit(before: number, limit: number): Promise<{ records: readonly AuditRecord[]; next: number | undefined }>;
  /** Sets who delivers each record when it is applied, before the listeners, and returns to how many connections. It must not throw. */
  deliverTo(deliver: (record: LogRecord) => number): void;
  /**
   * Hears of each record when it is applied, in order of `seq`, also of those that other instances appended. Not of those
   * before the call. Answers how to end it. A listener must not throw.
   */
  onRecord(listener: (record: LogRecord) => void): () => void;
  /**
   * Hears of it when records were dropped before this instance read them: {@link UpdateLog.onRecord} never tells of those, the fold has
   * what of them counts. Answers how to end it.
   */
  onSkipped(listener: () => void): () => void;
  /** The last row of kind `policy`: the head of the policy source that the instances agreed on (design D24). */
  readonly policy: PolicyHead | undefined;
  /**
   * Appends a head of the policy source if the last one is still the one at `lastSeq` (0: there is none). Resolves when it is
   * durable and applied here. Rejects with `log_conflict` otherwise.
   */
  appendPolicy(body: string, lastSeq: number): Promise<PolicyHead>;
  /** Hears of each new {@link UpdateLog.policy}. Answers how to end it. */
  onPolicy(listener: (head: PolicyHead) => void): () => void;
  /** Flushes and releases the store; appends after it are refused. Calling it again waits for the same end. */
  close(): Promise<void>;
}

/** A head of the policy source as the log has it; what the body says is the policy part's business. */
export interface PolicyHead {
  readonly seq: number;
  /** JSON text. */
  readonly body: string;
}
