import type { Logger } from '../../lib/log.js';
import type { PeerInfo, SessionHandler, SessionPeer } from '../../pubsub/peer.js';
import type { ClientsAnswer } from '../../wire/clients.js';
import type { Presence } from '../log/log-store.js';
import { nameOf } from './client-names.js';
import { viewOf } from './client-view.js';
import { type ClientsQuery, createClientsView } from './clients-view.js';
import { runHeartbeats, sendHeartbeat } from './heartbeats.js';
import type { IdClaims } from './id-claims.js';
import { concerns, type KnownClient, newClient, wasThere } from './known-client.js';
import { PeerInstances } from './peer-instances.js';
import type { RecentUpdate, RecentUpdates } from './recent-updates.js';
import { ClientRegistry } from './registry.js';
import { createSessionHandler, type SessionLog } from './session-handler.js';
import { Waiters } from './waiters.js';

export interface SessionsOptions {
  /** Name of this server instance: another one after each start. */
  readonly instance: string;
  /** SYNC_HEARTBEAT_INTERVAL. */
  readonly heartbeatMs: number;
  /** SYNC_CLIENT_AWAY_TTL. */
  readonly memoryMs: number;
}

export interface SessionsDeps {
  readonly log: SessionLog;
  readonly recent: RecentUpdates;
  readonly policyHead: () => string | undefined;
  /** Whose client ids are whose. */
  readonly claims: IdClaims;
  /** Where instances announce their clients; undefined: there is only this one. */
  readonly presence: Presence | undefined;
  /** All connections to the socket of this instance. */
  readonly peers: () => readonly PeerInfo[];
  /** Called with the latency of each update that a connected client has applied. */
  readonly onApplied?: ((seconds: number) => void) | undefined;
  readonly logger: Logger;
}

