import { isAbort, sleep, Wakeup } from '../../lib/async.js';
import { errorText, failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import { isBackboneAway, type Presence } from '../log/log-store.js';
import { isConcerned, type KnownClient } from './known-client.js';
import { type InstanceView, printView, readView } from './presence-text.js';

/** What {@link PeerInstances} is made with. */
export interface PeerInstancesOptions {
  /** Name of this instance. */
  readonly instance: string;
  /** Shortest time between two texts of ours. Default 1 s. */
  readonly minIntervalMs?: number;
  /** How long a text of ours counts. Default 10 s. */
  readonly ttlMs?: number;
}

/** What it works with. */
export interface PeerInstancesDeps {
  /** Where instances tell each other; undefined: there is only this one. */
  readonly presence: Presence | undefined;
  /** The clients of this instance. */
  readonly clients: () => readonly KnownClient[];
  /** Last seq of the log that this instance has seen. */
  readonly head: () => number;
  /** Called with each client of another instance, whenever that says something new. */
  readonly onClient?: ((client: KnownClient) => void) | undefined;
  readonly log: Logger;
}

/** What other instances say, and whether that is all. */
export interface OtherInstances {
  readonly views: readonly InstanceView[];
  /** Why it may not be all; undefined: it is. */
  readonly incomplete: string | undefined;
}

type ReadViews = Map<string, { readonly text: string; readonly view: InstanceView }>;

/** Changes of one moment are told together. */
const GATHER_MS = 100;
/** What is counted for publishers may be this old: instances say something new once a second at most. */
const COUNT_AGE_MS = 1000;
/** A first text goes out again this often before it would be forgotten. */
const REPEATS = 3;

/** The clients of the other server instances: tells them of ours, and reads what they say. */
export class PeerInstances {
  readonly #options: Required<PeerInstancesOptions>;
  readonly #deps: PeerInstancesDeps;
  readonly #changed = new Wakeup();
  #isFailing = false;
  #reading: Promise<OtherInstances> | undefined;
  #last: { readonly atMs: number; readonly others: OtherInstances } | undefined;
  /** By instance, the text that was read last and what it says: most say the same as before. */
  #views: ReadViews = new Map();

  constructor(options: PeerInstancesOptions, deps: PeerInstancesDeps) {
    this.#options = { minIntervalMs: 1000, ttlMs: 10_000, ...options };
    this.#deps = deps;
  }

  /** True: there are no other instances. */
  get isAlone(): boolean {
    return this.#deps.presence === undefined;
  }

  /** Something of ours has changed: a client, or the last seq that we have seen. */
  changed(): void {
    this.#changed.set();
  }

  /**
   * Says that this instance is there, before it takes clients: whoever waits for all clients then waits for what it says, too.
   * Never rejects: where the backbone is away, `run` tries again.
   */
  async join(): Promise<void> {
    await this.#tell();
  }

  /** Tells the others of our clients, until the signal aborts. Never rejects for a backbone that is away. */
  async run(signal: AbortSignal): Promise<void> {
    const { presence, log } = this.#deps;
    if (presence === undefined) return;
    const { instance, ttlMs, minIntervalMs } = this.#options;
    try {
      for (;;) {
        await this.#changed.wait(signal, ttlMs / REPEATS);
        await sleep(Math.min(GATHER_MS, minIntervalMs), signal);
        await this.#tell();
        await sleep(minIntervalMs, signal);
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    }
    // Nobody shall wait for what we say from now on. Where that fails our last text ends by itself.
    const last = printView({ ...this.#own(), clients: [] }).then((text) => presence.put(instance, text, 1));
    await last.catch((error: unknown) => log.debug({ error: errorText(error) }, 'the backbone takes no farewell'));
  }

  /** What the other instances say; at most `maxAgeMs` old. Never rejects. */
  async others(maxAgeMs: number): Promise<OtherInstances> {
    if (this.#last !== undefined && performance.now() - this.#last.atMs <= maxAgeMs) return this.#last.others;
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  /**
   * Hands over every client of another instance. Answers why there may be more clients that were subscribed when the
   * record at `seq` was appended; undefined: these are all.
   */
  async lookFor(seq: number, take: (client: KnownClient) => void): Promise<string | undefined> {
    if (this.isAlone) return undefined;
    const { views, incomplete } = await this.others(0);
    for (const { clients } of views) for (const client of clients) take(client);
    if (incomplete !== undefined) return incomplete;
    const behind = views.find(({ seen }) => seen < seq);
    return behind === undefined ? undefined : `server instance ${behind.instance} has not said who is connected to it`;
  }

  /** How many clients of other instances are connected and get what is published on these topics; as of a second ago at most. */
  async countConcerned(topics: readonly string[]): Promise<number> {
    if (this.isAlone) return 0;
    const { views } = await this.others(COUNT_AGE_MS);
    const isHere = (client: KnownClient): boolean => client.awaySinceMs === null && isConcerned(client, topics);
    return views.reduce((sum, { clients }) => sum + clients.filter(isHere).length, 0);
  }

  async #tell(): Promise<void> {
    const { presence, log } = this.#deps;
    const { instance, ttlMs } = this.#options;
    try {
      await presence?.put(instance, await printView(this.#own()), ttlMs);
      if (this.#isFailing) log.info({}, 'other instances hear of our clients again');
      this.#isFailing = false;
    } catch (error) {
      const isNews = !this.#isFailing && !isBackboneAway(error);
      if (isNews) log.warn(failureFields(error), 'other instances cannot be told of our clients');
      this.#isFailing = true;
    }
  }

  #own(): InstanceView {
    const { clients, head } = this.#deps;
    return { instance: this.#options.instance, atMs: Date.now(), seen: head(), clients: clients(), leftOut: 0 };
  }

  async #read(): Promise<OtherInstances> {
    let others: OtherInstances;
    try {
      others = await this.#readAll();
    } catch (error) {
      const views = [...this.#views.values()].map(({ view }) => view);
      others = { views, incomplete: `other server instances cannot be asked: ${errorText(error)}` };
    }
    this.#last = { atMs: performance.now(), others };
    return others;
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
        const view = isNew ? await readView(text) : known.view;
        if (isNew && this.#deps.onClient !== undefined) view.clients.forEach(this.#deps.onClient);
        views.set(instance, { text, view });
        if (view.leftOut > 0) incomplete = `server instance ${instance} has more clients than it can tell of`;
      } catch (error) {
        this.#deps.log.debug({ instance, error: errorText(error) }, 'what another instance says cannot be read');
        incomplete = `what server instance ${instance} says cannot be read: it may be of another version`;
      }
    }
    this.#views = views;
    return { views: [...views.values()].map(({ view }) => view), incomplete };
  }
}
