import { randomUUID } from 'node:crypto';
import type { Logger } from '../../lib/log.js';
import type { BackoffOptions } from '../../lib/loop.js';
import type { PeerDataConfig, PeerEntry, PeerUpdate } from '../../wire/data.js';
import { type DocPath, docPathText } from '../../wire/doc-path.js';
import { compareRank, type Rank } from '../desired/layers.js';
import type { FetchRequest, FetchResult } from '../fetch/http-fetch.js';
import type { DataStatus } from '../status.js';
import type { Applier } from './applier.js';
import { Duplicates } from './duplicates.js';
import { concerns, entryIdentity, entryPath, entryReplaces, type KnownEntry } from './entry.js';
import { EntryFetcher } from './entry-fetcher.js';
import { EntryTable } from './entry-table.js';
import { EntryWriter, type Exclusive } from './entry-writer.js';
import { RetryLoop } from './retry-loop.js';
import { TaskSet } from './task-set.js';

/** What the data updater works with. */
export interface DataUpdaterDeps {
  readonly applier: Applier;
  readonly exclusive: Exclusive;
  readonly fetch: (request: FetchRequest, signal: AbortSignal) => Promise<FetchResult>;
  readonly fetchConfig: (signal: AbortSignal) => Promise<PeerDataConfig>;
  readonly status: DataStatus;
  readonly log: Logger;
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
  /** The greatest seq of an update so far. */
  #lastSeq = 0;

  constructor(options: { topics: readonly string[]; backoff: BackoffOptions }, deps: DataUpdaterDeps) {
    const { applier, status, log } = deps;
    const { backoff } = options;
    this.#topics = new Set(options.topics);
    this.#deps = deps;
    this.#tasks = new TaskSet(log);
    const table = new EntryTable({
      status,
      discard: (body) => this.#writer.discard(body),
      onStoppedFetching: () => this.#writer.look(),
    });
    this.#table = table;
    const shared = { applier, table, tasks: this.#tasks, log };
    this.#writer = new EntryWriter({ backoff }, { ...shared, exclusive: deps.exclusive });
    this.#fetcher = new EntryFetcher(
      { backoff },
      { ...shared, fetch: deps.fetch, onArrived: (entry, body) => this.#writer.arrived(entry, body) },
    );
    this.#configLoop = new RetryLoop('reading the data configuration', backoff, log, (signal) =>
      this.#readConfig(signal),
    );
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
    this.#configLoop.request();
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
    // Before the first configuration the update itself tells which log it is of; it must not wait for a configuration
    // that may be long in coming.
    if (!this.#configWasRead) this.#epoch ??= update.epoch;
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

  #take(update: PeerUpdate, topic: string, seq: number | undefined): void {
    const { status, log } = this.#deps;
    const id = update.id ?? randomUUID().replaceAll('-', '');
    const reason = update.reason ?? '';
    log.info({ update_id: id, topic, reason, entries: update.entries.length, seq }, 'data update received');
    const transaction = status.begin(id, reason);
    const place = seq ?? this.#next++;
    this.#lastSeq = Math.max(this.#lastSeq, seq ?? 0);
    for (const [index, entry] of update.entries.entries()) {
      if (!concerns(entry, this.#topics)) continue;
      const entryId = seq === undefined ? `live/${this.#era}/${place}/${index}` : this.#placedId(entry, seq);
      this.#learn(entry, { id: entryId, rank: { era: this.#era, seq: place, index }, origin: 'update', transaction });
    }
    status.sealed(transaction);
  }

  /** Runs until the signal aborts; then every fetch has ended. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      await Promise.all([this.#configLoop.run(signal), this.#writer.loop.run(signal)]);
    } finally {
      for (const entry of this.#table.all()) entry.abort.abort();
      await this.#tasks.settled();
    }
  }

  async #readConfig(signal: AbortSignal): Promise<void> {
    const { status } = this.#deps;
    const config = await this.#deps.fetchConfig(signal);
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
      this.#learn(entry, { id, rank: { era: this.#era, seq, index }, origin, transaction });
    }
    this.#pruneMissing(config, seen);
    status.sealed(transaction);
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

  #learn(entry: PeerEntry, place: { id: string; rank: Rank; origin: KnownEntry['origin']; transaction: string }): void {
    const { id, rank, origin, transaction } = place;
    const path = entryPath(entry);
    const known = this.#table.get(id);
    if (known !== undefined) {
      known.entry = entry;
      known.epoch = this.#epoch;
      if (compareRank(known.rank, rank) !== 0) known.later = rank;
      this.#revalidate(known, transaction);
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
  #revalidate(entry: KnownEntry, transaction: string): void {
    const { state } = entry;
    const isFixed =
      entry.origin === 'update' || (entry.entry.data ?? null) !== null || entry.entry.save_method === 'DELETE';
    if (state.kind === 'applied' && isFixed) return;
    if (entry.transaction !== transaction) {
      this.#deps.status.left(entry);
      entry.transaction = transaction;
      this.#deps.status.joined(transaction, entry);
    }
    if (state.kind === 'ready') return;
    if (state.kind === 'blocked') this.#table.settle(entry, state);
    else this.#fetcher.obtain(entry);
  }
}
