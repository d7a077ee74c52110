/** The state of a transaction of data. */
export type TransactionState =
  /** No attempt has failed. */
  | 'running'
  /** An attempt has failed. */
  | 'failing'
  /** The engine refuses some of its entries; all others are applied. */
  | 'refused'
  | 'ended'
  /** An entry failed after the end: a later read of its source failed, or a new policy blocks it. */
  | 'relapsed';

/** What happens to a transaction. */
export type TransactionEvent =
  /** An attempt to fetch or write one of its entries failed. */
  | 'entry_failed'
  /** All its entries are in the engine, or no longer desired. */
  | 'all_applied'
  /** As `all_applied`, but the engine refuses some. */
  | 'some_refused'
  /** As `all_applied`, but some now count for another transaction: this one cannot claim success. */
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
  /** The engine holds all of it already. */
  | 'in_place';

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
  some_left: ends(),
  nothing_to_do: ends(),
};

const TABLE: Record<TransactionState, Record<TransactionEvent, TransactionOutcome>> = {
  running: {
    ...FINISHES,
    entry_failed: { next: 'failing', effects: ['count_failure', 'record'] },
    nothing_to_do: ends('in_place'),
  },
  failing: FINISHES,
  refused: {
    ...FINISHES,
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
    entry_failed: { next: 'relapsed', effects: ['record'] },
    all_applied: ends('record'),
    some_refused: { next: 'relapsed', effects: [] },
  },
};

/** The row of the table for a state and an event. */
export function transition(state: TransactionState, event: TransactionEvent): TransactionOutcome {
  return TABLE[state][event];
}
