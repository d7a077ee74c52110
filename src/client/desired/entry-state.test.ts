import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Body, bodyOfText } from '../../wire/json-node.js';
import { type EntryEvent, type EntryState, entryTransition, type ReadyState } from './entry-state.js';

type StateKind = EntryState['kind'];
type EventKind = EntryEvent['kind'];

const [OLD, NEW]: Body[] = [bodyOfText('"old"'), bodyOfText('"new"')];
const READY: ReadyState = { kind: 'ready', body: OLD, error: undefined };
const EARLIER: ReadyState = { kind: 'ready', body: bodyOfText('"earlier"'), error: undefined };

const STATES: Record<StateKind, EntryState> = {
  fetching: { kind: 'fetching', error: undefined },
  ready: READY,
  applied: { kind: 'applied' },
  blocked: { kind: 'blocked', error: 'a rule' },
  gone: { kind: 'gone' },
};

/** Each event, in all the forms that make a difference. */
const EVENTS = {
  listed: { kind: 'listed', asks: false, resumes: false },
  'listed, asks': { kind: 'listed', asks: true, resumes: false },
  'listed, resumes': { kind: 'listed', asks: false, resumes: true },
  arrived: { kind: 'arrived', body: NEW, fetched: undefined },
  'arrived, no body': { kind: 'arrived', body: undefined, fetched: undefined },
  unchanged: { kind: 'unchanged', fetched: undefined },
  fetch_failed: { kind: 'fetch_failed', error: 'no answer' },
  written: { kind: 'written', of: READY, keepsBody: true },
  'written, a patch': { kind: 'written', of: READY, keepsBody: false },
  'written, what was here before': { kind: 'written', of: EARLIER, keepsBody: true },
  refused: { kind: 'refused', of: READY, error: 'refused', keepsBody: true },
  'refused, a patch': { kind: 'refused', of: READY, error: 'refused', keepsBody: false },
  'refused, what was here before': { kind: 'refused', of: EARLIER, error: 'refused', keepsBody: true },
  write_failed: { kind: 'write_failed', error: 'away' },
  withheld: { kind: 'withheld', error: 'refused' },
  admitted: { kind: 'admitted' },
  'unlisted, held': { kind: 'unlisted', isHeld: true },
  'unlisted, not held': { kind: 'unlisted', isHeld: false },
  dropped: { kind: 'dropped' },
  kept: { kind: 'kept' },
} as const satisfies Record<string, EntryEvent>;
type Case = keyof typeof EVENTS;

/**
 * The table of docs/internals/states.md, every cell of it: leaving one out does not compile. A cell
 * is the next state (with its error), what has to be done, and the body that is discarded. `-`:
 * nothing happens.
 */
const EXPECTED: Record<Case, Record<StateKind, string>> = {
  listed: {
    fetching: 'fetching: join fetch',
    ready: 'ready: join',
    applied: '-',
    blocked: 'blocked (a rule): join tell_settled',
    gone: '-',
  },
  'listed, asks': {
    fetching: 'fetching: join fetch',
    ready: 'ready: join fetch',
    applied: 'applied: join fetch',
    blocked: 'blocked (a rule): join tell_settled fetch',
    gone: '-',
  },
  'listed, resumes': {
    fetching: 'fetching: join fetch',
    ready: 'ready: join',
    applied: 'applied: join fetch',
    blocked: 'blocked (a rule): join tell_settled',
    gone: '-',
  },
  arrived: {
    fetching: 'ready "new": write tell_settled',
    ready: 'ready "new": write tell_settled, discards "old"',
    applied: 'ready "new": write tell_settled',
    blocked: 'ready "new": write tell_settled',
    gone: 'gone: , discards "new"',
  },
  'arrived, no body': {
    fetching: 'ready none: write tell_settled',
    ready: 'ready none: write tell_settled, discards "old"',
    applied: 'ready none: write tell_settled',
    blocked: 'ready none: write tell_settled',
    gone: '-',
  },
  unchanged: {
    fetching: 'applied: tell_settled recheck',
    ready: '-',
    applied: 'applied: tell_settled',
    blocked: '-',
    gone: '-',
  },
  fetch_failed: {
    fetching: 'fetching (no answer): tell_settled',
    ready: 'ready "old" (no answer): tell_settled',
    applied: 'fetching (no answer): tell_settled',
    blocked: '-',
    gone: '-',
  },
  written: { ...never(), ready: 'applied: tell_settled' },
  'written, a patch': { ...never(), ready: 'applied: tell_settled, discards "old"' },
  'written, what was here before': never(),
  refused: { ...never(), ready: 'blocked (refused): tell_settled' },
  'refused, a patch': { ...never(), ready: 'blocked (refused): tell_settled, discards "old"' },
  'refused, what was here before': never(),
  write_failed: { ...never(), ready: 'ready "old" (away): tell_settled' },
  withheld: {
    fetching: 'blocked (refused): tell_settled recheck',
    ready: '-',
    applied: 'blocked (refused): tell_settled',
    blocked: 'blocked (refused): tell_settled',
    gone: '-',
  },
  admitted: { ...never(), blocked: 'applied: tell_settled' },
  'unlisted, held': {
    fetching: 'applied: stop_reads tell_settled recheck',
    ready: 'ready: stop_reads',
    applied: 'applied: stop_reads',
    blocked: 'blocked (a rule): stop_reads',
    gone: '-',
  },
  'unlisted, not held': {
    fetching: 'gone: stop_reads tell_forgotten recheck',
    ready: 'ready: stop_reads',
    applied: 'applied: stop_reads',
    blocked: 'gone: stop_reads tell_forgotten',
    gone: '-',
  },
  dropped: {
    fetching: 'gone: stop_reads tell_forgotten recheck',
    ready: 'gone: stop_reads tell_forgotten, discards "old"',
    applied: 'gone: stop_reads tell_forgotten',
    blocked: 'gone: stop_reads tell_forgotten',
    gone: '-',
  },
  kept: { ...never(), gone: 'applied: ' },
};

