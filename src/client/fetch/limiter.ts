import { setMaxListeners } from 'node:events';

/**
 * Limits of concurrent jobs, overall and per host: a hanging host occupies only its own few slots
 * (design D4).
 */
export interface LimiterOptions {
  /** Maximum jobs with a slot. As many again, but at least {@link OVERDUE}, may run overdue. */
  concurrency: number;
  /**
   * Maximum jobs per host. At least one slot remains for other hosts, even if this equals
   * `concurrency`.
   */
  perHost: number;
  /**
   * A job that runs longer than this is overdue: it continues, its host counts as failing, and its
   * slot is released. Otherwise a few slow hosts would hold all slots for as long as a read may
   * take. Default: never.
   */
  overdueAfterMs?: number;
  /** A monotonic clock, in milliseconds. */
  now?: () => number;
}

/** Minimum limit of overdue jobs without a slot: enough for five hosts that hang at once. */
const OVERDUE = 24;

/**
 * How long, and how many, idle failing hosts are remembered: longer than an entry waits for its
 * next retry, and more than a client has sources.
 */
const REMEMBERED_MS = 60 * 60 * 1000;
const REMEMBERED_HOSTS = 10_000;

/**
 * Runs jobs within limits. Hosts whose last job failed or is overdue share half of the slots until
 * one of their jobs succeeds: however many hosts are down, the other half serves the rest.
 */
export class Limiter {
  readonly #concurrency: number;
  readonly #hostLimit: number;
  readonly #failingLimit: number;
  readonly #overdueLimit: number;
  readonly #overdueAfterMs: number | undefined;
  readonly #now: () => number;
  /** In the order of turns: a served host moves to the end. */
  readonly #hosts = new Map<string, Host>();
  /** Idle failing hosts, and since when; the oldest first. */
  readonly #failingIdle = new Map<string, number>();
  /** Slots in use; of these, for failing hosts and overdue jobs; overdue jobs without a slot. */
  readonly #used = { all: 0, failing: 0, overdue: 0 };
  /** Overdue jobs beyond the limit, which keep their slots. */
  readonly #keptSlots = new Set<Running>();

  constructor({ concurrency, perHost, overdueAfterMs, now = () => performance.now() }: LimiterOptions) {
    this.#concurrency = concurrency;
    this.#hostLimit = Math.max(1, Math.min(perHost, concurrency - 1));
    this.#failingLimit = Math.max(1, Math.floor(concurrency / 2));
    this.#overdueLimit = Math.max(OVERDUE, concurrency);
    this.#overdueAfterMs = overdueAfterMs;
    this.#now = now;
  }

  /** Number of known hosts. */
  get size(): number {
    return this.#hosts.size + this.#failingIdle.size;
  }

  /**
   * Runs `job` when a slot is free and returns its result. Jobs of one host start in call order;
   * hosts take turns. Rejects with the signal's reason if it aborts before the start; a running job
   * must handle the signal itself. `most`: maximum concurrent jobs of this host, if less than
   * {@link LimiterOptions.perHost}.
   */
  async run<T>(name: string, signal: AbortSignal, job: () => Promise<T>, most = this.#hostLimit): Promise<T> {
    signal.throwIfAborted();
    let host = this.#hosts.get(name);
    if (host === undefined) {
      host = { limit: this.#hostLimit, running: 0, failing: this.#isKnownFailing(name), waiting: new Set() };
      this.#hosts.set(name, host);
    }
    host.limit = Math.min(host.limit, most);
    return this.#inSlot(name, host, signal, job);
  }

  #startNext(): void {
    while (this.#used.all < this.#concurrency) {
      const next = this.#nextHost();
      if (next === undefined) return;
      const [name, host] = next;
      const [start] = host.waiting;
      if (start === undefined) return;
      host.waiting.delete(start);
      start(this.#take(name, host));
    }
  }

  /** Takes a slot for a host and moves it to the end. */
  #take(name: string, host: Host): Running {
    this.#hosts.delete(name);
    this.#hosts.set(name, host);
    host.running++;
    this.#used.all++;
    if (host.failing) this.#used.failing++;
    return { hasSlot: true, countedFailing: host.failing };
  }

