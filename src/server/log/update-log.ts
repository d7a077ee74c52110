import type { PeerEntry } from '../../wire/data.js';
import type { DocPath } from '../../wire/doc-path.js';
import type { Clocked } from './log-clock.js';
import type { LogMemory } from './log-memory.js';
import type { Durability, RowFilter, RowKind, StoreStatus, WriteStatus } from './log-store.js';

/**
 * The update log: the ordered, durable record of all data updates (design D14). A publish appends
 * here first; deliveries follow the records in order, whichever instance appended them.
 */

/**
 * How long an update stays in the fold: permanently, not at all, or a number of seconds (design
 * D17).
 */
export type Retain = boolean | number;

/** A data update to record. */
export interface NewRecord {
  /** Update id, by the publisher or by the server. */
  id: string;
  /** Subject of the publisher's token; null if authentication is off. */
  publisher: string | null;
  reason: string | null;
  /**
   * Entries with expanded topics. One with `origin: base` makes clients fetch the base entry of
   * this identity again; it is no entry of its own.
   */
  entries: readonly PeerEntry[];
  /** One-time callbacks, in their wire format. */
  callbacks: readonly unknown[];
  /** Default true. */
  retain?: Retain | undefined;
  /**
   * Of the span that published it (W3C): what later happens to the update is a part of the same
   * trace.
   */
  traceparent?: string | undefined;
  /** Digest of the key of {@link LogWriter.appendOnce}, which sets it. */
  once?: string | undefined;
  /** Subscribers that it concerned when it was recorded, for the response to a repetition. */
  concerned?: number | undefined;
}

/** A record in the log. */
export interface LogRecord extends NewRecord {
  /** Position in the sequence of all rows of the log. */
  seq: number;
  /** Milliseconds since 1970, by the clock of the store. */
  timeMs: number;
  /**
   * Seq of the previous update on each of its topics, 0 for none: a client that does not have that
   * one has missed an update. Only on delivered records; results of {@link LogTail.tail} have no
   * gaps.
   */
  prev?: Readonly<Record<string, number>> | undefined;
}

/** Result of an append. */
export interface Recorded extends LogRecord {
  /** Number of connections it was delivered to; undefined if it was not delivered here. */
  subscribers?: number | undefined;
}

/** An entry of the fold: a new client applies them in order. */
export interface FoldedEntry {
  seq: number;
  /** `base` for an entry of SYNC_DATA_CONFIG_SOURCES, `update` for a published one. */
  origin: 'base' | 'update';
  entry: PeerEntry;
  /** The update that it came with; undefined for base entries. */
  update?:
    | {
        id: string;
        reason: string | null;
        timeMs: number;
        once?: string | undefined;
        publisher?: string | null | undefined;
      }
    | undefined;
  /** Its `dst_path`, parsed; undefined: nobody has yet. */
  path?: DocPath | undefined;
  /** Number of patches that are worked into the document; undefined: none. */
  patches?: number | undefined;
  /** When it expires, in milliseconds since 1970; undefined: never. */
  expiresMs?: number | undefined;
}

/** Identifies repetitions of an append (design D27). */
export interface Idempotency {
  /** Scoped to the publisher. */
  key: string;
  /** Digest of the update. */
  digest: string;
}

/**
 * When an update was appended, by the clock of the store, and the topics of its entries, each once.
 */
export interface UpdateTopics extends Pick<LogRecord, 'seq' | 'timeMs'> {
  readonly topics: ReadonlySet<string>;
}

/** Whether a caller wants what is on one of these topics. */
export type ShowsTopics = (topics: readonly string[]) => boolean;

/** Updates after a position. */
export interface TailPage {
  records: readonly LogRecord[];
  /** Everything up to here is in the page. */
  through: number;
  /** False if {@link through} is the head of the log. */
  more: boolean;
  /** Characters of the rows that were looked at. */
  chars?: number | undefined;
}

/** An entry of the audit: of inline data its size alone. */
export type AuditEntry = Omit<PeerEntry, 'data'> & { readonly dataBytes?: number | undefined };

