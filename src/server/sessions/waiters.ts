import { isAbort, Wakeup, withAnySignal } from '../../lib/async.js';
import { isConcerned, type KnownClient, preferred, wasThere } from './known-client.js';
import type { PeerInstances } from './peer-instances.js';
import type { ClientRegistry } from './registry.js';
import { type ApplyStatus, type AwaitedUpdate, applyStatusOf } from './wait-rules.js';

/** The outcome of a wait. */
export interface WaitAnswer {
  /** All clients concerned have applied the update: 200. Otherwise 202. */
  readonly done: boolean;
  /** Clients that have applied it. */
  readonly applied: number;
  /** Clients that have not applied it, as far as is known: at most {@link MAX_LISTED}. */
  readonly lagging: readonly { readonly client_id: string; readonly reason: string }[];
  readonly lagging_count: number;
  /** Clients that never report (OPAL's), which the wait ignores: at most {@link MAX_LISTED}. */
  readonly unknown: readonly string[];
  /** Why clients of other instances may be missing. */
  readonly incomplete?: string;
}

export const MAX_LISTED = 100;
/** How often the announcements of other instances are read during a wait; they change at most once a second. */
const INSTANCES_LOOK_MS = 250;

interface WaitersDeps {
  readonly registry: Pick<ClientRegistry, 'watch'>;
  readonly instances: Pick<PeerInstances, 'isAlone' | 'lookFor'>;
  readonly epoch: () => string;
  /** The clients of this instance. */
  readonly clients: () => readonly KnownClient[];
  /** The name under which a client is listed. */
  readonly nameOf: (client: KnownClient) => string;
}

/** Waits until clients have applied an update. */
export class Waiters {
  readonly #deps: WaitersDeps;
  readonly #closing = new AbortController();

  constructor(deps: WaitersDeps) {
    this.#deps = deps;
  }

  /** Ends all waits with what is known. */
  close(): void {
    this.#closing.abort();
  }

  /**
   * Waits until every client that was subscribed when the record was appended, on any instance, has applied it or is blocked
   * (design D21: the engine refuses it), the time is up, the signal aborts, or the server stops. Never rejects.
   */
  async waitApplied(update: AwaitedUpdate, timeoutMs: number, signal?: AbortSignal): Promise<WaitAnswer> {
    const { registry, instances, clients, epoch, nameOf } = this.#deps;
    const wait = new Wait(update, epoch());
    for (const client of clients()) wait.take(client);
    const changed = new Wakeup();
    const unwatch = registry.watch(
      (client) => {
        if (wait.take(client)) changed.set();
      },
      (key) => {
        if (wait.drop(key)) changed.set();
      },
    );
    const untilDone = async (end: AbortSignal): Promise<void> => {
      try {
        for (;;) {
          wait.incomplete = await instances.lookFor(update.seq, (client) => wait.take(client));
          if (end.aborted || (wait.open === 0 && wait.incomplete === undefined)) return;
          await changed.wait(end, instances.isAlone ? undefined : INSTANCES_LOOK_MS);
        }
      } catch (error) {
        if (!isAbort(error, end)) throw error;
      }
    };
    const ends = [this.#closing.signal, ...(signal === undefined ? [] : [signal])];
    await withAnySignal(ends, untilDone, timeoutMs).finally(unwatch);
    return wait.answer(nameOf);
  }
}

/** One wait: the clients concerned and their status. */
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

  /** Updates the status of a client. True: no client is open any more. */
  take(client: KnownClient): boolean {
    const { key, kind, spans, instance } = client;
    const before = this.#known.get(key);
    // An applied update stays applied, even if the client restarts with an empty engine.
    if (before?.status.kind === 'applied') return false;
    if (before === undefined && !(wasThere(spans, this.#update.seq) && isConcerned(client, this.#update.topics))) {
      return false;
    }
    if (kind === 'plain') {
      this.#unknown.set(key, client);
      return false;
    }
    // The view of another instance may be older.
    const isNewer = before === undefined || before.client.instance === instance;
    if (!isNewer && preferred(before.client, client) !== client) return false;
    const status = applyStatusOf(client, this.#update, this.#epoch);
    this.#known.set(key, { client, status });
    this.#open += Number(status.kind === 'open') - Number(before?.status.kind === 'open');
    return this.#open === 0;
  }

  /** Removes a duplicate connection that is no longer a client of its own. True: no client is open any more. */
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
