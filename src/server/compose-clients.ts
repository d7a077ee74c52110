import type { Logger } from '../lib/observe/log.js';
import type { PeerInfo, SessionHandler, SessionPeer } from '../pubsub/peer.js';
import type { ClientsAnswer } from '../wire/clients.js';
import type { TraceAnswer } from '../wire/trace.js';
import type { TraceMemory } from './changes/change-times.js';
import { type ClientAnswers, createClientAnswers } from './changes/client-answer.js';
import { ClientTimesKeeper } from './changes/client-times.js';
import type { StageFeed } from './changes/stages.js';
import { createTrace, type TraceQuery } from './changes/trace-of.js';
import { ClientAsks } from './clients/client-asks.js';
import { listedNameOf, otherNameOf } from './clients/client-view.js';
import { Heartbeats } from './clients/heartbeats.js';
import type { IdClaims } from './clients/id-claims.js';
import { isSameClient, isSamePosition, type KnownClient } from './clients/known-client.js';
import { ownClients } from './clients/plain-clients.js';
import type { RecentUpdates } from './clients/recent-updates.js';
import { ClientRegistry } from './clients/registry.js';
import { type Arrives, ClientSessions } from './clients/session-handler.js';
import type { Mail, Presence } from './log/log-store.js';
import type { HistoryReader } from './log/update-log.js';
import { createEveryone, type Everyone } from './peers/all-clients.js';
import { AskRelay } from './peers/ask-relay.js';
import { type ClientCounts, clientCounts } from './peers/client-counts.js';
import type { StoredClients } from './peers/clients-file.js';
import { type ClientsQuery, createClientsView } from './peers/clients-view.js';
import type { Instances } from './peers/instances.js';
import { PeerInstances } from './peers/peer-instances.js';
import { awayAtStart, returning } from './peers/returning.js';
import { Waiters } from './peers/waiters.js';
import type { Policy } from './policy/policy.js';

interface ClientPartsOptions {
  /** Id of this instance, new on each start. */
  readonly instance: string;
  /** SYNC_HEARTBEAT_INTERVAL. */
  readonly heartbeatMs: number;
  /** SYNC_CLIENT_AWAY_TTL. */
  readonly memoryMs: number;
}

interface ClientPartsDeps {
  readonly log: HistoryReader;
  /** Nothing was in the log when this server started. */
  readonly isNewLog: boolean;
  readonly recent: RecentUpdates;
  /** When the last changes came how far. */
  readonly memory: TraceMemory;
  readonly policyHead: () => string | undefined;
  /** The served commit and those before it, the newest first. */
  readonly servedCommits: () => readonly string[];
  readonly moduleText: Policy['moduleText'];
  /** Owners of client ids. */
  readonly claims: IdClaims;
  /** The clients before the start; undefined: none are known. */
  readonly stored: StoredClients | undefined;
  /** Stores a client before it is served; undefined: none is stored. */
  readonly arrives?: Arrives | undefined;
  /** Where instances announce their clients; undefined: there is only this one. */
  readonly presence: Presence | undefined;
  /** Mail between the instances; undefined: there is only this one. */
  readonly mail: Mail | undefined;
  /** All connections to the socket of this instance. */
  readonly connections: () => readonly PeerInfo[];
  /** Is told of each update that a connected client has applied. */
  readonly feed: StageFeed;
  /** How this instance is, for its announcements; undefined: it does not say. */
  readonly instances: Pick<Instances, 'vitals' | 'onLate'> | undefined;
  readonly logger: Logger;
}

/** Who is connected, what they hold, and what the other instances say of theirs (design D21). */
export interface ClientParts {
  readonly registry: ClientRegistry;
  readonly peerInstances: PeerInstances;
  readonly heartbeats: Heartbeats;
  readonly relay: AskRelay;
  readonly waiters: Waiters;
  /** For the socket server. */
  readonly handler: SessionHandler;
  readonly everyone: Everyone;
  /** Counts the clients of this instance. */
  readonly counts: () => ClientCounts;
  /** A page of the clients of all instances. */
  readonly list: (query: ClientsQuery) => Promise<ClientsAnswer>;
  /** One client in full, and what it is asked to do. */
  readonly answers: ClientAnswers;
  /** What became of one change. */
  readonly trace: (query: TraceQuery) => Promise<TraceAnswer>;
}

