import type { Logger } from '../../lib/observe/log.js';
import type { BackoffOptions } from '../../lib/run/async.js';
import type { UpdatesPage, UpdatesQuery } from '../../wire/catch-up-page.js';
import type { PeerUpdate } from '../../wire/data.js';
import type { KnownEntry } from '../desired/entry-table.js';
import type { Fetcher } from '../fetch/providers.js';
import type { PositionRecord, PositionTracker, SeqByTopic } from '../position/position.js';
import type { UpdateProgress } from '../position/position-waits.js';
import type { DataEvents } from '../status/data-events.js';
import type { Applier } from './applier.js';
import { ConfigReader, type FetchConfig } from './config-reader.js';
import { DesiredEntries } from './desired-entries.js';
import type { EntryTraces } from './entry-traces.js';
import type { Exclusive, WithDocuments } from './entry-writer.js';
import { Load } from './load.js';
import { type DataPosition, LogCursor } from './log-cursor.js';
import {
  actionFor,
  type DataAction,
  type Said,
  ServerSession,
  type SessionStart,
  type Situation,
} from './server-said.js';
import { UpdateReader } from './update-reader.js';

/** Default shortest time between two reads of a polled source. */
const POLL_MIN_MS = 1000;

/** Options of {@link DataUpdater}. */
export interface DataUpdaterOptions {
  readonly topics: readonly string[];
  readonly backoff: BackoffOptions;
  /** Shortest time between two reads of a polled source. Default 1,000. */
  readonly pollMinMs?: number;
}

/** What the data updater works with. */
export interface DataUpdaterDeps {
  readonly applier: Applier;
  readonly exclusive: Exclusive;
  readonly fetch: Fetcher['fetch'];
  /** All that is desired at once: of an OPAL server, and of one of ours without sessions. */
  readonly fetchConfig: FetchConfig;
  /** Base entries and updates apart, of a server with sessions (design D15). */
  readonly fetchBase?: FetchConfig | undefined;
  /** See {@link UpdatesQuery.ended}. */
  readonly ended?: boolean | undefined;
  readonly fetchUpdates?: ((query: UpdatesQuery, signal: AbortSignal) => Promise<UpdatesPage>) | undefined;
  /** Receives all events of data updates. */
  readonly events: DataEvents;
  /** Undefined: updates are not traced. */
  readonly traces?: EntryTraces | undefined;
  readonly log: Logger;
}

/**
 * Learns what the engine's documents should be (design D6): entries of the base configuration and
 * data updates, each with its place in the order. Here is what happens when the server says
 * something; what is read of it, what is desired then and where the log is are parts of their own.
 */
export class DataUpdater {
  readonly #deps: DataUpdaterDeps;
  readonly #session = new ServerSession();
  readonly #cursor: LogCursor;
  readonly #entries: DesiredEntries;
  readonly #load: Load;
  readonly #config: ConfigReader;
  readonly #updates: UpdateReader;

