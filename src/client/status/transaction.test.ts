import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type TransactionEvent,
  type TransactionOutcome,
  type TransactionState,
  transactionTransition,
} from './transactions.js';

const FINISHES: TransactionOutcome = { next: 'ended', effects: ['record', 'finish'] };
const ENDS: TransactionOutcome = { next: 'ended', effects: [] };
const TOLD: TransactionOutcome = { next: 'ended', effects: ['end'] };

/** Every cell of the table: leaving one out does not compile. */
const EXPECTED: Record<TransactionState, Record<TransactionEvent, TransactionOutcome>> = {
  running: {
    entry_failed: { next: 'failing', effects: ['count_failure', 'record'] },
    all_applied: FINISHES,
    some_refused: { next: 'refused', effects: ['record', 'finish'] },
    some_left: TOLD,
    nothing_to_do: { next: 'ended', effects: ['end'] },
  },
  failing: {
    entry_failed: { next: 'failing', effects: ['record'] },
    all_applied: FINISHES,
    some_refused: { next: 'refused', effects: ['record', 'finish'] },
    some_left: TOLD,
    nothing_to_do: TOLD,
  },
  refused: {
    entry_failed: { next: 'refused', effects: ['record'] },
    all_applied: FINISHES,
    some_refused: { next: 'refused', effects: [] },
    some_left: ENDS,
    nothing_to_do: ENDS,
  },
  ended: {
    entry_failed: { next: 'relapsed', effects: ['count_failure', 'record'] },
    all_applied: ENDS,
    some_refused: ENDS,
    some_left: ENDS,
    nothing_to_do: ENDS,
  },
  relapsed: {
    entry_failed: { next: 'relapsed', effects: ['record'] },
    all_applied: { next: 'ended', effects: ['record'] },
    some_refused: { next: 'relapsed', effects: [] },
    some_left: ENDS,
    nothing_to_do: ENDS,
  },
};

const STATES = Object.keys(EXPECTED) as TransactionState[];
const EVENTS = Object.keys(EXPECTED.running) as TransactionEvent[];

for (const state of STATES) {
  for (const event of EVENTS) {
    test(`transaction: ${state}, ${event}`, () => {
      assert.deepEqual(transactionTransition(state, event), EXPECTED[state][event]);
    });
  }
}

/** Walks all paths of a length, and hands over what each has caused. */
function walk(length: number, see: (effects: string[], state: TransactionState) => void): void {
  const step = (state: TransactionState, effects: string[], left: number): void => {
    see(effects, state);
    if (left === 0 || state === 'ended') return;
    for (const event of EVENTS) {
      const { next, effects: more } = transactionTransition(state, event);
      step(next, [...effects, ...more], left - 1);
    }
  };
  step('running', [], length);
}

test('transaction: on no path a failure counts twice, or its end is told twice as a failure', () => {
  walk(6, (effects) => {
    const times = (effect: string): number => effects.filter((each) => each === effect).length;
    assert(times('count_failure') <= 1, effects.join());
    // Once that the engine refused a part, and once that all went well after all.
    assert(times('finish') <= 2, effects.join());
  });
});

test('transaction: one that relapses is never told again', () => {
  const { effects } = transactionTransition(transactionTransition('ended', 'entry_failed').next, 'all_applied');
  assert(!effects.includes('finish'));
});