/** Maximum age of the announcements from which id claims are learned. */
const LEARN_AGE_MS = 2000;

/** Makes the parts; they do nothing by themselves until {@link runClients}. */
export function composeClients(options: ClientPartsOptions, deps: ClientPartsDeps): ClientParts {
  const { instance } = options;
  const { log, claims, policyHead, logger, stored, presence, mail, recent, memory, instances } = deps;
  const { servedCommits, feed } = deps;
  const now = Date.now;
  const startMs = now();
  const head = (): number => log.head;
  const clockAheadMs = (): number | undefined => log.clockAheadMs;
  const ownerOf = (clientId: string): string | undefined => claims.ownerOf(clientId, now());
  const registry = new ClientRegistry(options, { head, claims, now });
  if (stored !== undefined) {
    const facts = { instance, epoch: log.epoch, head: log.head, isShared: presence !== undefined };
    registry.restore(awayAtStart(stored, { ...facts, nowMs: startMs }));
  }
  const clients = (): KnownClient[] => ownClients(instance, registry, deps.connections());
  const onClient = ({ kind, clientId: id, subject, claimedMs: sinceMs }: KnownClient): void => {
    if (kind === 'session' && subject !== null) claims.learn({ id, subject, sinceMs }, now());
  };
  const onCutOff = (): void => heartbeats.tellCutOff();
  const vitals = instances && (() => instances.vitals());
  const peerInstances = new PeerInstances(
    { ...options, former: stored },
    { presence, clients, head, onClient, onCutOff, memory, vitals, clockAheadMs, log: logger },
  );
  const otherName = (peer: SessionPeer): string | undefined => otherNameOf(registry.clientAt(peer), ownerOf);
  const told = { registry, log, policyHead, otherName, cutOff: () => peerInstances.cutOff, logger };
  const heartbeats = new Heartbeats(options.heartbeatMs, { ...told, onLate: (lateMs) => instances?.onLate(lateMs) });
  const asks = new ClientAsks({ registry, log: logger });
  const relay = new AskRelay(options, { mail, asks, clientOf: (key) => registry.byKey(key), log: logger });
  const times = new ClientTimesKeeper({ recent, memory, servedCommits, feed, now });
  const onSteps: ClientTimesKeeper['said'] = (...said) => times.said(...said);
  const handler = new ClientSessions(options, { ...told, asks, arrives: deps.arrives, onSteps });
  registry.watch((client, before) => {
    if (before === undefined || !isToldAlike(client, before)) peerInstances.changed();
    // Another instance may know the owner of its id.
    if (before === undefined && client.subject !== null) void peerInstances.others(LEARN_AGE_MS);
    times.changed(client, before);
  });
  const whyReturning = returning(stored, { startMs, isNewLog: deps.isNewLog });
  const from = { clients, instances: peerInstances, ownerOf, whyReturning, now };
  const everyone = createEveryone(from);
  const view = { everyone, log, recent, policyHead, now };
  const nameOf = (client: KnownClient): string => listedNameOf(client, ownerOf);
  return {
    ...{ registry, peerInstances, heartbeats, relay, handler, everyone },
    waiters: new Waiters({ ...from, registry, epoch: () => log.epoch, nameOf }),
    counts: () => clientCounts({ ...from, log, recent, instance }),
    list: createClientsView({ ...view, instance, clockAheadMs }),
    answers: createClientAnswers({ ...view, moduleText: deps.moduleText, asks: relay, logger }),
    trace: createTrace({ ...view, memory, servedCommits, instance }),
  };
}

/** Sends heartbeats, takes mail and announces clients until the signal aborts. */
export async function runClients(parts: ClientParts, signal: AbortSignal): Promise<void> {
  const { heartbeats, relay, waiters, peerInstances } = parts;
  heartbeats.run(signal);
  relay.run(signal);
  signal.addEventListener('abort', () => waiters.close(), { once: true });
  await peerInstances.run(signal);
}

/** Whether others are told the same of both views of a client. */
function isToldAlike(client: KnownClient, before: KnownClient): boolean {
  return isSamePosition(client.position, before.position) && isSameClient(client, before);
}
