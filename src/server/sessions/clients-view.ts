import type { ClientsAnswer, ClientView } from '../../wire/clients.js';
import type { Fleet } from './fleet.js';
import { type KnownClient, preferred } from './known-client.js';
import type { InstanceView } from './presence-text.js';
import type { RecentUpdates } from './recent-updates.js';
import type { SessionLog } from './session-handler.js';

/** What {@link createClientsView} works with. */
export interface ClientsViewDeps {
  readonly instance: string;
  readonly log: SessionLog;
  readonly policyHead: () => string | undefined;
  readonly recent: RecentUpdates;
  /** The clients of this instance. */
  readonly clients: () => readonly KnownClient[];
  readonly fleet: Pick<Fleet, 'others'>;
  readonly now: () => number;
}

/** How old the word of other instances may be. */
const MAX_AGE_MS = 500;
/** An instance speaks at least every five seconds; its clock may be another one. Its word counts for ten. */
const SILENT_MS = 7000;

/** Every client of the fleet with what it should hold and what it holds, by id. */
export function createClientsView(deps: ClientsViewDeps): (wanted?: string) => Promise<ClientsAnswer> {
  return async (wanted) => {
    const { views, incomplete } = await deps.fleet.others(MAX_AGE_MS);
    const chosen = new Map<string, { client: KnownClient; connected: number }>();
    for (const client of [...deps.clients(), ...views.flatMap(({ clients }) => clients)]) {
      if (wanted !== undefined && client.clientId !== wanted) continue;
      const before = chosen.get(client.clientId);
      chosen.set(client.clientId, {
        client: before === undefined ? client : preferred(before.client, client),
        connected: (before?.connected ?? 0) + Number(client.awaySinceMs === null),
      });
    }
    const policyHead = deps.policyHead() ?? null;
    const clients = [...chosen.values()].map(({ client, connected }) => viewOf(client, connected, policyHead, deps));
    return {
      epoch: deps.log.epoch,
      head: deps.log.head,
      policy_head: policyHead,
      instance: deps.instance,
      incomplete: incomplete ?? silence(views, deps.now()) ?? null,
      clients: clients.sort((a, b) => (a.client_id < b.client_id ? -1 : 1)),
    };
  };
}

/** Says which instance may be gone: its clients are shown as it last saw them, and may be elsewhere by now. */
function silence(views: readonly InstanceView[], nowMs: number): string | undefined {
  const silent = views.find(({ atMs }) => nowMs - atMs > SILENT_MS);
  if (silent === undefined) return undefined;
  const seconds = Math.round((nowMs - silent.atMs) / 1000);
  return `server instance ${silent.instance} has said nothing for ${seconds} s: its clients may be elsewhere by now`;
}

/** One client with what it should hold and what it holds. `connected`: instances that have it connected. */
export function viewOf(
  client: KnownClient,
  connected: number,
  policyHead: string | null,
  { log, recent, now }: Pick<ClientsViewDeps, 'log' | 'recent' | 'now'>,
): ClientView {
  const { state, topics, lastError } = client;
  const says = client.kind === 'session';
  const wanted = log.heads(topics);
  const lag = says ? recent.lag(client.position, topics, wanted, now()) : undefined;
  const held = state?.policy_hash ?? null;
  return {
    client_id: client.clientId,
    kind: client.kind,
    connected: client.awaySinceMs === null,
    connected_at: client.connectedAtMs,
    away_since: client.awaySinceMs,
    address: client.address,
    instance: client.instance,
    duplicates: Math.max(0, connected - 1),
    topics: [...topics],
    ready: state?.ready ?? null,
    healthy: state?.healthy ?? null,
    since: state?.since ?? null,
    reported_at: client.reportedAtMs,
    engine: state?.engine ?? null,
    policy: {
      wanted: policyHead,
      held,
      current: state === null || policyHead === null ? null : held === policyHead,
      ...(state?.policy && { error: state.policy.error, since: state.policy.since }),
    },
    data: {
      wanted: { ...wanted },
      held: client.position,
      lag_updates: lag?.updates ?? null,
      lag_seconds: lag === undefined ? null : Math.round(lag.seconds * 1000) / 1000,
      lag_at_least: lag?.atLeast ?? false,
      blocked: [...(state?.blocked ?? [])],
    },
    failing: [...(state?.failing ?? [])],
    ...(state?.failing_total !== undefined && { failing_total: state.failing_total }),
    last_error: lastError === null ? null : { path: lastError.path, error: lastError.error, at: lastError.atMs },
  };
}
