import type { Logger } from '../../lib/log.js';
import type { PeerInfo, SessionHandler, SessionPeer } from '../../pubsub/peer.js';
import type { ClientsAnswer } from '../../wire/clients.js';
import type { Presence } from '../log/log-store.js';
import { nameOf, viewOf } from './client-view.js';
import { type ClientsQuery, createClientsView } from './clients-view.js';
import { type HeartbeatDeps, runHeartbeats, sendHeartbeat } from './heartbeats.js';
import type { IdClaims } from './id-claims.js';
import { concerns, type KnownClient, newClient, wasThere } from './known-client.js';
import { PeerInstances } from './peer-instances.js';
import type { RecentUpdate, RecentUpdates } from './recent-updates.js';
import { ClientRegistry } from './registry.js';
import { createSessionHandler, type SessionLog } from './session-handler.js';
import { Waiters } from './waiters.js';

export interface SessionsOptions {
  /** Name of this server instance, new on each start. */
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
  /** Owners of client ids. */
  readonly claims: IdClaims;
  /** Where instances announce their clients; undefined: there is only this one. */
  readonly presence: Presence | undefined;
  /** All connections to the socket of this instance. */
  readonly peers: () => readonly PeerInfo[];
  /** Called with the latency of each update that a connected client has applied. */
  readonly onApplied?: ((seconds: number) => void) | undefined;
  readonly logger: Logger;
}

/** {@link Sessions.summary}; all but `away` count connected clients. */
export interface SessionsSummary {
  readonly connected: number;
  readonly plain: number;
  readonly away: number;
  readonly unhealthy: number;
  readonly lagging: number;
  readonly maxLagUpdates: number;
  readonly maxLagSeconds: number;
}

/** Maximum updates of one report whose latency is measured. */
const MAX_TIMED = 1000;
/** Maximum age of the announcements from which id claims are learned. */
const LEARN_AGE_MS = 2000;

/** The clients of this server instance and what they hold (design D21). */
export class Sessions {
  /** For the socket server. */
  readonly handler: SessionHandler;
  /** Returns a page of the clients of all instances. */
  readonly clients: (query: ClientsQuery) => Promise<ClientsAnswer>;
  readonly waitApplied: Waiters['waitApplied'];
  readonly #options: SessionsOptions;
  readonly #deps: SessionsDeps;
  readonly #registry: ClientRegistry;
  readonly #instances: PeerInstances;
  readonly #waiters: Waiters;
  readonly #heartbeat: Omit<HeartbeatDeps, 'peers'>;

  constructor(options: SessionsOptions, deps: SessionsDeps) {
    const { log, claims, policyHead, logger } = deps;
    const { instance } = options;
    this.#options = options;
    this.#deps = deps;
    const head = (): number => log.head;
    const clients = (): KnownClient[] => this.#clients();
    const ownerOf = (clientId: string): string | undefined => claims.ownerOf(clientId, Date.now());
    const registry = new ClientRegistry(options, { head, claims, now: Date.now });
    this.#registry = registry;
    const onClient = ({ kind, clientId: id, subject, claimedMs: sinceMs }: KnownClient): void => {
      if (kind === 'session' && subject !== null) claims.learn({ id, subject, sinceMs }, Date.now());
    };
    const instances = new PeerInstances(options, { presence: deps.presence, clients, head, onClient, log: logger });
    this.#instances = instances;
    const otherName = (peer: SessionPeer): string | undefined => {
      const client = registry.clientAt(peer);
      const name = client && nameOf(client, ownerOf);
      return name === client?.clientId ? undefined : name;
    };
    this.#heartbeat = { log, policyHead, otherName, peerCount: () => registry.peerCount };
    const waiters = new Waiters({
      ...{ registry, instances, clients },
      epoch: () => log.epoch,
      nameOf: (client) => nameOf(client, ownerOf),
    });
    this.#waiters = waiters;
    this.waitApplied = (...args) => waiters.waitApplied(...args);
    this.handler = createSessionHandler(options, { registry, log, policyHead, otherName, logger });
    this.clients = createClientsView({ ...deps, instance, now: Date.now, clients, instances, ownerOf });
    registry.watch((client, before) => {
      instances.changed();
      // Another instance may know the owner of its id.
      if (before === undefined && client.subject !== null) void instances.others(LEARN_AGE_MS);
      if (deps.onApplied !== undefined) this.#timeApplied(client, before, deps.onApplied);
    });
  }

  /** Counts the clients of other instances that subscribe to any of these topics. Never rejects. */
  countElsewhere(topics: readonly string[]): Promise<number> {
    return this.#instances.countConcerned(topics);
  }

  /** Counts the clients of this instance by state. */
  summary(): SessionsSummary {
    const { log, recent, policyHead } = this.#deps;
    const about = { name: '', connected: 1, policyHead: policyHead() ?? null };
    const views = this.#clients().map((client) => viewOf(client, about, { log, recent, now: Date.now }));
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
  }

  /** Called with each data update of the log, in order. */
  recorded(update: RecentUpdate): void {
    this.#deps.recent.add(update);
    this.#instances.changed();
  }

  /** Called when the served commit changes: sends a heartbeat to clients that are not subscribed to the notified topics. */
  headMoved(notified: ReadonlySet<string>): void {
    for (const peer of this.#registry.peers) {
      if (!peer.info.topics.some((topic) => notified.has(topic))) sendHeartbeat(peer, this.#heartbeat);
    }
  }

  /** Announces this instance to the others; await it before accepting clients. */
  join(): Promise<void> {
    return this.#instances.join();
  }

  /** Sends heartbeats and announces clients until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    runHeartbeats(this.#options.heartbeatMs, { peers: () => this.#registry.peers, ...this.#heartbeat }, signal);
    signal.addEventListener('abort', () => this.#waiters.close(), { once: true });
    await this.#instances.run(signal);
  }

  /** The clients of this instance. Those without a session count as always subscribed: since when is not known. */
  #clients(): KnownClient[] {
    const sessions = new Set([...this.#registry.peers].map(({ id }) => id));
    const plain = this.#deps.peers().filter(({ id, topics }) => !sessions.has(id) && topics.length > 0);
    const plainClients = plain.map((peer) => {
      const { subject, clientId = `${peer.host}:${peer.port}`, connectedAtMs: claimedMs } = peer;
      const about = { instance: this.#options.instance, claimedMs, spans: [{ from: 0, until: null }] };
      return newClient({ kind: 'plain', subject, clientId }, peer, about);
    });
    return [...this.#registry.list(), ...plainClients];
  }

  /**
   * Measures the latency of the updates that a client has just applied, except those published while it was away. Its first
   * report counts all updates since it connected.
   */
  #timeApplied(
    { position, spans, topics }: KnownClient,
    before: KnownClient | undefined,
    onApplied: (seconds: number) => void,
  ): void {
    const held = before?.position ?? null;
    if (position === null || (held !== null && held.epoch !== position.epoch)) return;
    const from = held?.applied_through ?? spans.at(-1)?.from ?? 0;
    let timed = 0;
    for (const update of this.#deps.recent.between(from, position.applied_through)) {
      if (++timed > MAX_TIMED) return;
      if (held?.applied_beyond.includes(update.seq) || !concerns(topics, update.topics)) continue;
      if (wasThere(spans, update.seq)) onApplied(Math.max(0, Date.now() - update.timeMs) / 1000);
    }
  }
}
