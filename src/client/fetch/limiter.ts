import { setMaxListeners } from 'node:events';

/**
 * Limits of concurrent jobs, overall and per host: a hanging host occupies only its own few slots (design D4).
 */
export interface LimiterOptions {
  /** Maximum jobs with a slot. As many again, but at least {@link OVERDUE}, may run overdue. */
  concurrency: number;
  /** Maximum jobs per host. At least one slot remains for other hosts, even if this equals `concurrency`. */
  perHost: number;
  /**
   * A job that runs longer than this is overdue: it continues, its host counts as failing, and its slot is released. Otherwise a
   * few slow hosts would hold all slots for as long as a read may take. Default: never.
   */
  overdueAfterMs?: number;
  /** A monotonic clock, in milliseconds. */
  now?: () => number;
}

/** Minimum limit of overdue jobs without a slot: enough for five hosts that hang at once. */
const OVERDUE = 24;

/**
 * How long, and how many, idle failing hosts are remembered: longer than an entry waits for its next retry, and more than a client
 * has sources.
 */
const REMEMBERED_MS = 60 * 60 * 1000;
const REMEMBERED_HOSTS = 10_000;

/** Runs jobs within limits; see {@link createLimiter}. */
export interface Limiter {
  /** Number of known hosts. */
  readonly size: number;
  /**
   * Runs `job` when a slot is free and returns its result. Jobs of one host start in call order; hosts take turns. Rejects with
   * the signal's reason if it aborts before the start; a running job must handle the signal itself. `most`: maximum concurrent
   * jobs of this host, if less than {@link LimiterOptions.perHost}.
   */
  run<T>(host: string, signal: AbortSignal, job: () => Promise<T>, most?: number): Promise<T>;
}

/**
 * Creates a limiter. Hosts whose last job failed or is overdue share half of the slots until one of their jobs succeeds: however
 * many hosts are down, the other half serves the rest.
 */
export function createLimiter(options: LimiterOptions): Limiter {
  const { concurrency, perHost, overdueAfterMs, now = () => performance.now() } = options;
  const hostLimit = Math.max(1, Math.min(perHost, concurrency - 1));
  const failingLimit = Math.max(1, Math.floor(concurrency / 2));
  /** In the order of turns: a served host moves to the end. */
  const hosts = new Map<string, Host>();
  /** Idle failing hosts, and since when; the oldest first. */
  const failingIdle = new Map<string, number>();
  const overdueLimit = Math.max(OVERDUE, concurrency);
  /** Slots in use; of these, for failing hosts and overdue jobs; overdue jobs without a slot. */
  const used = { all: 0, failing: 0, overdue: 0 };
  /** Overdue jobs beyond the limit, which keep their slots. */
  const keptSlots = new Set<Running>();

  function startNext(): void {
    while (used.all < concurrency) {
      const next = nextHost();
      if (next === undefined) return;
      const [name, host] = next;
      const [start] = host.waiting;
      if (start === undefined) return;
      host.waiting.delete(start);
      start(take(name, host));
    }
  }

  /** Takes a slot for a host and moves it to the end. */
  function take(name: string, host: Host): Running {
    hosts.delete(name);
    hosts.set(name, host);
    host.running++;
    used.all++;
    if (host.failing) used.failing++;
    return { hasSlot: true, countedFailing: host.failing };
  }

  function nextHost(): [string, Host] | undefined {
    for (const entry of hosts) {
      const [, host] = entry;
      if (host.waiting.size > 0 && mayRun(host)) return entry;
    }
    return undefined;
  }

  function mayRun(host: Host): boolean {
    return host.running < host.limit && !(host.failing && used.failing >= failingLimit);
  }

  async function inSlot<T>(name: string, host: Host, signal: AbortSignal, job: () => Promise<T>): Promise<T> {
    // No other job of this host is waiting for the free slot.
    const isFree = used.all < concurrency && host.waiting.size === 0 && mayRun(host);
    const running = isFree ? take(name, host) : await slot(name, host, signal);
    const timer = overdueAfterMs === undefined ? undefined : setTimeout(() => isOverdue(running, host), overdueAfterMs);
    try {
      const result = await job();
      host.failing = false;
      return result;
    } catch (error) {
      if (!signal.aborted) host.failing = true;
      throw error;
    } finally {
      clearTimeout(timer);
      keptSlots.delete(running);
      host.running--;
      if (running.hasSlot) releaseSlot(running);
      else used.overdue--;
      forgetIdle(name, host);
      takeSlots();
      startNext();
    }
  }

  function isOverdue(running: Running, host: Host): void {
    host.failing = true;
    if (!running.countedFailing) used.failing++;
    running.countedFailing = true;
    keptSlots.add(running);
    takeSlots();
    startNext();
  }

  /** Releases the slots of overdue jobs, oldest first, within the limit of jobs without a slot. */
  function takeSlots(): void {
    for (const running of keptSlots) {
      if (used.overdue >= overdueLimit) return;
      keptSlots.delete(running);
      releaseSlot(running);
      running.hasSlot = false;
      used.overdue++;
    }
  }

  function releaseSlot({ countedFailing }: Running): void {
    used.all--;
    if (countedFailing) used.failing--;
  }

  /** Forgets an idle host, but remembers that it fails: its next retry starts while it is idle. */
  function forgetIdle(name: string, host: Host): void {
    if (host.running > 0 || host.waiting.size > 0 || !hosts.delete(name) || !host.failing) return;
    failingIdle.set(name, now());
    for (const [oldest, since] of failingIdle) {
      if (failingIdle.size <= REMEMBERED_HOSTS && now() - since < REMEMBERED_MS) return;
      failingIdle.delete(oldest);
    }
  }

  function isKnownFailing(name: string): boolean {
    const since = failingIdle.get(name);
    failingIdle.delete(name);
    return since !== undefined && now() - since < REMEMBERED_MS;
  }

  return {
    get size() {
      return hosts.size + failingIdle.size;
    },
    async run(name, signal, job, most = hostLimit) {
      signal.throwIfAborted();
      let host = hosts.get(name);
      if (host === undefined) {
        host = { limit: hostLimit, running: 0, failing: isKnownFailing(name), waiting: new Set() };
        hosts.set(name, host);
      }
      host.limit = Math.min(host.limit, most);
      return inSlot(name, host, signal, job);
    },
  };

  /** Waits for a slot of the host. */
  function slot(name: string, host: Host, signal: AbortSignal): Promise<Running> {
    return new Promise((resolve, reject) => {
      const start = (running: Running): void => {
        signal.removeEventListener('abort', onAbort);
        resolve(running);
      };
      const onAbort = (): void => {
        host.waiting.delete(start);
        forgetIdle(name, host);
        reject(signal.reason);
      };
      // Any number of jobs may wait on one signal; Node would warn of a leak from the eleventh on.
      setMaxListeners(0, signal);
      signal.addEventListener('abort', onAbort, { once: true });
      host.waiting.add(start);
      startNext();
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
