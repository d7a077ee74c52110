import type { FleetChange } from '../wire/fleet.js';
import { integer, NBSP } from './words.js';

/** How fast a change comes, in seconds since its beginning. */
export interface Progress {
  /**
   * `running`: clients are on their way. `complete`: everyone that was there and reports holds it.
   * `held_up`: nothing moves, and not everyone holds it. `silent`: nobody was there that would say
   * so.
   */
  readonly kind: 'running' | 'complete' | 'held_up' | 'silent';
  /** Since the beginning until now, or until the last held it; null: not known. */
  readonly seconds: number | null;
  /** When the first, half, 99 % and the last held it; null: not yet, or not known. */
  readonly marks: readonly { readonly name: string; readonly seconds: number | null }[];
  /**
   * What there is to say in the place of the marks, where nobody was connected that they could be
   * of; empty: nothing.
   */
  readonly alone: string;
}

type Counts = Readonly<Record<string, number>>;

/** States of clients that are on their way to a change, and of those at which it fails. */
export const MOVING = ['pending', 'not_heard'] as const;
export const FAILED = ['refused', 'failing'] as const;

/** Clients in any of these states. */
export function clientsIn(counts: Counts, states: readonly string[]): number {
  return states.reduce((sum, state) => sum + (counts[state] ?? 0), 0);
}

type Change = Pick<FleetChange, 'at' | 'state' | 'counts' | 'convergence'>;

/** The progress of a change at `now`, in milliseconds by the clock of the server. */
export function progressOf({ at, state, counts, convergence }: Change, now: number): Progress {
  const from = convergence?.from ?? at;
  const since = (moment: number | null | undefined): number | null =>
    moment === null || moment === undefined ? null : Math.max(0, (moment - from) / 1000);
  const marks = [
    { name: 'First', seconds: since(convergence?.first) },
    { name: 'Half', seconds: since(convergence?.half) },
    { name: `99${NBSP}%`, seconds: since(convergence?.p99) },
    { name: 'Last', seconds: since(convergence?.last) },
  ];
  const all = Object.values(counts).reduce((sum, clients) => sum + clients, 0);
  const applied = counts.applied ?? 0;
  const isAlone = convergence?.clients === 0 && all > 0;
  const alone = isAlone
    ? `Nobody was connected when it was announced. ${integer(applied)} of ${integer(all)} hold it by now.`
    : '';
  const of = { marks, alone };
  const last = convergence?.last ?? null;
  if (clientsIn(counts, MOVING) > 0 && state !== 'replaced') return { kind: 'running', seconds: since(now), ...of };
  const hasFailed = clientsIn(counts, FAILED) > 0;
  if (last !== null && !hasFailed) return { kind: 'complete', seconds: since(last), ...of };
  if (hasFailed || (counts.away ?? 0) > 0) return { kind: 'held_up', seconds: null, ...of };
  return { kind: applied > 0 ? 'complete' : 'silent', seconds: since(last), ...of };
}
