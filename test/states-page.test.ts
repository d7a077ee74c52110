import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type EntryEvent, type EntryState, entryTransition } from '../src/client/desired/entry-state.js';
import { type EngineEvent, type EngineState, engineTransition } from '../src/client/reconcile/engine-state.js';
import {
  type TransactionEvent,
  type TransactionState,
  transactionTransition,
} from '../src/client/status/transactions.js';
import { candidateStep, type Verdict } from '../src/server/policy/gate/gate-rules.js';
import { read } from './support/repo-pages.js';

const READY = { kind: 'ready', body: undefined, error: undefined } as const;
const ENTRY: Record<EntryState['kind'], EntryState> = {
  fetching: { kind: 'fetching', error: undefined },
  ready: READY,
  applied: { kind: 'applied' },
  blocked: { kind: 'blocked', error: 'e' },
  gone: { kind: 'gone' },
};
const ENTRY_EVENTS: Record<EntryEvent['kind'], true> = {
  ...{ listed: true, arrived: true, unchanged: true, fetch_failed: true, written: true, refused: true },
  ...{ write_failed: true, withheld: true, admitted: true, unlisted: true, dropped: true, kept: true },
};
const MEMBERS = {
  asks: true,
  resumes: true,
  body: undefined,
  fetched: undefined,
  error: 'e',
  of: READY,
  keepsBody: true,
};
const ENGINE: Record<EngineState, true> = { starting: true, filling: true, holding: true, doubtful: true, gone: true };
const ENGINE_EVENTS: Record<EngineEvent, true> = {
  ...{ started: true, ended: true, resumed: true, fill: true, filled: true, settled: true, failed: true },
  ...{ marked: true, unmarked: true, silent: true },
};
const UPDATE: Record<TransactionState, true> = {
  ...{ running: true, failing: true, refused: true, ended: true, relapsed: true },
};
const UPDATE_EVENTS: Record<TransactionEvent, true> = {
  ...{ entry_failed: true, all_applied: true, some_refused: true, some_left: true, nothing_to_do: true },
};
const COMMIT = { found: true, waiting: true, served: true, noted: true, refused: true };
const COMMIT_EVENTS: Record<Verdict, true> = { good: true, bad: true, unsure: true };
const COMMIT_STATES = { serve: 'served', serve_noted: 'noted', refuse: 'refused', wait: 'waiting' } as const;

diagram('An entry', ENTRY, ENTRY_EVENTS, (from, kind) =>
  [true, false].map((isHeld) => entryTransition(ENTRY[from], { ...MEMBERS, isHeld, kind } as EntryEvent).state.kind),
);
diagram('The engine', ENGINE, ENGINE_EVENTS, (from, event) => [engineTransition(from, event).next]);
diagram('A commit at the gate', COMMIT, COMMIT_EVENTS, nextOfCommit);
diagram('A transaction', UPDATE, UPDATE_EVENTS, (from, event) => [transactionTransition(from, event).next]);

/** With `warn` no commit waits. */
function nextOfCommit(from: keyof typeof COMMIT, verdict: Verdict): (keyof typeof COMMIT)[] {
  if (from !== 'found' && from !== 'waiting') return [];
  const modes = from === 'found' ? (['on', 'warn'] as const) : (['on'] as const);
  return modes.map((mode) => COMMIT_STATES[candidateStep(mode, verdict)]);
}

/** An arrow for each change of state, with each event that causes it, and no other. */
function diagram<S extends string, E extends string>(
  heading: string,
  states: Record<S, unknown>,
  events: Record<E, unknown>,
  next: (from: S, event: E) => readonly S[],
): void {
  test(`the diagram of docs/internals/states.md has the arrows of the table: ${heading}`, () => {
    const [, section = ''] = read('docs/internals/states.md').split(`## ${heading}\n`);
    const [, mermaid = ''] = section.split('```');
    const arrows = [...mermaid.matchAll(/^ *(\w+) --> (\w+): (.*)$/gm)].flatMap(([, from = '', to = '', label = '']) =>
      (label.match(/\w+/g) ?? []).filter((word) => word in events).map((event) => `${from} --> ${to}: ${event}`),
    );
    const changes = (Object.keys(states) as S[]).flatMap((from) =>
      (Object.keys(events) as E[]).flatMap((event) =>
        next(from, event).flatMap((to) => (to === from ? [] : [`${from} --> ${to}: ${event}`])),
      ),
    );
    assert.deepEqual(arrows.toSorted(), [...new Set(changes)].toSorted());
  });
}
