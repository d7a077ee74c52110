import type { FleetChange } from '../wire/fleet.js';
import { clientsIn, FAILED, MOVING } from './progress.js';
import { count, day, integer, measured, NBSP } from './words.js';

/** How far a change came, in words. */

export interface ChangeResult {
  /**
   * done: everyone who can say so holds it; moving: clients are on their way; stuck: some refuse it
   * or fail; none: it reached nobody.
   */
  readonly kind: 'done' | 'moving' | 'stuck' | 'open' | 'none';
  /** `61`, or what stands in the place of a number. */
  readonly main: string;
  /** ` of 122`; empty: there is no number. */
  readonly of: string;
  /** What else there is to say, on a line of its own. */
  readonly more: string;
}

type Result = Pick<FleetChange, 'counts' | 'total' | 'state' | 'convergence' | 'at'>;

/** Clients that do not hold a change yet and are expected to, by what they do. */
const LEFT: readonly (readonly [state: string, word: string])[] = [
  ['refused', 'refused'],
  ['failing', 'failing'],
  ['away', 'away'],
];

/** The result of a change at `now` (ms since 1970, by the clock of the server). */
export function changeResult(change: Result, now: number): ChangeResult {
  const { counts, total, state, convergence } = change;
  if (state === 'refused') return { kind: 'stuck', main: 'Not served', of: '', more: 'by the server' };
  if (state === 'found') return { kind: 'none', main: 'Found', of: '', more: 'not served yet' };
  if (total === 0) return { kind: 'none', main: 'No client', of: '', more: 'subscribes to it' };
  const holding = counts.applied ?? 0;
  const silent = counts.unknown ?? 0;
  const replaced = counts.replaced ?? 0;
  const moving = clientsIn(counts, MOVING);
  const bad = clientsIn(counts, FAILED);
  const isDone = holding + silent + replaced >= total;
  const left = LEFT.flatMap(([name, word]) => {
    const clients = counts[name] ?? 0;
    return clients === 0 ? [] : [`${integer(clients)}${NBSP}${word}`];
  });
  const rest = [
    ...left,
    ...(moving > 0 && state !== 'under_way' ? [`${integer(moving)}${NBSP}open`] : []),
    ...(replaced > 0 ? [`${integer(replaced)}${NBSP}hold a later one`] : []),
    ...(silent > 0 ? [`${integer(silent)}${NBSP}${silent === 1 ? 'does' : 'do'} not say`] : []),
  ];
  const from = convergence?.from ?? change.at;
  const time = isDone
    ? convergence !== null && convergence.last !== null && holding > 0
      ? [`last in ${measured((convergence.last - from) / 1000)}`]
      : []
    : state === 'under_way' && moving > 0 && from > 0
      ? [`${measured((now - from) / 1000)} so far`]
      : [];
  // Who is away, or never says what it holds, is no news while others are on their way.
  const others = isDone || time.length === 0 ? rest : left.slice(0, FAILED.filter((one) => counts[one]).length);
  // Whether anyone ever held it is not known: that is no success to show.
  if (isDone && holding === 0 && replaced > 0) return { kind: 'none', main: 'Replaced', of: '', more: rest.join(', ') };
  return {
    kind: isDone ? 'done' : bad > 0 ? 'stuck' : state === 'under_way' ? 'moving' : 'open',
    main: integer(holding),
    of: ` of ${integer(total)}`,
    more: [...time, ...others].join(', '),
  };
}

/** What a change is called: its title, else its paths, else what it is. */
export function changeTitle({
  title,
  paths,
  kind,
  size,
}: Pick<FleetChange, 'title' | 'paths' | 'kind' | 'size'>): string {
  if (title !== '') return title;
  const [first, ...others] = paths;
  if (first !== undefined)
    return others.length === 0 ? first : `${first} and ${integer(Math.max(others.length, (size ?? 0) - 1))} more`;
  return kind === 'policy' ? 'Policy commit' : 'Data update';
}

/** `3 files`, `12 entries`; empty: not known. */
export function changeSize({ kind, size }: Pick<FleetChange, 'kind' | 'size'>): string {
  if (size === null) return '';
  return kind === 'policy' ? count(size, 'file') : count(size, 'entry', 'entries');
}

interface ErrorPlace {
  readonly file?: string | null | undefined;
  readonly line?: number | null | undefined;
}

/** `policy/a.rego:12`, `policy/a.rego`, or empty. */
export function errorPlace({ file, line }: ErrorPlace): string {
  if (file === null || file === undefined) return '';
  return line === null || line === undefined ? file : `${file}:${line}`;
}

/** `policy/a.rego:12: undefined function`: place and message as one line. */
export function errorLine(error: ErrorPlace & { readonly message: string }): string {
  return [errorPlace(error), error.message].filter((part) => part !== '').join(': ');
}

export interface Day {
  /** `Today, 22 November`. */
  readonly name: string;
  readonly changes: readonly FleetChange[];
}

const DAY_MS = 86_400_000;

/** Changes by day (UTC), in their order; a time of 0 is not known. */
export function byDay(changes: readonly FleetChange[], now: number): Day[] {
  const days = new Map<number, FleetChange[]>();
  for (const change of changes) {
    const number = Math.floor(change.at / DAY_MS);
    const list = days.get(number);
    if (list === undefined) days.set(number, [change]);
    else list.push(change);
  }
  const today = Math.floor(now / DAY_MS);
  return [...days].map(([number, list]) => {
    const name = number === 0 ? 'Time not known' : day(number * DAY_MS, now);
    const near = number === today ? 'Today, ' : number === today - 1 ? 'Yesterday, ' : '';
    return { name: `${near}${name}`, changes: list };
  });
}

/** Which changes a list shows. */
export const CHANGE_FILTERS = { policy: 'Policy', data: 'Data', refused: 'With errors' } as const;
export type ChangeFilter = keyof typeof CHANGE_FILTERS;

export function isChangeFilter(text: string | null): text is ChangeFilter {
  return text !== null && Object.hasOwn(CHANGE_FILTERS, text);
}

/**
 * Whether a list with a filter and a search shows a change: it must have every word, in any of its
 * texts.
 */
export function matchesChange(change: FleetChange, filter: ChangeFilter | null, query: string): boolean {
  const { counts, state, kind } = change;
  const hasErrors = state === 'refused' || clientsIn(counts, FAILED) > 0;
  if (filter === 'refused' ? !hasErrors : filter !== null && filter !== kind) return false;
  const texts = [
    ...[change.id, change.update_id ?? '', change.title, change.by ?? '', ...change.topics, ...change.paths],
    ...[change.error?.message ?? '', errorPlace(change.error ?? {})],
  ].map((text) => text.toLowerCase());
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => texts.some((text) => text.includes(word)));
}
