import { isAbort, Wakeup } from '../../lib/async.js';
import { isConcerned, type KnownClient, preferred, wasThere } from './known-client.js';
import type { PeerInstances } from './peer-instances.js';
import type { ClientRegistry } from './registry.js';
import { type ApplyStatus, type AwaitedUpdate, applyStatusOf } from './wait-rules.js';

/** What a publisher is told who waited. */
export interface WaitAnswer {
  /** All clients concerned have applied the update: 200. Otherwise 202. */
  readonly done: boolean;
  /** Clients that have applied it. */
  readonly applied: number;
  /** Those that have not, or where that is not known: at most {@link MAX_LISTED}. */
  readonly lagging: readonly { readonly client_id: string; readonly reason: string }[];
  readonly lagging_count: number;
  /** Clients that are concerned and never say (OPAL's): they are not waited for. At most {@link MAX_LISTED}. */
  readonly unknown: readonly string[];
  /** Why the list may not be of the whole fleet; left out where it is. */
  readonly incomplete?: string;
}

/** Waits until clients have applied an update. */
export interface Waiters {
  /**
   * Waits until every client that was subscribed when the record was appended, on whatever instance, has applied it
   * (design D21), nothing is open any more (what the engine refuses is not waited for), the time is up, the signal aborts or
   * the server stops. Never rejects.
   */
  waitApplied(update: AwaitedUpdate, timeoutMs: number, signal?: AbortSignal): Promise<WaitAnswer>;
  /** Ends all waits with what is known. */
  close(): void;
}

export const MAX_LISTED = 100;
/** How often other instances are asked while somebody waits. They say something new once a second at most. */
const FLEET_LOOK_MS = 250;

/** Makes the {@link Waiters} of a server. */
export function createWaiters(deps: {
  registry: ClientRegistry;
  fleet: PeerInstances;
  epoch: () => string;
  /** Who is connected here without saying what it holds. */
  plainClients: () => readonly KnownClient[];
  /** Under which name a client is listed. */
  nameOf: (client: KnownClient) => string;
}): Waiters {
  /** The ends of all waits that are under way. */
  const ends = new Set<AbortController>();
  let isClosed = false;
  return {
    waitApplied: (update, timeoutMs, signal) => waitApplied(update, timeoutMs, signal),
    close: () => {
      isClosed = true;
      for (const end of ends) end.abort();
    },
  };

  async function waitApplied(
    update: AwaitedUpdate,
    timeoutMs: number,
    caller: AbortSignal | undefined,
  ): Promise<WaitAnswer> {
    const wait = new Wait(update, deps.epoch());
    for (const client of [...deps.registry.list(), ...deps.plainClients()]) wait.take(client);
    const ending = new AbortController();
    const end = ending.signal;
    const onEnd = (): void => ending.abort();
    const timer = setTimeout(onEnd, timeoutMs);
    caller?.addEventListener('abort', onEnd, { once: true });
    ends.add(ending);
    if (isClosed || caller?.aborted) onEnd();
    const changed = new Wakeup();
    const unwatch = deps.registry.watch(
      (client) => {
        if (wait.take(client)) changed.set();
      },
      (key) => {
        if (wait.drop(key)) changed.set();
      },
    );
    try {
      for (;;) {
        wait.incomplete = await deps.fleet.lookFor(update.seq, (client) => wait.take(client));
        if (end.aborted || (wait.open === 0 && wait.incomplete === undefined)) break;
        await changed.wait(end, deps.fleet.isAlone ? undefined : FLEET_LOOK_MS);
      }
    } catch (error) {
      if (!isAbort(error, end)) throw error; // the end of the wait is answered below
    } finally {
      clearTimeout(timer);
      caller?.removeEventListener('abort', onEnd);
      ends.delete(ending);
      unwatch();
    }
    return wait.answer(deps.nameOf);
  }
}

/** One wait: the clients concerned, and how they stand. */
class Wait {
  incomplete: string | undefined;
  #open = 0;
  readonly #update: AwaitedUpdate;
  readonly #epoch: string;
  readonly #known = new Map<string, { client: KnownClient; status: ApplyStatus }>();
  readonly #unknown = new Map<string, KnownClient>();

  constructor(update: AwaitedUpdate, epoch: string) {
    this.#update = update;
    this.#epoch = epoch;
  }

  /** Clients whose status may still change. */
  get open(): number {
    return this.#open;
  }

  /** Looks at what is known of a client now. True: that ended the last open one. */
  take(client: KnownClient): boolean {
    const { key, kind, spans, instance } = client;
    const before = this.#known.get(key);
    // Who has applied it once has: also who starts anew with an empty engine.
    if (before?.status.kind === 'applied') return false;
    if (before === undefined && !(wasThere(spans, this.#update.seq) && isConcerned(client, this.#update.topics))) {
      return false;
    }
    if (kind === 'plain') {
      this.#unknown.set(key, client);
      return false;
    }
    // What another instance says may be older.
    const isNewer = before === undefined || before.client.instance === instance;
    if (!isNewer && preferred(before.client, client) !== client) return false;
    const status = applyStatusOf(client, this.#update, this.#epoch);
    this.#known.set(key, { client, status });
    this.#open += Number(status.kind === 'open') - Number(before?.status.kind === 'open');
    return this.#open === 0;
  }

  /** A twin is no client of its own any more. True: that ended the last open one. */
  drop(key: string): boolean {
    const known = this.#known.get(key);
    if (known === undefined) return false;
    this.#known.delete(key);
    this.#open -= Number(known.status.kind === 'open');
    return this.#open === 0;
  }

  answer(nameOf: (client: KnownClient) => string): WaitAnswer {
    const behind = [...this.#known.values()].flatMap(({ client, status }) =>
      status.kind === 'applied' ? [] : [{ client_id: nameOf(client), reason: status.reason }],
    );
    return {
      done: behind.length === 0 && this.incomplete === undefined,
      applied: this.#known.size - behind.length,
      lagging: behind.slice(0, MAX_LISTED),
      lagging_count: behind.length,
      unknown: [...this.#unknown.values()].slice(0, MAX_LISTED).map(nameOf),
      ...(this.incomplete !== undefined && { incomplete: this.incomplete }),
    };
  }
}