  constructor({ topics: list, backoff, pollMinMs = POLL_MIN_MS }: DataUpdaterOptions, deps: DataUpdaterDeps) {
    this.#deps = deps;
    const { applier, exclusive, fetch, fetchConfig, fetchBase, fetchUpdates, ended, events, traces, log } = deps;
    const topics: ReadonlySet<string> = new Set(list);
    const cursor = new LogCursor(list, log);
    events.subscribe(cursor.onData);
    const entries = new DesiredEntries(
      { backoff, pollMinMs },
      { applier, exclusive, fetch, cursor, events, traces, log },
    );
    const load = new Load({ cursor, entries, events });
    const shared = { topics, session: this.#session, cursor, entries, load, events, log };
    this.#config = new ConfigReader({ backoff }, { ...shared, fetchConfig, fetchBase: fetchBase ?? fetchConfig });
    this.#updates = new UpdateReader({ backoff }, { ...shared, fetchUpdates, ended });
    this.#cursor = cursor;
    this.#entries = entries;
    this.#load = load;
  }

  get position(): DataPosition {
    return this.#cursor.snapshot(this.#entries.seen);
  }

  /** How far it is in the server's log (design D20); undefined where there is none. */
  get logPosition(): PositionRecord | undefined {
    return this.#cursor.position.record;
  }

  /** See {@link DesiredEntries.blockedSeqs}. */
  get blockedSeqs(): number[] {
    return this.#entries.blockedSeqs;
  }

  /** See {@link DesiredEntries.applyStatus}. */
  applyStatus(seq: number): UpdateProgress {
    return this.#entries.applyStatus(seq);
  }

  /** See {@link DesiredEntries.awaitingPolicy}. */
  get awaitingPolicy(): KnownEntry[] {
    return this.#entries.awaitingPolicy;
  }

  /** See {@link DesiredEntries.orphans}. */
  get orphans(): KnownEntry[] {
    return this.#entries.orphans;
  }

  /** See {@link DesiredEntries.prune}. */
  prune(): Promise<KnownEntry[]> {
    return this.#entries.prune();
  }

  /** The entry of a layer; undefined where there is none (any more). */
  entry(id: string): KnownEntry | undefined {
    return this.#entries.table.get(id);
  }

  /** Takes over what the engine was given from a backup, before the first {@link run}. */
  adopt(position: DataPosition, entries: readonly KnownEntry[]): void {
    this.#cursor.adopt(position);
    this.#entries.adopt(entries, position.seen);
  }

  /**
   * What is under way, for people; empty when every known entry is applied, or withheld by the
   * engine.
   */
  get pending(): string[] {
    const loops = [this.#config.loop, this.#updates.loop, this.#entries.loop].filter((loop) => !loop.idle);
    return [...loops.map((loop) => `${loop.name}: ${loop.error ?? 'under way'}`), ...this.#entries.pending];
  }

  /**
   * Call after each (re)connect, once subscribed, and before any notice of that connection is
   * handed in: learns what came while it was away. A server with sessions says where its log is;
   * undefined for all others.
   */
  connected(start: SessionStart | undefined): void {
    const [session, cursor] = [this.#session, this.#cursor];
    session.begin(start, this.#deps.fetchBase !== undefined);
    cursor.forgetPaged();
    cursor.position.doubt();
    // A client with nothing yet does not wait.
    if (start !== undefined && session.isApart && this.#config.wasRead) session.spread(start.spreadMs);
    const log = this.#logOf(start?.epoch);
    const isComparable = start !== undefined && session.isApart && log === 'same';
    const action = this.#actionFor('connected', log, isComparable ? positionAt(start, cursor.position) : 'unknown');
    if (action === 'rewind') cursor.rewind();
    if (action !== 'read_base') {
      this.resync();
      return;
    }
    cursor.position.pulled(Math.max(cursor.position.through, start?.head ?? 0), true);
    cursor.isRead = true;
    this.#resyncBase();
    this.#positionChanged();
  }

  #logOf(epoch: string | undefined): Situation['log'] {
    if (this.#cursor.epoch === undefined) return 'none';
    return epoch === this.#cursor.epoch ? 'same' : 'other';
  }

  #actionFor(said: Said, log: Situation['log'], position: Situation['position']): DataAction {
    const session = this.#session.isApart ? 'apart' : 'whole';
    return actionFor(said, { session, log, position, isReading: !this.#updates.loop.idle });
  }

  /** Reads base configuration and updates again. */
  resync(): void {
    this.#resyncBase();
    if (this.#session.isApart) {
      this.#load.needs('base', 'updates');
      this.catchUp();
    }
  }

  #resyncBase(): void {
    this.#load.needs('base');
    this.#config.resync();
  }

  /** Updates may be missing: asks the server for what comes after the position. */
  catchUp(): void {
    if (this.#session.isApart) this.#updates.loop.request();
    else this.resync();
  }

  /** The server says where its log is now: what is missing is asked for at once (design D31). */
  heartbeat({ epoch, heads }: { epoch: string; heads: SeqByTopic }): void {
    const log = this.#logOf(epoch);
    const isComparable = this.#session.isApart && log === 'same';
    const isBehind = isComparable && this.#cursor.position.isBehind(heads);
    const isCurrent = isComparable && !isBehind;
    const action = this.#actionFor('heartbeat', log, isBehind ? 'behind' : 'current');
    if (action === 'read_all') this.resync();
    else if (action === 'catch_up') this.catchUp();
    else if (isCurrent && this.#isAtRest) this.#entries.forgetRemovals(this.#cursor.position.certain);
  }

  /** Nothing is being read from the server. */
  get #isAtRest(): boolean {
    return this.#updates.loop.idle && this.#config.loop.idle && !this.#load.isOpen;
  }

  /**
   * Asks every source whether it has something newer than what is held, and the server, too, where
   * it is `connected`; otherwise the next connection does that.
   */
  revalidate(connected: boolean): void {
    this.#entries.revalidate();
    if (connected) this.resync();
  }

  /** The engine accepts writes again: retries now. */
  engineBack(): void {
    this.#entries.loop.nudge();
  }

  /**
   * {@link resync} for somebody who waits: settles as the first read that begins after the call
   * ends. A read that fails is tried again all the same.
   */
  refresh(): Promise<void> {
    const read = this.#config.nextRead();
    this.resync();
    return read;
  }

  /** See {@link DesiredEntries.withDocuments}. */
  readonly withDocuments: WithDocuments = (step) => this.#entries.withDocuments(step);

  /** Policy has changed: which entries are withheld may have, too. */
  policyChanged(): void {
    this.#entries.policyChanged();
  }

  /** Takes a data update that arrived on a topic; `text` is its exact text. */
  receive(update: PeerUpdate, topic: string, text: string): void {
    const cursor = this.#cursor;
    if (!this.#config.wasRead) cursor.namedByUpdate(update.epoch);
    const { seq, epoch } = update;
    const isRead = seq !== undefined && cursor.isPaged(seq);
    const log = seq === undefined ? 'none' : this.#logOf(epoch);
    const action = this.#actionFor('update', log, isRead ? 'read' : 'current');
    if (action === 'read_all') this.resync();
    else if (action === 'take' && seq !== undefined) this.#take(update, topic, seq);
    else if (action === 'take_unplaced') this.#updates.takeUnplaced(update, topic, text);
  }

  #take(update: PeerUpdate, topic: string, seq: number): void {
    const [cursor, updates] = [this.#cursor, this.#updates];
    if (updates.loop.idle) cursor.noticed(seq);
    updates.take(update, topic, seq);
    // A server without sessions does not say what was before: it keeps the order.
    const isGap = cursor.position.arrived(seq, this.#session.isApart ? update.prev : {});
    if (this.#actionFor('taken', 'same', isGap ? 'behind' : 'current') === 'catch_up') {
      this.#deps.log.info({ seq }, 'a data update before this one may be missing: asking the server');
      updates.loop.request();
    }
    this.#positionChanged();
  }

  /**
   * Runs until the signal aborts; then every fetch has ended. May run again after that, and goes on
   * where it was.
   */
  async run(signal: AbortSignal): Promise<void> {
    try {
      await Promise.all([this.#entries.run(signal), this.#config.loop.run(signal), this.#updates.loop.run(signal)]);
    } finally {
      this.#config.end();
      await this.#entries.end();
    }
  }

  #positionChanged(): void {
    this.#deps.events.emit({ kind: 'position' });
  }
}

/** How a session of the log that is followed relates to the position. */
function positionAt(start: SessionStart, position: PositionTracker): Situation['position'] {
  const { head, resumes = head === undefined || head >= position.through } = start;
  // A client with nothing of the log sent no position, and no server says that it resumes.
  if (!resumes && (position.through > 0 || position.hasGap)) return 'gone_back';
  if (position.through === 0 || head === undefined) return 'unknown';
  return position.isBehind(start.heads) ? 'behind' : 'current';
}
