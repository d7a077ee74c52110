import { failureFields, SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { docPathText } from '../../wire/doc-path.js';
import type { KnownEntry } from '../desired/entry-table.js';
import { type BegunUpdate, type DataEvent, isLoad } from './data-events.js';

/** The state of a transaction of data. */
export type TransactionState =
  /** No attempt has failed. */
  | 'running'
  /** An attempt has failed. */
  | 'failing'
  /** The engine refuses some of its entries; all others are applied. */
  | 'refused'
  | 'ended'
  /**
   * An entry failed after the end: a later read of its source failed, or a new policy blocks it.
   */
  | 'relapsed';

/** What happens to a transaction. */
export type TransactionEvent =
  /** An attempt to fetch or write one of its entries failed. */
  | 'entry_failed'
  /** All its entries are in the engine, or no longer desired. */
  | 'all_applied'
  /** As `all_applied`, but the engine refuses some. */
  | 'some_refused'
  /**
   * As `all_applied`, but some now count for another transaction: this one cannot claim success.
   */
  | 'some_left'
  /** It has no entries. */
  | 'nothing_to_do';

/** What to do, in order. */
export type TransactionEffect =
  /** Count it as failed. */
  | 'count_failure'
  /** Make it the last transaction; count a success. */
  | 'record'
  /** Report its end. */
  | 'finish'
  /** Tell that it has ended, with nothing to report. */
  | 'end';

/** One row of the table. */
export interface TransactionOutcome {
  readonly next: TransactionState;
  readonly effects: readonly TransactionEffect[];
}

const ends = (...effects: TransactionEffect[]): TransactionOutcome => ({ next: 'ended', effects });

const FINISHES: Record<TransactionEvent, TransactionOutcome> = {
  entry_failed: { next: 'failing', effects: ['record'] },
  all_applied: ends('record', 'finish'),
  some_refused: { next: 'refused', effects: ['record', 'finish'] },
  some_left: ends('end'),
  nothing_to_do: ends('end'),
};
/** For those whose end was told before. */
const QUIET = { some_left: ends(), nothing_to_do: ends() } as const;

const TABLE: Record<TransactionState, Record<TransactionEvent, TransactionOutcome>> = {
  running: {
    ...FINISHES,
    entry_failed: { next: 'failing', effects: ['count_failure', 'record'] },
  },
  failing: FINISHES,
  refused: {
    ...FINISHES,
    ...QUIET,
    entry_failed: { next: 'refused', effects: ['record'] },
    some_refused: { next: 'refused', effects: [] },
  },
  ended: {
    entry_failed: { next: 'relapsed', effects: ['count_failure', 'record'] },
    all_applied: ends(),
    some_refused: ends(),
    some_left: ends(),
    nothing_to_do: ends(),
  },
  // This is no new update: its end is not reported again.
  relapsed: {
    ...FINISHES,
    ...QUIET,
    entry_failed: { next: 'relapsed', effects: ['record'] },
    all_applied: ends('record'),
    some_refused: { next: 'relapsed', effects: [] },
  },
};

/** The row of the table for a state and an event. */
export function transactionTransition(state: TransactionState, event: TransactionEvent): TransactionOutcome {
  return TABLE[state][event];
}

/** Outcome of a policy or data transaction (specification "Health document"). */
export interface TransactionResult {
  readonly id: string;
  readonly success: boolean;
  /** Empty when there was none. */
  readonly error: string;
  readonly actions: readonly string[];
  readonly atMs: number;
}

/** One data update, or one load of everything that is desired. */
interface Transaction {
  readonly key: string;
  readonly update: BegunUpdate;
  readonly startedMs: number;
  readonly actions: Set<string>;
  /** Its entries that are under way, by id. */
  readonly open: Set<string>;
  /** Why entries fail, by id; an entry that recovers is removed. */
  readonly errors: Map<string, string>;
  state: TransactionState;
  isSealed: boolean;
  /** The first of the paths that it changes. */
  readonly paths: Set<string>;
  /** How many entries have joined. */
  joined: number;
  /** How many of these now count for another transaction. */
  left: number;
  /** How many of these were replaced before the engine had them, or while it refused them. */
  replaced: number;
  /** Entries of a load that the engine refuses, by id. */
  readonly withheld: Set<string>;
}

/** The part of a transaction that others read. */
export type DataTransaction = Readonly<
  Pick<Transaction, 'update' | 'startedMs' | 'joined' | 'left' | 'replaced' | 'paths' | 'withheld'>
>;

/** What a write is called in `actions`, as OPAL calls it (opal-protocol P6.3). */
const ACTIONS = { PUT: 'set_policy_data', PATCH: 'patch_policy_data', DELETE: 'delete_policy_data' } as const;

/** How many paths a line of the log names. */
const NAMED_PATHS = 5;

/** Logs one line at the end of each data transaction. */
export function logFinished(log: Logger) {
  return ({ id, success, error }: TransactionResult, transaction: DataTransaction): void => {
    const { update, joined, startedMs, paths, withheld } = transaction;
    const outcome = success ? successOf(transaction) : 'failed';
    const line = {
      update_id: id,
      ...(update.seq !== undefined && { seq: update.seq }),
      reason: update.reason,
      entries: joined,
      paths: [...paths],
      ...(withheld.size > 0 && { withheld: withheld.size }),
      duration_ms: Date.now() - startedMs,
      outcome,
    };
    if (success) log.info(line, 'data transaction');
    else log.warn({ ...line, ...failureFields(new SyncError('not_applied', error)) }, 'data transaction');
  };
}

/** What became of a transaction that did not fail. */
export function successOf({
  joined,
  left,
  replaced,
  withheld,
}: DataTransaction): 'unchanged' | 'superseded' | 'withheld' | 'applied' {
  if (joined === 0) return 'unchanged';
  if (left > 0 || replaced === joined) return 'superseded';
  return withheld.size === joined ? 'withheld' : 'applied';
}

type OnEffect = (effect: TransactionEffect, result: TransactionResult, transaction: DataTransaction) => void;

/** Follows the data transactions that have not ended, each by {@link transactionTransition}. */
export class Transactions {
  readonly #open = new Map<string, Transaction>();
  readonly #onEffect: OnEffect;
  #lastLoad: string | undefined;

  constructor(onEffect: OnEffect) {
    this.#onEffect = onEffect;
  }

  /** True while the last load has not ended. */
  get isLoading(): boolean {
    return this.#lastLoad !== undefined && this.#open.has(this.#lastLoad);
  }

  onData(event: DataEvent): void {
    switch (event.kind) {
      case 'begun':
        this.#open.set(event.transaction, newTransaction(event.transaction, event.update, 'running'));
        if (event.update.isLoad) this.#lastLoad = event.transaction;
        break;
      case 'joined':
        join(this.#open.get(event.transaction), event.entry);
        break;
      case 'sealed': {
        const transaction = this.#open.get(event.transaction);
        if (transaction === undefined) return;
        transaction.isSealed = true;
        this.#endIfSettled(transaction);
        break;
      }
      case 'settled':
        this.#settled(event.entry);
        break;
      case 'left':
      case 'forgotten': {
        const transaction = this.#open.get(event.entry.transaction);
        if (transaction === undefined) return;
        if (event.kind === 'left') transaction.left++;
        else if (transaction.open.has(event.entry.id) || transaction.errors.has(event.entry.id)) transaction.replaced++;
        transaction.errors.delete(event.entry.id);
        transaction.withheld.delete(event.entry.id);
        transaction.open.delete(event.entry.id);
        this.#endIfSettled(transaction);
      }
    }
  }

  #settled(entry: KnownEntry): void {
    const { id, state } = entry;
    // A load applies what can be applied. What the engine refuses of it is listed as failing, and
    // is no failure of the load.
    const isWithheld = state.kind === 'blocked' && isLoad(entry.transaction);
    const error = isWithheld ? undefined : state.error;
    const transaction = this.#open.get(entry.transaction) ?? (error === undefined ? undefined : this.#reopen(entry));
    if (transaction === undefined) return;
    if (error !== undefined) {
      transaction.errors.set(id, error);
      this.#apply(transaction, 'entry_failed');
    }
    if (state.kind !== 'applied' && state.kind !== 'blocked') return;
    if (error === undefined) transaction.errors.delete(id);
    if (isWithheld) transaction.withheld.add(id);
    else transaction.withheld.delete(id);
    transaction.open.delete(id);
    this.#endIfSettled(transaction);
  }

  /** Reopens the transaction of an entry that fails after the end. */
  #reopen(entry: KnownEntry): Transaction {
    const key = entry.transaction;
    const update = { id: key.slice(0, key.lastIndexOf('#')), reason: '', callbacks: [], isLoad: isLoad(key) };
    const transaction = newTransaction(key, update, 'ended');
    transaction.isSealed = true;
    this.#open.set(key, transaction);
    join(transaction, entry);
    return transaction;
  }

  #endIfSettled(transaction: Transaction): void {
    const { isSealed, open, errors, joined, left } = transaction;
    if (!isSealed || open.size > 0) return;
    if (joined === 0) this.#apply(transaction, 'nothing_to_do');
    else if (errors.size > 0) this.#apply(transaction, 'some_refused');
    else this.#apply(transaction, left > 0 ? 'some_left' : 'all_applied');
  }

  #apply(transaction: Transaction, event: TransactionEvent): void {
    const { next, effects } = transactionTransition(transaction.state, event);
    transaction.state = next;
    if (next === 'ended') this.#open.delete(transaction.key);
    if (effects.length === 0) return;
    const result = resultOf(transaction);
    for (const effect of effects) this.#onEffect(effect, result, transaction);
  }
}

function newTransaction(key: string, update: BegunUpdate, state: TransactionState): Transaction {
  const none = { actions: new Set<string>(), open: new Set<string>(), errors: new Map<string, string>() };
  return {
    ...none,
    paths: new Set<string>(),
    withheld: new Set<string>(),
    key,
    update,
    state,
    startedMs: Date.now(),
    isSealed: false,
    joined: 0,
    left: 0,
    replaced: 0,
  };
}

function join(transaction: Transaction | undefined, { id, entry, path }: KnownEntry): void {
  if (transaction === undefined) return;
  transaction.open.add(id);
  transaction.actions.add(ACTIONS[entry.save_method]);
  transaction.joined++;
  if (transaction.paths.size < NAMED_PATHS) transaction.paths.add(docPathText(path));
}

function resultOf({ update, errors, actions }: Transaction): TransactionResult {
  const success = errors.size === 0;
  const error = success ? '' : ([...errors.values()].find((text) => text !== '') ?? 'it failed for no stated reason');
  return { id: update.id, success, error, actions: [...actions], atMs: Date.now() };
}