/** A record of the audit. */
export type AuditRecord = Omit<LogRecord, 'prev' | 'entries'> & { readonly entries: readonly AuditEntry[] };

/** What a row of the log is. */
export interface RowOutline {
  readonly kind: RowKind;
  /** Undefined: it is a long one. */
  readonly body: string | undefined;
}

/** A part of the audit. */
export interface AuditPage {
  readonly records: readonly AuditRecord[];
  /** Where to continue; undefined at the end. */
  readonly next: number | undefined;
  /** Characters of the rows that were looked at. */
  readonly chars?: number | undefined;
  /** Time of the last of them. */
  readonly timeMs?: number | undefined;
}

/** Which log it is, and how far this instance has read it. */
export interface LogPosition extends Clocked {
  /** Identifies this log; positions of different epochs are not comparable. */
  readonly epoch: string;
  /** Position of the last row that this instance has applied; 0 if there is none. */
  readonly head: number;
  readonly status: StoreStatus;
  /** Last seq of an update on each of these topics; 0 if there was none. */
  heads(topics: readonly string[]): Readonly<Record<string, number>>;
}

/** Reads what is live: what a new client needs. */
export interface FoldReader extends LogPosition {
  /**
   * Base entries and updates that are not superseded, in order. The array never changes; calls
   * return the same one until the fold changes.
   */
  fold(): readonly FoldedEntry[];
  /** The part of the {@link fold} on these topics, in time that is proportional to it. */
  foldOn(topics: Iterable<string>): readonly FoldedEntry[];
  /** Changes with the {@link fold}, without computing it. */
  foldVersion(): number;
  /** Whether an update repeats a base entry of the {@link fold}: readers get only that. */
  repeatsBase(entry: PeerEntry): boolean;
  /** See `Fold.ended`. */
  ended(): readonly FoldedEntry[];
}

/** Tells of a place what the fold alone cannot show. */
export interface KnownPaths {
  /** See `Fold.mayHave`. */
  mayHave(path: DocPath): boolean;
  /** See `Fold.hasDeletion`. */
  hasDeletion(path: DocPath): boolean;
}

/** Reads what is new since a position. */
export interface LogTail extends Clocked {
  /** {@link LogPosition.head}. */
  readonly head: number;
  /**
   * Updates after a position, in order, at most about `limit` (default 1000) and a few MiB.
   * `shows`: whether the caller wants an update with entries on these topics; others are left out.
   * Undefined if some of them were dropped: read the fold then.
   */
  tail(after: number, limit?: number, shows?: ShowsTopics): Promise<TailPage | undefined>;
  /**
   * The large ones among the last updates that were read when the log was opened, by seq, so that
   * nobody reads them again for their topics. Only the first caller gets them.
   */
  takeLargeLoaded?(): ReadonlyMap<number, UpdateTopics>;
}

/** Reads the rows that are kept, superseded ones included. Rejects with `backbone_unavailable`. */
export interface HistoryReader extends LogPosition {
  /**
   * Looks at `limit` rows at most before a position, newest first, and returns the updates that may
   * fit; `lookThrough` looks at more. Default: every update fits.
   */
  audit(before: number, limit: number, filter?: RowFilter): Promise<AuditPage>;
  /** One row of any kind; undefined: it does not exist, or was dropped. */
  row(seq: number): Promise<RowOutline | undefined>;
  /** One update with its inline data; undefined: the row is no update, or was dropped. */
  record(seq: number): Promise<LogRecord | undefined>;
}

/** Tells of each row as this instance applies it. A listener must not throw. */
export interface LogEvents {
  /**
   * Calls the listener for each record that is applied from now on, in order of `seq`, whichever
   * instance appended it. Returns a function that removes the listener.
   */
  onRecord(listener: (record: LogRecord) => void): () => void;
  /**
   * Calls the listener when records were dropped before this instance read them:
   * {@link onRecord} skips those, but the fold is complete. Returns a function that removes it.
   */
  onSkipped(listener: () => void): () => void;
}

