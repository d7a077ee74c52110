import { randomUUID } from 'node:crypto';
import type { Limits } from '../../auth/caller.js';
import type { SourceView } from '../../wire/clients.js';
import type { FleetChange, FleetInstance, FleetSummary } from '../../wire/fleet.js';
import { ALL_TOPICS } from '../../wire/topics.js';
import type { ViewDeps } from '../clients/client-view.js';
import { isBackboneAway } from '../log/log-store.js';
import { lookThrough, partFor } from '../log/look-through.js';
import type { AuditRecord, HistoryReader } from '../log/update-log.js';
import { sourceForLimited } from '../policy/source/source.js';
import { type ChangeFacts, type DataFacts, dataFacts, newestFirst, type PolicyChange } from './change-facts.js';
import { othersHeldUp, underWay } from './change-rules.js';
import { type DeltaParts, FeedEvent } from './feed-event.js';
import type { Gathered } from './gathered.js';
import { FleetRows, type RowEntry } from './rows.js';
import type { Slices } from './slices.js';
import { TrackedChanges } from './tracked-changes.js';

export interface FeedDeps extends ViewDeps {
  readonly instance: string;
  readonly environment: string | undefined;
  readonly log: HistoryReader;
}

/** Receives the events of a feed. */
export interface FeedReader {
  /** Whether it sees who published an update, and why. */
  readonly seesPublisher: boolean;
  /** All that is known. */
  onSnapshot(event: FeedEvent): void;
  /** What has changed since the event before. */
  onDelta(event: FeedEvent): void;
}

/** What a look at the fleet compares. */
export interface FeedLook {
  readonly gathered: Gathered;
  /** Topics with new updates since the look before; undefined: not known. */
  readonly touched: ReadonlySet<string> | undefined;
  /** The last update that the caller sees, as of when `touched` was taken: no row is older. */
  readonly dataHead: number;
}

/** Changes that are listed. */
const CHANGES = 50;
/** Events for readers that come back. */
const KEPT = { events: 240, size: 4 * 1024 * 1024 };
/** Shortest time between two events that only say new figures of instances. */
const FIGURES_MS = 5000;

/** What the readers know. */
interface Published {
  readonly gathered: Gathered;
  readonly summary: FleetSummary;
  readonly summaryText: string;
  readonly changes: readonly FleetChange[];
  /** As the readers may see it. */
  readonly source: SourceView | null;
  readonly sourceText: string;
  readonly statesText: string;
  readonly figuresMs: number;
}

/** The fleet as all with the same limits see it: computed once, while one of them watches. */
export class FleetFeed {
  readonly #limits: Limits;
  readonly #deps: FeedDeps;
  /** New on each start, so that nobody resumes what another instance has begun. */
  readonly #id = randomUUID().slice(0, 13);
  readonly #readers = new Set<FeedReader>();
  /** Readers that get their first events after the next look, and the last event of each. */
  readonly #waiting = new Map<FeedReader, string | undefined>();
  readonly #ring = new EventRing<FeedEvent>(KEPT);
  #rows: FleetRows;
  #tracked = new TrackedChanges();
  /** The newest updates, the newest first; undefined: not known. */
  #updates: readonly DataFacts[] | undefined;
  /** Nobody watched for a while: anything may have changed. */
  #isStale = true;
  /** How often {@link rest} was called. */
  #rests = 0;
  #published: Published | undefined;
  #snapshot: FeedEvent | undefined;

  constructor(limits: Limits, deps: FeedDeps) {
    this.#limits = limits;
    this.#deps = deps;
    this.#rows = new FleetRows(limits, deps);
  }

  get isWatched(): boolean {
    return this.#readers.size + this.#waiting.size > 0;
  }

