import { needsLook } from '../../fleet-rules/rank.js';
import { shortText } from '../../lib/json/short-text.js';
import type { ClientView } from '../../wire/clients.js';
import type { FleetRow } from '../../wire/fleet.js';
import type { ClientTimes } from '../changes/change-times.js';
import { type ClientLimits, limitedView, type ViewDeps, viewOf, visiblePart } from '../clients/client-view.js';
import type { KnownClient } from '../clients/known-client.js';
import { dataStanding, healthStanding, policyStanding, type ServedCommit, type Standings } from './standing.js';

/** The policy that is served, as rows need it. */
export interface ServedPolicy {
  readonly commit: ServedCommit | undefined;
  /** The served commits, the newest first. */
  readonly order: readonly string[];
  /** What is remembered of a client and the served commit. */
  readonly timesOf: (key: string) => ClientTimes | undefined;
}

/** A row with what the summary counts. */
export interface MadeRow {
  readonly row: FleetRow;
  readonly standings: Standings;
  readonly isNeeding: boolean;
}

/** Most topics of a row, and longest text of an error. */
const SHOWN = { topics: 20, text: 300 };

/** Makes the row of a client as a caller sees it. */
export function rowOf(
  client: KnownClient,
  { name, policy, limits }: { name: string; policy: ServedPolicy; limits: ClientLimits },
  deps: ViewDeps,
): MadeRow {
  const part = visiblePart(client, limits);
  const head = policy.commit?.hash ?? null;
  const whole = viewOf(part, { name, connected: 1, policyHead: head }, deps);
  const view = limitedView(whole, client, limits, deps.recent);
  const standings: Standings = {
    policy: policyStanding(client, policy.commit, policy.timesOf(client.key)?.heard),
    data: dataStanding(view, view.data.blocked.length),
    health: healthStanding(view),
  };
  const { data, engine } = view;
  const row: FleetRow = {
    id: name,
    kind: view.kind,
    connected: view.connected,
    labels: view.labels ?? {},
    address: view.address,
    instance: view.instance,
    topics: view.topics.slice(0, SHOWN.topics),
    engine: engine === null ? null : [engine.kind, engine.version ?? ''].join(' ').trim(),
    policy: {
      state: standings.policy,
      held: view.policy.held,
      behind: distanceOf(view.policy.held, policy.order),
      since: policySince(view, standings, policy.commit),
      error: view.policy.error ?? null,
    },
    data: {
      state: standings.data,
      at: data.applied ?? null,
      newest: data.newest ?? 0,
      behind: data.lag_updates,
      at_least: data.lag_at_least,
      lag_seconds: data.lag_seconds,
    },
    health: { state: standings.health, since: view.connected ? view.since : view.away_since },
    error: worstError(view),
    connected_at: view.connected_at,
    away_since: view.away_since,
    reported_at: view.reported_at,
  };
  return { row, standings, isNeeding: needsLook(row) };
}

/** Served commits after the one that is held; null: not known. `order`: the newest first. */
export function distanceOf(held: string | null, order: readonly string[]): number | null {
  const place = held === null ? -1 : order.indexOf(held);
  return place === -1 ? null : place;
}

function policySince(view: ClientView, { policy }: Standings, commit: ServedCommit | undefined): number | null {
  if (policy === 'away') return view.away_since;
  if (policy === 'acknowledged' || policy === 'refused') return view.policy.since ?? null;
  if (commit?.announcedMs === undefined) return null;
  return Math.max(commit.announcedMs, view.connected_at);
}

/** The worst failure at a client: why it is away, policy, refusals, the engine, then sources. */
export function worstError(view: ClientView): FleetRow['error'] {
  const { policy, engine, failing, away_reason: reason, away_since: since } = view;
  if (reason !== undefined) return { kind: 'away', place: '', text: shortText(reason, SHOWN.text), since };
  if (policy.error != null) {
    const { message, file, line } = policy.error;
    const place = file === null ? '' : line === null ? file : `${file}:${line}`;
    return { kind: 'policy', place, text: shortText(message, SHOWN.text), since: policy.since ?? null };
  }
  const blocked = failing.find(({ kind }) => kind === 'refused');
  if (blocked !== undefined) {
    return {
      kind: 'blocked',
      place: blocked.path,
      text: shortText(blocked.error, SHOWN.text),
      since: blocked.since ?? null,
    };
  }
  if (engine !== null && !engine.online) {
    const text = shortText(engine.error ?? 'the engine does not answer', SHOWN.text);
    return { kind: 'engine', place: '', text, since: engine.since ?? null };
  }
  const [first] = failing;
  if (first === undefined) return null;
  return {
    kind: first.kind ?? 'source',
    place: first.path,
    text: shortText(first.error, SHOWN.text),
    since: first.since ?? null,
  };
}