/** All that reads the log and changes nothing in it. */
export interface LogReader extends FoldReader, LogTail, HistoryReader, LogEvents, PolicyHeads {}

/** Records data updates. */
export interface LogWriter extends Clocked {
  /** {@link LogPosition.epoch}. */
  readonly epoch: string;
  /**
   * Appends a record; resolves when it is durable (concurrent appends share a disk flush), part of
   * the fold and delivered to the listeners. Promises resolve in the order of `seq`. Rejects with
   * `log_unwritable` if it was not written, `backbone_unavailable` if it may have been written,
   * `too_many_patches`, `too_many_topics`, and `request_invalid` for a record that is nested too
   * deep to be printed as JSON.
   */
  append(record: NewRecord): Promise<Recorded>;
  /**
   * {@link append} once per key: a repetition returns the first record. Rejects with
   * `idempotency_conflict` if that was another update.
   */
  appendOnce(record: NewRecord, once: Idempotency): Promise<{ record: Recorded; replayed: boolean }>;
  /**
   * Appends records that depend on the fold, together and without another append between the read
   * of the fold and the records. Rejects like {@link append}, and with errors of `make`.
   */
  appendFrom(make: (fold: readonly FoldedEntry[]) => readonly NewRecord[]): Promise<readonly Recorded[]>;
  /**
   * Adopts the operator's base entries: a new one gets its place now, a removed one leaves the fold
   * (design D18). `undefined` (nothing configured) changes nothing. Rejects like {@link append}.
   */
  adoptBase(entries: readonly PeerEntry[] | undefined): Promise<void>;
  /**
   * Sets what delivers each applied record, before the listeners, and returns the number of
   * connections. It must not throw.
   */
  deliverTo(deliver: (record: LogRecord) => number): void;
}

/** The head of the policy source that the instances agree on (design D24). */
export interface PolicyHeads {
  /** The last row of kind `policy`. */
  readonly policy: PolicyHead | undefined;
  /** Calls the listener for each new {@link policy}. Returns a function that removes it. */
  onPolicy(listener: (head: PolicyHead) => void): () => void;
}

/** Lets the instances agree on a head. */
export interface PolicyLog extends PolicyHeads {
  /**
   * Appends a head of the policy source if the last one is still the one at `lastSeq` (0: none),
   * otherwise rejects with `log_conflict`. Resolves when it is durable and applied here.
   */
  appendPolicy(body: string, lastSeq: number): Promise<PolicyHead>;
}

/** How the log and its store are. */
export interface LogHealth extends LogPosition {
  readonly durability: Durability;
  /**
   * Not ok from the first record that the store refuses until it is known to take records again.
   */
  readonly writes: WriteStatus;
  /** What its live entries take of the memory of this process. */
  readonly memory: LogMemory;
  /** {@link LogStore.roundTripMs}. */
  readonly roundTripMs?: number | undefined;
  /** True if an instance with a newer configuration has set other base entries (design D18). */
  readonly configDiffers: boolean;
  /**
   * Rejects when the log has failed permanently, until a restart. Otherwise never settles. Has a
   * handler already.
   */
  readonly failed?: Promise<never>;
  /**
   * The seq of the oldest row that is kept, and the size of the store in bytes, if it can tell.
   * Rejects with `backbone_unavailable`.
   */
  extent(): Promise<{ readonly beginsAt: number; readonly bytes: number | undefined }>;
}

/** The whole log, for those who compose parts; a part takes the one of these that it needs. */
export interface UpdateLog extends LogReader, LogWriter, PolicyLog, KnownPaths, LogHealth {
  /** Flushes and closes the store; later appends reject. Idempotent. */
  close(): Promise<void>;
}

/**
 * A head of the policy source. `server/policy/source/shared-policy-head.ts` knows the format of the
 * body.
 */
export interface PolicyHead {
  readonly seq: number;
  /** JSON text. */
  readonly body: string;
}
