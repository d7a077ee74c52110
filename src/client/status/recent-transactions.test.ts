import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RecentTransactions } from './recent-transactions.js';
import type { DataTransaction, TransactionEffect } from './transactions.js';

let atMs = 1000;

function transaction(id: string, more: Partial<DataTransaction> = {}): DataTransaction {
  const update = { id, reason: '', callbacks: [], isLoad: false, seq: 7 };
  return {
    update,
    startedMs: 900,
    joined: 1,
    left: 0,
    replaced: 0,
    withheld: new Set(),
    paths: new Set(['/a']),
    ...more,
  };
}

/** Tells of effects, each one millisecond after the one before. */
function data(
  recent: RecentTransactions,
  one: DataTransaction,
  ...effects: [TransactionEffect, error?: string][]
): void {
  for (const [effect, error = ''] of effects) {
    recent.onData(effect, { id: one.update.id, success: error === '', error, actions: [], atMs: ++atMs }, one);
  }
}

describe('the last transactions', () => {
  it('of data are told with their outcome, one line each, however often it is tried', () => {
    const TABLE: [string, Partial<DataTransaction>, [TransactionEffect, string?][], string, string | null][] = [
      ['applied', {}, [['record'], ['finish']], 'applied', null],
      [
        'refused',
        {},
        [
          ['record', 'E'],
          ['finish', 'E'],
        ],
        'refused',
        'E',
      ],
      [
        'failing',
        {},
        [
          ['count_failure', 'E'],
          ['record', 'E'],
          ['record', 'F'],
        ],
        'failing',
        'F',
      ],
      ['failing, then applied', {}, [['count_failure', 'E'], ['record', 'E'], ['record'], ['finish']], 'applied', null],
      ['superseded', { left: 1 }, [['end']], 'superseded', null],
      ['replaced', { replaced: 1 }, [['record'], ['finish']], 'superseded', null],
      ['partly replaced', { joined: 2, replaced: 1 }, [['record'], ['finish']], 'applied', null],
      ['withheld', { withheld: new Set(['a']) }, [['record'], ['finish']], 'withheld', null],
      ['nothing to do', { joined: 0, paths: new Set() }, [['end']], 'unchanged', null],
    ];
    for (const [what, more, effects, outcome, error] of TABLE) {
      const recent = new RecentTransactions();
      data(recent, transaction('u', more), ...effects);
      const told = recent.list();
      assert.equal(told.length, 1, what);
      assert.deepEqual([told[0]?.outcome, told[0]?.error, told[0]?.seq], [outcome, error, 7], what);
    }
  });

  it('of policy are one for each commit and outcome, with what changed', () => {
    const recent = new RecentTransactions();
    const files = ['a', 'b', 'c', 'd', 'e', 'f'];
    recent.policy({ id: 'one', outcome: 'applied', startedMs: 0, wrote: files });
    recent.policy({ id: 'two', outcome: 'failing', startedMs: 0, error: 'E' });
    recent.policy({ id: 'two', outcome: 'failing', startedMs: 0, error: 'E' });
    recent.policy({ id: 'two', outcome: 'refused', startedMs: 0, error: 'F' });
    const told = recent
      .list()
      .map(({ id, outcome, wrote, wrote_total, error }) => [id, outcome, wrote, wrote_total, error]);
    assert.deepEqual(new Set(told.map(String)), new Set(['one,applied,a,b,c,d,e,6,', 'two,refused,,0,F']));
  });

  it('are twenty at most, the newest first; loads that find nothing new are one', () => {
    const recent = new RecentTransactions();
    for (let index = 0; index < 50; index++) data(recent, transaction(`u${index}`), ['finish']);
    for (let index = 0; index < 5; index++) {
      const load = transaction('initial-load', { joined: 0 });
      data(recent, { ...load, update: { ...load.update, isLoad: true } }, ['end']);
    }
    const told = recent.list();
    assert.deepEqual([told.length, told[0]?.id, told[1]?.id, told.at(-1)?.id], [20, 'initial-load', 'u49', 'u31']);
  });
});
