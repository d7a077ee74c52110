import { computed, effect, type ReadonlySignal, signal, untracked } from '@preact/signals';
import { type Group, type Grouping, groupRows, labelNames, parseGrouping } from '../../../../src/fleet-rules/group.js';
import { own } from '../../../../src/fleet-rules/names-of-others.js';
import { needsLook, parseSort, type Sort, sortRows } from '../../../../src/fleet-rules/rank.js';
import { labelWord, parseSearch, swapWord } from '../../../../src/fleet-rules/search.js';
import type { FleetRow } from '../../../../src/wire/fleet.js';
import type { App } from '../../app';

/**
 * One line of the list. A row that has left the fleet keeps its last text until the order is made
 * anew; a group counts nobody then.
 */
export type Item =
  | { readonly kind: 'row'; readonly id: string; readonly row: ReadonlySignal<FleetRow> }
  | { readonly kind: 'group'; readonly grouping: Grouping; readonly group: Group };

/** Filters at hand, with the word that each puts into the search. */
export const QUICK_FILTERS = [
  { name: 'All', word: '', test: () => true },
  { name: 'Need a look', word: 'is:needing', test: needsLook },
  { name: 'Refused', word: 'state:refused', test: ({ policy }) => policy.state === 'refused' },
  { name: 'Told', word: 'state:told', test: ({ policy }) => policy.state === 'told' },
  { name: 'Not told', word: 'state:not_told', test: ({ policy }) => policy.state === 'not_told' },
  { name: 'Missing data', word: 'behind:>0', test: ({ data }) => (data.behind ?? 0) > 0 },
  { name: 'Away', word: 'state:away', test: ({ connected }) => !connected },
] as const satisfies readonly { name: string; word: string; test: (row: FleetRow) => boolean }[];
export const QUICK_WORDS: readonly string[] = QUICK_FILTERS.map(({ word }) => word).filter((word) => word !== '');

/** What the list says beside its lines. */
export interface Found {
  /** Clients that match, of all of them. */
  readonly matching: number;
  readonly total: number;
  /** The labels that are there, the most frequent one first. */
  readonly labels: readonly string[];
  /** How many clients each quick filter would show with the rest of the search. */
  readonly quick: readonly number[];
  /** A search that fits this fleet, to show what one can look like. */
  readonly example: string;
  /** What is wrong with the search. */
  readonly problems: readonly string[];
}

export interface ListModel {
  readonly search: ReadonlySignal<string>;
  readonly sort: ReadonlySignal<Sort>;
  readonly grouping: ReadonlySignal<Grouping | null>;
  readonly items: ReadonlySignal<readonly Item[]>;
  readonly found: ReadonlySignal<Found>;
  /**
   * The served commit that the counts of groups are of; null: none is, or a search shows parts of
   * the groups only.
   */
  readonly head: ReadonlySignal<string | null>;
  /** The order would be another one by now, and waits for pointer and focus to leave the list. */
  readonly waits: ReadonlySignal<boolean>;
  /** What people call an instance. */
  instanceName(instance: string): string;
  /** Somebody points at the list, or has the focus in it: the order stays. */
  hold(isHeld: boolean): void;
  dispose(): void;
}

/** Labels that have a place in the column. */
export const LABELS_SHOWN = 2;
/**
 * Least time from one order to the next, in milliseconds, as long as nobody asks for another one.
 */
const ORDER_MS = 1000;

/**
 * What of the fleet is listed, in which order: by the address, anew at most once a second, and
 * never below pointer or focus.
 */
