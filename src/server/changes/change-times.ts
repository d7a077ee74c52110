/** Stages of a data update at one server instance. */
export const UPDATE_STAGES = ['received', 'durable', 'announced'] as const;
/** Stages of a policy commit at one server instance. */
export const COMMIT_STAGES = ['found', 'refused', 'checked', 'agreed', 'served', 'announced'] as const;
export type UpdateStage = (typeof UPDATE_STAGES)[number];
export type CommitStage = (typeof COMMIT_STAGES)[number];

/** When a client was how far with a change: since 1970 by the clock of its instance. */
export interface ClientTimes {
  /** As it says: counted back from the arrival of its report. */
  readonly heard?: number | undefined;
  readonly fetched?: number | undefined;
  readonly applied?: number | undefined;
  readonly refused?: number | undefined;
  /**
   * A later update replaced it before the engine got any of it: never applied, whatever the
   * position says.
   */
  readonly replaced?: number | undefined;
  /** When the first report arrived that it is applied, or refused. */
  readonly appliedSeen?: number | undefined;
  readonly refusedSeen?: number | undefined;
}

/** Why the server refuses a commit: what is wrong, and where, apart from each other. */
export interface Refusal {
  readonly message: string;
  readonly code: string | undefined;
  /** Undefined: it names no file. */
  readonly file?: string | undefined;
  readonly line?: number | undefined;
}

/** What responses say of it. */
export function refusalView({ message, code, file, line }: Refusal): {
  message: string;
  code?: string;
  file?: string;
  line?: number;
} {
  return {
    message,
    ...(code !== undefined && { code }),
    ...(file !== undefined && { file }),
    ...(line !== undefined && { line }),
  };
}

/** What one instance remembers of a change. */
export interface ChangeMemory<S extends string> {
  /** By its own clock, in milliseconds since 1970. */
  readonly stages: Readonly<Partial<Record<S, number>>>;
  /** Connections that it was announced to. */
  readonly subscribers?: number | undefined;
  /** Id of a data update. */
  readonly id?: string | undefined;
  /** The first of the topics that a commit was announced on. */
  readonly topics?: readonly string[] | undefined;
  /** Why a commit is refused. */
  readonly error?: Refusal | undefined;
  /** By the key of the client. */
  readonly clients: ReadonlyMap<string, ClientTimes>;
  /** Times of clients were forgotten to make room. */
  readonly isShort?: boolean | undefined;
}

interface Change<S extends string> extends ChangeMemory<S> {
  readonly stages: Partial<Record<S, number>>;
  subscribers?: number | undefined;
  id?: string | undefined;
  topics?: readonly string[] | undefined;
  error?: ChangeMemory<S>['error'];
  clients: Map<string, ClientTimes>;
  isShort?: boolean;
}

/** Bounds of {@link ChangeTimes}: changes, and times of clients with all of them. */
export interface ChangeLimits {
  readonly changes: number;
  readonly clients: number;
}

const LIMITS: ChangeLimits = { changes: 1000, clients: 50_000 };
const NOBODY: ReadonlyMap<string, ClientTimes> = new Map();

/**
 * When the last changes came how far, for `GET /trace`: in memory alone, and bounded. The oldest
 * are forgotten first; of a change with very many clients the times of the clients go before the
 * change does. Each stage keeps its first time.
 */
export class ChangeTimes<K extends number | string, S extends string> {
  readonly #limits: ChangeLimits;
  /** The oldest first. */
  readonly #changes = new Map<K, Change<S>>();
  /** {@link version} of each change when it changed last. */
  readonly #versions = new WeakMap<ChangeMemory<S>, number>();
  #version = 0;
  #clients = 0;

  constructor(limits = LIMITS) {
    this.#limits = limits;
  }

  /** Rises with everything that changes. */
  get version(): number {
    return this.#version;
  }

  /** {@link version} when a change that {@link get} returns changed last. */
  versionOf(change: ChangeMemory<S>): number {
    return this.#versions.get(change) ?? 0;
  }