  /** The log has a new update, since the look before. */
  recorded(record: AuditRecord): void {
    if (this.#updates === undefined) return; // they are read from the log
    const facts = dataFacts(this.#deps.log, record, this.#limits);
    if (facts !== undefined) this.#updates = withNewest(facts, this.#updates);
  }

  /** Anything may have changed, or nobody watches: the next look finds out. */
  rest(): void {
    this.#rests++;
    this.#isStale = true;
    this.#updates = undefined;
  }

  /** Tells a reader from now on. `lastEventId`: the last that it saw. Returns what ends it. */
  watch(reader: FeedReader, lastEventId: string | undefined): () => void {
    this.#waiting.set(reader, lastEventId);
    if (!this.#isStale) this.#beginWaiting();
    return () => {
      this.#waiting.delete(reader);
      this.#readers.delete(reader);
    };
  }

  #beginWaiting(): void {
    for (const [reader, lastEventId] of [...this.#waiting]) {
      this.#waiting.delete(reader);
      this.#readers.add(reader);
      const missed = this.#missed(reader, lastEventId);
      if (missed === undefined) reader.onSnapshot(this.snapshot());
      else for (const event of missed) reader.onDelta(event);
    }
  }

  /** All that is known. To be called by readers that have begun. */
  snapshot(): FeedEvent {
    const published = this.#published;
    if (published === undefined) throw new Error('the feed has not been computed yet');
    const { gathered, summary, source, changes } = published;
    const { instance, environment } = this.#deps;
    const { atMs: at, epoch, head, instances } = gathered;
    this.#snapshot ??= new FeedEvent(
      'snapshot',
      {
        ...{ at, epoch, instance, environment, head, summary, source },
        changes: [...changes],
        instances: this.#visible(instances),
        rows: [...this.#rows.entries.values()],
      },
      this.#idOf(this.#ring.last),
    );
    return this.#snapshot;
  }

  /** Finds out what has changed, and tells the readers. */
  async update(look: FeedLook, slices: Slices): Promise<void> {
    try {
      const rests = this.#rests;
      await this.#update({ ...look, touched: this.#isStale ? undefined : look.touched }, slices);
      // Meanwhile it may have been told that anything may have changed.
      if (this.#rests !== rests) {
        this.#updates = undefined;
        return;
      }
      this.#isStale = false;
      this.#beginWaiting();
    } catch (error) {
      // Half of it may have been noted.
      this.#tracked = new TrackedChanges();
      this.rest();
      throw error;
    }
  }

  async #update({ gathered, touched, dataHead }: FeedLook, slices: Slices): Promise<void> {
    this.#updates ??= await slices.outside(this.#lastUpdates());
    const { source: whole } = gathered;
    const source = whole !== null && this.#limits.isLimited ? await sourceForLimited(whole) : whole;
    const changes = listed(this.#updates ?? [], gathered.commits);
    const look = await this.#rows.look(gathered, touched, slices);
    // Only the summary reads the rows before the event is told, in the same turn.
    const all = afterLook(this.#rows.entries, look);
    const views = await this.#tracked.look(
      changes,
      { all, ...look },
      { ...gathered, isLimited: this.#limits.isLimited },
      slices,
    );
    this.#rows.take(look);
    this.#publish({ gathered, source, dataHead }, views, look);
  }

  #publish(
    { gathered, source, dataHead }: Omit<FeedLook, 'touched'> & Pick<Published, 'source'>,
    changes: FleetChange[],
    { shown, gone }: { shown: readonly RowEntry[]; gone: readonly RowEntry[] },
  ): void {
    const before = this.#published;
    const { isLimited } = this.#limits;
    const summary = summaryOf(this.#rows.entries.values(), { gathered, changes, dataHead, isLimited });
    const summaryText = JSON.stringify(summary);
    const sourceText = JSON.stringify(source);
    const instances = this.#visible(gathered.instances);
    const statesText = JSON.stringify(
      instances.map(({ instance, state, clients, source }) => [instance, state, clients, source]),
    );
    const isDue = before === undefined || gathered.atMs - before.figuresMs >= FIGURES_MS;
    const hasNewStates = statesText !== before?.statesText || isDue;
    const known = new Set(before?.changes);
    const newChanges = changes.filter((change) => !known.has(change));
    const parts: Omit<DeltaParts, 'at'> = {
      ...(gathered.head !== before?.gathered.head && { head: gathered.head }),
      ...(summaryText !== before?.summaryText && { summary }),
      ...(sourceText !== before?.sourceText && { source }),
      ...(shown.length > 0 && { rows: shown }),
      ...(gone.length > 0 && { gone: gone.map(({ name }) => name) }),
      ...(newChanges.length > 0 && { changes: newChanges }),
      ...(hasNewStates && { instances }),
    };
    const figuresMs = hasNewStates ? gathered.atMs : (before?.figuresMs ?? 0);
    this.#published = { gathered, summary, summaryText, changes, source, sourceText, statesText, figuresMs };
    if (before !== undefined && Object.keys(parts).length === 0) return;
    this.#snapshot = undefined;
    if (before === undefined) return;
    const event = new FeedEvent('delta', { at: gathered.atMs, ...parts }, this.#idOf(this.#ring.last + 1));
    this.#ring.add(event, sizeOf(parts));
    for (const reader of [...this.#readers]) reader.onDelta(event);
  }

  /** The events that a reader has missed; undefined: it needs a snapshot. */
  #missed({ seesPublisher }: FeedReader, lastEventId: string | undefined): FeedEvent[] | undefined {
    const [, feed, number] = /^(.+)-(\d{1,15})$/.exec(lastEventId ?? '') ?? [];
    if (feed !== this.#feedId(seesPublisher)) return undefined;
    return this.#ring.after(Number(number));
  }

  #idOf(number: number): (seesPublisher: boolean) => string {
    return (seesPublisher) => `${this.#feedId(seesPublisher)}-${number}`;
  }

  #feedId(seesPublisher: boolean): string {
    return `${this.#id}.${seesPublisher ? 'd' : 'l'}`;
  }

  /** The last update that the caller sees, now. */
  dataHead(): number {
    const { permittedTopics } = this.#limits;
    const { recent, log } = this.#deps;
    const topics = permittedTopics === undefined ? [ALL_TOPICS] : [...permittedTopics];
    return recent.newestOn(topics, log.heads(topics));
  }

  /** With the clients that the caller sees. */
  #visible(instances: readonly FleetInstance[]): FleetInstance[] {
    if (this.#limits.permittedTopics === undefined) return [...instances];
    const clients = new Map<string, number>();
    for (const { client } of this.#rows.entries.values()) {
      if (client.awaySinceMs === null) clients.set(client.instance, (clients.get(client.instance) ?? 0) + 1);
    }
    return instances.map((one) => ({ ...one, clients: clients.get(one.instance) ?? 0 }));
  }

  /**
   * The last updates that the caller sees; undefined: the backbone is away: the next look reads.
   */
  async #lastUpdates(): Promise<DataFacts[] | undefined> {
    try {
      return await this.#readUpdates();
    } catch (error) {
      if (isBackboneAway(error)) return undefined;
      throw error;
    }
  }

  async #readUpdates(): Promise<DataFacts[]> {
    const { log } = this.#deps;
    const found: DataFacts[] = [];
    const part = partFor(log, this.#limits);
    if (part === undefined) return found;
    await lookThrough(log, log.head + 1, part, (record) => {
      const facts = dataFacts(log, record, this.#limits);
      if (facts !== undefined) found.push(facts);
      return found.length < CHANGES;
    });
    return found;
  }
}

function afterLook(
  entries: ReadonlyMap<string, RowEntry>,
  { made, gone }: { made: readonly RowEntry[]; gone: readonly RowEntry[] },
): RowEntry[] {
  const all = new Map(entries);
  for (const entry of made) all.set(entry.name, entry);
  for (const { name } of gone) all.delete(name);
  return [...all.values()];
}

/** The newest changes, and the served commit, however many updates came since. */
function listed(updates: readonly DataFacts[], commits: readonly PolicyChange[]): ChangeFacts[] {
  const newest = [...updates, ...commits.slice(0, CHANGES)].sort(newestFirst).slice(0, CHANGES);
  const served = commits.find(({ state }) => state === 'served');
  return served === undefined || newest.includes(served) ? newest : [...newest.slice(0, -1), served];
}

function withNewest(facts: DataFacts, others: readonly DataFacts[]): DataFacts[] {
  return [facts, ...others.filter(({ key }) => key !== facts.key)].slice(0, CHANGES);
}

/** Characters of an event. */
function sizeOf({ rows = [], ...rest }: Omit<DeltaParts, 'at'>): number {
  return rows.reduce((sum, { text }) => sum + text.length, JSON.stringify(rest).length);
}

/** The last events, for readers that come back: bounded by their number and their size. */
export class EventRing<E> {
  readonly #limits: { readonly events: number; readonly size: number };
  readonly #events: { readonly event: E; readonly size: number }[] = [];
  /** Number of the last event; the first has 1. */
  #last: number;
  #size = 0;

  /** `last`: number of the event before the first. */
  constructor(limits: { readonly events: number; readonly size: number }, last = 0) {
    this.#limits = limits;
    this.#last = last;
  }

  get last(): number {
    return this.#last;
  }

  add(event: E, size: number): void {
    this.#last++;
    this.#events.push({ event, size });
    this.#size += size;
    while (this.#events.length > this.#limits.events || this.#size > this.#limits.size) {
      this.#size -= this.#events.shift()?.size ?? 0;
    }
  }

  /** The events after number `seen`; undefined: some are gone, or it is no number of this ring. */
  after(seen: number): E[] | undefined {
    const missing = this.#last - seen;
    if (missing < 0 || missing > this.#events.length) return undefined;
    return this.#events.slice(this.#events.length - missing).map(({ event }) => event);
  }
}

/** The summary of a caller's rows. `dataHead`: the last update it sees. `changes`: newest first. */
function summaryOf(
  entries: Iterable<Pick<RowEntry, 'standings' | 'isNeeding' | 'behind' | 'isAtLeast'>>,
  {
    gathered: { atMs, policy, incomplete },
    changes,
    dataHead,
    isLimited,
  }: {
    gathered: Pick<Gathered, 'atMs' | 'policy' | 'incomplete'>;
    changes: readonly FleetChange[];
    dataHead: number;
    isLimited: boolean;
  },
): FleetSummary {
  const counts = { policy: new Counter(), data: new Counter(), health: new Counter() };
  let [total, needing, slowest, isAtLeast] = [0, 0, 0, false];
  for (const { standings, isNeeding, behind, isAtLeast: isRowAtLeast } of entries) {
    total++;
    if (isNeeding) needing++;
    counts.policy.add(standings.policy);
    counts.data.add(standings.data);
    counts.health.add(standings.health);
    if (behind < slowest || behind === 0) continue;
    isAtLeast = isRowAtLeast || (behind === slowest && isAtLeast);
    slowest = behind;
  }
  const named = underWay(changes, atMs);
  return {
    total,
    policy: { head: policy.commit?.hash ?? null, counts: counts.policy.counts },
    data: { head: dataHead, counts: counts.data.counts, slowest_behind: slowest, at_least: isAtLeast },
    health: counts.health.counts,
    needing,
    under_way: named,
    others_held_up: othersHeldUp(changes, named),
    incomplete,
    limited: isLimited,
  };
}

class Counter {
  readonly counts: Record<string, number> = {};

  add(name: string): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }
}
