import { randomUUID } from 'node:crypto';
import { SyncError } from '../../lib/errors.js';
import type { Logger } from '../../lib/log.js';
import type { BackoffOptions } from '../../lib/loop.js';
import type { PeerDataConfig, PeerEntry, PeerUpdate } from '../../wire/data.js';
import { type DocPath, docPathText } from '../../wire/doc-path.js';
import { compareRank, type Rank } from '../desired/layers.js';
import type { FetchRequest, FetchResult } from '../fetch/provider.js';
import type { UpdateObserver } from '../report/collector.js';
import type { DataStatus } from '../status.js';
import type { Applier } from './applier.js';
import { Duplicates } from './duplicates.js';
import { concerns, entryIdentity, entryPath, entryReplaces, type KnownEntry } from './entry.js';
import { EntryFetcher, type SeenContent } from './entry-fetcher.js';
import { EntryTable } from './entry-table.js';
import { EntryWriter, type Exclusive } from './entry-writer.js';
import { RetryLoop } from './retry-loop.js';
import { TaskSet } from './task-set.js';

/** Shortest time between two reads of a polled source: more often is for whoever means it. */
const POLL_MIN_MS = 1000;

/** How the data updater goes about it. */
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
  readonly fetch: (request: FetchRequest, signal: AbortSignal) => Promise<FetchResult>;
  readonly fetchConfig: (signal: AbortSignal) => Promise<PeerDataConfig>;
  readonly status: DataStatus;
  /** Hears what becomes of every update; left out where nobody is told. */
  readonly observer?: UpdateObserver | undefined;
  readonly log: Logger;
}

/** The order of what a client holds, as it has to come back after a restart of the client (design 9.7). */
export interface DataPosition {
  /** The log that {@link lastSeq} and the seqs of the entries are of; undefined for an OPAL server. */
  readonly epoch: string | undefined;
  readonly era: number;
  /** Place of the next update of a server without seqs. */
  readonly next: number;
  /** The greatest seq of an update so far. */
  readonly lastSeq: number;
  readonly seen: ReadonlyMap<string, SeenContent>;
}

/**
 * Learns what the engine's documents should be (design 2): entries of the base configuration and data updates, each with
 * its place in the order. The fetcher gets their contents, the writer brings them in; a source that fails holds up
 * nothing else.
 */
export class DataUpdater {
  readonly #topics: ReadonlySet<string>;
  readonly #deps: DataUpdaterDeps;
  readonly #tasks: TaskSet;
  readonly #table: EntryTable;
  readonly #writer: EntryWriter;
  readonly #fetcher: EntryFetcher;
  readonly #configLoop: RetryLoop;
  readonly #duplicates = new Duplicates();
  #epoch: string | undefined;
  /** Counts logs: entries of a later era win over all of an earlier one. */
  #era = 1;
  /** Place of the next update of a server without seqs. */
  #next = 1;
  /** Place of such a server's configuration: before the updates that came since it was asked for. */
  #reserved = 0;
  #configWasRead = false;
  /** What is held came from a backup, and nothing is known of the server's log yet. */
  #isAdopted = false;
  /** Those who want to know how the next read of the configuration ends. */
  readonly #refreshes: { resolve: () => void; reject: (error: unknown) => void }[] = [];
  /** How often the sources were to be asked, and up to which of these they were. */
  #resyncs = 0;
  #resynced = 0;
  /** The greatest seq of an update so far. */
  #lastSeq = 0;

  constructor(options: DataUpdaterOptions, deps: DataUpdaterDeps) {
    const { applier, status, log } = deps;
    const { backoff, pollMinMs = POLL_MIN_MS } = options;
    this.#topics = new Set(options.topics);
    this.#deps = deps;
    this.#tasks = new TaskSet(log);
    const { observer } = deps;
    const table = new EntryTable({
      onSettled: (entry) => {
        status.settled(entry);
        observer?.settled(entry);
      },
      onForgotten: (entry) => {
        status.forgotten(entry);
        observer?.forgotten(entry);
      },
      discard: (body) => this.#writer.discard(body),
      onStoppedFetching: () => this.#writer.look(),
    });
    this.#table = table;
    const shared = { applier, table, tasks: this.#tasks, log };
    this.#writer = new EntryWriter({ backoff }, { ...shared, exclusive: deps.exclusive });
    this.#fetcher = new EntryFetcher(
      { backoff, pollMinMs },
      { ...shared, fetch: deps.fetch, onArrived: (entry, body) => this.#writer.arrived(entry, body) },
    );
    this.#configLoop = new RetryLoop('reading the data configuration', backoff, log, (signal) =>
      this.#readConfigAndTell(signal),
    );
  }

