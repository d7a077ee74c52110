import type { Logger } from '../../lib/log.js';
import type { PeerInfo, SessionHandler, SessionPeer } from '../../pubsub/peer.js';
import type { ClientsAnswer } from '../../wire/clients.js';
import type { TraceAnswer } from '../../wire/trace.js';
import type { Vitals } from '../instances/vitals.js';
import type { Mail, Presence } from '../log/log-store.js';
import type { UpdateLog } from '../log/update-log.js';
import type { TraceMemory } from '../trace/change-times.js';
import { type AllClients, type Awaiting, allClients } from './all-clients.js';
import { AskRelay } from './ask-relay.js';
import { chosenClients } from './chosen-clients.js';
import { type ClientAnswerDeps, type ClientAnswers, createClientAnswers } from './client-answer.js';
import { ClientAsks } from './client-asks.js';
import { ClientTimesKeeper } from './client-times.js';
import { nameOf, viewOf } from './client-view.js';
import type { ClientsFileDeps, StoredClients } from './clients-file.js';
import { type ClientsQuery, createClientsView } from './clients-view.js';
import { type HeartbeatDeps, runHeartbeats, sendHeartbeat } from './heartbeats.js';
import type { IdClaims } from './id-claims.js';
import { COUNTED_AS } from './instance-presence.js';
import { type KnownClient, newClient, type PublishedTopics } from './known-client.js';
import type { CutOff } from './lease.js';
import { PeerInstances } from './peer-instances.js';
import { plainClients } from './plain-clients.js';
import type { RecentUpdate, RecentUpdates } from './recent-updates.js';
import { ClientRegistry } from './registry.js';
import { awayAtStart, returning } from './returning.js';
import { createSessionHandler, type SessionLog } from './session-handler.js';
import { createTrace, type TraceQuery } from './trace-of.js';
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
  readonly log: SessionLog & Pick<UpdateLog, 'audit' | 'row' | 'clockAheadMs'>;
  /** Nothing was in the log when this server started. */
  readonly isNewLog: boolean;
  readonly recent: RecentUpdates;
  readonly policyHead: () => string | undefined;
  /** The served commit and those before it, the newest first. */
  readonly servedCommits: () => readonly string[];
  /** The commit that the body of a row of kind `policy` is about; undefined: it does not say. */
  readonly commitOfRow: (body: string) => string | undefined;
  /** The text of a module of a commit; undefined: there is none. */
  readonly moduleText: ClientAnswerDeps['moduleText'];
  /** Owners of client ids. */
  readonly claims: IdClaims;
  /** The clients before the start; undefined: none are known. */
  readonly stored?: StoredClients | undefined;
  /** Where instances announce their clients; undefined: there is only this one. */
  readonly presence: Presence | undefined;
  /** Mail between the instances; undefined: there is only this one. */
  readonly mail: Mail | undefined;
  /** All connections to the socket of this instance. */
  readonly peers: () => readonly PeerInfo[];
  /** Called with the latency of each update that a connected client has applied. */
  readonly onApplied?: ((seconds: number) => void) | undefined;
  /** When the last changes came how far. */
  readonly memory: TraceMemory;
  /** How this instance is, for its announcements. */
  readonly vitals?: (() => Vitals) | undefined;
  /** See {@link HeartbeatDeps.onLate}. */
  readonly onLate?: HeartbeatDeps['onLate'];
  readonly logger: Logger;
}

/** {@link Sessions.summary}; all but `away` count connected clients. Over all instances a client that is away counts once. */
export interface SessionsSummary {
  readonly connected: number;
  readonly plain: number;
  readonly away: number;
  readonly unhealthy: number;
  readonly lagging: number;
  readonly maxLagUpdates: number;
  readonly maxLagSeconds: number;
}

/** Maximum age of the announcements from which id claims are learned. */
const LEARN_AGE_MS = 2000;
const OTHERS_AGE_MS = 500;

