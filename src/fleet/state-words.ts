import type { DataStanding, HealthStanding, PolicyStanding } from '../wire/fleet.js';
import { own } from './names-of-others.js';

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
