import type { SessionPeer } from '../../pubsub/peer.js';
import { type Labels, NO_LABELS } from '../../wire/labels.js';
import type { AskKind, Position, SessionReport } from '../../wire/session.js';
import type { IdClaims } from './id-claims.js';
import {
  clientKey,
  goodbyeForm,
  type KnownClient,
  NO_ASKS,
  newClient,
  smallForm,
  withSpan,
  withTimes,
} from './known-client.js';

export interface RegistryOptions {
  /** Name of this server instance. */
  readonly instance: string;
  /** How long a disconnected client stays listed (SYNC_CLIENT_AWAY_TTL). */
  readonly memoryMs: number;
}

export interface RegistryDeps {
  /** Last seq of the log that this instance has seen. */
  readonly head: () => number;
  /** Owners of client ids. */
  readonly claims: Pick<IdClaims, 'use' | 'release'>;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** What a client says when it subscribes. */
interface Subscribed {
  /** Null: of another log. */
  readonly position: Position | null;
  readonly labels?: Labels | undefined;
  readonly asks?: readonly AskKind[] | undefined;
  /** When it says so, by its own clock. */
  readonly atMs?: number | undefined;
}

interface Entry {
  client: KnownClient;
  /** Undefined: it is away, or said goodbye. */
  peer: SessionPeer | undefined;
  /** It has not come back since this server started. */
  isRestored?: boolean;
}

interface Watcher {
  readonly onChange: (client: KnownClient, before: KnownClient | undefined) => void;
  readonly onGone: (key: string) => void;
}

/**
 * The clients of this server instance that have a session or had one recently. A subject and an id
 * identify a client: two subjects with the same id are two clients. If a client has two
 * connections, the newer one is the client at once; the older one is its *twin* until it closes.
 */
export class ClientRegistry {
  readonly #options: RegistryOptions;
  readonly #deps: RegistryDeps;
  readonly #byKey = new Map<string, Entry>();
  readonly #keyOf = new Map<SessionPeer, string>();
  /** Older connections by the key of the client, oldest first. */
  readonly #twins = new Map<string, Set<SessionPeer>>();
  readonly #away = new AwayClients();
  readonly #goodbyes = new AwayClients();
  readonly #watchers = new Set<Watcher>();

  constructor(options: RegistryOptions, deps: RegistryDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /**
   * Lists clients of before the start, the first that left in front. Call it before any connects.
   */
  restore(clients: readonly KnownClient[]): void {
    for (const client of clients) {
      this.#byKey.set(client.key, { client, peer: undefined, isRestored: true });
      this.#listOf(client).add(client.key, client.subject);
    }
    this.#forgetOld();
  }

  /** The connection of a client; undefined: it is not here. */
  peerOf(clientId: string, subject: string | null): SessionPeer | undefined {
    return this.#byKey.get(clientKey({ kind: 'session', subject, clientId }))?.peer;
  }

  /** The client at a connection; undefined: it opened no session. */
  clientAt(peer: SessionPeer): KnownClient | undefined {
    const key = this.#keyOf.get(peer);
    return key === undefined ? undefined : this.#byKey.get(key)?.client;
  }

  /** Connections with a session. */
  get peers(): Iterable<SessionPeer> {
    return this.#keyOf.keys();
  }

  get peerCount(): number {
    return this.#keyOf.size;
  }

  /**
   * The reduced form of a client as it is once it has subscribed, also to these topics. A twin
   * arrives as the client: of its connection nobody knows after a restart.
   */
  arriving(peer: SessionPeer, clientId: string, said: Subscribed, added: readonly string[]): KnownClient {
    const { known, client } = this.#subscribed(peer, clientId, said);
    const topics = [...new Set([...client.topics, ...added])];
    const identity = { ...client, twin: undefined };
    const claimedMs = known?.client.claimedMs ?? client.connectedAtMs;
    return smallForm({ ...identity, key: clientKey(identity), topics, claimedMs });
  }

  /**
   * Records that a client has subscribed, or subscribes to more. `position`: null if it is in
   * another log. Returns its older connection if that is still open: it is a doubtful twin from now
   * on.
   */
  connected(peer: SessionPeer, clientId: string, said: Subscribed): SessionPeer | undefined {
    const { known, client } = this.#subscribed(peer, clientId, said);
    const { key, subject } = client;
    const isSame = known?.peer === peer;
    const older = isSame ? undefined : known?.peer;
    if (older !== undefined) this.#makeTwin(older);
    const before: Partial<KnownClient> = known?.client ?? {};
    const { lastError = null } = before;
    // What it held before the start of this server, or its own, may be gone: it says anew what it
    // holds.
    const isNew = known?.isRestored === true || (!isSame && said.position === null);
    const { state = null, reportedAtMs = null } = isNew ? {} : before;
    this.#expected(key);
    this.#keyOf.set(peer, key);
    const claimedMs = this.#deps.claims.use(clientId, subject, this.#deps.now());
    if (known?.isRestored) this.#byKey.delete(key);
    this.#set(peer, { ...client, claimedMs, state, reportedAtMs, lastError });
    return older;
  }

  /** A client as its subscription makes it, and what was known of it. */
  #subscribed(
    peer: SessionPeer,
    clientId: string,
    { position, labels = NO_LABELS, asks = NO_ASKS, atMs: openedAtMs }: Subscribed,
  ): { readonly known: Entry | undefined; readonly client: KnownClient } {
    const { subject } = peer.info;
    const known = this.#byKey.get(this.#keyOf.get(peer) ?? clientKey({ kind: 'session', subject, clientId }));
    const isSame = known?.peer === peer;
    const now = this.#deps.now();
    const spans = known === undefined ? [] : isSame ? known.client.spans : withTimes(known.client, now);
    const client = newClient(
      { kind: 'session', subject, clientId, twin: known?.client.twin },
      { ...peer.info, connectedAtMs: (isSame && known.client.connectedAtMs) || now },
      {
        instance: this.#options.instance,
        claimedMs: now,
        spans: isSame ? spans : withSpan(spans, { from: this.#deps.head(), until: null }),
      },
    );
    return { known, client: { ...client, openedAtMs, labels, asks, position } };
  }

  /** Lists a twin that is alive. */
  lives(peer: SessionPeer): void {
    const client = this.clientAt(peer);
    if (client?.twin !== undefined) this.#set(peer, { ...client, isDoubtful: false });
  }

  /** Records the report of a client. Returns false if this connection has no such session. */
  reported(peer: SessionPeer, { client_id: clientId, position, ...state }: Omit<SessionReport, 'steps'>): boolean {
    const client = this.clientAt(peer);
    if (client?.clientId !== clientId) return false;
    const atMs = this.#deps.now();
    const [failing] = state.failing;
    const { lastError } = client;
    const isNew = failing !== undefined && (failing.path !== lastError?.path || failing.error !== lastError.error);
    this.#set(peer, {
      ...client,
      position,
      state,
      reportedAtMs: atMs,
      lastError: isNew ? { path: failing.path, error: failing.error, kind: failing.kind, atMs } : lastError,
    });
    return true;
  }