export function createListModel({ store, router }: Pick<App, 'store' | 'router'>): ListModel {
  const query = (name: string): ReadonlySignal<string> => computed(() => router.route.value.query.get(name) ?? '');
  const search = query('q');
  const sortText = query('sort');
  const groupText = query('group');
  const sort = computed(() => parseSort(sortText.value));
  const grouping = computed(() => parseGrouping(groupText.value));
  const instanceNames = computed(() => new Map(store.instances.value.map(({ instance, name }) => [instance, name])));
  const instanceName = (instance: string): string => instanceNames.value.get(instance) ?? instance;

  const items = signal<readonly Item[]>([]);
  const found = signal<Found>({ matching: 0, total: 0, labels: [], quick: [], example: '', problems: [] });
  const waits = signal(false);
  const head = signal<string | null>(null);
  const served = computed(() => store.summary.value?.policy.head ?? null);
  let isHeld = false;
  let arrangedAt = Number.NEGATIVE_INFINITY;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function arrange(isAsked: boolean): void {
    clearTimeout(timer);
    timer = undefined;
    arrangedAt = performance.now();
    const rows = [...store.rows.values()].map((row) => row.peek());
    const labels = labelNames(rows);
    const options = { labels: new Set(labels), instanceName };
    const { matches, problems } = parseSearch(search.value, options);
    const rest = parseSearch(swapWord(search.value, QUICK_WORDS, ''), options);
    const matching = rows.filter(matches);
    const others = rows.filter(rest.matches);
    const quick = QUICK_FILTERS.map(({ test }) => others.filter(test).length);
    found.value = {
      matching: matching.length,
      total: rows.length,
      labels,
      quick,
      example: exampleOf(rows, labels[0]),
      problems,
    };
    const sorted = sortRows(matching, sort.value, { labels: labels.slice(0, LABELS_SHOWN), instanceName });
    const next = itemsOf(sorted, grouping.value);
    const isKept = isHeld && !isAsked;
    waits.value = isKept && !isSameOrder(items.peek(), next);
    items.value = waits.value ? renewed(items.peek(), next) : next;
    head.value = search.value === '' ? served.peek() : null;
  }

  function itemsOf(rows: readonly FleetRow[], by: Grouping | null): Item[] {
    const itemOf = ({ id }: FleetRow): Item[] => {
      const row = store.rows.get(id);
      return row === undefined ? [] : [{ kind: 'row', id, row }];
    };
    if (by === null) return rows.flatMap(itemOf);
    return groupRows(rows, by, instanceName).flatMap((group) => [
      { kind: 'group' as const, grouping: by, group },
      ...group.rows.flatMap(itemOf),
    ]);
  }

  function arrangeSoon(): void {
    const wait = arrangedAt + ORDER_MS - performance.now();
    if (wait <= 0) arrange(false);
    else timer ??= setTimeout(() => arrange(false), wait);
  }

  const stops = [
    effect(() => {
      // What somebody asks for is done at once.
      for (const asked of [search, sortText, groupText]) asked.value;
      untracked(() => arrange(true));
    }),
    effect(() => {
      for (const changed of [store.changed, store.instances, served]) changed.value;
      untracked(arrangeSoon);
    }),
  ];
  return {
    ...{ search, sort, grouping, items, found, head, waits, instanceName },
    hold(held) {
      if (isHeld === held) return;
      isHeld = held;
      if (!held && waits.peek()) arrangeSoon();
    },
    dispose() {
      clearTimeout(timer);
      for (const stop of stops) stop();
    },
  };
}

function exampleOf(rows: readonly FleetRow[], label: string | undefined): string {
  const value =
    label === undefined
      ? undefined
      : rows.map(({ labels }) => own(labels, label)).find((text) => text !== undefined && text !== '');
  const word = label === undefined || value === undefined ? '' : `${labelWord(label, value)} `;
  return `${word}state:refused behind:>1`;
}

function isSameOrder(a: readonly Item[], b: readonly Item[]): boolean {
  return a.length === b.length && a.every((item, index) => keyOf(item) === keyOf(b[index]));
}

/** The lines where they stand, each with what is known of it now. */
function renewed(kept: readonly Item[], next: readonly Item[]): Item[] {
  const byKey = new Map(next.map((item) => [keyOf(item), item]));
  return kept.map((item) => byKey.get(keyOf(item)) ?? emptied(item));
}

function emptied(item: Item): Item {
  if (item.kind === 'row') return item;
  return { ...item, group: { value: item.group.value, rows: [], counts: {}, needing: 0 } };
}

function keyOf(item: Item | undefined): string {
  return item === undefined ? '' : `${item.kind} ${item.kind === 'row' ? item.id : item.group.value}`;
}
