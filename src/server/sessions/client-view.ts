import type { ClientView } from '../../wire/clients.js';
import type { KnownClient } from './known-client.js';
import type { RecentUpdates } from './recent-updates.js';
import type { SessionLog } from './session-handler.js';

/** What of each client is shown at most. */
const SHOWN = { topics: 100, failing: 20 };

/** What {@link viewOf} works with. */
export interface ViewDeps {
  readonly log: SessionLog;
  readonly recent: RecentUpdates;
  readonly now: () => number;
}

/** One client with what it should hold and what it holds. `connected`: instances that have it connected. */
export function viewOf(
  client: KnownClient,
  { name, connected, policyHead }: { name: string; connected: number; policyHead: string | null },
  { log, recent, now }: ViewDeps,
): ClientView {
  const { state, lastError, clientId } = client;
  const topics = client.topics.slice(0, SHOWN.topics);
  return {
    client_id: name,
    own_id: name === clientId ? null : clientId,
    subject: client.subject,
    kind: client.kind,
    connected: client.awaySinceMs === null,
    connected_at: client.connectedAtMs,
    away_since: client.awaySinceMs,
    address: client.address,
    instance: client.instance,
    duplicates: Math.max(0, connected - 1),
    topics,
    topics_left_out: client.topicsLeftOut + client.topics.length - topics.length,
    ready: state?.ready ?? null,
    healthy: state?.healthy ?? null,
    since: state?.since ?? null,
    reported_at: client.reportedAtMs,
    engine: state?.engine ?? null,
    policy: policyOf(client, policyHead),
    data: dataOf(client, topics, { log, recent, now }),
    failing: (state?.failing ?? []).slice(0, SHOWN.failing),
    failing_total: state?.failing_total ?? state?.failing.length ?? 0,
    last_error:
      lastError === null
        ? null
        : { path: lastError.path, error: lastError.error, kind: lastError.kind, at: lastError.atMs },
  };
}

function policyOf({ state }: KnownClient, policyHead: string | null): ClientView['policy'] {
  const held = state?.policy?.held ?? state?.policy_hash ?? null;
  const wanted = policyHead ?? state?.policy?.wanted ?? null;
  return {
    wanted,
    held,
    current: state === null || wanted === null ? null : held === wanted,
    error: state?.policy?.error ?? null,
    since: state?.policy?.since ?? null,
  };
}

function dataOf(client: KnownClient, shown: readonly string[], { log, recent, now }: ViewDeps): ClientView['data'] {
  const { kind, topics, position: held, state } = client;
  const heads = log.heads(topics);
  const newest = recent.newestOn(topics, heads);
  const lag = kind === 'session' ? recent.lag(held, topics, heads, now()) : undefined;
  return {
    newest,
    // A position goes on with every row of the log, also with those that are none of its topics: commits, and what others get.
    applied: held === null ? null : Math.min(held.applied_through, newest),
    wanted: Object.fromEntries(shown.map((topic) => [topic, heads[topic] ?? 0])),
    held,
    lag_updates: lag?.updates ?? null,
    lag_seconds: lag === undefined ? null : Math.round(lag.seconds * 1000) / 1000,
    lag_at_least: lag?.atLeast ?? false,
    blocked: [...(state?.blocked ?? [])],
  };
}
