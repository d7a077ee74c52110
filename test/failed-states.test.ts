import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { type EngineEvent, type EngineState, engineTransition } from '../src/client/reconcile/engine-state.js';
import {
  type TransactionEvent,
  type TransactionState,
  transactionTransition,
} from '../src/client/status/transactions.js';
import { repoRoot } from './support/repo.js';

/** A way into a failure must have a way out, also where there is nothing to do: each table of states is walked for that. */

/** The modules with a table of states, and where its failures are walked. */
const TABLES: Readonly<Record<string, string>> = {
  'client/desired/entry-state.ts': 'src/client/status/recovery.property.test.ts',
  'client/status/transactions.ts': 'here, and src/client/status/recovery.property.test.ts',
  'client/reconcile/engine-state.ts': 'here',
  'client/offline/connectivity.ts': 'none: it has no state of failure',
  'client/reconcile/server-said.ts': 'none: it says what to do, and keeps nothing',
};

/** A table of states: a function of a state and an event, or a record of states. */
const TABLE =
  /export function \w*[tT]ransition\w*\(|export function actionFor\(|: Record<\w+(?:State|Event), (?:Partial<)?Record</;

const ENGINE: Record<EngineState, true> = { starting: true, filling: true, holding: true, doubtful: true, gone: true };
const ENGINE_EVENTS: Record<EngineEvent, true> = {
  ...{ started: true, ended: true, resumed: true, fill: true, filled: true, settled: true, failed: true },
  ...{ marked: true, unmarked: true, silent: true },
};
const DATA_EVENTS: Record<TransactionEvent, true> = {
  ...{ entry_failed: true, all_applied: true, some_refused: true, some_left: true, nothing_to_do: true },
};

describe('states of failure', () => {
  it('are walked in every table of states that there is', () => {
    const src = join(repoRoot(), 'src');
    const found = readdirSync(src, { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts'))
      .filter((file) => TABLE.test(readFileSync(join(src, file), 'utf8')));
    assert.deepEqual(
      found.sort(),
      Object.keys(TABLES).sort(),
      'a table of states is not listed in test/failed-states.test.ts',
    );
  });

  it('of the engine: one that holds our state is shown as such, and wherever it is there is a way back to that', () => {
    const events = Object.keys(ENGINE_EVENTS) as EngineEvent[];
    type Shown = 'show_holding' | 'show_empty' | 'show_failure' | undefined;
    const seen = new Map<string, { readonly state: EngineState; readonly shown: Shown }>();
    const open: { state: EngineState; shown: Shown }[] = [
      { state: 'starting', shown: undefined },
      { state: 'gone', shown: undefined },
    ];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      const key = `${at.state} ${at.shown}`;
      if (seen.has(key)) continue;
      seen.set(key, at);
      for (const event of events) {
        const { next, effects } = engineTransition(at.state, event);
        const shown =
          effects.findLast((effect): effect is NonNullable<Shown> => effect.startsWith('show_')) ?? at.shown;
        open.push({ state: next, shown });
      }
    }
    assert.deepEqual(new Set([...seen.values()].map(({ state }) => state)), new Set(Object.keys(ENGINE)));
    const back: Record<EngineState, readonly EngineEvent[]> = {
      gone: ['started', 'fill', 'filled'],
      starting: ['fill', 'filled'],
      filling: ['filled'],
      doubtful: ['marked', 'settled'],
      holding: ['marked'],
    };
    for (const { state, shown } of seen.values()) {
      if (state === 'holding') assert.equal(shown, 'show_holding');
      let [now, last]: [EngineState, Shown] = [state, shown];
      for (const event of back[state]) {
        const { next, effects } = engineTransition(now, event);
        now = next;
        last = effects.findLast((effect): effect is NonNullable<Shown> => effect.startsWith('show_')) ?? last;
      }
      assert.deepEqual([now, last], ['holding', 'show_holding'], `${state}, shown as ${shown}`);
    }
  });

  it('of a transaction: each ends with what was recorded last, and a success takes the place of a failure', () => {
    const open: { state: TransactionState; failed: boolean; depth: number }[] = [
      { state: 'running', failed: false, depth: 0 },
    ];
    for (let at = open.pop(); at !== undefined; at = open.pop()) {
      const { next, effects } = transactionTransition(at.state, 'all_applied');
      assert.equal(next, 'ended');
      if (at.failed) assert(effects.includes('record'), `${at.state} ends well, and its failure stays the last word`);
      if (at.depth === 5) continue;
      for (const event of Object.keys(DATA_EVENTS) as TransactionEvent[]) {
        const after = transactionTransition(at.state, event);
        const isFailure = event === 'entry_failed' || event === 'some_refused';
        // The entries of a failure that left it are recorded with the transaction that they count for now.
        const hasLeft = event === 'some_left' || event === 'nothing_to_do';
        const failed = after.effects.includes('record') ? isFailure : at.failed && !hasLeft;
        open.push({ state: after.next, failed, depth: at.depth + 1 });
      }
    }
  });
});
