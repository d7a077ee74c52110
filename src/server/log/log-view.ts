import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { type BackoffOptions, backoffMs, isAbort, Wakeup } from '../../lib/run/async.js';
import type { AppendedRow, OwnRow } from './append-queue.js';
import { type AppliedRow, FoldedState } from './folded-state.js';
import { byClockOf } from './log-clock.js';
import {
  type Appended,
  type Expectation,
  isBackboneAway,
  type LogStore,
  type StoredRow,
  type StoreStatus,
} from './log-store.js';
import type { LogRecord, PolicyHead } from './update-log.js';

export interface LogViewDeps {
  readonly store: LogStore;
  /** That of the store, watched. */
  readonly append: LogStore['append'];
  readonly log: Logger;
  readonly now: () => number;
  /** Called after rows were applied. */
  readonly applied: () => void;
}

/** How a store is followed that other instances append to. */
export interface FollowOptions {
  /** Maximum interval between reads of a shared store. Default 5 s. */
  readonly pollMs?: number | undefined;
  /** Delays between reads of a store that cannot be read. */
  readonly retry?: BackoffOptions | undefined;
}

/** Attempts of {@link LogView.appendFrom}. */
const ATTEMPTS = 20;
const READ_ROWS = 1000;
const POLL_MS = 5000;
/** For `Retry-After`: an unreadable log needs an operator. */
const UNREADABLE_RETRY_SECONDS = 10;
const BACKOFF = { minMs: 100, maxMs: 5000 };

/**
 * Applies the log to the state of this instance: every row once and in order, whether it was
 * appended here or read from the store. Calls the listeners for each applied row.
 */
export class LogView {
  readonly #deps: LogViewDeps;
  readonly #listeners = new Set<(record: LogRecord) => void>();
  readonly #policyListeners = new Set<(head: PolicyHead) => void>();
  readonly #skipListeners = new Set<() => void>();
  #deliver: ((record: LogRecord) => number) | undefined;
  /**
   * Connections by seq, during an append of this instance: its rows may be read, and applied,
   * before it returns.
   */
  #subscribers: Map<number, number> | undefined;
  #state: FoldedState;
  #status: StoreStatus = { up: true };
  #pulling: Promise<void> | undefined;
  #pullAgain = false;

  constructor(state: FoldedState, deps: LogViewDeps) {
    this.#state = state;
    this.#deps = deps;
  }

  /** The folded state. Replaced by another object when the log is reloaded. */
  get state(): FoldedState {
    return this.#state;
  }

  /**
   * Not up if the rows cannot be read although the store is reachable: {@link state} is then
   * outdated.
   */
  get status(): StoreStatus {
    return this.#status;
  }

  deliverTo(deliver: (record: LogRecord) => number): void {
    this.#deliver = deliver;
  }

