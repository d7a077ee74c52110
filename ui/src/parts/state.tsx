import type { ComponentChildren } from 'preact';
import {
  DATA_WORDS,
  HEALTH_WORDS,
  POLICY_WORDS,
  type StateWord,
  stateWord,
  type Tone,
} from '../../../src/fleet-rules/state-words.js';
import { Icon, type IconName } from './icon';

const POLICY_ICONS: Readonly<Record<string, IconName>> = {
  acknowledged: 'acknowledged',
  told: 'told',
  not_told: 'not_told',
  refused: 'refused',
  away: 'away',
  does_not_say: 'does_not_say',
};
const DATA_ICONS: Readonly<Record<string, IconName>> = {
  at_head: 'acknowledged',
  behind: 'told',
  failing: 'warning',
  blocked: 'refused',
  away: 'away',
  does_not_say: 'does_not_say',
};
const HEALTH_ICONS: Readonly<Record<string, IconName | undefined>> = {
  healthy: 'check',
  not_ready: 'warning',
  unhealthy: 'warning',
};
const COLOURS: Readonly<Record<Tone, string>> = {
  good: 'accent',
  moving: 'accent',
  quiet: 'muted',
  warn: 'amber',
  bad: 'red',
};

interface StateProps {
  readonly state: string;
  /** What stands behind the word, quietly. */
  readonly children?: ComponentChildren;
}

/** How a client stands to the policy: shape and word. */
export function PolicyState({ state, children }: StateProps) {
  return (
    <Tag word={stateWord(POLICY_WORDS, state)} icon={policyIcon(state)}>
      {children}
    </Tag>
  );
}

/** How a client stands to its data: shape and word. */
export function DataState({ state, children }: StateProps) {
  return (
    <Tag word={stateWord(DATA_WORDS, state)} icon={dataIcon(state)}>
      {children}
    </Tag>
  );
}

/**
 * How a client is: healthy is quiet, and has its check; who is away or says nothing has a word
 * only.
 */
export function HealthState({ state, children }: StateProps) {
  const word = stateWord(HEALTH_WORDS, state);
  const isLoud = word.tone === 'bad' || state === 'not_ready';
  return (
    <Tag word={word} icon={HEALTH_ICONS[state]} isMuted={!isLoud}>
      {children}
    </Tag>
  );
}

export function policyIcon(state: string): IconName {
  return POLICY_ICONS[state] ?? 'none';
}

export function dataIcon(state: string): IconName {
  return DATA_ICONS[state] ?? 'none';
}

/** The class for the colour of a tone. */
export function toneColour(tone: Tone): string {
  return COLOURS[tone];
}

interface TagProps {
  readonly word: StateWord;
  readonly icon: IconName | undefined;
  readonly isMuted?: boolean;
  readonly children?: ComponentChildren;
}

function Tag({ word, icon, isMuted = false, children }: TagProps) {
  return (
    <span class={isMuted ? 'st muted' : 'st'}>
      {icon !== undefined && <Icon name={icon} tone={toneColour(word.tone)} />}
      <span class="clip">
        {word.word}
        {children !== undefined && <span class="muted"> {children}</span>}
      </span>
    </span>
  );
}
