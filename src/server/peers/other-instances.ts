import { SERVER_STOPPED } from '../../pubsub/close-reason.js';
import { chosenClients } from '../clients/chosen-clients.js';
import { type KnownClient, withTimes } from '../clients/known-client.js';
import {
  COUNTED_AS,
  LEASE_MS,
  type PresenceFacts,
  type PresenceState,
  presenceState,
  whyMissing,
} from './instance-presence.js';
import { type InstanceView, OLDER_TTL_MS } from './presence-text.js';

/** Another instance as this one knows it. */
export interface OtherInstance {
  readonly instance: string;
  readonly state: PresenceState;
  /** Its last announcement; undefined: what it says cannot be read. */
  readonly view: InstanceView | undefined;
  /** Its clients, as they count. */
  readonly clients: readonly KnownClient[];
  /** Why there may be clients of it that nobody hears of; undefined: there are none. */
  readonly why: string | undefined;
}

/** What this instance knows of the others. */
export interface OtherInstances {
  readonly instances: readonly OtherInstance[];
  /** Announcements of the last seconds of those that have not ended. */
  readonly views: readonly InstanceView[];
  /** Why the others cannot be asked now; undefined: they were. */
  readonly unread: string | undefined;
}

export const NO_OTHERS: OtherInstances = { instances: [], views: [], unread: undefined };

/** An announcement as it was read. */
export interface ReadText {
  readonly text: string;
  readonly leftMs: number;
  /** Undefined: it cannot be read. */
  readonly view: InstanceView | undefined;
}

/** For so long an announcement shows an instance in lists of them. */
const SHOWN_MS = 10_000;

interface Known {
  readonly view: InstanceView | undefined;
  /** When it was last heard, of the clock of this instance that never goes back. */
  readonly heardMs: number;
}

interface Counted {
  readonly view: InstanceView;
  readonly state: PresenceState;
  readonly clients: readonly KnownClient[];
}

/**
 * Remembers the others: what one said holds until it says otherwise, ends, or is silent too long.
 */
export class InstanceMemory {
  readonly #memoryMs: number;
  #known: ReadonlyMap<string, Known> = new Map();
  readonly #counted = new Map<string, Counted>();

  /** `memoryMs`: how long an instance is remembered that is not heard any more. */
  constructor(memoryMs: number) {
    this.#memoryMs = memoryMs;
  }

  /**
   * Takes in all announcements that there are, read at `nowMs` (of `performance.now()`). `own`: the
   * clients of this instance, asked for where another one is in doubt. The same clients are the
   * same objects as before.
   */
  take(texts: ReadonlyMap<string, ReadText>, own: () => readonly KnownClient[], nowMs: number): OtherInstances {
    const known = new Map<string, Known>();
    for (const [instance, { leftMs, view }] of texts) {
      const ageMs = Math.max(0, (view?.ttlMs ?? OLDER_TTL_MS) - leftMs);
      known.set(instance, { view, heardMs: nowMs - ageMs });
    }
    // A backbone may lose announcements, and only the instance itself can say that it has ended.
    for (const [instance, before] of this.#known) {
      const isKept = before.view !== undefined && nowMs - before.heardMs <= this.#memoryMs;
      if (isKept && !known.has(instance)) known.set(instance, before);
    }
    this.#known = known;
    for (const instance of this.#counted.keys()) if (!known.has(instance)) this.#counted.delete(instance);
    return this.#look(own, nowMs);
  }

  #look(own: () => readonly KnownClient[], nowMs: number): OtherInstances {
    // At first all clients of a silent one count as missing: who has come elsewhere depends on how
    // the clients of all others count.
    const all = [...this.#known].map(([instance, one]) => this.#instance(instance, one, factsOf(one, nowMs)));
    const isDoubtful = all.map(({ state, facts }) => state === 'silent' && facts.connected > 0);
    const best = isDoubtful.includes(true) ? chosenClients([own(), ...all.map(({ clients }) => clients)]) : undefined;
    const instances = all.map((one, index) => {
      const known = this.#known.get(one.instance);
      if (best === undefined || known === undefined || isDoubtful[index] !== true) return one;
      const connected = connectedTo(known.view);
      const missing = one.clients.filter((client) => connected.has(client.key) && best.get(client.key) === client);
      return this.#instance(one.instance, known, { ...one.facts, missing: missing.length });
    });
    this.#forget(instances);
    const shown = instances.filter(({ state, facts }) => state !== 'ended' && facts.ageMs <= SHOWN_MS);
    return { instances, views: shown.flatMap(({ view }) => view ?? []), unread: undefined };
  }

  /** Nobody is expected back from one that is gone; if it still is there it is read again. */
  #forget(instances: readonly OtherInstance[]): void {
    const gone = new Set(instances.flatMap(({ instance, state }) => (state === 'gone' ? [instance] : [])));
    if (gone.size > 0) this.#known = new Map([...this.#known].filter(([instance]) => !gone.has(instance)));
  }

  #instance(
    instance: string,
    { view }: Known,
    facts: PresenceFacts,
  ): OtherInstance & { readonly facts: PresenceFacts } {
    const state = presenceState(facts);
    const clients = view === undefined ? [] : this.#clients(instance, view, { state, ageMs: facts.ageMs });
    return { instance, state, view, clients, why: whyMissing(instance, state, facts), facts };
  }

  #clients(
    instance: string,
    view: InstanceView,
    { state, ageMs }: { readonly state: PresenceState; readonly ageMs: number },
  ): readonly KnownClient[] {
    if (COUNTED_AS[state] === 'as_said') return view.clients;
    if (COUNTED_AS[state] === 'nothing') return [];
    const before = this.#counted.get(instance);
    if (before?.view === view && before.state === state) return before.clients;
    const sinceMs = Date.now() - Math.round(ageMs);
    const clients = view.clients.flatMap((client) => leftBehind(client, { view, state, sinceMs }) ?? []);
    this.#counted.set(instance, { view, state, clients });
    return clients;
  }
}

function factsOf({ view, heardMs }: Known, nowMs: number): PresenceFacts {
  const ageMs = nowMs - heardMs;
  // Of one that is heard nobody asks who was connected to it.
  const connected = ageMs > LEASE_MS ? connectedTo(view).size : 0;
  return {
    isReadable: view !== undefined,
    hasEnded: view?.hasEnded === true,
    ageMs,
    connected,
    missing: connected,
  };
}

/** Clients with a session that were connected to it; one without is found nowhere else. */
function connectedTo(view: InstanceView | undefined): ReadonlySet<string> {
  const keys = new Set<string>();
  for (const { kind, twin, awaySinceMs, key } of view?.clients ?? [])
    if (kind === 'session' && twin === undefined && awaySinceMs === null) keys.add(key);
  return keys;
}

/**
 * How a client counts whose instance is not heard any more, or has ended. One without a session
 * stays what it was, as long as it may be there: nothing is known of it anyway.
 */
function leftBehind(
  client: KnownClient,
  { view, state, sinceMs }: { readonly view: InstanceView; readonly state: PresenceState; readonly sinceMs: number },
): KnownClient | undefined {
  const hasEnded = state === 'ended';
  if (client.kind === 'plain' || client.isDoubtful) return hasEnded ? undefined : client;
  if (client.awaySinceMs !== null) return client;
  const awayReason = hasEnded ? SERVER_STOPPED : `nothing is heard of its server instance ${view.instance}`;
  const spans = withTimes(client, sinceMs).map((span) => (span.until === null ? { ...span, until: view.seen } : span));
  return { ...client, awaySinceMs: sinceMs, awayReason, spans };
}
