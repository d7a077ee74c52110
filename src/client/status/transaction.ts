/** How a transaction stands. */
export type TransactionState =
  /** No attempt has failed. */
  | 'running'
  /** An attempt has failed. */
  | 'failing'
  /** The engine refuses some of its entries, and nothing else is under way. */
  | 'refused'
  | 'ended'
  /** An entry failed after the end: its source is read at an interval, or a new policy is in its way. */
  | 'relapsed';

/** What happens to a transaction. */
export type TransactionEvent =
  /** An attempt to bring in one of its entries failed. */
  | 'entry_failed'
  /** All its entries are in the engine, or no longer desired. */
  | 'all_applied'
  /** As `all_applied`, but the engine refuses some. */
  | 'some_refused'
  /** As `all_applied`, but some count for another transaction by now: this one cannot say that all went well. */
  | 'some_left'
  /** It has no entries. */
  | 'nothing_to_do';

/** What follows from an event, in order. */
export type TransactionEffect =
  /** It counts as failed, once. */
  | 'count_failure'
  /** It becomes the last transaction. */
  | 'record'
  /** Its end is told. */
  | 'finish'
  /** All that it would bring in is there. */
  | 'in_place';

/** One row of the table. */
export interface TransactionOutcome {
  readonly next: TransactionState;
  readonly effects: readonly TransactionEffect[];
}

const ends = (...effects: TransactionEffect[]): TransactionOutcome => ({ next: 'ended', effects });

const TABLE: Record<TransactionState, Record<TransactionEvent, TransactionOutcome>> = {
  running: {
    entry_failed: { next: 'failing', effects: ['count_failure', 'record'] },
    all_applied: ends('record', 'finish'),
    some_refused: { next: 'refused', effects: ['record', 'finish'] },
    some_left: ends(),
    nothing_to_do: ends('in_place'),
  },
  failing: {
    entry_failed: { next: 'failing', effects: ['record'] },
    all_applied: ends('record', 'finish'),
    some_refused: { next: 'refused', effects: ['record', 'finish'] },
    some_left: ends(),
    nothing_to_do: ends(),
  },
  refused: {
    entry_failed: { next: 'refused', effects: ['record'] },
    all_applied: ends('record', 'finish'),
    some_refused: { next: 'refused', effects: [] },
    some_left: ends(),
    nothing_to_do: ends(),
  },
  ended: {
    entry_failed: { next: 'relapsed', effects: ['count_failure', 'record'] },
    all_applied: ends(),
    some_refused: ends(),
    some_left: ends(),
    nothing_to_do: ends(),
  },
  // No new update: its end is not told again.
  relapsed: {
    entry_failed: { next: 'relapsed', effects: ['record'] },
    all_applied: ends('record'),
    some_refused: { next: 'relapsed', effects: [] },
    some_left: ends(),
    nothing_to_do: ends(),
  },
};

/** The row of the table for a state and an event. */
export function transition(state: TransactionState, event: TransactionEvent): TransactionOutcome {
  return TABLE[state][event];
}