/** An event that does nothing in any state. */
function never(): Record<StateKind, string> {
  return { fetching: '-', ready: '-', applied: '-', blocked: '-', gone: '-' };
}

/** What an event does in a state, in the words of the table. */
function cell(state: EntryState, event: EntryEvent): string {
  const { state: next, effects, discard } = entryTransition(state, event);
  if (next === state && effects.length === 0 && discard === undefined) return '-';
  const body = next.kind === 'ready' && next !== state ? ` ${next.body?.text() ?? 'none'}` : '';
  const error = next.error === undefined ? '' : ` (${next.error})`;
  const discarded = discard === undefined ? '' : `, discards ${discard.text()}`;
  return `${next.kind}${body}${error}: ${effects.join(' ')}${discarded}`;
}

/** Bodies that somebody still has to discard: of a state, and of an event. */
function bodies(state: EntryState, event?: EntryEvent): Body[] {
  const own = state.kind === 'ready' && state.body !== undefined ? [state.body] : [];
  return event?.kind === 'arrived' && event.body !== undefined ? [...own, event.body] : own;
}

describe('an entry', () => {
  for (const [name, event] of Object.entries(EVENTS)) {
    it(`${name}: what the table says, in every state`, () => {
      for (const [kind, state] of Object.entries(STATES)) {
        assert.equal(cell(state, event), EXPECTED[name as Case][kind as StateKind], kind);
      }
    });
  }

  it('has each event in the table', () => {
    const named: Record<EventKind, true> = {
      ...{ listed: true, arrived: true, unchanged: true, fetch_failed: true, written: true, refused: true },
      ...{ write_failed: true, withheld: true, admitted: true, unlisted: true, dropped: true, kept: true },
    };
    const kinds = Object.values(EVENTS).map(({ kind }) => kind);
    assert.deepEqual([...new Set(kinds)].sort(), Object.keys(named).sort());
  });

  it('keeps, discards or hands over each body exactly once', () => {
    for (const event of Object.values(EVENTS)) {
      for (const state of Object.values(STATES)) {
        const { state: next, discard } = entryTransition(state, event);
        const isVerdict = event.kind === 'written' || event.kind === 'refused';
        const handedOver = isVerdict && event.of === state && event.keepsBody && event.of.body ? [event.of.body] : [];
        const after = [...bodies(next), ...(discard === undefined ? [] : [discard]), ...handedOver];
        assert.deepEqual(new Set(after), new Set(bodies(state, event)), `${state.kind}, ${event.kind}`);
        assert.equal(after.length, new Set(after).size, `${state.kind}, ${event.kind}`);
      }
    }
  });

  it('tells nobody of what becomes of it once it is gone', () => {
    for (const event of Object.values(EVENTS))
      assert.deepEqual(entryTransition(STATES.gone, event).effects, [], event.kind);
  });

  it('has others looked at again when it is no longer fetched, as a patch may wait for it', () => {
    for (const event of Object.values(EVENTS)) {
      for (const state of Object.values(STATES)) {
        const { state: next, effects } = entryTransition(state, event);
        const isAwaited = state.kind === 'fetching' && next.kind !== 'fetching';
        assert.equal(
          effects.includes('recheck') || effects.includes('write'),
          isAwaited || (event.kind === 'arrived' && state.kind !== 'gone'),
        );
      }
    }
  });
});
