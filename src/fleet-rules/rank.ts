import type { FleetRow } from '../wire/fleet.js';
import { own } from './names-of-others.js';

/** The order of a fleet's clients: who needs a look stands first. */

/** The one thing to say first of a client, worst first. */
export const STANDINGS = [
  'refused',
  'away',
  'unhealthy',
  'not_ready',
  'does_not_say',
  'not_told',
  'told',
  'acknowledged',
] as const;
export type Standing = (typeof STANDINGS)[number];

/**
 * What a list of clients can be sorted by; each has its own natural direction: worst, longest or
 * most behind first, names from a to z.
 */
export const SORT_KEYS = [
  'worst',
  'client',
  'labels',
  'since',
  'held',
  'data',
  'health',
  'engine',
  'instance',
  'error',
] as const;
export type SortKey = (typeof SORT_KEYS)[number];

export interface Sort {
  readonly key: SortKey;
  /** Against the natural direction of the key. */
  readonly reversed: boolean;
}

export const WORST_FIRST: Sort = { key: 'worst', reversed: false };

/** What a sort needs to know beside the rows. */
export interface SortOptions {
  /** The labels that `labels` compares, in this order. */
  readonly labels?: readonly string[];
  /** What people call an instance. */
  readonly instanceName?: (instance: string) => string;
}

/**
 * How the client stands to the policy: one of POLICY_STATES. A client that is gone is away,
 * whatever it held.
 */
export function policyStateOf(row: FleetRow): string {
  return row.connected ? row.policy.state : 'away';
}

export function standingOf(row: FleetRow): Standing {
  if (row.policy.state === 'refused') return 'refused';
  if (policyStateOf(row) === 'away') return 'away';
  if (row.health.state === 'unhealthy' || row.data.state === 'blocked') return 'unhealthy';
  if (row.health.state === 'not_ready') return 'not_ready';
  if (row.policy.state === 'does_not_say') return 'does_not_say';
  if (row.policy.state === 'not_told') return 'not_told';
  if (row.policy.state === 'told') return 'told';
  return 'acknowledged';
}

/**
 * Whether a person should look at this client: it is refused, blocked, away, unhealthy or not
 * ready.
 */
export function needsLook(row: FleetRow): boolean {
  return STANDINGS.indexOf(standingOf(row)) <= STANDINGS.indexOf('not_ready');
}

/** Since when the client is in the state that its row shows; null: not known. */
export function sinceOf(row: FleetRow): number | null {
  return row.connected ? row.policy.since : (row.away_since ?? row.policy.since);
}

/** `-since`: since, reversed. A text that is no sort is worst first. */
export function parseSort(text: string | null): Sort {
  const reversed = text?.startsWith('-') ?? false;
  const key = SORT_KEYS.find((known) => known === text?.slice(reversed ? 1 : 0));
  return key === undefined ? WORST_FIRST : { key, reversed };
}

export function sortText(sort: Sort): string {
  return `${sort.reversed ? '-' : ''}${sort.key}`;
}

/**
 * A new array of the rows in order. Rows that are equal by the key stand worst first, then by id,
 * so that the order is always the same.
 */
export function sortRows(rows: readonly FleetRow[], sort: Sort, options: SortOptions = {}): FleetRow[] {
  const textOf = textKey(sort.key, options);
  const place = textOf === undefined ? undefined : places(rows, textOf);
  const direction = sort.reversed ? -1 : 1;
  const keyed = rows.map((row) => {
    const own = textOf === undefined || place === undefined ? numberKey(sort.key, row) : place.get(textOf(row));
    return { row, own: own ?? LAST, worst: worstKey(row) };
  });
  keyed.sort((a, b) => compareOwn(a.own, b.own, direction) || compareWorst(a.worst, b.worst, a.row.id, b.row.id));
  return keyed.map(({ row }) => row);
}

/** Rows without the thing that is sorted by stand last in both directions. */
const LAST = Number.POSITIVE_INFINITY;

function compareOwn(a: number, b: number, direction: number): number {
  if (a === b) return 0;
  if (a === LAST || b === LAST) return a - b;
  return (a - b) * direction;
}

interface Worst {
  readonly standing: number;
  readonly policyBehind: number;
  readonly dataBehind: number;
  readonly since: number;
}

function worstKey(row: FleetRow): Worst {
  return {
    standing: STANDINGS.indexOf(standingOf(row)),
    policyBehind: policyDistance(row),
    dataBehind: row.data.behind ?? 0,
    since: sinceOf(row) ?? LAST,
  };
}

function compareWorst(a: Worst, b: Worst, aId: string, bId: string): number {
  if (a.standing !== b.standing) return a.standing - b.standing;
  if (a.policyBehind !== b.policyBehind) return b.policyBehind - a.policyBehind;
  if (a.dataBehind !== b.dataBehind) return b.dataBehind - a.dataBehind;
  if (a.since !== b.since) return a.since - b.since;
  return aId < bId ? -1 : Number(aId > bId);
}

/**
 * How far the policy of a client is behind. One that should hold a commit and holds none is further
 * behind than any other.
 */
function policyDistance(row: FleetRow): number {
  if (row.policy.behind !== null) return row.policy.behind;
  const wanted = ['refused', 'told', 'not_told'].includes(row.policy.state);
  return wanted && row.policy.held === null ? Number.MAX_SAFE_INTEGER : 0;
}

const HEALTH_ORDER = ['unhealthy', 'not_ready', 'new', 'was_unhealthy', 'does_not_say', 'was_healthy', 'healthy'];

function numberKey(key: SortKey, row: FleetRow): number | undefined {
  switch (key) {
    case 'since':
      return sinceOf(row) ?? undefined;
    case 'held':
      return row.policy.state === 'does_not_say' || row.policy.state === 'none' ? undefined : -policyDistance(row);
    case 'data':
      return row.data.behind === null ? undefined : -row.data.behind;
    case 'health': {
      const place = HEALTH_ORDER.indexOf(row.health.state);
      return place === -1 ? HEALTH_ORDER.length : place;
    }
    default:
      return 0;
  }
}

/** The text that a key compares; undefined: it compares numbers. An empty text is a missing one. */
function textKey(key: SortKey, options: SortOptions): ((row: FleetRow) => string) | undefined {
  const { labels = [], instanceName = (instance) => instance } = options;
  switch (key) {
    case 'client':
      return (row) => row.id;
    case 'labels':
      return (row) =>
        labels
          .map((label) => own(row.labels, label) ?? '')
          .join('\n')
          .trimEnd();
    case 'engine':
      return (row) => row.engine ?? '';
    case 'instance':
      return (row) => instanceName(row.instance);
    case 'error':
      return (row) => (row.error === null ? '' : `${row.error.place}\n${row.error.text}`);
    default:
      return undefined;
  }
}

const names = new Intl.Collator('en', { numeric: true });

/** Compares names as people do: `node-9` before `node-10`. */
export function compareNames(a: string, b: string): number {
  return names.compare(a, b) || (a < b ? -1 : Number(a > b));
}

/** The place of each text among all of them: each is compared once, however many rows have it. */
function places(rows: readonly FleetRow[], textOf: (row: FleetRow) => string): Map<string, number> {
  const texts = [...new Set(rows.map(textOf))].sort(compareNames);
  return new Map(texts.map((text, index) => [text, text === '' ? LAST : index]));
}
