import { integer } from './words.js';

/** How a commit of the branch is shown: `held` is a tick, and only what a client is known to hold, or to have held, has one. */
export interface CommitLook {
  readonly kind: 'held' | 'under_way' | 'refused' | 'open';
  /** Empty: the kind says all. */
  readonly word: string;
}

interface CommitFacts {
  /** Of `GET /policy/source`. */
  readonly state: string;
  readonly isMoving: boolean;
  /** Clients by state, as of its change; undefined: nothing is known of them, as of an old commit. */
  readonly counts: Readonly<Record<string, number>> | undefined;
}

/** The first rule that holds decides. */
const RULES: readonly (readonly [holds: (facts: CommitFacts) => boolean, look: (facts: CommitFacts) => CommitLook])[] =
  [
    [({ state }) => state === 'refused', () => ({ kind: 'refused', word: 'not served' })],
    [
      ({ counts }) => (counts?.refused ?? 0) > 0,
      ({ counts, state }) => ({
        kind: 'refused',
        word: `${integer(counts?.refused)} ${state === 'head' ? 'refuse it' : 'refused it'}`,
      }),
    ],
    [({ isMoving }) => isMoving, () => ({ kind: 'under_way', word: 'under way' })],
    [({ state, counts }) => state === 'head' && (counts?.applied ?? 0) > 0, () => ({ kind: 'held', word: 'served' })],
    [({ state }) => state === 'head', () => ({ kind: 'open', word: 'served' })],
    [({ state, counts }) => state === 'served' && (counts?.applied ?? 0) > 0, () => ({ kind: 'held', word: '' })],
    [({ state }) => state === 'served', () => ({ kind: 'open', word: 'was served' })],
    [({ state }) => state === 'replaced', () => ({ kind: 'open', word: 'never served' })],
  ];

/** How a commit looks. Pure. */
export function commitLook(facts: CommitFacts): CommitLook {
  const rule = RULES.find(([holds]) => holds(facts));
  return rule?.[1](facts) ?? { kind: 'open', word: facts.state.replaceAll('_', ' ') };
}