/** Which clients are connected and what they hold (design D5, D20). */
export interface Sessions {
  /** For the socket server. */
  readonly handler: SessionHandler;
  readonly waitApplied: Waiters['waitApplied'];
  /** Counts the clients of other instances that subscribe to any of these topics. Never rejects. */
  countElsewhere(topics: readonly string[]): Promise<number>;
  /** A page of the clients of the instances. */
  clients(query: ClientsQuery): Promise<ClientsAnswer>;
  /** The clients of this instance in figures. */
  summary(): SessionsSummary;
  /** Takes each data update of the log, in order, when this instance has seen it. */
  recorded(update: RecentUpdate): void;
  /** Another commit is served: sends a heartbeat to clients without a subscription to the notified topics. */
  headMoved(noticed: ReadonlySet<string>): void;
  /** Announces this instance to the others; await it before accepting clients. */
  join(): Promise<void>;
  /** Sends heartbeats and announces clients until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** {@link Sessions.summary}; all but `away` are of connected clients. */
export interface SessionsSummary {
  readonly connected: number;
  readonly plain: number;
  readonly away: number;
  readonly unhealthy: number;
  readonly lagging: number;
  readonly maxLagUpdates: number;
  readonly maxLagSeconds: number;
}

/** Updates of one report whose latency is measured. */
const MAX_TIMED = 1000;
/** How old the announcements may be from which id claims are learned. */
const LEARN_AGE_MS = 2000;

/** Makes the {@link Sessions} of one server instance. */
export function createSessions(options: SessionsOptions, deps: SessionsDeps): Sessions {
  const { log, recent, policyHead, logger } = deps;
  const now = (): number => Date.now();
  const { claims } = deps;
  const registry = new ClientRegistry(options, { head: () => log.head, claims, now });
  const ownerOf = (clientId: string): string | undefined => claims.ownerOf(clientId, now());
  const otherName = (peer: SessionPeer): string | undefined => {
    const client = registry.clientAt(peer);
    const name = client === undefined ? undefined : nameOf(client, ownerOf);
    return name === client?.clientId ? undefined : name;
  };
  const clients = (): KnownClient[] => [...registry.list(), ...plainClients()];
  const instances = new PeerInstances(options, {
    presence: deps.presence,
    clients,
    head: () => log.head,
    onClient: ({ kind, clientId, subject, claimedMs }) => {
      if (kind === 'session' && subject !== null) claims.learn({ id: clientId, subject, sinceMs: claimedMs }, now());
    },
    log: logger,
  });
  const waiters = new Waiters({
    registry,
    instances,
    epoch: () => log.epoch,
    clients,
    nameOf: (client) => nameOf(client, ownerOf),
  });
  const view = { instance: options.instance, log, policyHead, recent, now };
  registry.watch((client, before) => {
    instances.changed();
    // Another instance may know the owner of its id.
    if (before === undefined && client.subject !== null) void instances.others(LEARN_AGE_MS);
    if (deps.onApplied !== undefined) timeApplied(client, before, deps.onApplied);
  });

  /** Connections that subscribe without a session. When they subscribed is not known, so they count as always there. */
  function plainClients(): KnownClient[] {
    const sessions = new Set([...registry.peers].map(({ id }) => id));
    const plain = deps.peers().filter(({ id, topics }) => !sessions.has(id) && topics.length > 0);
    return plain.map((peer) => {
      const clientId = peer.clientId ?? `${peer.host}:${peer.port}`;
      const spans = [{ from: 0, until: null }];
      const about = { instance: options.instance, claimedMs: peer.connectedAtMs, spans };
      return newClient({ kind: 'plain', subject: peer.subject, clientId }, peer, about);
    });
  }

  /**
   * Measures the latency of updates that the client has just applied, but not of those that came while it was away. On its
   * first report, everything since it connected counts.
   */
  function timeApplied(
    { position, spans, topics }: KnownClient,
    before: KnownClient | undefined,
    onApplied: (seconds: number) => void,
  ): void {
    const held = before?.position ?? null;
    if (position === null || (held !== null && held.epoch !== position.epoch)) return;
    const from = held?.applied_through ?? spans.at(-1)?.from ?? 0;
    let looked = 0;
    for (const update of recent.between(from, position.applied_through)) {
      if (++looked > MAX_TIMED) return;
      if (held?.applied_beyond.includes(update.seq) || !concerns(topics, update.topics)) continue;
      if (wasThere(spans, update.seq)) onApplied(Math.max(0, now() - update.timeMs) / 1000);
    }
  }

  const beat = { log, policyHead, otherName, peerCount: () => registry.peerCount };
  return {
    handler: createSessionHandler(options, { registry, log, policyHead, otherName, logger }),
    waitApplied: (...args) => waiters.waitApplied(...args),
    countElsewhere: (topics) => instances.countConcerned(topics),
    clients: createClientsView({ ...view, clients, instances, ownerOf }),
    summary: () => {
      const about = { name: '', connected: 1, policyHead: policyHead() ?? null };
      const views = clients().map((client) => viewOf(client, about, view));
      const here = views.filter(({ connected }) => connected);
      return {
        connected: here.filter(({ kind }) => kind === 'session').length,
        plain: here.filter(({ kind }) => kind === 'plain').length,
        away: views.length - here.length,
        unhealthy: here.filter(({ healthy }) => healthy === false).length,
        lagging: here.filter(({ data }) => (data.lag_updates ?? 0) > 0).length,
        maxLagUpdates: Math.max(0, ...here.map(({ data }) => data.lag_updates ?? 0)),
        maxLagSeconds: Math.max(0, ...here.map(({ data }) => data.lag_seconds ?? 0)),
      };
    },
    recorded(update) {
      recent.add(update);
      instances.changed();
    },
    headMoved(noticed) {
      for (const peer of registry.peers) {
        if (!peer.info.topics.some((topic) => noticed.has(topic))) sendHeartbeat(peer, beat);
      }
    },
    join: () => instances.join(),
    async run(signal) {
      runHeartbeats(options.heartbeatMs, { peers: () => registry.peers, ...beat }, signal);
      signal.addEventListener('abort', () => waiters.close(), { once: true });
      await instances.run(signal);
    },
  };
}