  get(key: K): ChangeMemory<S> | undefined {
    return this.#changes.get(key);
  }

  /** The changes, the newest first. */
  newest(): [K, ChangeMemory<S>][] {
    return [...this.#changes].reverse();
  }

  /** Remembers a change of which no stage is known. */
  remember(key: K): void {
    this.#change(key);
  }

  /** A change has reached a stage. */
  reached(key: K, stage: S, atMs: number, more: Pick<ChangeMemory<S>, 'subscribers' | 'id' | 'topics'> = {}): void {
    const change = this.#change(key);
    change.stages[stage] ??= atMs;
    if (more.subscribers !== undefined) change.subscribers ??= more.subscribers;
    if (more.id !== undefined) change.id = more.id;
    if (more.topics !== undefined) change.topics ??= more.topics;
  }

  /** A change has failed at a stage. */
  failed(key: K, stage: S, atMs: number, error: Refusal): void {
    this.reached(key, stage, atMs);
    this.#change(key).error = error;
  }

  /** Forgets a change. */
  forget(key: K): void {
    this.#version++;
    this.#clients -= this.#changes.get(key)?.clients.size ?? 0;
    this.#changes.delete(key);
  }

  /** Notes what a client says of a change; of a change that is not known nothing is kept. */
  said(key: K, client: string, times: ClientTimes): void {
    const change = this.#changes.get(key);
    if (change === undefined || change.isShort === true) return;
    const known = change.clients.get(client);
    this.#touch(change);
    if (known === undefined) this.#clients++;
    change.clients.set(client, known === undefined ? times : firstOf(known, times));
    if (this.#clients > this.#limits.clients) this.#makeRoom();
  }

  #change(key: K): Change<S> {
    let change = this.#changes.get(key);
    if (change === undefined) {
      change = { stages: {}, clients: new Map() };
      this.#changes.set(key, change);
      const [oldest] = this.#changes;
      if (this.#changes.size > this.#limits.changes && oldest !== undefined) {
        this.#changes.delete(oldest[0]);
        this.#clients -= oldest[1].clients.size;
      }
    }
    this.#touch(change);
    return change;
  }

  #touch(change: Change<S>): void {
    this.#versions.set(change, ++this.#version);
  }

  #makeRoom(): void {
    for (const change of this.#changes.values()) {
      if (change.clients.size === 0) continue;
      this.#clients -= change.clients.size;
      change.clients = new Map();
      change.isShort = true;
      this.#touch(change);
      if (this.#clients <= this.#limits.clients / 2) return;
    }
  }
}

/** What several instances remember of one change: the first times of each client. */
export function mergedClients<S extends string>(
  memories: readonly ChangeMemory<S>[],
): ReadonlyMap<string, ClientTimes> {
  const [only] = memories;
  if (memories.length < 2) return only?.clients ?? NOBODY;
  const merged = new Map<string, ClientTimes>();
  for (const { clients } of memories) {
    for (const [key, times] of clients) {
      const known = merged.get(key);
      merged.set(key, known === undefined ? times : firstOf(known, times));
    }
  }
  return merged;
}

function firstOf(known: ClientTimes, news: ClientTimes): ClientTimes {
  const replaced = known.replaced ?? news.replaced;
  const first = {
    heard: known.heard ?? news.heard,
    fetched: known.fetched ?? news.fetched,
    refused: known.refused ?? news.refused,
    refusedSeen: known.refusedSeen ?? news.refusedSeen,
  };
  if (replaced !== undefined) return { ...first, replaced };
  return {
    ...first,
    applied: known.applied ?? news.applied,
    appliedSeen: known.appliedSeen ?? news.appliedSeen,
  };
}

/** What an instance remembers of data updates, by seq, and of policy commits, by hash. */
export interface TraceMemory {
  readonly updates: ChangeTimes<number, UpdateStage>;
  readonly commits: ChangeTimes<string, CommitStage>;
}

export function createTraceMemory(): TraceMemory {
  return { updates: new ChangeTimes(), commits: new ChangeTimes() };
}