  #nextHost(): [string, Host] | undefined {
    for (const entry of this.#hosts) {
      const [, host] = entry;
      if (host.waiting.size > 0 && this.#mayRun(host)) return entry;
    }
    return undefined;
  }

  #mayRun(host: Host): boolean {
    return host.running < host.limit && !(host.failing && this.#used.failing >= this.#failingLimit);
  }

  async #inSlot<T>(name: string, host: Host, signal: AbortSignal, job: () => Promise<T>): Promise<T> {
    // No other job of this host is waiting for the free slot.
    const isFree = this.#used.all < this.#concurrency && host.waiting.size === 0 && this.#mayRun(host);
    const running = isFree ? this.#take(name, host) : await this.#slot(name, host, signal);
    const timer =
      this.#overdueAfterMs === undefined
        ? undefined
        : setTimeout(() => this.#isOverdue(running, host), this.#overdueAfterMs);
    try {
      const result = await job();
      host.failing = false;
      return result;
    } catch (error) {
      if (!signal.aborted) host.failing = true;
      throw error;
    } finally {
      clearTimeout(timer);
      this.#keptSlots.delete(running);
      host.running--;
      if (running.hasSlot) this.#releaseSlot(running);
      else this.#used.overdue--;
      this.#forgetIdle(name, host);
      this.#takeSlots();
      this.#startNext();
    }
  }

  #isOverdue(running: Running, host: Host): void {
    host.failing = true;
    if (!running.countedFailing) this.#used.failing++;
    running.countedFailing = true;
    this.#keptSlots.add(running);
    this.#takeSlots();
    this.#startNext();
  }

  /** Releases the slots of overdue jobs, oldest first, within the limit of jobs without a slot. */
  #takeSlots(): void {
    for (const running of this.#keptSlots) {
      if (this.#used.overdue >= this.#overdueLimit) return;
      this.#keptSlots.delete(running);
      this.#releaseSlot(running);
      running.hasSlot = false;
      this.#used.overdue++;
    }
  }

  #releaseSlot({ countedFailing }: Running): void {
    this.#used.all--;
    if (countedFailing) this.#used.failing--;
  }

  /** Forgets an idle host, but remembers that it fails: its next retry starts while it is idle. */
  #forgetIdle(name: string, host: Host): void {
    if (host.running > 0 || host.waiting.size > 0 || !this.#hosts.delete(name) || !host.failing) return;
    this.#failingIdle.set(name, this.#now());
    for (const [oldest, since] of this.#failingIdle) {
      if (this.#failingIdle.size <= REMEMBERED_HOSTS && this.#now() - since < REMEMBERED_MS) return;
      this.#failingIdle.delete(oldest);
    }
  }

  #isKnownFailing(name: string): boolean {
    const since = this.#failingIdle.get(name);
    this.#failingIdle.delete(name);
    return since !== undefined && this.#now() - since < REMEMBERED_MS;
  }

  /** Waits for a slot of the host. */
  #slot(name: string, host: Host, signal: AbortSignal): Promise<Running> {
    return new Promise((resolve, reject) => {
      const start = (running: Running): void => {
        signal.removeEventListener('abort', onAbort);
        resolve(running);
      };
      const onAbort = (): void => {
        host.waiting.delete(start);
        this.#forgetIdle(name, host);
        reject(signal.reason);
      };
      // Any number of jobs may wait on one signal; Node would warn of a leak from the eleventh on.
      setMaxListeners(0, signal);
      signal.addEventListener('abort', onAbort, { once: true });
      host.waiting.add(start);
      this.#startNext();
    });
  }
}

interface Host {
  /** The lowest limit that its jobs requested. */
  limit: number;
  running: number;
  /** True from a failed or overdue job until one succeeds. */
  failing: boolean;
  /** Calls that give a slot to a waiting job, oldest first. */
  waiting: Set<(running: Running) => void>;
}

/** How a running job is counted: the state of its host may change before it ends. */
interface Running {
  hasSlot: boolean;
  countedFailing: boolean;
}
