import type { TraceClient } from '../wire/trace.js';
import { type CurveStep, clamp } from './step-path.js';

/**
 * What a change took at each client, for a waterfall. All times in ms from the start of the change.
 */

/** States of a trace in the order in which they need a person; others come last. */
const ORDER = ['refused', 'failing', 'away', 'not_heard', 'pending', 'unknown', 'replaced', 'applied'];

/**
 * waiting: not told yet; fetching: told; applying: fetched; reporting: done, and the report has not
 * arrived.
 */
export type Phase = 'waiting' | 'fetching' | 'applying' | 'reporting';

export interface Segment {
  readonly phase: Phase;
  readonly from: number;
  readonly to: number;
}

export interface ClientBar {
  readonly segments: readonly Segment[];
  /** When it had heard of the change at the latest; null: it has not, or nothing says so. */
  readonly heardAt: number | null;
  /** When it refused; null: it did not, or that is not known. */
  readonly refusedAt: number | null;
  /** When it held or refused the change: what the row says; null: not yet. */
  readonly endedAt: number | null;
}

/** Clients that do not hold a change for the same reason. */
export interface SharedReason {
  readonly state: string;
  readonly message: string;
  readonly file: string | null;
  readonly line: number | null;
  readonly clients: number;
}

/** Why clients refuse a change, or fail with it: what most of them say first. */
export function sharedReasons(clients: readonly TraceClient[]): SharedReason[] {
  const reasons = new Map<string, SharedReason>();
  for (const { state, reason, file = null, line = null } of clients) {
    if (reason === null || (state !== 'refused' && state !== 'failing')) continue;
    const key = JSON.stringify([state, reason, file, line]);
    const known = reasons.get(key);
    reasons.set(key, { state, message: reason, file, line, clients: (known?.clients ?? 0) + 1 });
  }
  return [...reasons.values()].sort((one, other) => other.clients - one.clients);
}

export interface BarSpan {
  /** Start of the change, by the clock of the server. */
  readonly from: number;
  /** The time of the response, by the clock of the server. */
  readonly now: number;
}

/** The bar of one client. */
export function clientBar(client: TraceClient, { from, now }: BarSpan): ClientBar {
  const span = Math.max(0, now - from);
  const since = (at: number | null): number | null => (at === null ? null : clamp(at - from, 0, span));
  const refusedSeen = since(client.refused_seen_at);
  const refusedAt = client.state === 'refused' ? (since(client.refused_at) ?? refusedSeen) : null;
  const appliedSeen = since(client.applied_seen_at);
  const done = refusedAt ?? since(client.applied_at) ?? appliedSeen;
  const seen = refusedAt === null ? appliedSeen : refusedSeen;
  // A client that fails with a change has heard of it, though nobody knows when.
  const heard = since(client.heard_at) ?? since(client.fetched_at) ?? (client.state === 'failing' ? 0 : null);
  const fetched = since(client.fetched_at);
  const open = client.connected && isOpen(client) ? span : null;
  return {
    segments: segmentsOf([
      ['waiting', heard ?? (done === null ? open : null)],
      ['fetching', heard === null ? null : (fetched ?? done ?? open)],
      ['applying', fetched === null ? null : (done ?? open)],
      ['reporting', heard === null || done === null ? null : seen],
    ]),
    heardAt: heard ?? done,
    refusedAt,
    endedAt: done,
  };
}

/**
 * Puts segments one after the other; each ends not before it begins, and what has no length is left
 * out.
 */
function segmentsOf(ends: readonly (readonly [Phase, number | null])[]): Segment[] {
  const segments: Segment[] = [];
  let from = 0;
  for (const [phase, end] of ends) {
    if (end === null || end <= from) continue;
    segments.push({ phase, from, to: end });
    from = end;
  }
  return segments;
}

/** It is still at it. */
function isOpen({ state, kind }: TraceClient): boolean {
  return kind === 'session' && (state === 'pending' || state === 'not_heard' || state === 'failing');
}

/** It connected after the change and holds it since: what that took says nothing of the change. */
export function cameLater({ was_there: wasThere, state }: Pick<TraceClient, 'was_there' | 'state'>): boolean {
  return !wasThere && state === 'applied';
}

/** Orders clients: those that need a person first, the slowest first among equals, then by name. */
export function worstFirst(clients: readonly TraceClient[]): TraceClient[] {
  const time = (one: TraceClient): number =>
    one.applied_at ?? one.applied_seen_at ?? one.refused_at ?? one.refused_seen_at ?? 0;
  return [...clients].sort(
    (one, other) =>
      rank(one) - rank(other) ||
      Number(cameLater(one)) - Number(cameLater(other)) ||
      time(other) - time(one) ||
      (one.client_id < other.client_id ? -1 : one.client_id > other.client_id ? 1 : 0),
  );
}

function rank({ state }: TraceClient): number {
  const at = ORDER.indexOf(state);
  return at === -1 ? ORDER.length : at;
}

/** States of `counts` in the order of {@link worstFirst}, those without clients left out. */
export function statesOf(counts: Readonly<Record<string, number>>): [state: string, count: number][] {
  return Object.entries(counts)
    .filter(([, count]) => count > 0)
    .sort(([one], [other]) => rankOf(one) - rankOf(other));
}

function rankOf(state: string): number {
  const at = ORDER.indexOf(state);
  return at === -1 ? ORDER.length : at;
}

/** What all clients together say of a change; it does not depend on the time of the look. */
export interface TraceFigures {
  /**
   * How many of those that were there had heard of the change at which time: a client that holds it
   * has heard of it.
   */
  readonly told: readonly CurveStep[];
  /** When clients refused it. */
  readonly refused: readonly number[];
  /** The last time of all that count. */
  readonly lastMs: number;
  /** Times that clients say are among them. */
  readonly hasOwnTimes: boolean;
}

/** Looks at each client once. `from`: the start of the change. */
export function traceFigures(clients: readonly TraceClient[], from: number): TraceFigures {
  const bars = clients
    .filter((client) => !cameLater(client))
    .map((client) => ({ client, bar: clientBar(client, { from, now: Number.MAX_SAFE_INTEGER }) }));
  const heard = bars
    .filter(({ client: { kind, was_there } }) => kind === 'session' && was_there)
    .flatMap(({ bar }) => bar.heardAt ?? [])
    .sort((one, other) => one - other);
  return {
    told: heard.map((at, index) => ({ at, count: index + 1 })),
    refused: bars.flatMap(({ bar }) => bar.refusedAt ?? []),
    lastMs: bars.reduce((most, { bar }) => Math.max(most, bar.endedAt ?? 0), 0),
    hasOwnTimes: bars.some(({ client }) => (client.heard_at ?? client.applied_at ?? client.refused_at) !== null),
  };
}
