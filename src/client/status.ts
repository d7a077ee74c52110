import type { KnownEntry } from './reconcile/entry.js';

/** Outcome of the last policy or data transaction (spec, health document). */
export interface TransactionResult {
  readonly id: string;
  readonly success: boolean;
  /** Empty when there was none. */
  readonly error: string;
  readonly actions: readonly string[];
  readonly atMs: number;
}

interface OpenTransaction {
  readonly id: string;
  readonly reason: string;
  readonly startedMs: number;
  readonly key: string;
  readonly open: Set<string>;
  /** What went wrong, by entry; an entry that went in after all is no longer here. */
  readonly errors: Map<string, string>;
  total: number;
  sealed: boolean;
}

/** What a finished transaction tells the log: one line each. */
export interface FinishedTransaction extends TransactionResult {
  readonly reason: string;
  readonly entries: number;
  readonly durationMs: number;
}

/** Data half of the status: which updates are under way, and which entries fail (spec "Health states"). */
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

/**
 * What the client knows of itself: the last transactions, failing entries, whether the engine answers. `ready` and
 * `healthy` follow the spec; a failure counts from the first failed attempt, and heals when nothing fails any more
 * (design 9.11).
 */
export class Status implements DataStatus {
  readonly #policyEnabled: boolean;
  readonly #dataEnabled: boolean;
  readonly #onFinished: (transaction: FinishedTransaction) => void;
  readonly #transactions = new Map<string, OpenTransaction>();
  readonly #failing = new Map<string, string>();
  #counter = 0;
  #initial: string | undefined;
  #policyOnce = false;
  #dataOnce = false;
  #lastPolicy: TransactionResult | undefined;
  #lastData: TransactionResult | undefined;
  #engineOnline = false;
  #engineError: string | undefined;

  constructor(
    options: { policyEnabled: boolean; dataEnabled: boolean },
    onFinished: (transaction: FinishedTransaction) => void,
  ) {
    this.#policyEnabled = options.policyEnabled;
    this.#dataEnabled = options.dataEnabled;
    this.#onFinished = onFinished;
  }

  /** Policy was synced once, and all initial data sources or a later update too (spec "Health states"). */
  get ready(): boolean {
    return (!this.#policyEnabled || this.#policyOnce) && (!this.#dataEnabled || this.#dataOnce);
  }

  /** Ready, the latest policy is in, no entry fails, and the engine answers. */
  get healthy(): boolean {
    return this.ready && this.#engineOnline && this.#lastPolicy?.success !== false && this.#failing.size === 0;
  }

  get lastPolicy(): TransactionResult | undefined {
    return this.#lastPolicy;
  }

  get lastData(): TransactionResult | undefined {
    return this.#lastData;
  }

  /** Path of each entry that fails or is withheld, and why. */
  get failing(): ReadonlyMap<string, string> {
    return this.#failing;
  }

  get engine(): { online: boolean; error: string | undefined } {
    return { online: this.#engineOnline, error: this.#engineError };
  }

  engineSeen(online: boolean, error?: string): void {
    this.#engineOnline = online;
    this.#engineError = online ? undefined : error;
  }

  policyResult(id: string, error: string): void {
    this.#lastPolicy = { id, success: error === '', error, actions: ['set_policies'], atMs: Date.now() };
    if (error === '') this.#policyOnce = true;
  }

  begin(id: string, reason: string): string {
    const key = `${id}#${++this.#counter}`;
    const open = { id, key, reason, startedMs: Date.now(), open: new Set<string>(), errors: new Map<string, string>() };
    this.#transactions.set(key, { ...open, total: 0, sealed: false });
    if (id === 'initial-load') this.#initial = key;
    return key;
  }

  joined(transaction: string, entry: KnownEntry): void {
    const found = this.#transactions.get(transaction);
    if (found === undefined) return;
    found.open.add(entry.id);
    found.total++;
  }

  left(entry: KnownEntry): void {
    const transaction = this.#transactions.get(entry.transaction);
    if (transaction === undefined) return;
    transaction.errors.delete(entry.id);
    this.#close(transaction, entry);
  }

  settled(entry: KnownEntry): void {
    const { state } = entry;
    const error = state.kind === 'applied' ? undefined : state.error;
    if (error === undefined) this.#failing.delete(entry.id);
    else this.#failing.set(entry.id, `/${entry.path.join('/')}: ${error}`);
    const transaction = this.#transactions.get(entry.transaction);
    if (transaction === undefined) return;
    if (error !== undefined) {
      transaction.errors.set(entry.id, error);
      this.#lastData = resultOf(transaction);
    }
    if (state.kind === 'applied') transaction.errors.delete(entry.id);
    if (state.kind === 'applied' || state.kind === 'blocked') this.#close(transaction, entry);
  }

  forgotten(entry: KnownEntry): void {
    this.#failing.delete(entry.id);
    const transaction = this.#transactions.get(entry.transaction);
    if (transaction === undefined) return;
    transaction.errors.delete(entry.id);
    this.#close(transaction, entry);
  }

  sealed(transaction: string): void {
    const found = this.#transactions.get(transaction);
    if (found === undefined) return;
    found.sealed = true;
    this.#finishIfDone(found);
  }

  configRead(entries: number): void {
    this.#failing.delete(CONFIG);
    if (entries === 0) this.#dataOnce = true;
  }

  /** The data configuration could not be read: what it lists may be missing here, until it is read. */
  configFailed(error: string): void {
    this.#failing.set(CONFIG, `${CONFIG}: ${error}`);
  }

  #close(transaction: OpenTransaction, entry: KnownEntry): void {
    transaction.open.delete(entry.id);
    this.#finishIfDone(transaction);
  }

  #finishIfDone(transaction: OpenTransaction): void {
    if (!transaction.sealed || transaction.open.size > 0) return;
    this.#transactions.delete(transaction.key);
    if (transaction.total === 0) {
      // Everything that the configuration lists was here already.
      if (transaction.key === this.#initial) this.#dataOnce = true;
      return;
    }
    const result = resultOf(transaction);
    this.#lastData = result;
    if (result.success) this.#dataOnce = true;
    const durationMs = Date.now() - transaction.startedMs;
    this.#onFinished({ ...result, reason: transaction.reason, entries: transaction.total, durationMs });
  }
}

function resultOf({ id, errors }: OpenTransaction): TransactionResult {
  const [error = ''] = errors.values();
  return { id, success: error === '', error, actions: ['set_policy_data'], atMs: Date.now() };
}
