import type { DataStanding, HealthStanding, PolicyStanding } from '../wire/fleet.js';
import { own } from './names-of-others.js';
import { integer } from './words.js';

/** How much a state asks for a look: `bad` and `warn` have colour and weight, the rest is quiet. */
export type Tone = 'good' | 'moving' | 'quiet' | 'warn' | 'bad';

/** A state as people read it. */
export interface StateWord {
  readonly word: string;
  readonly tone: Tone;
}

export const POLICY_WORDS: Readonly<Record<PolicyStanding, StateWord>> = {
  acknowledged: { word: 'Acknowledged', tone: 'good' },
  told: { word: 'Told', tone: 'moving' },
  not_told: { word: 'Not told', tone: 'quiet' },
  refused: { word: 'Refused', tone: 'bad' },
  away: { word: 'Away', tone: 'warn' },
  does_not_say: { word: 'Does not say', tone: 'quiet' },
  none: { word: 'No policy', tone: 'quiet' },
};

export const DATA_WORDS: Readonly<Record<DataStanding, StateWord>> = {
  at_head: { word: 'At head', tone: 'good' },
  behind: { word: 'Behind', tone: 'moving' },
  failing: { word: 'Failing', tone: 'bad' },
  blocked: { word: 'Blocked', tone: 'bad' },
  away: { word: 'Away', tone: 'warn' },
  does_not_say: { word: 'Does not say', tone: 'quiet' },
  none: { word: 'No data', tone: 'quiet' },
};

export const HEALTH_WORDS: Readonly<Record<HealthStanding, StateWord>> = {
  healthy: { word: 'Healthy', tone: 'quiet' },
  not_ready: { word: 'Not ready', tone: 'warn' },
  unhealthy: { word: 'Unhealthy', tone: 'bad' },
  new: { word: 'New', tone: 'quiet' },
  was_healthy: { word: 'Was healthy', tone: 'quiet' },
  was_unhealthy: { word: 'Was unhealthy', tone: 'warn' },
  does_not_say: { word: 'Does not say', tone: 'quiet' },
};

/** The word of a state, and for one that a newer server knows the state itself. */
export function stateWord(words: Readonly<Record<string, StateWord>>, state: string): StateWord {
  return own(words, state) ?? { word: state.replaceAll('_', ' '), tone: 'quiet' };
}

/**
 * How a commit of the branch is shown: `held` is a tick, and only what a client is known to hold,
 * or to have held, has one.
 */
export interface CommitLook {
  readonly kind: 'held' | 'under_way' | 'refused' | 'open';
  /** Empty: the kind says all. */
  readonly word: string;
}

interface CommitFacts {
  /** Of `GET /policy/source`. */
  readonly state: string;
  readonly isMoving: boolean;
  /**
   * Clients by state, as of its change; undefined: nothing is known of them, as of an old commit.
   */
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
