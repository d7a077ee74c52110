import type { FleetRow } from '../wire/fleet.js';
import { own } from './names-of-others.js';
import { compareNames, needsLook, policyStateOf, STANDINGS, standingOf } from './rank.js';

/** Groups of the fleet's clients: by a label, state, health, engine or instance. */

/** What clients can be grouped by beside their labels. A label of such a name is `label:<name>`. */
export const GROUP_FIELDS = ['state', 'health', 'engine', 'instance'] as const;
export type GroupField = (typeof GROUP_FIELDS)[number];

export interface Grouping {
  readonly kind: 'label' | GroupField;
  /** The name of the label; for a field its own name. */
  readonly name: string;
}

export interface Group {
  /** What its rows have in common; empty: they have nothing there. */
  readonly value: string;
  readonly rows: readonly FleetRow[];
  /** Clients by `policy.state`; away ones are `away`. */
  readonly counts: Readonly<Record<string, number>>;
  /** Clients that need a look. */
  readonly needing: number;
}

const isField = (text: string): text is GroupField => GROUP_FIELDS.some((field) => field === text);

/** As in an address: `app`, `state`, `label:state`. Null: no groups. */
export function parseGrouping(text: string | null): Grouping | null {
  if (text === null || text === '') return null;
  if (isField(text)) return { kind: text, name: text };
  return { kind: 'label', name: text.startsWith('label:') ? text.slice('label:'.length) : text };
}

export function groupingText({ kind, name }: Grouping): string {
  return kind === 'label' && isField(name) ? `label:${name}` : name;
}

/** The labels of the rows, the most frequent one first. */
export function labelNames(rows: Iterable<FleetRow>): string[] {
  const counts = new Map<string, number>();
  for (const row of rows) for (const label of Object.keys(row.labels)) counts.set(label, (counts.get(label) ?? 0) + 1);
  return [...counts].sort(([a, many], [b, few]) => few - many || compareNames(a, b)).map(([label]) => label);
}

/**
 * The groups of rows that are in order already; each keeps that order. States stand worst first. Of
 * the others those come first in which somebody needs a look, by the worst standing of their
 * clients; then by name. Those without a value are last.
 */
export function groupRows(rows: readonly FleetRow[], grouping: Grouping, instanceName = (id: string) => id): Group[] {
  const byValue = new Map<string, FleetRow[]>();
  for (const row of rows) {
    const value = groupValue(row, grouping, instanceName);
    const group = byValue.get(value);
    if (group === undefined) byValue.set(value, [row]);
    else group.push(row);
  }
  return [...byValue]
    .map(([value, own]) => ({
      group: groupOf(value, own),
      worst: grouping.kind === 'state' ? STATE_ORDER.indexOf(value) : worstOf(own),
    }))
    .sort((a, b) => order(a.group, b.group, a.worst - b.worst))
    .map(({ group }) => group);
}

function order(a: Group, b: Group, worse: number): number {
  if (a.value === '' || b.value === '') return Number(a.value === '') - Number(b.value === '');
  return worse || compareNames(a.value, b.value);
}

const STATE_ORDER = ['refused', 'away', 'does_not_say', 'not_told', 'told', 'acknowledged', 'none'];

const CALM = STANDINGS.indexOf('not_ready') + 1;

/**
 * The worst standing that needs a look; all others are the same, so that the groups keep their
 * places while a change goes out.
 */
function worstOf(rows: readonly FleetRow[]): number {
  return rows.reduce((worst, row) => Math.min(worst, STANDINGS.indexOf(standingOf(row))), CALM);
}

function groupOf(value: string, rows: readonly FleetRow[]): Group {
  const counts = new Map<string, number>();
  let needing = 0;
  for (const row of rows) {
    const state = policyStateOf(row);
    counts.set(state, (counts.get(state) ?? 0) + 1);
    if (needsLook(row)) needing += 1;
  }
  return { value, rows, counts: Object.fromEntries(counts), needing };
}

function groupValue(row: FleetRow, { kind, name }: Grouping, instanceName: (id: string) => string): string {
  switch (kind) {
    case 'label':
      return own(row.labels, name) ?? '';
    case 'state':
      return policyStateOf(row);
    case 'health':
      return row.health.state;
    case 'engine':
      return row.engine ?? '';
    case 'instance':
      return instanceName(row.instance);
  }
}