  /**
   * Records that a connection has closed, and why; by a goodbye the client is not expected back. If
   * it was the client's, a doubtful twin becomes the client again.
   */
  left(peer: SessionPeer, awayReason?: string, isGoodbye = false): void {
    const client = this.clientAt(peer);
    this.#keyOf.delete(peer);
    if (client === undefined) return;
    const { key, clientId, subject, twin } = client;
    const now = this.#deps.now();
    const ended = { until: this.#deps.head() };
    const spans = withTimes(client, now).map((span) => (span.until === null ? { ...span, ...ended } : span));
    const gone = { ...client, topics: peer.info.topics, spans, awaySinceMs: now, awayReason };
    const left = isGoodbye ? goodbyeForm(gone) : smallForm(gone);
    if (twin !== undefined) {
      // A live twin is a client of its own: waits must see that it is away.
      if (client.isDoubtful === false) this.#set(undefined, left);
      this.#twinEnds(peer, client);
      return;
    }
    this.#set(undefined, left);
    this.#listOf(left).add(key, subject);
    this.#forgetOld();
    const twins = [...(this.#twins.get(key) ?? [])];
    const heir = twins.find((each) => this.clientAt(each)?.isDoubtful);
    if (heir !== undefined) this.#takeOver(heir, gone);
    else if (twins.length === 0) this.#deps.claims.release(clientId, subject, this.#deps.now());
  }

  /** The connection of a client by its key; undefined: it is not connected here. */
  peerByKey(key: string): SessionPeer | undefined {
    return this.#byKey.get(key)?.peer;
  }

  /** The client with a key; undefined: none is known here. */
  byKey(key: string): KnownClient | undefined {
    return this.#byKey.get(key)?.client;
  }

  get(clientId: string, subject: string | null): KnownClient | undefined {
    const entry = this.#byKey.get(clientKey({ kind: 'session', subject, clientId }));
    return entry === undefined ? undefined : current(entry);
  }

  /** Returns all clients: connected, away, and those that said goodbye. */
  list(): KnownClient[] {
    this.#forgetOld();
    return [...this.#byKey.values()].map(current);
  }

  /**
   * `onChange`: after each change of a client; `onGone`: a twin has closed or become the client.
   */
  watch(onChange: Watcher['onChange'], onGone: Watcher['onGone'] = () => undefined): () => void {
    const watcher = { onChange, onGone };
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  #makeTwin(peer: SessionPeer): void {
    const client = this.clientAt(peer);
    if (client === undefined) return;
    const twins = this.#twins.get(client.key) ?? new Set<SessionPeer>();
    this.#twins.set(client.key, twins.add(peer));
    const twin = { ...client, twin: peer.id, isDoubtful: true };
    const key = clientKey(twin);
    this.#keyOf.set(peer, key);
    this.#set(peer, { ...twin, key });
  }

  /** A twin becomes the client. */
  #takeOver(peer: SessionPeer, { key, spans }: KnownClient): void {
    const twin = this.clientAt(peer);
    if (twin === undefined) return;
    this.#expected(key);
    this.#keyOf.set(peer, key);
    const last = twin.spans.at(-1);
    const client = { ...twin, key, twin: undefined, isDoubtful: false };
    this.#set(peer, { ...client, spans: last === undefined ? spans : withSpan(spans, last) });
    this.#twinEnds(peer, twin);
  }

  #twinEnds(peer: SessionPeer, twin: KnownClient): void {
    const primary = clientKey({ ...twin, twin: undefined });
    const twins = this.#twins.get(primary);
    if (twins?.delete(peer) && twins.size === 0) {
      this.#twins.delete(primary);
      const isUsed = this.#byKey.get(primary)?.peer !== undefined;
      if (!isUsed) this.#deps.claims.release(twin.clientId, twin.subject, this.#deps.now());
    }
    const last = this.#byKey.get(twin.key)?.client;
    this.#byKey.delete(twin.key);
    if (last?.awaySinceMs != null) return;
    for (const { onGone } of this.#watchers) onGone(twin.key);
  }

  #set(peer: SessionPeer | undefined, client: KnownClient): void {
    const before = this.#byKey.get(client.key)?.client;
    this.#byKey.set(client.key, { client, peer });
    for (const { onChange } of this.#watchers) onChange(client, before);
  }

  /** The list of those that left as this client did. */
  #listOf({ saidGoodbye }: KnownClient): AwayClients {
    return saidGoodbye ? this.#goodbyes : this.#away;
  }

  /** A client is here. */
  #expected(key: string): void {
    this.#away.delete(key);
    this.#goodbyes.delete(key);
  }

  #forgetOld(): void {
    const tooOldMs = this.#deps.now() - this.#options.memoryMs;
    for (const left of [this.#away, this.#goodbyes]) {
      left.trim(
        (key) => (this.#byKey.get(key)?.client.awaySinceMs ?? 0) <= tooOldMs,
        (key) => this.#byKey.delete(key),
      );
    }
  }
}

/**
 * Reads the topics, which a client may change any time. The same object while they are the same.
 */
function current(entry: Entry): KnownClient {
  const { client, peer } = entry;
  if (peer === undefined) return client;
  const { topics } = peer.info;
  const isSame =
    topics.length === client.topics.length && topics.every((topic, index) => topic === client.topics[index]);
  if (!isSame) entry.client = { ...client, topics };
  return entry.client;
}

/** Maximum number of clients that are away. */
const MAX_AWAY = 10_000;

/**
 * Clients away, oldest first. At the limit the largest subject loses its oldest: none evicts
 * others.
 */
export class AwayClients {
  readonly #max: number;
  readonly #subjectOf = new Map<string, string | null>();
  readonly #bySubject = new Map<string | null, Set<string>>();

  constructor(max = MAX_AWAY) {
    this.#max = max;
  }

  add(key: string, subject: string | null): void {
    this.delete(key);
    this.#subjectOf.set(key, subject);
    const keys = this.#bySubject.get(subject) ?? new Set<string>();
    keys.add(key);
    this.#bySubject.set(subject, keys);
  }

  delete(key: string): void {
    const subject = this.#subjectOf.get(key);
    if (subject === undefined) return;
    this.#subjectOf.delete(key);
    const keys = this.#bySubject.get(subject);
    if (keys?.delete(key) && keys.size === 0) this.#bySubject.delete(subject);
  }

  /** Removes clients that are too old or beyond the limit. */
  trim(isTooOld: (key: string) => boolean, forget: (key: string) => void): void {
    const drop = (key: string): void => {
      this.delete(key);
      forget(key);
    };
    for (const key of this.#subjectOf.keys()) {
      if (!isTooOld(key)) break;
      drop(key);
    }
    while (this.#subjectOf.size > this.#max) {
      let most: Set<string> | undefined;
      for (const keys of this.#bySubject.values()) if (keys.size > (most?.size ?? 0)) most = keys;
      const [oldest] = most ?? [];
      if (oldest === undefined) return;
      drop(oldest);
    }
  }
}
