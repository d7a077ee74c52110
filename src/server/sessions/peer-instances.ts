import { isAbort, sleep, Wakeup } from '../../lib/async.js';
import { errorText, failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { Vitals } from '../instances/vitals.js';
import { isBackboneAway, type Presence } from '../log/log-store.js';
import type { TraceMemory } from '../trace/change-times.js';
import { type GoneInstance, GoneInstances } from './gone-instances.js';
import { isConcerned, type KnownClient, type PublishedTopics } from './known-client.js';
import { type InstanceView, type OwnView, printView, readView } from './presence-text.js';
import { viewInOurTime } from './view-times.js';

export interface PeerInstancesOptions {
  /** Name of this instance. */
  readonly instance: string;
  /** The name that it had before this start, and when it was last there, if that is known. */
  readonly former?: Pick<InstanceView, 'instance' | 'atMs'> | undefined;
  /** Minimum time between two announcements. Default: 1 s. */
  readonly minIntervalMs?: number;
  /** Lifetime of an announcement. Default: 10 s. */
  readonly ttlMs?: number;
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
  /** When the last changes came how far at this instance. */
  readonly memory?: TraceMemory | undefined;
  /** How this instance is. */
  readonly vitals?: (() => Vitals) | undefined;
  /** {@link UpdateLog.clockAheadMs}. */
  readonly clockAheadMs?: (() => number | undefined) | undefined;
  readonly log: Logger;
}

/** The announcements of the other instances. */
export interface OtherInstances {
  readonly views: readonly InstanceView[];
  /** Those that were there until a while ago. */
  readonly gone: readonly GoneInstance[];
  /** Why some may be missing; undefined: it is complete. */
  readonly incomplete: string | undefined;
}

type ReadViews = Map<string, { readonly text: string; readonly view: InstanceView }>;

/** Changes within this time are announced together. */
const GATHER_MS = 100;
/** Maximum age of counts for publishers: instances announce changes at most once a second. */
const COUNT_AGE_MS = 1000;
/** How often an announcement is repeated within its lifetime. */
const REPEATS = 3;

/** Announces the clients of this instance to the others, and reads theirs. */
export class PeerInstances {
  readonly #options: Required<Omit<PeerInstancesOptions, 'former'>> & Pick<PeerInstancesOptions, 'former'>;
  readonly #deps: PeerInstancesDeps;
  readonly #changed = new Wakeup();
  #isFailing = false;
  #reading: Promise<OtherInstances> | undefined;
  #last: { readonly atMs: number; readonly others: OtherInstances } | undefined;
  /** The last announcement of each instance with its parsed form: most announcements are repetitions. */
  #views: ReadViews = new Map();
  readonly #gone = new GoneInstances();

  constructor(options: PeerInstancesOptions, deps: PeerInstancesDeps) {
    this.#options = { minIntervalMs: 1000, ttlMs: 10_000, ...options };
    this.#deps = deps;
  }

  get isAlone(): boolean {
    return this.#deps.presence === undefined;
  }

  /** Schedules an announcement: a client of this instance, or the last seq that it has seen, has changed. */
  changed(): void {
    this.#changed.set();
  }

  /**
   * Announces this instance before it accepts clients, so that a wait for all clients includes them, and withdraws what it said before
   * it was killed. Never rejects: `run` retries while the backbone is unavailable.
   */
  async join(): Promise<void> {
    const { former } = this.#options;
    if (former !== undefined) await this.#withdraw(former);
    await this.#announce();
  }

  /** Announces the clients of this instance until the signal aborts. Does not reject while the backbone is unavailable. */
  async run(signal: AbortSignal): Promise<void> {
    if (this.#deps.presence === undefined) return;
    const { instance, ttlMs, minIntervalMs } = this.#options;
    try {
      for (;;) {
        await this.#changed.wait(signal, ttlMs / REPEATS);
        await sleep(Math.min(GATHER_MS, minIntervalMs), signal);
        await this.#announce();
        await sleep(minIntervalMs, signal);
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    }
    // Waits must not depend on this instance from now on.
    await this.#withdraw({ instance, atMs: Date.now() });
  }

  /** Returns the announcements of the other instances, at most `maxAgeMs` old. Never rejects. */
  async others(maxAgeMs: number): Promise<OtherInstances> {
    if (this.#last !== undefined && performance.now() - this.#last.atMs <= maxAgeMs) return this.#last.others;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /**
   * Calls `take` with every client of another instance. Returns why clients may be missing that were subscribed when the record
   * at `seq` was appended; undefined: none is.
   */
  async lookFor(seq: number, take: (client: KnownClient) => void): Promise<string | undefined> {
    if (this.isAlone) return undefined;
    const { views, incomplete } = await this.others(0);
    for (const { clients } of views) for (const client of clients) take(client);
    if (incomplete !== undefined) return incomplete;
    const behind = views.find(({ seen }) => seen < seq);
    return behind === undefined ? undefined : `server instance ${behind.instance} has not said who is connected to it`;
  }

  /** Counts the connected clients of other instances that subscribe to any of these topics, as of at most a second ago. */
  async countConcerned(topics: PublishedTopics): Promise<number> {
    if (this.isAlone) return 0;
    const { views } = await this.others(COUNT_AGE_MS);
    const isHere = (client: KnownClient): boolean => client.awaySinceMs === null && isConcerned(client, topics);
    return views.reduce((sum, { clients }) => sum + clients.filter(isHere).length, 0);
  }

  /** Ends an announcement. If this fails, it expires. */
  async #withdraw({ instance, atMs }: Pick<InstanceView, 'instance' | 'atMs'>): Promise<void> {
    const { presence, log } = this.#deps;
    const text = await printView({ ...this.#own(), instance, atMs, clients: [] });
    await presence
      ?.put(instance, text, 1)
      .catch((error: unknown) =>
        log.debug({ error: errorText(error) }, 'cannot withdraw the announcement of an instance'),
      );
  }

  async #announce(): Promise<void> {
    const { presence, log } = this.#deps;
    const { instance, ttlMs } = this.#options;
    try {
      await presence?.put(instance, await printView(this.#own()), ttlMs);
      if (this.#isFailing) log.info({}, 'other instances see the clients of this one again');
      this.#isFailing = false;
    } catch (error) {
      const isNews = !this.#isFailing && !isBackboneAway(error);
      if (isNews) log.warn(failureFields(error), 'cannot announce the clients of this instance to the others');
      this.#isFailing = true;
    }
  }

  #own(): OwnView {
    const { clients, head, memory, vitals } = this.#deps;
    const { instance } = this.#options;
    const about = { memory, ...(vitals !== undefined && { vitals: vitals() }) };
    return { instance, atMs: Date.now(), seen: head(), clients: clients(), leftOut: 0, ...about };
  }

  async #read(): Promise<OtherInstances> {
    let others: OtherInstances;
    try {
      others = await this.#readAll();
    } catch (error) {
      const views = [...this.#views.values()].map(({ view }) => view);
      others = { views, gone: [], incomplete: `other server instances cannot be asked: ${errorText(error)}` };
    }
    this.#last = { atMs: performance.now(), others };
    return others;
  }

  #byOurClock(view: InstanceView): InstanceView {
    return viewInOurTime(view, {
      theirs: view.vitals?.clockAheadMs,
      ours: this.#deps.clockAheadMs?.(),
      seenMs: Date.now(),
    });
  }

  async #readAll(): Promise<OtherInstances> {
    const texts = (await this.#deps.presence?.list()) ?? new Map<string, string>();
    const views: ReadViews = new Map();
    let incomplete: string | undefined;
    for (const [instance, text] of texts) {
      if (instance === this.#options.instance) continue;
      const known = this.#views.get(instance);
      try {
        const isNew = known?.text !== text;
        const view = isNew ? this.#byOurClock(await readView(text)) : known.view;
        if (isNew && this.#deps.onClient !== undefined) view.clients.forEach(this.#deps.onClient);
        views.set(instance, { text, view });
        if (view.leftOut > 0) incomplete = `server instance ${instance} has more clients than it can tell of`;
      } catch (error) {
        this.#deps.log.debug({ instance, error: errorText(error) }, 'cannot read the announcement of another instance');
        incomplete = `what server instance ${instance} says cannot be read: it may be of another version`;
      }
    }
    this.#views = views;
    const others = [...views.values()].map(({ view }) => view);
    return { views: others, gone: this.#gone.look(others), incomplete };
  }
}
