import type { Failure, PolicyStanding } from '../../wire/session.js';
import type { KnownEntry } from '../desired/entry.js';
import { type Failing, Failures, kindOf } from './failures.js';
import { type PolicyPlace, PolicyTracker } from './policy-standing.js';

/** Outcome of the last policy or data transaction (specification "Health document"). */
export interface TransactionResult {
  readonly id: string;
  readonly success: boolean;
  /** Empty when there was none. */
  readonly error: string;
  readonly actions: readonly string[];
  readonly atMs: number;
}

/** How many transactions of one kind ended well, and how many had a failed attempt (those may have ended well later). */
export interface TransactionCounts {
  readonly successful: number;
  readonly failed: number;
}

interface OpenTransaction {
  readonly id: string;
  readonly reason: string;
  readonly startedMs: number;
  readonly key: string;
  readonly open: Set<string>;
  readonly actions: Set<string>;
  /** What went wrong, by entry; an entry that went in after all is no longer here. */
  readonly errors: Map<string, string>;
  total: number;
  sealed: boolean;
  /** An entry counts for another transaction by now: this one cannot tell any more that all went well. */
  moved: boolean;
  /** It was counted as failed. */
  counted: boolean;
  /** Its failure was told. */
  told: boolean;
  readonly isReopened: boolean;
}

/** What a finished transaction tells the log: one line each. */
export interface FinishedTransaction extends TransactionResult {
  readonly reason: string;
  readonly entries: number;
  readonly durationMs: number;
}

/** Data half of the status: which updates are under way, and which entries fail (specification "Health states"). */
export interface DataStatus {
  /** Opens a transaction and answers its key. */
  begin(id: string, reason: string): string;
  joined(transaction: string, entry: KnownEntry): void;
  /** An entry counts for another transaction from now on. */
  left(entry: KnownEntry): void;
  /** An entry changed its state. */
  settled(entry: KnownEntry): void;
  /** An entry is no longer desired, or was superseded. */
  forgotten(entry: KnownEntry): void;
  /** All entries of the transaction have joined. */
  sealed(transaction: string): void;
  /** The data configuration was read; it has this many entries. */
  configRead(entries: number): void;
}

/** Stands among the failing entries where the list of entries itself cannot be read. */
const CONFIG = 'data configuration';
/** Id of the transactions that load what the configuration lists. */
const LOAD = 'initial-load';
/** What a write is called in `actions`, as OPAL calls it (opal-protocol P6.3). */
const ACTIONS = { PUT: 'set_policy_data', PATCH: 'patch_policy_data', DELETE: 'delete_policy_data' } as const;

/**
 * What the client knows of itself: the last transactions, failing entries, whether the engine answers. `ready` and
 * `healthy` follow specification "Health states"; a failure counts from the first failed attempt, and heals when nothing fails any more
 * (design D39).
 */
export class Status implements DataStatus {
  readonly #policyEnabled: boolean;
  readonly #dataEnabled: boolean;
  readonly #onFinished: (transaction: FinishedTransaction) => void;
  readonly #transactions = new Map<string, OpenTransaction>();
  readonly #failures = new Failures();
  readonly #policy = new PolicyTracker();
  readonly #watchers: (() => void)[] = [];
  readonly #counts = { policy: { successful: 0, failed: 0 }, data: { successful: 0, failed: 0 } };
  #counter = 0;
  #initial: string | undefined;
  #policyOnce = false;
  #dataOnce = false;
  #lastPolicy: TransactionResult | undefined;
  #lastFailedPolicy: TransactionResult | undefined;
  #lastData: TransactionResult | undefined;
  /** Key of the transaction that {@link #lastData} is of. */
  #lastDataKey: string | undefined;
  #lastFailedData: TransactionResult | undefined;
  #engineOnline = false;
  #engineError: string | undefined;
  #engineSinceMs = Date.now();

  constructor(
    options: { policyEnabled: boolean; dataEnabled: boolean },
    onFinished: (transaction: FinishedTransaction) => void,
  ) {
    this.#policyEnabled = options.policyEnabled;
    this.#dataEnabled = options.dataEnabled;
    this.#onFinished = onFinished;
  }

