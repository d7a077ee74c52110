import { errorCode, errorText, failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { isAbort, sleep, Wakeup } from '../../lib/run/async.js';
import { withOverrides } from '../../lib/run/with-overrides.js';
import type { TraceMemory } from '../changes/change-times.js';
import { isConcerned, type KnownClient, type PublishedTopics } from '../clients/known-client.js';
import { type CutOff, Lease } from '../clients/lease.js';
import { isBackboneAway, type Presence } from '../log/log-store.js';
import { COUNTED_AS, EXPECTED_MS, LEASE_MS } from './instance-presence.js';
import { InstanceMemory, NO_OTHERS, type OtherInstances, type ReadText } from './other-instances.js';
import { PresenceJournal, type SaidOfItself } from './presence-journal.js';
import { PresenceReader } from './presence-reader.js';
import { type InstanceView, printHead } from './presence-text.js';
import type { Vitals } from './vitals.js';

export interface PeerInstancesOptions {
  /** Name of this instance. */
  readonly instance: string;
  /** How long a silent instance is remembered with its clients, at least {@link EXPECTED_MS}. */
  readonly memoryMs: number;
  /** The name that it had before this start, and when it was last there, if that is known. */
  readonly former?: Pick<InstanceView, 'instance' | 'atMs'> | undefined;
  /** How often clients report that have nothing to say. */
  readonly heartbeatMs?: number;
  /** Without a renewal for so long an instance is silent. Default: {@link LEASE_MS}. */
  readonly leaseMs?: number;
}

export interface PeerInstancesDeps {
  /** Where instances announce their clients; undefined: there is only this one. */
  readonly presence: Presence | undefined;
  /** The clients of this instance. */
  readonly clients: () => readonly KnownClient[];
  /** Last seq of the log that this instance has seen. */
  readonly head: () => number;
  /** Called with each client of another instance in a new announcement. */
  readonly onClient?: ((client: KnownClient) => void) | undefined;
  /** Called when this instance is cut off from the others, and when it is so no longer. */
  readonly onCutOff?: (() => void) | undefined;
  /** When the last changes came how far at this instance. */
  readonly memory?: TraceMemory | undefined;
  /** How this instance is. */
  readonly vitals?: (() => Vitals) | undefined;
  /** {@link LogStore.clockAheadMs}. */
  readonly clockAheadMs?: (() => number | undefined) | undefined;
  readonly log: Logger;
}

/** Changes within this time are announced together. */
const GATHER_MS = 100;
/** The part of the time that announcing may take, and the least time between two. */
const SHARE = 0.1;
const MIN_REST_MS = 150;
/** Of a client that was not heard for so many heartbeats it is told when it reported. */
const QUIET_BEATS = 2.5;
/** The owners of client ids are learned again so many times while they are remembered. */
const LEARN_TIMES = 4;
/** Maximum age of counts for publishers. */
const COUNT_AGE_MS = 1000;
/** How often an announcement is repeated within the lease. */
const REPEATS = 3;
/** A text with this time left is as good as removed. */
const AT_ONCE_MS = 1;

/** What reaches the backbone. */
interface Reached {
  /** The store's, which renews the lease with each answer. */
  readonly presence: Presence;
  readonly lease: Lease;
  readonly journal: PresenceJournal;
  readonly reader: PresenceReader;
}

/** A reading of what the others say. */
interface Reading {
  readonly withTimes: boolean;
  readonly done: Promise<OtherInstances>;
}

/** Announces the clients of this instance to the others, and reads theirs. */
export class PeerInstances {
  readonly #options: PeerInstancesOptions & { readonly leaseMs: number };
  readonly #deps: PeerInstancesDeps;
  readonly #changed = new Wakeup();
  readonly #memory: InstanceMemory;
  readonly #concerned = new ConcernedCounts();
  /** How long an announcement is kept by the backbone. */
  readonly #ttlMs: number;
  /** Undefined: there is only this instance. */
  readonly #reached: Reached | undefined;
  #isFailing = false;
  /** The announcement under way. Never rejects. */
  #announcing: Promise<void> = Promise.resolve();
  #learnedMs = performance.now();
  #reading: Reading | undefined;
  #last: { readonly atMs: number; readonly withTimes: boolean; readonly others: OtherInstances } | undefined;

  constructor(options: PeerInstancesOptions, deps: PeerInstancesDeps) {
    this.#options = { leaseMs: LEASE_MS, ...options };
    this.#deps = deps;
    this.#ttlMs = Math.max(options.memoryMs, EXPECTED_MS);
    this.#memory = new InstanceMemory(this.#ttlMs);
    if (deps.presence !== undefined) this.#reached = this.#reach(deps.presence);
  }

  #reach(store: Presence): Reached {
    const { instance, leaseMs, heartbeatMs = 0 } = this.#options;
    const { onCutOff, log } = this.#deps;
    const lease = new Lease(leaseMs, () => onCutOff?.());
    const presence = renewing(store, lease);
    const times = { renewMs: leaseMs / REPEATS, quietMs: Math.round(Math.max(leaseMs, QUIET_BEATS * heartbeatMs)) };
    const clockAheadMs = (): number | undefined => this.#deps.clockAheadMs?.();
    const onClients = (clients: readonly KnownClient[]): void => this.#learn(clients);
    return {
      ...{ presence, lease },
      journal: new PresenceJournal({ instance, ttlMs: this.#ttlMs, ...times }, presence),
      reader: new PresenceReader({ presence, instance, memoryMs: this.#ttlMs, clockAheadMs, onClients, log }),
    };
  }

  get isAlone(): boolean {
    return this.#deps.presence === undefined;
  }

  /** Since when the backbone has not answered this instance; undefined: it does. */
  get cutOff(): CutOff | undefined {
    return this.#reached?.lease.cutOff;
  }

  /** What was read last of the others, however long ago. */
  get lastRead(): OtherInstances {
    return this.#last?.others ?? NO_OTHERS;
  }

  /** Schedules an announcement: a client here, or the last seq seen, has changed. */
  changed(): void {
    this.#changed.set();
  }

  /**
   * Announces this instance before it accepts clients, so that a wait for all clients includes
   * them, and says that it has ended what it was before it was killed. Never rejects: `run` retries
   * while the backbone is unavailable.
   */
  async join(): Promise<void> {
    const { former } = this.#options;
    if (former !== undefined) await this.#endFormer(former);
    await this.#announce();
  }

  /** Announces clients until the signal aborts. Survives an unavailable backbone. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#reached === undefined) return;
    const repeatMs = this.#options.leaseMs / REPEATS;
    try {
      for (let restMs = 0; ; ) {
        await this.#changed.wait(signal, repeatMs - restMs);
        await sleep(GATHER_MS, signal);
        const begunMs = performance.now();
        await this.#announce();
        restMs = Math.min(Math.max(MIN_REST_MS, (performance.now() - begunMs) / SHARE), repeatMs);
        await sleep(restMs, signal);
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    } finally {
      this.#reached.lease.close();
    }
    // Waits must not depend on this instance from now on. Whoever has come elsewhere already is not
    // away.
    const here = new Set(
      this.lastRead.instances.flatMap(({ clients }) =>
        clients.flatMap((one) => (one.awaySinceMs === null ? one.key : [])),
      ),
    );
    await this.#end(this.#deps.clients().filter(({ key }) => !here.has(key)));
  }

  /**
   * Returns what is known of the other instances, at most `maxAgeMs` old; `withTimes`: with when
   * the last changes came how far there. Never rejects.
   */
  async others(maxAgeMs: number, withTimes = false): Promise<OtherInstances> {
    if (this.#reached === undefined) return NO_OTHERS;
    const last = this.#last;
    const isEnough = (one: { readonly withTimes: boolean }): boolean => one.withTimes || !withTimes;
    if (last !== undefined && isEnough(last) && performance.now() - last.atMs <= maxAgeMs) return last.others;
    const before = this.#reading;
    if (before !== undefined && isEnough(before)) return before.done;
    const { reader } = this.#reached;
    const read = async (): Promise<OtherInstances> => {
      await before?.done;
      return await this.#read(reader, withTimes);
    };
    const done = read().finally(() => {
      if (this.#reading === reading) this.#reading = undefined;
    });
    const reading = { withTimes, done };
    this.#reading = reading;
    return done;
  }

  /** Counts connected clients elsewhere on any of these topics, at most a second old. */
  async countConcerned(topics: PublishedTopics): Promise<number> {
    const { instances } = await this.others(COUNT_AGE_MS);
    const heard = instances.filter(({ state }) => COUNTED_AS[state] === 'as_said');
    return heard.reduce((sum, { clients }) => sum + this.#concerned.count(clients, topics), 0);
  }

  /** Says that what was killed here has ended, without clients. If it fails, that is silent. */
  async #endFormer({ instance, atMs }: Pick<InstanceView, 'instance' | 'atMs'>): Promise<void> {
    const nothing = { version: 0, heardAfterMs: 0, sheets: [], times: [], hasEnded: true } as const;
    const text = await printHead({ ...nothing, instance, atMs, seen: this.#deps.head(), ttlMs: this.#ttlMs });
    await this.#reached?.presence.put(instance, text, this.#ttlMs).catch((error: unknown) => this.#notTold(error));
  }

  /** Says that this instance ended, its clients away. If it fails, it is silent for the others. */
  async #end(clients: readonly KnownClient[]): Promise<void> {
    await this.#announcing;
    const said = { clients, seen: this.#deps.head(), hasEnded: true } as const;
    await this.#reached?.journal.say(said).catch((error: unknown) => this.#notTold(error));
  }

  #notTold(error: unknown): void {
    const text = 'the other instances cannot be told that an instance has ended';
    this.#deps.log.debug({ error: errorText(error) }, text);
  }

  /** Announces this instance as it is then, after what is being announced. Never rejects. */
  #announce(): Promise<void> {
    const announce = this.#announcing.then(() => this.#announceNow());
    this.#announcing = announce;
    return announce;
  }

  async #announceNow(): Promise<void> {
    const { log } = this.#deps;
    try {
      await this.#reached?.journal.say(this.#own());
      if (this.#isFailing) log.info({}, 'other instances see the clients of this one again');
      this.#isFailing = false;
    } catch (error) {
      const isNews = !this.#isFailing && !isBackboneAway(error);
      if (isNews) log.warn(failureFields(error), 'cannot announce the clients of this instance to the others');
      this.#isFailing = true;
    }
  }

  #own(): SaidOfItself {
    const { clients, head, memory, vitals } = this.#deps;
    const seen = head();
    return { seen, clients: clients(), memory, ...(vitals !== undefined && { vitals: vitals() }) };
  }

  async #read(reader: PresenceReader, withTimes: boolean): Promise<OtherInstances> {
    let others: OtherInstances;
    try {
      others = await this.#readAll(reader, withTimes);
    } catch (error) {
      const unread = `other server instances cannot be asked (${errorCode(error)})`;
      others = { ...this.lastRead, unread };
    }
    this.#last = { atMs: performance.now(), withTimes, others };
    return others;
  }

  async #readAll(reader: PresenceReader, withTimes: boolean): Promise<OtherInstances> {
    const { texts, readMs } = await reader.read(withTimes);
    // Of clients that stay where they are nothing new is read.
    if (readMs - this.#learnedMs > this.#options.memoryMs / LEARN_TIMES) {
      this.#learnedMs = readMs;
      for (const clients of reader.clients) this.#learn(clients);
    }
    const others = this.#memory.take(texts, this.#deps.clients, readMs);
    for (const { instance, state } of others.instances)
      if (state === 'gone') this.#remove(instance, texts.get(instance));
    return others;
  }

  #learn(clients: readonly KnownClient[]): void {
    const { onClient } = this.#deps;
    if (onClient !== undefined) clients.forEach(onClient);
  }

  /** Removes the announcement of an instance whose clients are all elsewhere: nobody needs it. */
  #remove(instance: string, found: ReadText | undefined): void {
    if (found === undefined) return;
    this.#reached?.presence
      .put(instance, found.text, AT_ONCE_MS)
      .catch((error: unknown) =>
        this.#deps.log.debug(
          { instance, error: errorText(error) },
          'cannot remove the announcement of an instance that is gone',
        ),
      );
  }
}

