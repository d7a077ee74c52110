import type { ReadonlySignal } from '@preact/signals';
import type { RefObject } from 'preact';
import { parseSort, type Sort, type SortKey, sortText } from '../../../../src/fleet-rules/rank.js';
import { HEALTH_WORDS, POLICY_WORDS } from '../../../../src/fleet-rules/state-words.js';
import { integer } from '../../../../src/fleet-rules/words.js';
import type { App } from '../../app';
import { Icon } from '../../parts/icon';

interface Column {
  readonly name: string;
  readonly sort: SortKey;
  readonly text: string;
  /**
   * Words of the column, one a line: it is as wide as the widest of them, whatever its rows say
   * now.
   */
  readonly widest?: string;
  /** Such that stand behind an icon. */
  readonly marked?: string;
}

const WORST = 'State, worst first';
const linesOf = (words: Readonly<Record<string, { readonly word: string }>>): string =>
  Object.values(words)
    .map(({ word }) => word)
    .join('\n');

/** The columns; they leave at smaller widths (fleet.css). */
const COLUMNS: readonly Column[] = [
  { name: 'c-client', sort: 'client', text: 'Client' },
  { name: 'c-labels', sort: 'labels', text: 'Labels' },
  { name: 'c-state', sort: 'worst', text: 'State', marked: linesOf(POLICY_WORDS), widest: WORST },
  { name: 'c-since', sort: 'since', text: 'Since', widest: '119 min\n999 ms' },
  { name: 'c-held', sort: 'held', text: 'Holds', widest: '0000000 another one' },
  { name: 'c-data', sort: 'data', text: 'Data' },
  { name: 'c-health', sort: 'health', text: 'Health', marked: 'Unhealthy\nNot ready', widest: linesOf(HEALTH_WORDS) },
  { name: 'c-engine', sort: 'engine', text: 'Engine' },
  { name: 'c-instance', sort: 'instance', text: 'Instance' },
  { name: 'c-error', sort: 'error', text: 'Last error' },
];

interface HeadsProps {
  readonly router: App['router'];
  readonly sort: ReadonlySignal<Sort>;
  readonly labels: ReadonlySignal<readonly string[]>;
  /** The end of the log. */
  readonly end: ReadonlySignal<number>;
  readonly heads: RefObject<HTMLDivElement | null>;
}

/** The heads of the columns: each sorts, and a second time the other way. */
export function Heads({ router, sort, labels, end, heads }: HeadsProps) {
  const { key, reversed } = sort.value;
  const sortBy = (column: Column): void => {
    const next = sortText({ key: column.sort, reversed: key === column.sort && !reversed });
    router.setQuery({ sort: next === sortText(parseSort(null)) ? undefined : next }, 'go');
  };
  return (
    <div role="row" class="fleet-line heads" aria-rowindex={1} ref={heads}>
      {COLUMNS.map((column) => {
        const isSorted = column.sort === key;
        return (
          <div
            key={column.name}
            role="columnheader"
            class={column.name}
            data-marked={column.marked}
            data-widest={column.name === 'c-data' ? `${integer(end.value)} 88+ behind` : column.widest}
            aria-sort={isSorted ? (reversed ? 'descending' : 'ascending') : undefined}
          >
            <button type="button" class={isSorted ? 'sorted' : undefined} onClick={() => sortBy(column)}>
              {textOf(column, { isSorted, reversed, labels: labels.value })}
              {isSorted && <Icon name={reversed ? 'up' : 'down'} />}
            </button>
          </div>
        );
      })}
    </div>
  );
}

function textOf(
  { name, text }: Column,
  { isSorted, reversed, labels }: { isSorted: boolean; reversed: boolean; labels: readonly string[] },
): string {
  if (name === 'c-state' && isSorted) return reversed ? 'State, best first' : WORST;
  if (name === 'c-labels' && labels.length > 0) {
    const joined = labels.map(shortLabel).join(', ');
    return joined.charAt(0).toUpperCase() + joined.slice(1);
  }
  return text;
}

/** `app.kubernetes.io/name` is headed `name`. */
function shortLabel(label: string): string {
  return label.split('/').at(-1) ?? label;
}
