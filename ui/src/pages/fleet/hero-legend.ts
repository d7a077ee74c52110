import { DATA_WORDS, POLICY_WORDS, type StateWord } from '../../../../src/fleet-rules/state-words.js';
import { integer } from '../../../../src/fleet-rules/words.js';
import type { IconName } from '../../parts/icon';
import type { LegendItem } from '../../parts/legend';
import { dataIcon, policyIcon, toneColour } from '../../parts/state';
import { linkTo, type Route } from '../../router';

/** The states of a bar in its order. */
const POLICY = ['acknowledged', 'told', 'not_told', 'away', 'does_not_say', 'refused'];
const DATA = ['at_head', 'behind', 'away', 'does_not_say', 'failing', 'blocked'];
/** These stand there only while a client is in them: most fleets never have one. */
const RARE: ReadonlySet<string> = new Set(['away', 'does_not_say', 'failing']);

type Counts = Readonly<Record<string, number>>;

/**
 * What the bar of policy shows. Each item filters the list by its state; the one that does so
 * already takes the filter away.
 */
export function policyLegend(counts: Counts, route: Route): LegendItem[] {
  return legend(POLICY, { counts, route, field: 'state', words: POLICY_WORDS, icon: policyIcon });
}

/** What the bar of data shows, as {@link policyLegend}. */
export function dataLegend(counts: Counts, route: Route): LegendItem[] {
  return legend(DATA, { counts, route, field: 'data', words: DATA_WORDS, icon: dataIcon });
}

/** A bar in words: `Policy: 61 acknowledged, 46 told`. */
export function barLabel(name: string, items: readonly LegendItem[]): string {
  const some = items.filter(({ clients }) => clients > 0);
  return `${name}: ${some.map(({ clients, word }) => `${integer(clients)} ${word.toLowerCase()}`).join(', ') || 'nobody'}`;
}

interface LegendFacts {
  readonly counts: Counts;
  readonly route: Route;
  readonly field: string;
  readonly words: Readonly<Record<string, StateWord>>;
  readonly icon: (state: string) => IconName;
}

function legend(states: readonly string[], facts: LegendFacts): LegendItem[] {
  const { counts, route, field, words, icon } = facts;
  const query = Object.fromEntries(route.query);
  return states
    .filter((state) => !RARE.has(state) || (counts[state] ?? 0) > 0)
    .map((state) => {
      const { word, tone } = words[state] ?? { word: state, tone: 'quiet' as const };
      const filter = `${field}:${state}`;
      const isOn = query.q === filter;
      return {
        icon: icon(state),
        tone: toneColour(tone),
        clients: counts[state] ?? 0,
        word,
        href: linkTo('fleet', { query: { ...query, q: isOn ? undefined : filter } }),
        isOn,
      };
    });
}