/** The clients of this server instance and what they hold (design D21). */
export class Sessions {
  /** For the socket server. */
  readonly handler: SessionHandler;
  /** Returns a page of the clients of all instances. */
  readonly clients: (query: ClientsQuery) => Promise<ClientsAnswer>;
  /** The clients of all instances, as of at most half a second ago. */
  readonly everyone: (awaiting?: Awaiting) => Promise<AllClients>;
  /** One client in full, and what it is asked to do. */
  readonly client: ClientAnswers;
  /** Says what became of one change. */
  readonly trace: (query: TraceQuery) => Promise<TraceAnswer>;
  readonly waitApplied: Waiters['waitApplied'];
  readonly #options: SessionsOptions;
  readonly #deps: SessionsDeps;
  readonly #registry: ClientRegistry;
  readonly #instances: PeerInstances;
  readonly #waiters: Waiters;
  readonly #relay: AskRelay;
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
    const { stored } = deps;
    const startMs = Date.now();
    if (stored !== undefined) {
      const facts = { instance, epoch: log.epoch, head: log.head, isShared: deps.presence !== undefined };
      registry.restore(awayAtStart(stored, { ...facts, nowMs: startMs }));
    }
    const whyReturning = returning(stored, { startMs, isNewLog: deps.isNewLog });
    const onClient = ({ kind, clientId: id, subject, claimedMs: sinceMs }: KnownClient): void => {
      if (kind === 'session' && subject !== null) claims.learn({ id, subject, sinceMs }, Date.now());
    };
    const instances = new PeerInstances(
      { ...options, former: deps.stored },
      {
        ...{ presence: deps.presence, clients, head, onClient, memory: deps.memory, vitals: deps.vitals, log: logger },
        clockAheadMs: () => log.clockAheadMs,
        onCutOff: () => this.#tellCutOff(),
      },
    );
    this.#instances = instances;
    const otherName = (peer: SessionPeer): string | undefined => {
      const client = registry.clientAt(peer);
      const name = client && nameOf(client, ownerOf);
      return name === client?.clientId ? undefined : name;
    };
    const { onLate } = deps;
    const cutOff = (): CutOff | undefined => instances.cutOff;
    this.#heartbeat = { log, policyHead, otherName, cutOff, peerCount: () => registry.peerCount, onLate };
    const waiters = new Waiters({
      ...{ registry, instances, clients, whyReturning, now: Date.now },
      epoch: () => log.epoch,
      nameOf: (client) => nameOf(client, ownerOf),
    });
    this.#waiters = waiters;
    this.waitApplied = (...args) => waiters.waitApplied(...args);
    const { recent, memory, onApplied } = deps;
    const { servedCommits, commitOfRow } = deps;
    const times = new ClientTimesKeeper({ recent, memory, servedCommits, onApplied, now: Date.now });
    const onSteps = times.said.bind(times);
    const asks = new ClientAsks({ registry, log: logger });
    const clientOf = (key: string): KnownClient | undefined => registry.byKey(key);
    const relay = new AskRelay(options, { mail: deps.mail, asks, clientOf, log: logger });
    this.#relay = relay;
    const handled = { registry, asks, log, policyHead, otherName, cutOff, onSteps, logger };
    this.handler = createSessionHandler(options, handled);
    const from = { clients, instances, ownerOf, whyReturning, now: Date.now };
    this.clients = createClientsView({ ...deps, ...from, instance, clockAheadMs: () => log.clockAheadMs });
    this.client = createClientAnswers({ ...deps, ...from, asks: relay });
    this.trace = createTrace({ ...from, ...{ log, memory, policyHead, servedCommits, commitOfRow, instance } });
    this.everyone = (awaiting) => allClients(from, OTHERS_AGE_MS, awaiting);
    registry.watch((client, before) => {
      instances.changed();
      // Another instance may know the owner of its id.
      if (before === undefined && client.subject !== null) void instances.others(LEARN_AGE_MS);
      times.changed(client, before);
    });
  }

  /** The last data updates. */
  get recent(): RecentUpdates {
    return this.#deps.recent;
  }

  /** Calls the listener after each change of a client of this instance that has a session. Returns the unsubscribe function. */
  onClient(listener: () => void): () => void {
    return this.#registry.watch(listener, listener);
  }

  /** What to store of the clients of this instance. */
  get storable(): Omit<ClientsFileDeps, 'files' | 'log'> {
    const { log } = this.#deps;
    return {
      clients: () => this.#registry.list(),
      watch: (onChange) => this.#registry.watch(onChange),
      epoch: () => log.epoch,
      head: () => log.head,
    };
  }

  /** Counts the clients of other instances that subscribe to any of these topics. Never rejects. */
  countElsewhere(topics: PublishedTopics): Promise<number> {
    return this.#instances.countConcerned(topics);
  }

  /** Tells the other instances how this one is, before that is due: it drains. */
  announce(): void {
    this.#instances.changed();
  }

  /** Since when the backbone has not answered this instance; undefined: it does, or there is none. */
  get cutOff(): CutOff | undefined {
    return this.#instances.cutOff;
  }

  /** Counts the clients of this instance by state, as of the last call: who is connected elsewhere is asked for the next one. */
  summary(): SessionsSummary {
    const { log, recent, policyHead } = this.#deps;
    const about = { name: '', connected: 1, policyHead: policyHead() ?? null };
    const clients = this.#clients();
    const here = clients
      .filter(({ awaySinceMs }) => awaySinceMs === null)
      .map((client) => viewOf(client, about, { log, recent, now: Date.now }));
    return {
      connected: here.filter(({ kind }) => kind === 'session').length,
      plain: here.filter(({ kind }) => kind === 'plain').length,
      away: this.#countAway(clients),
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

  /** Called when updates were dropped before this instance had read them. */
  skipped(): void {
    this.#deps.recent.skipTo(this.#deps.log.head);
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
    this.#relay.run(signal);
    signal.addEventListener('abort', () => this.#waiters.close(), { once: true });
    await this.#instances.run(signal);
  }

  /**
   * The clients that are away and that this instance counts: those that it saw last, and, for all instances together the one with the first name,
   * those of instances that have ended or are not heard any more.
   */
  #countAway(own: readonly KnownClient[]): number {
    void this.#instances.others(OTHERS_AGE_MS);
    const { instance } = this.#options;
    const others = this.#instances.lastRead.instances;
    const isFirst = others.every((one) => COUNTED_AS[one.state] !== 'as_said' || instance < one.instance);
    const leftBehind = new Set(others.flatMap(({ instance: id, state }) => (COUNTED_AS[state] === 'away' ? [id] : [])));
    let count = 0;
    for (const client of chosenClients([own, ...others.map(({ clients }) => clients)]).values()) {
      if (client.awaySinceMs === null || client.saidGoodbye) continue;
      if (client.instance === instance || (isFirst && leftBehind.has(client.instance))) count++;
    }
    return count;
  }

  /** Clients learn at once whether what they hold may be old. */
  #tellCutOff(): void {
    const { cutOff } = this;
    const { logger } = this.#deps;
    if (cutOff === undefined) logger.info({}, 'this instance reaches the backbone again: its clients are told');
    else {
      const since = new Date(cutOff.sinceMs).toISOString();
      logger.warn(
        { since },
        'this instance is cut off from the backbone: its clients are told that what they hold may be old',
      );
    }
    for (const peer of this.#registry.peers) sendHeartbeat(peer, this.#heartbeat);
  }

  /** The clients of this instance. Those without a session count as always subscribed: since when is not known. */
  #clients(): KnownClient[] {
    const sessions = new Set([...this.#registry.peers].map(({ id }) => id));
    const plain = this.#deps.peers().filter(({ id, topics }) => !sessions.has(id) && topics.length > 0);
    const connections = plain.map((peer) => {
      const { subject, clientId = `${peer.host}:${peer.port}`, connectedAtMs: claimedMs } = peer;
      const about = { instance: this.#options.instance, claimedMs, spans: [{ from: 0, until: null }] };
      return newClient({ kind: 'plain', subject, clientId }, peer, about);
    });
    return [...this.#registry.list(), ...plainClients(connections)];
  }
}
