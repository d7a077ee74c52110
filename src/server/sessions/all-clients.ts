import { distinctNames, type OwnerOf } from './client-view.js';
import type { GoneInstance } from './gone-instances.js';
import { type KnownClient, preferred } from './known-client.js';
import type { PeerInstances } from './peer-instances.js';
import type { InstanceView } from './presence-text.js';
import type { WhyReturning } from './returning.js';

/** Age after which an instance may be gone: it announces itself at least every five seconds. */
const SILENT_MS = 7000;

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
  /** By name, in the order of the names. */
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

/** Returns the clients of all instances, each once. `maxAgeMs`: of the announcements of the others. */
export async function allClients(
  { clients, instances, ownerOf, whyReturning, now }: AllClientsDeps,
  maxAgeMs: number,
  awaiting: Awaiting = (work) => work,
): Promise<AllClients> {
  const { views, gone, incomplete } = await awaiting(instances.others(maxAgeMs));
  const connected = new Map<string, number>();
  const chosen = new Map<string, KnownClient>();
  for (const client of [...clients(), ...views.flatMap((view) => view.clients)]) {
    // A ping is deciding whether it is alive.
    if (client.isDoubtful) continue;
    const before = chosen.get(client.key);
    chosen.set(client.key, before === undefined ? client : preferred(before, client));
    connected.set(client.key, (connected.get(client.key) ?? 0) + Number(client.awaySinceMs === null));
  }
  const named = [...distinctNames([...chosen.values()], ownerOf)].sort(([a], [b]) => (a < b ? -1 : 1));
  const unheard = incomplete ?? silence(views, now()) ?? null;
  const why = unheard ?? lost(gone, chosen) ?? whyReturning?.(connected, { nowMs: now(), isAlone: views.length === 0 });
  return { named, connected, views, unheard, incomplete: why ?? null };
}

/**
 * Returns a warning if clients of an instance that is gone are nowhere else: they may still be there, at an instance that nobody hears. It has
 * no number: limited callers, too, are told.
 */
function lost(gone: readonly GoneInstance[], known: ReadonlyMap<string, KnownClient>): string | undefined {
  const left = gone.find(({ keys }) => keys.some((key) => !known.has(key)));
  return left && `server instance ${left.instance} is gone, and not all of its clients have come to another one`;
}

/** Returns a warning if an instance may be gone: its clients may be elsewhere by now. */
function silence(views: readonly InstanceView[], nowMs: number): string | undefined {
  const silent = views.find(({ atMs }) => nowMs - atMs > SILENT_MS);
  if (silent === undefined) return undefined;
  const seconds = Math.round((nowMs - silent.atMs) / 1000);
  return `server instance ${silent.instance} has said nothing for ${seconds} s: its clients may be elsewhere by now`;
}
