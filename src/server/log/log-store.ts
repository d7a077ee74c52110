import { SyncError } from '../../lib/errors.js';

/**
 * The narrow interface between the update log and its storage (design D14, D26): the embedded
 * store, or a backbone that several instances share. A store knows rows and their order;
 * `folded-log.ts` knows what they mean. The contract suite `test/contracts/log-store.test.ts` runs
 * against every implementation.
 */

/**
 * Content of a row: data update, generation of the base configuration, head of the policy source.
 */
export type RowKind = 'update' | 'base' | 'policy';

/** A row. Its body is JSON text, with numbers as written (design D33). */
export interface StoredRow {
  /** 1 for the first row of an epoch. Rows become visible in the order of `seq`. */
  readonly seq: number;
  readonly kind: RowKind;
  /** Milliseconds since 1970, by the clock of the store. */
  readonly timeMs: number;
  readonly body: string;
}

/** A row to append. */
export interface NewRow {
  readonly kind: RowKind;
  readonly body: string;
  /**
   * Makes an append idempotent: as long as the text is remembered ({@link DedupLimits}), a second
   * row with it is not written, and the result has the place of the first one (design D27,
   * `Idempotency-Key`).
   */
  readonly dedup?: string | undefined;
}

/**
 * How long {@link NewRow.dedup} is remembered: for a time, and while fewer rows than so many came
 * after it. So it takes a bounded room, however much is published.
 */
export interface DedupLimits {
  readonly ms: number;
  readonly rows: number;
}

/** The limits where nobody says others; the default of SYNC_IDEMPOTENCY_KEYS. */
export const DEDUP_LIMITS: DedupLimits = { ms: 24 * 60 * 60 * 1000, rows: 100_000 };

/** The place of an appended row. */
export interface Appended {
  readonly seq: number;
  /** True if there was a row with this `dedup` already: this is its place. */
  readonly duplicate: boolean;
  /**
   * Its {@link StoredRow.timeMs}, if the store knows it: then the log does not read the row again.
   */
  readonly timeMs?: number;
}

/**
 * Compare-and-append: append only if the last row of this kind, or of `any` kind, is still the one
 * at `lastSeq`.
 */
export interface Expectation {
  readonly kind: 'base' | 'policy' | 'any';
  /** 0 if there is none. */
  readonly lastSeq: number;
}

/**
 * Characters (or bytes) of bodies after which a page of rows ends, whatever its limit of rows, to
 * bound memory and time: a start has a page several times, in each form that it takes on its way.
 * The last row may exceed it.
 */
export const PAGE_CHARS = 4 * 1024 * 1024;

/**
 * What a scan looks for, as far as a store tells without parsing: the text of a row contains one of
 * the texts of each list. The reader looks closer at what fits.
 */
export type RowFilter = readonly (readonly string[])[];

/** Where a scan begins, and the way that it goes: upwards, or to older rows. */
export type ScanFrom = { readonly after: number } | { readonly before: number };

/** A row that a scan has looked at. */
export interface ScannedRow extends Omit<StoredRow, 'body'> {
  /** Characters (or bytes) of its body. */
  readonly chars: number;
  /** Whether it is what the scan looks for. */
  readonly fits: boolean;
  /**
   * Of a row that fits, and is not larger than {@link SHORT_ROW}: a reader asks for a large one by
   * itself, if it needs it.
   */
  readonly body: string | undefined;
}

/** Characters (or bytes) of the bodies that a scan returns at most. */
export const SHORT_ROW = 64 * 1024;
/**
 * Characters (or bytes) of bodies after which a page of a scan ends; the last row may exceed it.
 */
export const SCAN_CHARS = 4 * 1024 * 1024;

/** How a store that filters here looks at a row. */
export function scannedRow({ body, ...row }: StoredRow, filter: RowFilter): ScannedRow {
  const fits = filter.every((texts) => texts.some((text) => body.includes(text)));
  const chars = body.length;
  return { ...row, chars, fits, body: fits && chars <= SHORT_ROW ? body : undefined };
}

/** Whether acknowledged rows survive a crash or power loss. */
export type Durability = { readonly level: 'durable' } | { readonly level: 'weak'; readonly reason: string };

/** Whether the store is reachable. */
export type StoreStatus =
  | { readonly up: true }
  | { readonly up: false; readonly reason: string; readonly sinceMs: number };

/** Whether writes are taken, as far as the last ones and the probes since tell. */
export type WriteStatus = { readonly ok: true } | RefusedWrites;

/** Why some writes are not taken. */
export interface RefusedWrites {
  readonly ok: false;
  readonly reason: string;
  readonly sinceMs: number;
  /** Those of so many bytes and more are refused; smaller ones may be taken. Undefined: none is. */
  readonly fromBytes: number | undefined;
}

/**
 * A short-lived text of each instance that all instances read, and parts of it that they read as
 * they need them: its connected clients. All of it expires when the instance ends. The log does not
 * depend on it: what fails of it alone rejects with `presence_unavailable`, and changes nothing of
 * {@link LogStore.status}. Each call rejects with that, or with `backbone_unavailable`.
 */
