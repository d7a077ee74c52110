import { isAbort, Wakeup, withAnySignal } from '../../lib/run/async.js';
import { type KnownClient, preferred } from '../clients/known-client.js';
import type { ClientRegistry } from '../clients/registry.js';
import {
  type AwaitedUpdate,
  isKnownBefore,
  mayBeAllApplied,
  standingInWait,
  type WaitStanding,
} from '../clients/wait-rules.js';
import { backAmong, whyIncomplete } from './fleet-picture.js';
import type { PeerInstances } from './peer-instances.js';
import type { WhyReturning } from './returning.js';

/** A client that a wait names, and why. */
export interface NamedClient {
  readonly client_id: string;
  readonly reason: string;
}

/** The outcome of a wait. */
export interface WaitAnswer {
  /** All clients concerned that were connected have applied the update: 200. Otherwise 202. */
  readonly done: boolean;
  /** Clients that have applied it. */
  readonly applied: number;
  /** Clients that have not applied it, as far as is known: at most {@link MAX_LISTED}. */
  readonly lagging: readonly NamedClient[];
  readonly lagging_count: number;
  /** Away since before it was recorded, and do not have it: at most {@link MAX_LISTED}. */
  readonly away: readonly NamedClient[];
  readonly away_count: number;
  /** Clients that never report (OPAL's), which the wait ignores: at most {@link MAX_LISTED}. */
  readonly unknown: readonly string[];
  /** Why clients of other instances may be missing. */
  readonly incomplete?: string;
}

export const MAX_LISTED = 100;
/** How often a wait looks whether other instances have said something new. */
const LOOK_MS = 100;

interface WaitersDeps {
  readonly registry: Pick<ClientRegistry, 'watch'>;
  readonly instances: Pick<PeerInstances, 'isAlone' | 'others'>;
  readonly epoch: () => string;
  /** The clients of this instance. */
  readonly clients: () => readonly KnownClient[];
  /** The name under which a client is listed. */
  readonly nameOf: (client: KnownClient) => string;
  /** Undefined: nobody is expected. */
  readonly whyReturning?: WhyReturning | undefined;
  readonly now: () => number;
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
   * Waits until every client that was subscribed when the record was appended, on any instance, has
   * applied it or is blocked (design D21: the engine refuses it), the time is up, the signal
   * aborts, or the server stops. Never rejects.
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
          wait.incomplete = await this.#lookFor(wait, update.seq);
          if (end.aborted || wait.isOver) return;
          const isAlone = instances.isAlone && wait.incomplete === undefined;
          await changed.wait(end, isAlone ? undefined : LOOK_MS);
        }
      } catch (error) {
        if (!isAbort(error, end)) throw error;
      }
    };
    const ends = [this.#closing.signal, ...(signal === undefined ? [] : [signal])];
    await withAnySignal(ends, untilDone, timeoutMs).finally(unwatch);
    return wait.answer(nameOf);
  }

  /** Takes in clients of other instances. Returns why some may be missing; undefined: none. */
  async #lookFor(wait: Wait, seq: number): Promise<string | undefined> {
    const { instances, clients, whyReturning, now } = this.#deps;
    const others = await instances.others(0);
    for (const one of others.instances) wait.takeAll(one.instance, one.clients);
    return whyIncomplete({ others, isBack: backAmong(clients, others), whyReturning, nowMs: now() }, seq);
  }
}

/** A client of a wait. */
interface Awaited {
  /** The best view of it. */
  readonly client: KnownClient;
  readonly standing: WaitStanding;
  readonly isKnown: boolean;
}

/** One wait: the clients concerned and how they stand. */
class Wait {
  /** Until the first look at the other instances. */
  incomplete: string | undefined = 'the wait ended before the server instances were asked';
  readonly #context: { readonly update: AwaitedUpdate; readonly epoch: string };
  readonly #known = new Map<string, Awaited>();
  readonly #counts = { applied: 0, blocked: 0, open: 0, away: 0, unknown: 0, later: 0, stopped: 0 };
  /** The clients of the other instances that were taken in last. */
  readonly #taken = new Map<string, readonly KnownClient[]>();

  constructor(update: AwaitedUpdate, epoch: string) {
    this.#context = { update, epoch };
  }

  /** Nothing can change any more that the wait is for. */
  get isOver(): boolean {
    return this.#counts.open === 0 && this.incomplete === undefined;
  }

  /** Takes in the clients of another instance, but for those that are as they were. */
  takeAll(instance: string, clients: readonly KnownClient[]): void {
    const before = this.#taken.get(instance);
    if (before === clients) return;
    this.#taken.set(instance, clients);
    for (const [index, client] of clients.entries()) if (before?.[index] !== client) this.take(client);
  }

  /** Updates the standing of a client. True: no client is open any more. */
  take(client: KnownClient): boolean {
    const before = this.#known.get(client.key);
    // An applied update stays applied, even if the client restarts with an empty engine.
    if (before?.standing.kind === 'applied') return false;
    // The view of another instance may be older.
    const isOther = before !== undefined && before.client.instance !== client.instance;
    const best = isOther ? preferred(before.client, client) : client;
    const isKnown = before?.isKnown === true || isKnownBefore(client, this.#context.update);
    const standing = standingInWait(best, this.#context, { isKnown, isOpen: before?.standing.kind === 'open' });
    if (standing === undefined) return false;
    if (before !== undefined) this.#counts[before.standing.kind]--;
    this.#counts[standing.kind]++;
    this.#known.set(client.key, { client: best, standing, isKnown });
    return this.#counts.open === 0;
  }

  /** Removes a duplicate connection that is gone. True: no client is open any more. */
  drop(key: string): boolean {
    const known = this.#known.get(key);
    if (known === undefined) return false;
    this.#known.delete(key);
    this.#counts[known.standing.kind]--;
    return this.#counts.open === 0;
  }

  answer(nameOf: (client: KnownClient) => string): WaitAnswer {
    const all = [...this.#known.values()];
    const named = (...kinds: readonly WaitStanding['kind'][]): NamedClient[] => {
      const found = all.filter(({ standing }) => kinds.includes(standing.kind)).slice(0, MAX_LISTED);
      return found.map(({ client, standing }) => ({
        client_id: nameOf(client),
        reason: 'reason' in standing ? standing.reason : '',
      }));
    };
    const { applied, open, blocked, away } = this.#counts;
    return {
      done: mayBeAllApplied(this.#counts, this.incomplete),
      applied,
      lagging: named('open', 'blocked'),
      lagging_count: open + blocked,
      away: named('away'),
      away_count: away,
      unknown: named('unknown').map(({ client_id: id }) => id),
      ...(this.incomplete !== undefined && { incomplete: this.incomplete }),
    };
  }
}
