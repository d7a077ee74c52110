import { type BackoffOptions, backoffMs, isAbort, Wakeup } from '../../lib/async.js';
import { errorText, failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { OwnRow, Placed } from './append-queue.js';
import { type AppliedRow, FoldedState } from './folded-state.js';
import {
  type Appended,
  type Expectation,
  isBackboneAway,
  type LogStore,
  type StoredRow,
  type StoreStatus,
} from './log-store.js';
import type { LogRecord, PolicyHead } from './update-log.js';

/** What a {@link LogView} works with. */
export interface LogViewDeps {
  readonly store: LogStore;
  readonly log: Logger;
  readonly now: () => number;
  /** Called after rows were applied. */
  readonly applied: () => void;
}

/** How a store is followed that others append to. */
export interface FollowOptions {
  /** Longest time without a look at a shared store. Default 5 s. */
  readonly pollMs?: number | undefined;
  /** Delays between looks at a store that cannot be read and does not say that it is back. */
  readonly retry?: BackoffOptions | undefined;
}

/** How often rows are made anew because other instances appended meanwhile. */
const ATTEMPTS = 20;
const READ_ROWS = 1000;
const POLL_MS = 5000;
/** For `Retry-After`: what cannot be read stays so until somebody does something. */
const UNREADABLE_RETRY_SECONDS = 10;
const BACKOFF = { minMs: 100, maxMs: 5000 };

/**
 * What this instance has applied of the log: every row once and in order, whether it was appended here or read from the store.
 * Whoever listens hears of each row when it is applied.
 */
export class LogView {
  readonly #deps: LogViewDeps;
  readonly #listeners = new Set<(record: LogRecord) => void>();
  readonly #policyListeners = new Set<(head: PolicyHead) => void>();
  readonly #skipListeners = new Set<() => void>();
  #deliver: ((record: LogRecord) => number) | undefined;
  /** Connections by seq while an append of this instance is under way: its rows may be read, and applied, before it returns. */
  #subscribers: Map<number, number> | undefined;
  #state: FoldedState;
  #status: StoreStatus = { up: true };
  #pulling: Promise<void> | undefined;
  #pullAgain = false;

  constructor(state: FoldedState, deps: LogViewDeps) {
    this.#state = state;
    this.#deps = deps;
  }

  /** What the rows amount to; another one after a look at the store that had to begin anew. */
  get state(): FoldedState {
    return this.#state;
  }

  /** Not up: what the store has cannot be read, though the store can be reached. What is known is as it was then. */
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

  /** Until the signal aborts: looks whenever the store says so, and now and then without; while it cannot be reached, again and again. */
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
          // A store that cannot be reached says so itself, and when it is back.
          const isAway = isBackboneAway(error);
          if (failures === 1 && !isAway) this.#deps.log.warn(failureFields(error), 'the update log cannot be followed');
          const sinceMs = this.#status.up ? this.#deps.now() : this.#status.sinceMs;
          this.#status = isAway ? { up: true } : { up: false, reason, sinceMs };
        }
        // A store that is back says so: nobody waits for the rest of a long delay.
        await wakeup.wait(signal, failures === 0 ? pollMs : backoffMs(failures, retry));
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    } finally {
      unwatch();
    }
  }

  /** Resolves when nothing is being read any more, however that ended: who asked for it has heard of it. */
  async settled(): Promise<void> {
    await this.#pulling?.catch(() => undefined);
  }

  /** Applies what was appended, by whomever, up to now. */
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
      this.#pulling = undefined; // in the turn in which it was seen that nobody asks again, so that no call is lost
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

  /** Rows that this instance has not seen are gone: it was away for long. What is left says what counts now. */
  async #reload(next: number): Promise<void> {
    this.#deps.log.warn(
      { head: this.#state.head, next },
      'records were dropped before they were read: the update log is read anew',
    );
    const state = await loadState(this.#deps.store, this.#deps.now);
    if (state.head <= this.#state.head)
      throw new SyncError('log_damaged', `records after ${this.#state.head} of the update log are missing`);
    this.#state = state;
    for (const listener of this.#skipListeners) listener();
    if (state.policy !== undefined) for (const listener of this.#policyListeners) listener(state.policy);
  }

  /**
   * Appends rows and applies them; where others came in between, all of them in order. One call at a time. Writes nothing while this
   * instance cannot read the log: nobody could be told what became of the rows.
   */
  async append(batch: readonly OwnRow[], expect?: Expectation): Promise<readonly Placed[]> {
    if (!this.#status.up) {
      const wait = { retryable: true, retryAfterSeconds: UNREADABLE_RETRY_SECONDS };
      throw new SyncError('backbone_unavailable', `nothing was written: ${this.#status.reason}`, wait);
    }
    const subscribers = new Map<number, number>();
    this.#subscribers = subscribers;
    try {
      const rows = batch.map(({ row }) => row);
      const places = await this.#deps.store.append(rows, expect);
      await this.#applyOwn(batch, places);
      return places.map((place) => ({ ...place, subscribers: subscribers.get(place.seq) }));
    } finally {
      this.#subscribers = undefined;
    }
  }

  /**
   * Appends rows that are made of what the log has, together and only if nobody has appended since; otherwise they are made anew.
   * Rejects with `backbone_unavailable` where others are always faster.
   */
  async appendMade(make: () => readonly OwnRow[]): Promise<readonly Placed[]> {
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
      cause = error; // it is in the log all the same: nobody is told that it was refused
    }
    if (last > this.#state.head)
      throw new SyncError('backbone_unavailable', 'the update log does not give back what it took', {
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

/** Reads what the store has. Rejects with what it rejects with, and with `log_damaged`. */
export async function loadState(store: LogStore, now: () => number): Promise<FoldedState> {
  const state = new FoldedState();
  const { head, rows } = await store.load();
  for await (const page of rows) for (const row of page) if (row.seq <= head) state.apply(row);
  state.head = head;
  // A row that was retired meanwhile may not have been among them: what replaced it came after the head of then.
  for (let more = await store.read(head, READ_ROWS); more.length > 0; more = await store.read(state.head, READ_ROWS)) {
    for (const row of more) state.apply(row);
  }
  state.fold.expire(now());
  return state;
}
