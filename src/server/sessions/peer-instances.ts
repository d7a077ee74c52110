import { isAbort, sleep, Wakeup } from '../../lib/async.js';
import { errorCode, errorText, failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { Vitals } from '../instances/vitals.js';
import { isBackboneAway, type Presence } from '../log/log-store.js';
import type { TraceMemory } from '../trace/change-times.js';
import { COUNTED_AS, EXPECTED_MS, LEASE_MS } from './instance-presence.js';
import { isConcerned, type KnownClient, type PublishedTopics } from './known-client.js';
import { type CutOff, Lease } from './lease.js';
import { InstanceMemory, NO_OTHERS, type OtherInstances, type ReadText } from './other-instances.js';
import { type InstanceView, type OwnView, printView, readView } from './presence-text.js';

export interface PeerInstancesOptions {
  /** Name of this instance. */
  readonly instance: string;
  /** How long an instance that is not heard any more is remembered, with its clients, at least {@link EXPECTED_MS}. */
  readonly memoryMs: number;
  /** The name that it had before this start, and when it was last there, if that is known. */
  readonly former?: Pick<InstanceView, 'instance' | 'atMs'> | undefined;
  /** Minimum time between two announcements. Default: 1 s. */
  readonly minIntervalMs?: number;
  /** An announcement that is not renewed for so long makes the instance silent. Default: {@link LEASE_MS}. */
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
  /** {@link UpdateLog.clockAheadMs}. */
  readonly clockAheadMs?: (() => number | undefined) | undefined;
  readonly log: Logger;
}

/** Changes within this time are announced together. */
const GATHER_MS = 100;
/** Maximum age of counts for publishers: instances announce changes at most once a second. */
const COUNT_AGE_MS = 1000;
/** How often an announcement is repeated within the lease. */
const REPEATS = 3;
/** A text with this time left is as good as removed. */
const AT_ONCE_MS = 1;

/** Announces the clients of this instance to the others, and reads theirs. */
export class PeerInstances {
  readonly #options: Required<Omit<PeerInstancesOptions, 'former'>> & Pick<PeerInstancesOptions, 'former'>;
  readonly #deps: PeerInstancesDeps;
  readonly #changed = new Wakeup();
  readonly #memory: InstanceMemory;
  /** How long an announcement is kept by the backbone. */
  readonly #ttlMs: number;
  /** Undefined: there is only this instance. */
  readonly #lease: Lease | undefined;
  #isFailing = false;
  #reading: Promise<OtherInstances> | undefined;
  #last: { readonly atMs: number; readonly others: OtherInstances } | undefined;

  constructor(options: PeerInstancesOptions, deps: PeerInstancesDeps) {
    this.#options = { minIntervalMs: 1000, leaseMs: LEASE_MS, ...options };
    this.#deps = deps;
    this.#ttlMs = Math.max(options.memoryMs, EXPECTED_MS);
    this.#memory = new InstanceMemory(this.#ttlMs);
    if (deps.presence !== undefined) this.#lease = new Lease(this.#options.leaseMs, () => deps.onCutOff?.());
  }

  get isAlone(): boolean {
    return this.#deps.presence === undefined;
  }

  /** Since when the backbone has not answered this instance; undefined: it does. */
  get cutOff(): CutOff | undefined {
    return this.#lease?.cutOff;
  }

  /** What was read last of the others, however long ago. */
  get lastRead(): OtherInstances {
    return this.#last?.others ?? NO_OTHERS;
  }

  /** Schedules an announcement: a client of this instance, or the last seq that it has seen, has changed. */
  changed(): void {
    this.#changed.set();
  }

  /**
   * Announces this instance before it accepts clients, so that a wait for all clients includes them, and says that it has ended what it was
   * before it was killed. Never rejects: `run` retries while the backbone is unavailable.
   */
  async join(): Promise<void> {
    const { former } = this.#options;
    if (former !== undefined) await this.#end(former, []);
    await this.#announce();
  }

  /** Announces the clients of this instance until the signal aborts. Does not reject while the backbone is unavailable. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#deps.presence === undefined) return;
    const { instance, leaseMs, minIntervalMs } = this.#options;
    try {
      for (;;) {
        await this.#changed.wait(signal, leaseMs / REPEATS);
        await sleep(Math.min(GATHER_MS, minIntervalMs), signal);
        await this.#announce();
        await sleep(Math.min(minIntervalMs, leaseMs / REPEATS), signal);
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    } finally {
      this.#lease?.close();
    }
    // Waits must not depend on this instance from now on. Whoever has come elsewhere already is not away.
    const here = new Set(
      this.lastRead.instances.flatMap(({ clients }) =>
        clients.flatMap((one) => (one.awaySinceMs === null ? one.key : [])),
      ),
    );
    await this.#end(
      { instance, atMs: Date.now() },
      this.#deps.clients().filter(({ key }) => !here.has(key)),
    );
  }

  /** Returns what is known of the other instances, at most `maxAgeMs` old. Never rejects. */
  async others(maxAgeMs: number): Promise<OtherInstances> {
    if (this.isAlone) return NO_OTHERS;
    if (this.#last !== undefined && performance.now() - this.#last.atMs <= maxAgeMs) return this.#last.others;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /** Counts the connected clients of other instances that subscribe to any of these topics, as of at most a second ago. */
  async countConcerned(topics: PublishedTopics): Promise<number> {
    const { instances } = await this.others(COUNT_AGE_MS);
    const isHere = (client: KnownClient): boolean => client.awaySinceMs === null && isConcerned(client, topics);
    const heard = instances.filter(({ state }) => COUNTED_AS[state] === 'as_said');
    return heard.reduce((sum, { clients }) => sum + clients.filter(isHere).length, 0);
  }

  /** Says that an instance has ended in order, with these clients away until they come elsewhere. If this fails, it is silent for the others. */
  async #end(
    { instance, atMs }: Pick<InstanceView, 'instance' | 'atMs'>,
    clients: readonly KnownClient[],
  ): Promise<void> {
    const { head, log } = this.#deps;
    const text = await printView({
      ...{ instance, atMs, clients, seen: head(), leftOut: 0, hasEnded: true, ttlMs: this.#ttlMs },
    });
    await this.#deps.presence
      ?.put(instance, text, this.#ttlMs)
      .catch((error: unknown) =>
        log.debug({ error: errorText(error) }, 'the other instances cannot be told that an instance has ended'),
      );
  }

  async #announce(): Promise<void> {
    const { presence, log } = this.#deps;
    const sentMs = performance.now();
    try {
      await presence?.put(this.#options.instance, await printView(this.#own()), this.#ttlMs);
      this.#lease?.answered(sentMs);
      if (this.#isFailing) log.info({}, 'other instances see the clients of this one again');
      this.#isFailing = false;
    } catch (error) {
      const isAway = isBackboneAway(error);
      if (!isAway) this.#lease?.answered(sentMs);
      const isNews = !this.#isFailing && !isAway;
      if (isNews) log.warn(failureFields(error), 'cannot announce the clients of this instance to the others');
      this.#isFailing = true;
    }
  }

  #own(): OwnView {
    const { clients, head, memory, vitals } = this.#deps;
    const { instance } = this.#options;
    const about = { memory, ...(vitals !== undefined && { vitals: vitals() }) };
    return { instance, atMs: Date.now(), seen: head(), clients: clients(), leftOut: 0, ttlMs: this.#ttlMs, ...about };
  }

  async #read(): Promise<OtherInstances> {
    let others: OtherInstances;
    try {
      others = await this.#readAll();
    } catch (error) {
      const unread = `other server instances cannot be asked (${errorCode(error)})`;
      others = { ...this.lastRead, unread };
    }
    this.#last = { atMs: performance.now(), others };
    return others;
  }

  async #readAll(): Promise<OtherInstances> {
    const { presence, clients, onClient, log } = this.#deps;
    const sentMs = performance.now();
    const texts = (await presence?.list()) ?? new Map<string, never>();
    const readMs = performance.now();
    this.#lease?.answered(sentMs);
    const ours = this.#deps.clockAheadMs?.();
    const read = new Map<string, ReadText>();
    for (const [instance, { text, leftMs }] of texts) {
      if (instance === this.#options.instance) continue;
      let said: Pick<ReadText, 'view' | 'clockMs'> = { view: this.#memory.viewOf(instance, text) };
      if (said.view === undefined) {
        said = await readView(text)
          .then((view) => this.#memory.byOurClock(instance, view, { ours, seenMs: Date.now() }))
          .catch((error: unknown) => {
            log.debug({ instance, error: errorText(error) }, 'cannot read the announcement of another instance');
            return { view: undefined };
          });
        if (onClient !== undefined) said.view?.clients.forEach(onClient);
      }
      read.set(instance, { text, leftMs, ...said });
    }
    const others = this.#memory.take(read, clients(), readMs);
    for (const { instance, state } of others.instances)
      if (state === 'gone') this.#remove(instance, read.get(instance));
    return others;
  }

  /** Removes what is left of an instance whose clients have all come elsewhere: others would read it for as long as it is kept. */
  #remove(instance: string, found: ReadText | undefined): void {
    if (found === undefined) return;
    this.#deps.presence
      ?.put(instance, found.text, AT_ONCE_MS)
      .catch((error: unknown) =>
        this.#deps.log.debug(
          { instance, error: errorText(error) },
          'cannot remove the announcement of an instance that is gone',
        ),
      );
  }
}