export interface Presence {
  /**
   * Replaces the text of an instance; it expires `ttlMs` later, and with it its parts, which are
   * kept as long. Parts whose number is `parts` or higher are removed. Returns how many there are.
   */
  put(instance: string, text: string, ttlMs: number, parts?: number): Promise<number>;
  /** The texts that have not expired, by instance. */
  list(): Promise<ReadonlyMap<string, PresenceText>>;
  /**
   * Replaces parts of the text of an instance, by their numbers. Without that text they expire
   * `ttlMs` later, or soon after.
   */
  putParts(instance: string, parts: ReadonlyMap<number, string>, ttlMs: number): Promise<void>;
  /** Parts of the text of an instance: of these numbers those that there are. */
  parts(instance: string, numbers: readonly number[]): Promise<ReadonlyMap<number, string>>;
}

export interface PresenceText {
  readonly text: string;
  /**
   * How much is left of its time, in milliseconds, by the clock of the store: clocks of instances
   * differ.
   */
  readonly leftMs: number;
}

/**
 * Short texts between instances, at once or not at all: nothing is kept, and nothing waits for it.
 */
export interface Mail {
  /**
   * Sends ASCII text to all instances, this one included. Rejects with `backbone_unavailable` or
   * `presence_unavailable`.
   */
  send(text: string): Promise<void>;
  /** Calls back with each text from now on. Returns a function that ends it. */
  watch(listener: (text: string) => void): () => void;
}

export interface LogStore {
  /** Identifies the log. A log that was emptied gets another epoch. */
  readonly epoch: string;
  /** Verified when the store was opened. */
  readonly durability: Durability;
  readonly status: StoreStatus;
  /**
   * Rejects when the store has failed permanently, until a restart. Otherwise never settles. Has a
   * handler already.
   */
  readonly failed: Promise<never>;
  readonly presence: Presence;
  readonly mail: Mail;
  /**
   * How long a small call took, in milliseconds: the shortest of the last checks. Undefined: it is
   * not known, or there is no network.
   */
  readonly roundTripMs?: number | undefined;
  /**
   * How far its clock, which {@link StoredRow.timeMs} is by, is ahead of that of this process.
   * Undefined: it is the same, or not known yet.
   */
  readonly clockAheadMs?: number | undefined;
  /**
   * Highest assigned seq, and the rows that are not retired, in order and in pages, so that a large
   * log is never in memory twice. The head is read first: rows appended meanwhile may or may not be
   * included.
   */
  load(): Promise<{ readonly head: number; readonly rows: AsyncIterable<readonly StoredRow[]> }>;
  /**
   * Appends all rows or none; resolves when they are durable. The seqs of one call are consecutive.
   * (NATS: each row is a separate message, so that rows of other instances may come between unless
   * `any` is expected, and after `backbone_unavailable` some of the rows may be written.) Rejects
   * with `log_unwritable` (507, nothing was written), `backbone_unavailable` (503 with
   * `Retry-After`: the rows may have been written; a `dedup` makes a retry safe), `log_conflict`
   * (the expectation does not hold), `inline_data_too_large` (a row exceeds the limit of the store,
   * nothing was written).
   */
  append(rows: readonly NewRow[], expect?: Expectation): Promise<readonly Appended[]>;
  /**
   * Writes so many bytes, about, and takes them back: no row comes of it. Rejects like
   * {@link LogStore.append}.
   */
  probe(bytes: number): Promise<void>;
  /** Bytes that there is room for. Undefined where that is no cheap question, or has no answer. */
  room?(): Promise<number | undefined>;
  /**
   * Rows after a position, in order, including retired ones; fewer than `limit` if they are large
   * ({@link PAGE_CHARS}), none only at the end. Rejects with `backbone_unavailable`.
   */
  read(after: number, limit: number): Promise<readonly StoredRow[]>;
  /**
   * Looks at rows from a position on (exclusive), including retired ones, where they are stored as
   * far as that can be: up to `limit`, and about {@link SCAN_CHARS}. Returns all that it has looked
   * at, in its order; none only at the end. Rejects with `backbone_unavailable`.
   */
  scan(from: ScanFrom, limit: number, filter: RowFilter): Promise<readonly ScannedRow[]>;
  /**
   * Marks rows that the fold does not need any more; readers get them until
   * {@link LogStore.dropRetired}. Idempotent.
   */
  retire(seqs: readonly number[]): Promise<void>;
  /**
   * Removes rows that were retired before a moment, in portions; never the last row. Returns how
   * many it removed.
   */
  dropRetired(beforeMs: number): Promise<number>;
  /**
   * Bytes that the rows take, with what the store keeps beside them. Undefined where that is no
   * cheap question.
   */
  sizeBytes?(): Promise<number | undefined>;
  /**
   * Calls back when there may be new rows of any instance, and when {@link LogStore.status}
   * changes. A hint: the caller reads. Returns a function that ends it.
   */
  watch(listener: () => void): () => void;
  /** Releases everything; later calls reject. */
  close(): Promise<void>;
}

/**
 * True for the error of calls while the backbone is unavailable. The keeper of the connection logs
 * that once; callers do not log it.
 */
export function isBackboneAway(error: unknown): boolean {
  return error instanceof SyncError && error.code === 'backbone_unavailable';
}
