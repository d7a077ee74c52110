import type { ReadonlySignal } from '@preact/signals';
import type { RefObject } from 'preact';
import { parseSort, type Sort, type SortKey, sortText } from '../../../../src/fleet/rank.js';
import type { App } from '../../app';
import { Icon } from '../../parts/icon';

interface Column {
  readonly name: string;
  readonly sort: SortKey;
  readonly text: string;
}

/** The columns; they leave at smaller widths (fleet.css). */
const COLUMNS: readonly Column[] = [
  { name: 'c-client', sort: 'client', text: 'Client' },
  { name: 'c-labels', sort: 'labels', text: 'Labels' },
  { name: 'c-state', sort: 'worst', text: 'State' },
  { name: 'c-since', sort: 'since', text: 'Since' },
  { name: 'c-held', sort: 'held', text: 'Holds' },
  { name: 'c-data', sort: 'data', text: 'Data' },
  { name: 'c-health', sort: 'health', text: 'Health' },
  { name: 'c-engine', sort: 'engine', text: 'Engine' },
  { name: 'c-instance', sort: 'instance', text: 'Instance' },
  { name: 'c-error', sort: 'error', text: 'Last error' },
];

interface HeadsProps {
  readonly router: App['router'];
  readonly sort: ReadonlySignal<Sort>;
  readonly labels: ReadonlySignal<readonly string[]>;
  readonly heads: RefObject<HTMLDivElement | null>;
}

/** The heads of the columns: each sorts, and a second time the other way. */
export function Heads({ router, sort, labels, heads }: HeadsProps) {
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
  if (name === 'c-state' && isSorted) return reversed ? 'State, best first' : 'State, worst first';
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