  onRecord(listener: (record: LogRecord) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  onSkipped(listener: () => void): () => void {
    this.#skipListeners.add(listener);
    return () => this.#skipListeners.delete(listener);
  }

  onPolicy(listener: (head: PolicyHead) => void): () => void {
    this.#policyListeners.add(listener);
    return () => this.#policyListeners.delete(listener);
  }

  /**
   * Reads new rows until the signal aborts: on each hint of the store and at an interval, after a
   * failure with backoff.
   */
  async follow(signal: AbortSignal, { pollMs = POLL_MS, retry = BACKOFF }: FollowOptions): Promise<void> {
    const wakeup = new Wakeup();
    const unwatch = this.#deps.store.watch(() => wakeup.set());
    let failures = 0;
    try {
      for (;;) {
        try {
          await this.catchUp();
          if (failures > 0) this.#deps.log.info({ head: this.#state.head }, 'the update log is followed again');
          failures = 0;
          this.#status = { up: true };
        } catch (error) {
          failures++;
          const reason = errorText(error);
          // The keeper of the connection reports an unavailable backbone, and its return.
          const isAway = isBackboneAway(error);
          if (failures === 1 && !isAway) this.#deps.log.warn(failureFields(error), 'the update log cannot be followed');
          const sinceMs = this.#status.up ? this.#deps.now() : this.#status.sinceMs;
          this.#status = isAway ? { up: true } : { up: false, reason, sinceMs };
        }
        // A hint ends a long delay as soon as the store is back.
        await wakeup.wait(signal, failures === 0 ? pollMs : backoffMs(failures, retry));
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    } finally {
      unwatch();
    }
  }

  /**
   * Resolves when no read is running. Never rejects: the callers of {@link catchUp} get its
   * failures.
   */
  async settled(): Promise<void> {
    await this.#pulling?.catch(() => undefined);
  }

  /** Applies all rows that were appended before the call, by any instance. */
  catchUp(): Promise<void> {
    this.#pullAgain = true;
    this.#pulling ??= this.#pull();
    return this.#pulling;
  }

  async #pull(): Promise<void> {
    try {
      while (this.#pullAgain) {
        this.#pullAgain = false;
        await this.#pullAll();
      }
    } finally {
      this.#pulling = undefined; // in the same turn as the last check of `#pullAgain`, so that no call is lost
    }
  }

  async #pullAll(): Promise<void> {
    for (;;) {
      const rows = await this.#deps.store.read(this.#state.head, READ_ROWS);
      if (rows.length === 0) return;
      for (const row of rows) {
        if (row.seq > this.#state.head + 1) {
          await this.#reload(row.seq);
          break;
        }
        if (row.seq === this.#state.head + 1) this.#takeRow(row);
      }
      this.#deps.applied();
    }
  }

  /**
   * Loads the log again: rows were dropped before this instance had read them. The rest has the
   * current state.
   */
  async #reload(next: number): Promise<void> {
    this.#deps.log.warn(
      { head: this.#state.head, next },
      'records were dropped before they were read: the update log is loaded again',
    );
    const state = await loadState(this.#deps.store, this.#deps.now);
    if (state.head <= this.#state.head)
      throw new SyncError('log_damaged', `records after ${this.#state.head} of the update log are missing`);
    this.#state = state;
    for (const listener of this.#skipListeners) listener();
    if (state.policy !== undefined) for (const listener of this.#policyListeners) listener(state.policy);
  }

  /**
   * Appends rows and applies them, in order with rows of other instances. One call at a time.
   * Rejects while this instance cannot read the log, since it could not apply the rows.
   */
  async append(batch: readonly OwnRow[], expect?: Expectation): Promise<readonly AppendedRow[]> {
    if (!this.#status.up) {
      const wait = { retryable: true, retryAfterSeconds: UNREADABLE_RETRY_SECONDS };
      throw new SyncError('backbone_unavailable', `nothing was written: ${this.#status.reason}`, wait);
    }
    const subscribers = new Map<number, number>();
    this.#subscribers = subscribers;
    try {
      const rows = batch.map(({ row }) => row);
      const places = await this.#deps.append(rows, expect);
      await this.#applyOwn(batch, places);
      return places.map((place) => ({ ...place, subscribers: subscribers.get(place.seq) }));
    } finally {
      this.#subscribers = undefined;
    }
  }

  /**
   * Appends rows that depend on the current state, together and only if no row was appended since;
   * otherwise retries with new rows. Rejects with `backbone_unavailable` after {@link ATTEMPTS}
   * conflicts.
   */
  async appendFrom(make: () => readonly OwnRow[]): Promise<readonly AppendedRow[]> {
    for (let attempt = 1; ; attempt++) {
      await this.catchUp();
      const lastSeq = this.#state.head;
      const rows = make();
      if (rows.length === 0) return [];
      try {
        return await this.append(rows, { kind: 'any', lastSeq });
      } catch (error) {
        if (!(error instanceof SyncError) || error.code !== 'log_conflict') throw error;
        if (attempt < ATTEMPTS) continue;
        const text = 'other instances append faster than this one can read: nothing was written';
        throw new SyncError('backbone_unavailable', text, { cause: error, retryable: true, retryAfterSeconds: 1 });
      }
    }
  }

  async #applyOwn(batch: readonly OwnRow[], places: readonly Appended[]): Promise<void> {
    const isNext = places.every(({ seq, timeMs }, index) => {
      const before = index === 0 ? this.#state.head : places[index - 1]?.seq;
      return timeMs !== undefined && seq === (before ?? 0) + 1;
    });
    const isNew = places.every(({ duplicate }) => !duplicate);
    if (isNext && isNew && this.#pulling === undefined) {
      for (const [index, { row, record }] of batch.entries()) {
        const { seq, timeMs = 0 } = places[index] ?? { seq: 0 };
        this.#takeRow({ seq, kind: row.kind, timeMs, body: row.body }, record && { ...record, seq, timeMs });
      }
      this.#deps.applied();
      return;
    }
    const last = Math.max(...places.map(({ seq }) => seq));
    if (last <= this.#state.head) return;
    let cause: unknown;
    try {
      await this.catchUp();
    } catch (error) {
      cause = error; // the rows are in the log all the same: rejected only if they were not applied
    }
    if (last > this.#state.head)
      throw new SyncError('backbone_unavailable', 'the update log does not return the rows that it accepted', {
        cause,
        retryable: true,
        retryAfterSeconds: 1,
      });
  }

  #takeRow(row: StoredRow, known?: LogRecord): void {
    const { record, policy }: AppliedRow = this.#state.apply(row, known);
    if (record !== undefined) {
      const subscribers = this.#deliver?.(record);
      if (subscribers !== undefined) this.#subscribers?.set(record.seq, subscribers);
      for (const listener of this.#listeners) listener(record);
    }
    if (policy !== undefined) for (const listener of this.#policyListeners) listener(policy);
  }
}

/**
 * Who is told of a load: of each row that was applied, with its record if it is an update, and of
 * the state after each page.
 */
export interface LoadHears {
  loaded(row: StoredRow, record: LogRecord | undefined, head: number): void;
  paged(state: FoldedState): void;
}

const NOBODY: LoadHears = { loaded: () => undefined, paged: () => undefined };

/** Loads the state from a store, page by page. Rejects like the store, and with `log_damaged`. */
export async function loadState(store: LogStore, now: () => number, hears: LoadHears = NOBODY): Promise<FoldedState> {
  const state = new FoldedState();
  const { head, rows } = await store.load();
  const apply = (page: readonly StoredRow[]): void => {
    for (const row of page) hears.loaded(row, state.apply(row).record, head);
    hears.paged(state);
  };
  for await (const page of rows) apply(page.filter(({ seq }) => seq <= head));
  state.head = head;
  // A row that was retired during the load may be missing: the rows that superseded it come after
  // `head`.
  for (let more = await store.read(head, READ_ROWS); more.length > 0; more = await store.read(state.head, READ_ROWS)) {
    apply(more);
  }
  state.fold.expire(byClockOf(store, now()));
  return state;
}
