import { chosenClients } from '../clients/chosen-clients.js';
import { distinctNames, type OwnerOf } from '../clients/client-view.js';
import type { KnownClient } from '../clients/known-client.js';
import { whyIncomplete, whyUnheard } from './fleet-picture.js';
import type { PeerInstances } from './peer-instances.js';
import type { InstanceView } from './presence-text.js';
import type { WhyReturning } from './returning.js';

export interface AllClientsDeps {
  /** The clients of this instance. */
  readonly clients: () => readonly KnownClient[];
  readonly instances: Pick<PeerInstances, 'others'>;
  readonly ownerOf: OwnerOf;
  /** Undefined: nobody is expected. */
  readonly whyReturning?: WhyReturning | undefined;
  readonly now: () => number;
}

/** The clients of all instances. */
export interface AllClients {
  /** By name, in the order of the names. Those that said goodbye are not among them. */
  readonly named: readonly (readonly [string, KnownClient])[];
  /** The number of instances that a client is connected to, by its key. */
  readonly connected: ReadonlyMap<string, number>;
  /** The announcements of the other instances. */
  readonly views: readonly InstanceView[];
  /** Why there may be more clients; null: there are not. */
  readonly incomplete: string | null;
  /** Why there may be more instances; null: there are not. */
  readonly unheard: string | null;
}

/** Awaits what others do: for whoever counts what a call computes itself. */
export type Awaiting = <T>(work: Promise<T>) => Promise<T>;

/**
 * Returns the clients of all instances, each once, as of at most half a second ago. `withTimes`:
 * with when the last changes came how far.
 */
export type Everyone = (awaiting?: Awaiting, withTimes?: boolean) => Promise<AllClients>;

/** Maximum age of the announcements of other instances, in milliseconds. */
export const OTHERS_AGE_MS = 500;

export function createEveryone({ clients, instances, ownerOf, whyReturning, now }: AllClientsDeps): Everyone {
  return async (awaiting = (work) => work, withTimes = false) => {
    const others = await awaiting(instances.others(OTHERS_AGE_MS, withTimes));
    const connected = new Map<string, number>();
    const chosen = chosenClients([clients(), ...others.instances.map((one) => one.clients)], (client) =>
      connected.set(client.key, (connected.get(client.key) ?? 0) + Number(client.awaySinceMs === null)),
    );
    const expected = [...chosen.values()].filter(({ saidGoodbye }) => !saidGoodbye);
    const named = [...distinctNames(expected, ownerOf)].sort(([a], [b]) => (a < b ? -1 : 1));
    const isBack = (key: string): boolean => (connected.get(key) ?? 0) > 0 || chosen.get(key)?.saidGoodbye === true;
    const picture = { others, isBack, whyReturning, nowMs: now() };
    const unheard = whyUnheard(others) ?? null;
    return { named, connected, views: others.views, unheard, incomplete: whyIncomplete(picture) ?? null };
  };
}
