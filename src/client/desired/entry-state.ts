import type { Body } from '../../wire/json-node.js';

/**
 * The states of an entry as a table, without I/O (docs/internals/states.md). `DesiredEntries` hands
 * events in and has the effects carried out, by the fetcher on the source and by the writer on the
 * engine. Only `EntryTable` changes an entry.
 *
 *     fetching --arrived--> ready --written--> applied     any --dropped--> gone
 *         `----unchanged----------------------^
 *     ready --refused--> blocked --admitted--> applied --withheld--> blocked
 *
 * A `ready` entry has newer content than the engine: only the writer's verdict on that content ends
 * the state, so that content that arrives during a write is not lost.
 */
export type EntryState =
  /** Its content is being fetched, or will be after a failure. */
  | { readonly kind: 'fetching'; readonly error: string | undefined }
  /** Its content is here (none for DELETE), and waits for the engine. */
  | ReadyState
  /** The engine holds it. */
  | { readonly kind: 'applied'; readonly error?: undefined }
  /** The engine refuses it until policy or data change. */
  | { readonly kind: 'blocked'; readonly error: string }
  /** It is no longer desired, or was superseded. */
  | { readonly kind: 'gone'; readonly error?: undefined };

/**
 * Content that waits for the engine. The writer's verdict names the state itself: newer content is
 * another state.
 */
export interface ReadyState {
  readonly kind: 'ready';
  readonly body: Body | undefined;
  readonly error: string | undefined;
}

/** Hash and validators of a content that was fetched. */
export interface FetchedContent {
  readonly hash: string;
  readonly etag?: string | undefined;
  readonly lastModified?: string | undefined;
}

/** What happens to an entry. */
export type EntryEvent =
  /**
   * An update or the configuration names it again. `asks`: its content is wanted anew; `resumes`:
   * its polls have stopped.
   */
  | { readonly kind: 'listed'; readonly asks: boolean; readonly resumes: boolean }
  /** Its content is here; none for DELETE. `fetched` is undefined for inline content. */
  | { readonly kind: 'arrived'; readonly body: Body | undefined; readonly fetched: FetchedContent | undefined }
  /** The source has what was fetched last, maybe with other validators. */
  | { readonly kind: 'unchanged'; readonly fetched: FetchedContent | undefined }
  | { readonly kind: 'fetch_failed'; readonly error: string }
  /**
   * The engine took the content of this state. `keepsBody`: the layer holds its body from now on.
   */
  | { readonly kind: 'written'; readonly of: ReadyState; readonly keepsBody: boolean }
  /**
   * The engine refuses the content of this state. `keepsBody`: the withheld layer holds its body
   * from now on.
   */
  | { readonly kind: 'refused'; readonly of: ReadyState; readonly error: string; readonly keepsBody: boolean }
  /** A write ended without a verdict. */
  | { readonly kind: 'write_failed'; readonly error: string }
  /** A policy is in the way of what the engine held. */
  | { readonly kind: 'withheld'; readonly error: string }
  /** The engine takes what it refused before. */
  | { readonly kind: 'admitted' }
  /** The configuration lists it no longer, and does not say that it is gone. */
  | { readonly kind: 'unlisted'; readonly isHeld: boolean }
  /** It is no longer desired, or a later one replaces it. */
  | { readonly kind: 'dropped' }
  /** The engine could not be rid of it: it stays until somebody tries again. */
  | { readonly kind: 'kept' };

/** What has to be done, in order, for the next state to be true. */
export type EntryEffect =
  /** Count for the transaction that lists it. */
  | 'join'
  /** Tell that the state is another one. */
  | 'tell_settled'
  | 'tell_forgotten'
  /** Get its content. */
  | 'fetch'
  | 'stop_reads'
  /** Hand its content to the engine. */
  | 'write'
  /** Others may have waited for it: look what can be written. */
  | 'recheck';