  /** Policy was synced once, and all initial data sources or a later update too (specification "Health states"). */
  get ready(): boolean {
    return (!this.#policyEnabled || this.#policyOnce) && (!this.#dataEnabled || this.#dataOnce);
  }

  /** Ready, the latest policy and the last data update are in, no entry fails, and the engine answers. */
  get healthy(): boolean {
    const isCurrent = this.#lastPolicy?.success !== false && this.#lastData?.success !== false;
    return this.ready && this.#engineOnline && isCurrent && this.failing.size === 0;
  }

  get lastPolicy(): TransactionResult | undefined {
    return this.#lastPolicy;
  }

  get lastFailedPolicy(): TransactionResult | undefined {
    return this.#lastFailedPolicy;
  }

  get lastData(): TransactionResult | undefined {
    return this.#lastData;
  }

  get lastFailedData(): TransactionResult | undefined {
    return this.#lastFailedData;
  }

  get counts(): { readonly policy: TransactionCounts; readonly data: TransactionCounts } {
    return this.#counts;
  }

  /** Calls `onChange` after everything that may have changed what this tells. It must return at once. */
  watch(onChange: () => void): void {
    this.#watchers.push(onChange);
  }

  /** Each entry that fails or is withheld, and why, by its id; the oldest first. */
  get failing(): ReadonlyMap<string, Failing> {
    return this.#failures.all;
  }

  /** {@link failing} as it is told to others: the oldest, with texts of bounded length. */
  get failures(): Failure[] {
    return this.#failures.listed;
  }

  /** The commit that is wanted, the one that the engine holds, and why they differ. */
  get policy(): PolicyStanding {
    return this.#policy.standing;
  }

  /** The server names a commit as its newest. */
  policyWanted(commit: string): void {
    if (this.#policy.wants(commit)) this.#changed();
  }

  /** The engine was given a commit without the server; undefined: one that is not known. */
  policyHeld(commit: string | undefined): void {
    this.#policy.holds(commit);
    this.#changed();
  }

  /** Whether the engine answers and holds our state, why not, and since when (milliseconds since 1970). */
  get engine(): { online: boolean; error: string | undefined; sinceMs: number } {
    return { online: this.#engineOnline, error: this.#engineError, sinceMs: this.#engineSinceMs };
  }

  engineSeen(online: boolean, error?: string): void {
    if (online !== this.#engineOnline) this.#engineSinceMs = Date.now();
    this.#engineOnline = online;
    this.#engineError = online ? undefined : error;
    this.#changed();
  }

  /**
   * The engine was filled from a backup, which is only ever made by a client that is ready. It may be without policy where
   * that client had none to keep.
   */
  restored(backup: { hasPolicy: boolean }): void {
    if (backup.hasPolicy) this.#policyOnce = true;
    this.#dataOnce = true;
    this.#changed();
  }

  /**
   * The outcome of bringing a commit in; `error` is empty where it went well, `place` is where it failed. The same outcome again
   * counts once.
   */
  policyResult(id: string, error: string, place: PolicyPlace = {}): void {
    const success = error === '';
    const isNew = this.#lastPolicy?.id !== id || this.#lastPolicy.success !== success;
    if (isNew) this.#counts.policy[success ? 'successful' : 'failed']++;
    this.#lastPolicy = { id, success, error, actions: ['set_policies'], atMs: Date.now() };
    if (success) {
      this.#policyOnce = true;
      this.#policy.holds(id);
      this.#policy.wants(id);
    } else {
      this.#lastFailedPolicy = this.#lastPolicy;
      this.#policy.failed(id, error, place);
    }
    this.#changed();
  }

  begin(id: string, reason: string): string {
    const key = `${id}#${++this.#counter}`;
    this.#transactions.set(key, newTransaction(id, key, reason));
    if (id === LOAD) this.#initial = key;
    return key;
  }

  joined(transaction: string, entry: KnownEntry): void {
    const found = this.#transactions.get(transaction);
    if (found === undefined) return;
    found.open.add(entry.id);
    found.actions.add(ACTIONS[entry.entry.save_method]);
    found.total++;
  }

  left(entry: KnownEntry): void {
    const transaction = this.#transactions.get(entry.transaction);
    if (transaction === undefined) return;
    transaction.errors.delete(entry.id);
    transaction.moved = true;
    this.#close(transaction, entry);
  }

  settled(entry: KnownEntry): void {
    const { state } = entry;
    const error = state.kind === 'applied' ? undefined : state.error;
    // Content that has arrived after a failure is not in yet: the entry fails until it is.
    if (state.kind === 'applied') this.#failures.mended(entry.id);
    else if (error !== undefined) {
      this.#failures.failed(entry.id, `/${entry.path.join('/')}`, error, kindOf(state));
    }
    const transaction =
      this.#transactions.get(entry.transaction) ?? (error === undefined ? undefined : this.#reopened(entry));
    if (transaction !== undefined) {
      if (error !== undefined) {
        transaction.errors.set(entry.id, error);
        this.#record(transaction);
      }
      if (state.kind === 'applied') transaction.errors.delete(entry.id);
      if (state.kind === 'applied' || state.kind === 'blocked') this.#close(transaction, entry);
    }
    this.#changed();
  }

  forgotten(entry: KnownEntry): void {
    this.#failures.mended(entry.id);
    const transaction = this.#transactions.get(entry.transaction);
    if (transaction !== undefined) {
      transaction.errors.delete(entry.id);
      this.#close(transaction, entry);
    }
    this.#changed();
  }

  sealed(transaction: string): void {
    const found = this.#transactions.get(transaction);
    if (found === undefined) return;
    found.sealed = true;
    this.#finishIfDone(found);
    this.#changed();
  }

  configRead(entries: number): void {
    this.#failures.mended(CONFIG);
    if (entries === 0) this.#dataOnce = true;
    const isLoaded = this.#initial === undefined || !this.#transactions.has(this.#initial);
    // Nothing was to be loaded: that, too, went well, and ends a failure to read the configuration.
    if (isLoaded && (this.#lastData === undefined || this.#lastDataKey === CONFIG)) this.#tellLoad('');
    this.#changed();
  }

  /** The data configuration could not be read: what it lists may be missing here, until it is read. */
  configFailed(error: string): void {
    if (!this.failing.has(CONFIG)) this.#counts.data.failed++;
    this.#failures.failed(CONFIG, CONFIG, error, 'config');
    this.#tellLoad(`${CONFIG}: ${error}`);
    this.#changed();
  }

  #tellLoad(error: string): void {
    this.#lastData = { id: LOAD, success: error === '', error, actions: [], atMs: Date.now() };
    this.#lastDataKey = CONFIG;
    if (error !== '') this.#lastFailedData = this.#lastData;
  }

  /**
   * The transaction of an entry that fails after that had ended: its source is read at an interval, or a new policy is in
   * its way. It has ended well no longer; this is no new update, so that `onFinished` does not hear of it again.
   */
  #reopened(entry: KnownEntry): OpenTransaction {
    const key = entry.transaction;
    const again = { ...newTransaction(key.slice(0, key.lastIndexOf('#')), key, ''), sealed: true, isReopened: true };
    this.#transactions.set(key, again);
    this.joined(key, entry);
    return again;
  }

  #close(transaction: OpenTransaction, entry: KnownEntry): void {
    transaction.open.delete(entry.id);
    this.#finishIfDone(transaction);
  }

  #finishIfDone(transaction: OpenTransaction): void {
    if (!transaction.sealed || transaction.open.size > 0) return;
    const failed = transaction.errors.size > 0;
    // What the engine refuses may go in later: then this transaction ends well after all.
    if (!failed) this.#transactions.delete(transaction.key);
    if (transaction.total === 0) {
      // Everything that the configuration lists was here already.
      if (transaction.key === this.#initial) this.#dataOnce = true;
      return;
    }
    if (failed ? transaction.told : transaction.moved) return;
    transaction.told = true;
    const result = this.#record(transaction);
    if (result.success) this.#dataOnce = true;
    if (transaction.isReopened) return;
    const durationMs = Date.now() - transaction.startedMs;
    this.#onFinished({ ...result, reason: transaction.reason, entries: transaction.total, durationMs });
  }

  /** Takes what a transaction amounts to by now as the last one. */
  #record(transaction: OpenTransaction): TransactionResult {
    const result = resultOf(transaction);
    this.#lastData = result;
    this.#lastDataKey = transaction.key;
    if (result.success) this.#counts.data.successful++;
    else {
      this.#lastFailedData = result;
      if (!transaction.counted) this.#counts.data.failed++;
      transaction.counted = true;
    }
    return result;
  }

  #changed(): void {
    for (const onChange of this.#watchers) onChange();
  }
}

function newTransaction(id: string, key: string, reason: string): OpenTransaction {
  return {
    id,
    key,
    reason,
    startedMs: Date.now(),
    open: new Set(),
    actions: new Set(),
    errors: new Map(),
    total: 0,
    sealed: false,
    moved: false,
    counted: false,
    told: false,
    isReopened: false,
  };
}

function resultOf({ id, errors, actions }: OpenTransaction): TransactionResult {
  const success = errors.size === 0;
  const error = success ? '' : ([...errors.values()].find((text) => text !== '') ?? 'it failed for no stated reason');
  return { id, success, error, actions: [...actions], atMs: Date.now() };
}