/** The presence of a backbone: each answer renews the lease. */
function renewing(presence: Presence, lease: Lease): Presence {
  const heard = async <T>(call: () => Promise<T>): Promise<T> => {
    const sentMs = performance.now();
    try {
      const answer = await call();
      lease.answered(sentMs);
      return answer;
    } catch (error) {
      if (!isBackboneAway(error)) lease.answered(sentMs);
      throw error;
    }
  };
  return withOverrides(presence, {
    put: (...args) => heard(() => presence.put(...args)),
    list: () => heard(() => presence.list()),
    putParts: (...args) => heard(() => presence.putParts(...args)),
    parts: (...args) => heard(() => presence.parts(...args)),
  });
}

/** Connected clients that subscribe to the same topics, by one of them. */
interface Alike {
  readonly client: KnownClient;
  count: number;
}

/**
 * Counts the connected clients of a list that a publication concerns. A list is gone through once,
 * however many publications there are: a fleet has few lists of topics, whatever its size.
 */
export class ConcernedCounts {
  readonly #alike = new WeakMap<readonly KnownClient[], readonly Alike[]>();

  /** Counts them. The list must never change: one that was changed is another list. */
  count(clients: readonly KnownClient[], published: PublishedTopics): number {
    let alike = this.#alike.get(clients);
    if (alike === undefined) {
      alike = alikeOf(clients);
      this.#alike.set(clients, alike);
    }
    return alike.reduce((sum, { client, count }) => (isConcerned(client, published) ? sum + count : sum), 0);
  }
}

function alikeOf(clients: readonly KnownClient[]): readonly Alike[] {
  const byTopics = new Map<string, Alike>();
  for (const client of clients) {
    if (client.awaySinceMs !== null) continue;
    const key = JSON.stringify([client.topicsLeftOut > 0, client.topics]);
    const known = byTopics.get(key);
    if (known === undefined) byTopics.set(key, { client, count: 1 });
    else known.count += 1;
  }
  return [...byTopics.values()];
}
