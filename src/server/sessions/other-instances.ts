import { SERVER_STOPPED } from '../../pubsub/close-reason.js';
import { chosenClients } from './chosen-clients.js';
import { COUNTED_AS, type PresenceFacts, type PresenceState, presenceState, whyMissing } from './instance-presence.js';
import { type KnownClient, withTimes } from './known-client.js';
import { type InstanceView, OLDER_TTL_MS } from './presence-text.js';
import { clockDifference, viewInOurTime } from './view-times.js';

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
  /** {@link clockDifference} when it was read; undefined: it is not known, or the text is the same as before. */
  readonly clockMs?: number | undefined;
}

/** For so long an announcement shows an instance in lists of them. */
const SHOWN_MS = 10_000;

interface Known {
  readonly text: string;
  readonly view: InstanceView | undefined;
  /** Keys of the clients with a session that were connected to it: one without is known by its connection alone, and found nowhere else. */
  readonly connected: ReadonlySet<string>;
  /** When it was last heard, of the clock of this instance that never goes back. */
  readonly heardMs: number;
  /** {@link clockDifference}, as far as it was ever known. */
  readonly clockMs: number | undefined;
}

interface Counted {
  readonly view: InstanceView;
  readonly state: PresenceState;
  readonly clients: readonly KnownClient[];
}

/** Remembers the other instances: what one has said holds until it says otherwise, ends, or was not heard for too long. */
export class InstanceMemory {
  readonly #memoryMs: number;
  #known: ReadonlyMap<string, Known> = new Map();
  readonly #counted = new Map<string, Counted>();

  /** `memoryMs`: how long an instance is remembered that is not heard any more. */
  constructor(memoryMs: number) {
    this.#memoryMs = memoryMs;
  }

  /** What a text of an instance stood for when it was last read; undefined: it is another text. */
  viewOf(instance: string, text: string): InstanceView | undefined {
    const known = this.#known.get(instance);
    return known?.text === text ? known.view : undefined;
  }

  /** What an instance says, by our clock. `ours`: how far the clock of the log is ahead of this one. */
  byOurClock(
    instance: string,
    said: InstanceView,
    { ours, seenMs }: { readonly ours: number | undefined; readonly seenMs: number },
  ): Pick<ReadText, 'view' | 'clockMs'> {
    const clocks = { theirs: said.vitals?.clockAheadMs, ours };
    const clockMs = clockDifference(clocks, this.#known.get(instance)?.clockMs);
    return { view: viewInOurTime(said, { by: clockMs, seenMs }), clockMs };
  }

  /**
   * Takes in all announcements that there are, read at `nowMs` (of `performance.now()`). `own`: the clients of this instance. The same clients
   * are the same objects as before.
   */
  take(texts: ReadonlyMap<string, ReadText>, own: readonly KnownClient[], nowMs: number): OtherInstances {
    const known = new Map<string, Known>();
    for (const [instance, { text, leftMs, view, clockMs }] of texts) {
      const ageMs = Math.max(0, (view?.ttlMs ?? OLDER_TTL_MS) - leftMs);
      const before = this.#known.get(instance);
      const connected = before?.view === view && before !== undefined ? before.connected : connectedTo(view);
      known.set(instance, { text, view, connected, heardMs: nowMs - ageMs, clockMs: clockMs ?? before?.clockMs });
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

  #look(own: readonly KnownClient[], nowMs: number): OtherInstances {
    // At first all clients of a silent one count as missing: who has come elsewhere depends on how the clients of all others count.
    const all = [...this.#known].map(([instance, one]) => this.#instance(instance, one, factsOf(one, nowMs)));
    const isDoubtful = all.map(({ state, facts }) => state === 'silent' && facts.connected > 0);
    const best = isDoubtful.includes(true) ? chosenClients([own, ...all.map(({ clients }) => clients)]) : undefined;
    const instances = all.map((one, index) => {
      const known = this.#known.get(one.instance);
      if (best === undefined || known === undefined || isDoubtful[index] !== true) return one;
      const missing = one.clients.filter(
        (client) => known.connected.has(client.key) && best.get(client.key) === client,
      );
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

function factsOf({ view, connected, heardMs }: Known, nowMs: number): PresenceFacts {
  return {
    isReadable: view !== undefined,
    hasEnded: view?.hasEnded === true,
    ageMs: nowMs - heardMs,
    leftOut: view?.leftOut ?? 0,
    connected: connected.size,
    missing: connected.size,
  };
}

function connectedTo(view: InstanceView | undefined): ReadonlySet<string> {
  const keys = new Set<string>();
  for (const { kind, twin, awaySinceMs, key } of view?.clients ?? [])
    if (kind === 'session' && twin === undefined && awaySinceMs === null) keys.add(key);
  return keys;
}

/**
 * How a client counts whose instance is not heard any more, or has ended. One without a session stays what it was, as long as it may be there:
 * nothing is known of it anyway.
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
