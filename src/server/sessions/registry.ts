import type { SessionPeer } from '../../pubsub/session-peer.js';
import type { Position, SessionReport } from '../../wire/session.js';
import { type KnownClient, withSpan } from './known-client.js';

/** Clients that left and are still listed: the oldest are forgotten beyond it. */
const MAX_AWAY = 10_000;

/** What {@link ClientRegistry} is made with. */
export interface RegistryOptions {
  /** Name of this server instance. */
  readonly instance: string;
  /** How long a client that left is remembered (SYNC_CLIENT_MEMORY). */
  readonly memoryMs: number;
}

/** What it works with. */
export interface RegistryDeps {
  /** Last seq of the log that this instance has seen. */
  readonly head: () => number;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

interface Entry {
  client: KnownClient;
  /** Undefined: it is away. */
  peer: SessionPeer | undefined;
}

/** The clients of this server instance that say what they hold, and those that were here a while ago. */
export class ClientRegistry {
  readonly #options: RegistryOptions;
  readonly #deps: RegistryDeps;
  readonly #byId = new Map<string, Entry>();
  readonly #idOf = new Map<SessionPeer, string>();
  /** Those that are away, in the order in which they left. */
  readonly #away = new Set<string>();
  readonly #watchers = new Set<(client: KnownClient, before: KnownClient | undefined) => void>();

  constructor(options: RegistryOptions, deps: RegistryDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** The connection of a client; undefined: it is not here. */
  peerOf(clientId: string): SessionPeer | undefined {
    return this.#byId.get(clientId)?.peer;
  }

  /** The client at a connection; undefined: it opened no session. */
  clientAt(peer: SessionPeer): string | undefined {
    return this.#idOf.get(peer);
  }

  /** Clients that are connected. */
  get peers(): ReadonlyMap<SessionPeer, string> {
    return this.#idOf;
  }

  /**
   * A client is subscribed, also where it is known from before or subscribes to more. `position`: null where it is none of
   * this log. The client must not be connected otherwise.
   */
  connected(peer: SessionPeer, clientId: string, position: Position | null): void {
    const known = this.#byId.get(clientId);
    const before = known?.client;
    const { host, port, topics } = peer.info;
    const isSame = known?.peer === peer;
    const spans = before?.spans ?? [];
    this.#away.delete(clientId);
    this.#idOf.set(peer, clientId);
    this.#set(clientId, peer, {
      clientId,
      kind: 'session',
      instance: this.#options.instance,
      address: `${host}:${port}`,
      topics,
      spans: isSame ? spans : withSpan(spans, { from: this.#deps.head(), until: null }),
      connectedAtMs: isSame && before !== undefined ? before.connectedAtMs : this.#deps.now(),
      awaySinceMs: null,
      position,
      state: before?.state ?? null,
      reportedAtMs: before?.reportedAtMs ?? null,
      lastError: before?.lastError ?? null,
    });
  }

  /** A client says what it holds. False: there is no such session at this connection. */
  reported(peer: SessionPeer, { client_id: clientId, position, ...state }: SessionReport): boolean {
    const entry = this.#byId.get(clientId);
    if (entry?.peer !== peer) return false;
    const atMs = this.#deps.now();
    const [failing] = state.failing;
    const { lastError } = entry.client;
    const isNew = failing !== undefined && (failing.path !== lastError?.path || failing.error !== lastError.error);
    this.#set(clientId, peer, {
      ...entry.client,
      position,
      state,
      reportedAtMs: atMs,
      lastError: isNew ? { ...failing, atMs } : lastError,
    });
    return true;
  }

  /** A connection has ended. */
  left(peer: SessionPeer): void {
    const clientId = this.#idOf.get(peer);
    this.#idOf.delete(peer);
    const entry = clientId === undefined ? undefined : this.#byId.get(clientId);
    if (clientId === undefined || entry?.peer !== peer) return;
    const { client } = entry;
    this.#set(clientId, undefined, {
      ...client,
      topics: this.#topicsOf(entry),
      spans: client.spans.map((span) => (span.until === null ? { ...span, until: this.#deps.head() } : span)),
      awaySinceMs: this.#deps.now(),
    });
    this.#away.add(clientId);
    this.#forgetOld();
  }

  get(clientId: string): KnownClient | undefined {
    const entry = this.#byId.get(clientId);
    return entry === undefined ? undefined : this.#current(entry);
  }

  /** All that are here, and those that left within the memory. */
  list(): KnownClient[] {
    this.#forgetOld();
    return [...this.#byId.values()].map((entry) => this.#current(entry));
  }

  /** Calls back after each change of a client, at once; `before`: as it was known. Answers how to end it. */
  watch(onChange: (client: KnownClient, before: KnownClient | undefined) => void): () => void {
    this.#watchers.add(onChange);
    return () => this.#watchers.delete(onChange);
  }

  #set(clientId: string, peer: SessionPeer | undefined, client: KnownClient): void {
    const before = this.#byId.get(clientId)?.client;
    this.#byId.set(clientId, { client, peer });
    for (const onChange of this.#watchers) onChange(client, before);
  }

  /** A client may subscribe to more, or to less, at any time. */
  #current(entry: Entry): KnownClient {
    return entry.peer === undefined ? entry.client : { ...entry.client, topics: this.#topicsOf(entry) };
  }

  /** Of a connection that ended, too: it keeps its list. */
  #topicsOf({ client, peer }: Entry): readonly string[] {
    return peer?.info.topics ?? client.topics;
  }

  #forgetOld(): void {
    const tooOldMs = this.#deps.now() - this.#options.memoryMs;
    for (const clientId of this.#away) {
      const awaySinceMs = this.#byId.get(clientId)?.client.awaySinceMs ?? 0;
      if (awaySinceMs > tooOldMs && this.#away.size <= MAX_AWAY) return;
      this.#away.delete(clientId);
      this.#byId.delete(clientId);
    }
  }
}