  get position(): DataPosition {
    const [epoch, era, next, lastSeq] = [this.#epoch, this.#era, this.#next, this.#lastSeq];
    return { epoch, era, next, lastSeq, seen: this.#fetcher.seen };
  }

  /** The entry of a layer; undefined where there is none (any more). */
  entry(id: string): KnownEntry | undefined {
    return this.#table.get(id);
  }

  /** Takes over what the engine was given from a backup, before the first {@link run}. */
  adopt(position: DataPosition, entries: readonly KnownEntry[]): void {
    this.#isAdopted = true;
    this.#epoch = position.epoch;
    this.#era = position.era;
    this.#lastSeq = position.lastSeq;
    this.#next = Math.max(position.next, position.lastSeq + 1);
    this.#fetcher.adopt(position.seen);
    for (const entry of entries) {
      this.#table.set(entry);
      this.#table.settle(entry, entry.state);
    }
  }

  /** What is under way, for people; empty when every known entry is applied, or withheld by the engine. */
  get pending(): string[] {
    const loops = [this.#configLoop, this.#writer.loop].filter((loop) => !loop.idle);
    const open = [...this.#table.all()].filter(({ state }) => state.kind === 'fetching' || state.kind === 'ready');
    return [
      ...loops.map((loop) => `${loop.name}: ${loop.error ?? 'under way'}`),
      ...open.map(
        ({ path, entry, rank, state }) => `${docPathText(path)} (${entry.save_method}, seq ${rank.seq}): ${state.kind}`,
      ),
    ];
  }

  /** Call after each (re)connect, once subscribed: reads base configuration and retained updates again. */
  resync(): void {
    this.#reserved = this.#next++;
    this.#resyncs++;
    this.#configLoop.request();
  }

  /** Reads the configuration again, but asks no source for what is here already. */
  reread(): void {
    this.#configLoop.request();
  }

  /**
   * {@link resync} for somebody who waits: settles as the first read that begins after the call ends. A read that fails
   * is tried again all the same.
   */
  refresh(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#refreshes.push({ resolve, reject });
      this.resync();
    });
  }

  /** Policy has changed: which entries are withheld may have, too. */
  policyChanged(): void {
    const { applier } = this.#deps;
    for (const entry of this.#table.all()) {
      if (entry.state.kind === 'ready') continue; // The writer decides, with the newer content.
      const withheld = applier.blocked.get(entry.id);
      const content = applier.layers.get(entry.id)?.content;
      const isCurrent =
        content?.kind !== 'put' || entry.fetched === undefined || content.body.hash === entry.fetched.hash;
      if (withheld !== undefined) this.#table.settle(entry, { kind: 'blocked', error: withheld.reason });
      else if (entry.state.kind === 'blocked' && content !== undefined && isCurrent) {
        this.#table.settle(entry, { kind: 'applied' });
      }
    }
  }

  /** Takes a data update that arrived on a topic; `text` is its exact text. */
  receive(update: PeerUpdate, topic: string, text: string): void {
    if (!this.#configWasRead) this.#takeEpoch(update.epoch);
    // A server that retains nothing has no epoch in its configuration; its updates count as they arrive.
    const isPlaced = this.#epoch !== undefined && update.seq !== undefined;
    if (isPlaced && update.epoch !== this.#epoch) {
      // Another log than the one whose fold we hold: only reading it again tells where this update belongs.
      this.resync();
      return;
    }
    if (!isPlaced && this.#duplicates.seen(topic, text, Date.now())) return;
    this.#take(update, topic, isPlaced ? update.seq : undefined);
  }

  /**
   * Before the first configuration an update itself tells which log it is of; it must not wait for a configuration that
   * may be long in coming, or never lists it.
   */
  #takeEpoch(epoch: string | undefined): void {
    if (epoch === undefined || epoch === this.#epoch || (this.#epoch !== undefined && !this.#isAdopted)) return;
    this.#epoch = epoch;
    this.#reserved = 0; // below every place of a log
    if (!this.#isAdopted) return;
    // The places of what came from the backup are of another log, or of none: they do not compare with those of this one.
    this.#isAdopted = false;
    this.#era++;
    this.#next = 1;
    this.#lastSeq = 0;
  }

  #take(update: PeerUpdate, topic: string, seq: number | undefined): void {
    const { status, log, observer } = this.#deps;
    const id = update.id ?? randomUUID().replaceAll('-', '');
    const reason = update.reason ?? '';
    log.info({ update_id: id, topic, reason, entries: update.entries.length, seq }, 'data update received');
    const transaction = status.begin(id, reason);
    observer?.begin(transaction, { id, callbacks: update.callback?.callbacks ?? [], isLoad: false });
    const place = seq ?? this.#next++;
    this.#lastSeq = Math.max(this.#lastSeq, seq ?? 0);
    for (const [index, entry] of update.entries.entries()) {
      if (!concerns(entry, this.#topics)) continue;
      const entryId = seq === undefined ? `live/${this.#era}/${place}/${index}` : this.#placedId(entry, seq);
      this.#learn(entry, { id: entryId, rank: { era: this.#era, seq: place, index }, origin: 'update', transaction });
      observer?.concerns(transaction, entry, this.#table.get(entryId));
    }
    status.sealed(transaction);
    observer?.sealed(transaction);
  }

  /** Runs until the signal aborts; then every fetch has ended. May run again after that, and goes on where it was. */
  async run(signal: AbortSignal): Promise<void> {
    for (const entry of this.#table.all()) {
      const { state, abort } = entry;
      const isFollowed = state.kind === 'fetching' || isPeriodic(entry);
      // An entry from a backup has no source until the configuration lists it again.
      if (abort.signal.aborted && isFollowed && entry.entry.url !== '') this.#fetcher.obtain(entry);
    }
    this.#writer.look();
    try {
      await Promise.all([this.#configLoop.run(signal), this.#writer.loop.run(signal)]);
    } finally {
      for (const { reject } of this.#refreshes.splice(0)) reject(notFollowing());
      for (const entry of this.#table.all()) entry.abort.abort();
      await this.#tasks.settled();
    }
  }

  async #readConfigAndTell(signal: AbortSignal): Promise<void> {
    const waiting = this.#refreshes.splice(0);
    try {
      await this.#readConfig(signal);
      for (const { resolve } of waiting) resolve();
    } catch (error) {
      for (const { reject } of waiting) reject(signal.aborted ? notFollowing() : error);
      throw error;
    }
  }

  async #readConfig(signal: AbortSignal): Promise<void> {
    const { status, observer } = this.#deps;
    const resyncs = this.#resyncs;
    const config = await this.#deps.fetchConfig(signal);
    const asks = resyncs > this.#resynced;
    this.#resynced = resyncs;
    const isFirst = !this.#configWasRead;
    this.#configWasRead = true;
    if (isFirst && config.epoch === undefined) {
      // A server that retains nothing: the updates that came before its configuration keep their places, after it.
      this.#epoch = undefined;
      this.#next = Math.max(this.#next, this.#lastSeq + 1);
    } else if (config.epoch !== this.#epoch) {
      // Places of another log do not compare with the ones before: they are a new era.
      this.#era++;
      this.#epoch = config.epoch;
    }
    const transaction = status.begin('initial-load', 'base data and retained updates');
    observer?.begin(transaction, { id: 'initial-load', callbacks: [], isLoad: true });
    const seen = new Set<string>();
    const counts = new Map<number, number>();
    for (const entry of config.entries) {
      if (!concerns(entry, this.#topics)) continue;
      const seq = entry.seq ?? this.#reserved;
      const index = counts.get(seq) ?? 0;
      counts.set(seq, index + 1);
      const origin = entry.origin ?? 'base';
      const isUpdate = origin === 'update' && entry.seq !== undefined;
      // A base entry is the same one in every log: while its source has nothing new it keeps its place, so that neither
      // a reconnect nor a new log supersedes what was published below it (design 9.3).
      const id = isUpdate ? this.#placedId(entry, seq) : `base/${entryIdentity(entry, entryPath(entry))}`;
      seen.add(id);
      this.#learn(entry, { id, rank: { era: this.#era, seq, index }, origin, transaction }, asks);
      observer?.concerns(transaction, entry, this.#table.get(id));
    }
    this.#pruneMissing(config, seen);
    this.#restUnlisted(seen);
    status.sealed(transaction);
    observer?.sealed(transaction);
    status.configRead(seen.size);
  }

  #placedId(entry: PeerEntry, seq: number): string {
    return `${this.#epoch}/${seq}/${entryIdentity(entry, entryPath(entry))}`;
  }

  /**
   * Removes what a complete fold of the same epoch no longer has (design 9.3). Nothing is ever removed on the word of a
   * server without an epoch, or of another epoch. What a later entry covers goes when that one comes in.
   */
  #pruneMissing({ epoch, head, base_set: isBaseSet }: PeerDataConfig, seen: ReadonlySet<string>): void {
    if (epoch === undefined || head === undefined) return;
    for (const entry of [...this.#table.all()]) {
      const isCompared =
        entry.epoch === epoch && entry.rank.seq <= head && (entry.origin === 'update' || isBaseSet === true);
      if (!isCompared || seen.has(entry.id) || this.#table.covered(entry.path, entry.rank)) continue;
      this.#table.forget(entry);
      if (this.#deps.applier.layers.get(entry.id) === undefined) this.#deps.applier.unblock(entry.id);
      else {
        this.#writer.retire(entry, () => {
          if (this.#table.get(entry.id) === undefined) this.#table.set(entry);
        });
      }
    }
  }

  /**
   * A base entry that is no longer listed is not read any more, also where nothing may be removed on the word of this
   * configuration (an external API, an OPAL server): what the engine holds of it stays.
   */
  #restUnlisted(seen: ReadonlySet<string>): void {
    for (const entry of [...this.#table.all()]) {
      const isListed = entry.origin !== 'base' || seen.has(entry.id);
      if (isListed || this.#table.covered(entry.path, entry.rank)) continue;
      entry.abort.abort();
      entry.entry = { ...entry.entry, periodic_update_interval: null };
      if (entry.state.kind !== 'fetching') continue;
      const isHeld = this.#deps.applier.layers.get(entry.id) !== undefined;
      if (isHeld) this.#table.settle(entry, { kind: 'applied' });
      else this.#table.forget(entry);
    }
  }

  #learn(
    entry: PeerEntry,
    place: { id: string; rank: Rank; origin: KnownEntry['origin']; transaction: string },
    asks = true,
  ): void {
    const { id, rank, origin, transaction } = place;
    const path = entryPath(entry);
    const known = this.#table.get(id);
    if (known !== undefined) {
      const isPacedAnew = known.entry.periodic_update_interval !== entry.periodic_update_interval;
      known.entry = entry;
      known.epoch = this.#epoch;
      if (compareRank(known.rank, rank) !== 0) known.later = rank;
      this.#revalidate(known, transaction, asks || isPacedAnew);
      return;
    }
    if (this.#table.covered(path, rank)) return;
    if (entryReplaces(entry)) this.#dropUnwritten(path, rank);
    const fresh: KnownEntry = {
      id,
      path,
      rank,
      later: undefined,
      origin,
      epoch: this.#epoch,
      entry,
      transaction,
      state: { kind: 'fetching', error: undefined },
      fetched: undefined,
      abort: new AbortController(),
    };
    this.#table.set(fresh);
    this.#deps.status.joined(transaction, fresh);
    this.#fetcher.obtain(fresh);
  }

  /** Earlier entries at or below the path that the engine has not seen yet need not be fetched any more. */
  #dropUnwritten(path: DocPath, rank: Rank): void {
    for (const other of this.#table.atOrBelow(path)) {
      const isWritten = this.#deps.applier.layers.get(other.id) !== undefined || other.state.kind === 'blocked';
      if (compareRank(other.rank, rank) < 0 && !isWritten) this.#table.forget(other);
    }
  }

  /** An entry that is known already. A base entry's source is asked whether it has something else by now. */
  #revalidate(entry: KnownEntry, transaction: string, asks: boolean): void {
    const { state } = entry;
    const isFixed = entry.origin === 'update' || !isRead(entry.entry);
    const isLeft = isPeriodic(entry) && entry.abort.signal.aborted;
    if (state.kind === 'applied' && (isFixed || !asks) && !isLeft) return;
    // An update that is under way stays the same one; what the load before was to bring in is for this one now.
    const counts = entry.origin === 'base' || this.#deps.status.isLoad(entry.transaction);
    if (entry.transaction !== transaction && counts) {
      this.#deps.status.left(entry);
      entry.transaction = transaction;
      this.#deps.status.joined(transaction, entry);
    }
    if (state.kind === 'blocked') this.#table.settle(entry, state);
    // What waits for the engine, or is refused by it, is replaced when its source has something else by now.
    const isHere = state.kind === 'ready' || state.kind === 'blocked';
    if (!isHere || (asks && !isFixed)) this.#fetcher.obtain(entry);
  }
}

function notFollowing(): SyncError {
  return new SyncError('updater_disabled', 'The client no longer follows the sync server.');
}

/** True when the content of the entry comes from a source. */
function isRead({ data, save_method: method }: PeerEntry): boolean {
  return (data ?? null) === null && method !== 'DELETE';
}

/** True when the source of the entry is read at an interval. */
function isPeriodic({ entry }: KnownEntry): boolean {
  return isRead(entry) && (entry.periodic_update_interval ?? null) !== null;
}