/** The next state. `discard` is a body that nobody holds any more. */
export interface EntryOutcome {
  readonly state: EntryState;
  readonly effects: readonly EntryEffect[];
  readonly discard?: Body | undefined;
}

const APPLIED: EntryState = { kind: 'applied' };
const GONE: EntryState = { kind: 'gone' };

/** The next state of an entry and what has to be done. Nothing is emitted for one that is gone. */
export function entryTransition(state: EntryState, event: EntryEvent): EntryOutcome {
  if (state.kind === 'gone') return afterGone(state, event);
  switch (event.kind) {
    case 'listed': {
      const asks = event.asks || state.kind === 'fetching' || (state.kind === 'applied' && event.resumes);
      if (state.kind === 'applied' && !asks) return stay(state);
      const tell: readonly EntryEffect[] = state.kind === 'blocked' ? ['join', 'tell_settled'] : ['join'];
      return { state, effects: asks ? [...tell, 'fetch'] : tell };
    }
    case 'arrived': {
      const next: EntryState = { kind: 'ready', body: event.body, error: undefined };
      return { state: next, effects: ['write', 'tell_settled'], discard: bodyOf(state) };
    }
    case 'unchanged':
      return state.kind === 'fetching' || state.kind === 'applied' ? settle(state, APPLIED) : stay(state);
    case 'fetch_failed':
      if (state.kind === 'blocked') return stay(state);
      return settle(state, state.kind === 'ready' ? { ...state, error: event.error } : failed(event.error));
    case 'written':
      return state === event.of ? { ...settle(state, APPLIED), ...unkept(event) } : stay(state);
    case 'refused':
      return state === event.of ? { ...settle(state, blocked(event.error)), ...unkept(event) } : stay(state);
    case 'write_failed':
      return state.kind === 'ready' ? settle(state, { ...state, error: event.error }) : stay(state);
    case 'withheld':
      return state.kind === 'ready' ? stay(state) : settle(state, blocked(event.error));
    case 'admitted':
      return state.kind === 'blocked' ? settle(state, APPLIED) : stay(state);
    case 'unlisted': {
      // What the engine refuses is not held, and nobody would make room for it.
      if ((state.kind === 'fetching' || state.kind === 'blocked') && !event.isHeld) return drop(state);
      const { effects, ...outcome } = state.kind === 'fetching' ? settle(state, APPLIED) : stay(state);
      return { ...outcome, effects: ['stop_reads', ...effects] };
    }
    case 'dropped':
      return drop(state);
    case 'kept':
      return stay(state);
  }
}

function afterGone(state: EntryState, event: EntryEvent): EntryOutcome {
  if (event.kind === 'kept') return { state: APPLIED, effects: [] };
  return event.kind === 'arrived' ? { ...stay(state), discard: event.body } : stay(state);
}

function stay(state: EntryState): EntryOutcome {
  return { state, effects: [] };
}

function settle(before: EntryState, state: EntryState): EntryOutcome {
  const isAwaited = before.kind === 'fetching' && state.kind !== 'fetching';
  return { state, effects: isAwaited ? ['tell_settled', 'recheck'] : ['tell_settled'] };
}

function drop(state: EntryState): EntryOutcome {
  const effects: readonly EntryEffect[] = ['stop_reads', 'tell_forgotten'];
  return {
    state: GONE,
    effects: state.kind === 'fetching' ? [...effects, 'recheck'] : effects,
    discard: bodyOf(state),
  };
}

function failed(error: string): EntryState {
  return { kind: 'fetching', error };
}

function blocked(error: string): EntryState {
  return { kind: 'blocked', error };
}

function bodyOf(state: EntryState): Body | undefined {
  return state.kind === 'ready' ? state.body : undefined;
}

function unkept({ of, keepsBody }: { of: ReadyState; keepsBody: boolean }): Pick<EntryOutcome, 'discard'> {
  return keepsBody ? {} : { discard: of.body };
}
