import type { BackoffOptions } from '../../lib/async.js';
import type { Logger } from '../../lib/log.js';
import type { RetryLoop } from '../../lib/retry-loop.js';
import { TaskSet } from '../../lib/task-set.js';
import type { PeerEntry } from '../../wire/data.js';
import { type DocPath, docPathText } from '../../wire/doc-path.js';
import { compareRank, type Rank } from '../desired/layers.js';
import type { Fetcher } from '../fetch/providers.js';
import { type DataEvents, isLoad } from '../status/data-events.js';
import type { Applier } from './applier.js';
import { entryPath, entryReplaces, isMoved, isPeriodic, isRead, type KnownEntry, stopReads } from './entry.js';
import { EntryFetcher, type SeenContent } from './entry-fetcher.js';
import { EntryTable } from './entry-table.js';
import { EntryWriter, type Exclusive } from './entry-writer.js';
import type { LogCursor } from './log-cursor.js';

/** What {@link DesiredEntries} works with. */
export interface DesiredEntriesDeps {
  readonly applier: Applier;
  readonly exclusive: Exclusive;
  readonly fetch: Fetcher['fetch'];
  readonly state: LogCursor;
  readonly events: DataEvents;
  readonly log: Logger;
}

/** Where an entry comes in. */
export interface EntryPlace {
  readonly id: string;
  readonly rank: Rank;
  readonly origin: KnownEntry['origin'];
  /** The transaction that it counts for. */
  readonly transaction: string;
}

/**
 * The entries that are desired, each with its place in the order (design D6): what joins them, what goes because a later
 * one replaces it. The fetcher gets their contents, the writer brings them in; one that fails holds up nothing else.
 */
export class DesiredEntries {
  readonly table: EntryTable;
  readonly #deps: DesiredEntriesDeps;
  readonly #tasks: TaskSet;
  readonly #writer: EntryWriter;
  readonly #fetcher: EntryFetcher;

  constructor(options: { backoff: BackoffOptions; pollMinMs: number }, deps: DesiredEntriesDeps) {
    const { applier, events, log } = deps;
    this.#deps = deps;
    this.#tasks = new TaskSet(log);
    const table = new EntryTable({
      onSettled: (entry) => events.emit({ kind: 'settled', entry }),
      onForgotten: (entry) => events.emit({ kind: 'forgotten', entry }),
      discard: (body) => this.#writer.discard(body),
      onStoppedFetching: () => this.#writer.look(),
    });
    this.table = table;
    const shared = { applier, table, tasks: this.#tasks, log };
    this.#writer = new EntryWriter(options, { ...shared, exclusive: deps.exclusive });
    this.#fetcher = new EntryFetcher(options, {
      ...shared,
      fetch: deps.fetch,
      onArrived: (entry, body) => {
        if (entry.origin === 'base' && entryReplaces(entry.entry)) {
          this.#dropUnwritten(entry.id, entry.path, entry.rank);
        }
        this.#writer.arrived(entry, body);
      },
    });
  }

  /** What each base entry had when it was fetched last, by id. */
  get seen(): ReadonlyMap<string, SeenContent> {
    return this.#fetcher.seen;
  }

  /** The loop that writes to the engine. */
  get loop(): RetryLoop {
    return this.#writer.loop;
  }

  /** Entries that are under way, for people. */
  get pending(): string[] {
    return [...this.table.all()]
      .filter(({ state }) => state.kind === 'fetching' || state.kind === 'ready')
      .map(
        ({ path, entry, rank, state }) => `${docPathText(path)} (${entry.save_method}, seq ${rank.seq}): ${state.kind}`,
      );
  }

  /** Takes over what the engine was given from a backup. */
  adopt(entries: readonly KnownEntry[], seen: ReadonlyMap<string, SeenContent>): void {
    this.#fetcher.adopt(seen);
    for (const entry of entries) {
      this.table.set(entry);
      this.table.settle(entry, entry.state);
    }
  }

  /** Writes what arrives until the signal aborts; goes on where it was when it was stopped. */
  run(signal: AbortSignal): Promise<void> {
    for (const entry of this.table.all()) {
      const isFollowed = entry.state.kind === 'fetching' || isPeriodic(entry);
      // An entry from a backup has no source until the configuration lists it again.
      if (entry.reads === undefined && isFollowed && entry.entry.url !== '') this.#fetcher.obtain(entry);
    }
    this.#writer.look();
    return this.#writer.loop.run(signal);
  }

  /** Ends every fetch, and waits until they have ended. */
  async end(): Promise<void> {
    for (const entry of this.table.all()) stopReads(entry);
    await this.#tasks.settled();
  }

  /** An entry is desired at this place. `asks`: the source of one that is known already is asked for something new. */
  learn(entry: PeerEntry, place: EntryPlace, asks = true): void {
    const { id, rank, origin, transaction } = place;
    const { state, events } = this.#deps;
    const path = entryPath(entry);
    const known = this.table.get(id);
    if (known !== undefined) {
      const isPacedAnew = known.entry.periodic_update_interval !== entry.periodic_update_interval;
      known.entry = entry;
      known.epoch = state.name;
      const moves = origin === 'base' && isMoved(entry, known.rank, rank);
      if (compareRank(known.rank, rank) !== 0) known.later = rank;
      if (moves) this.#move(known, rank);
      this.#revalidate(known, transaction, { asks: asks || isPacedAnew, moves });
      return;
    }
    const cover = this.table.cover(path, rank);
    if (cover !== undefined) {
      if (origin === 'update') state.position.hidden(rank.seq, cover.id);
      return;
    }
    // One that was replaced, and whose source has nothing new, stays away: that is known once it has arrived.
    const mayStayAway = origin === 'base' && this.seen.has(id);
    if (entryReplaces(entry) && !mayStayAway) this.#dropUnwritten(id, path, rank);
    const fresh: KnownEntry = {
      id,
      path,
      rank,
      later: undefined,
      origin,
      epoch: state.name,
      entry,
      transaction,
      state: { kind: 'fetching', error: undefined },
      fetched: undefined,
      reads: undefined,
    };
    this.table.set(fresh);
    if (state.has(fresh)) state.position.opened(rank.seq, id);
    events.emit({ kind: 'joined', transaction, entry: fresh });
    this.#fetcher.obtain(fresh);
  }

  /** Earlier entries at or below the path that the engine has not seen yet need not be fetched any more. */
  #dropUnwritten(id: string, path: DocPath, rank: Rank): void {
    for (const other of this.table.atOrBelow(path)) {
      const isWritten = this.#deps.applier.layers.get(other.id) !== undefined || other.state.kind === 'blocked';
      if (compareRank(other.rank, rank) >= 0 || isWritten) continue;
      this.#deps.state.position.replaced(other.id, id);
      this.table.forget(other);
    }
  }

  /** A base entry counts from another place on: what it has is written there, too. */
  #move(entry: KnownEntry, rank: Rank): void {
    entry.fetched = undefined;
    if (isRead(entry.entry)) return; // once it has arrived
    entry.rank = rank;
    entry.later = undefined;
  }

  /** An entry that is known already. A base entry's source is asked whether it has something else by now. */
  #revalidate(
    entry: KnownEntry,
    transaction: string,
    { asks, moves }: { readonly asks: boolean; readonly moves: boolean },
  ): void {
    const { events } = this.#deps;
    const { state } = entry;
    const isFixed = entry.origin === 'update' || !isRead(entry.entry);
    const isLeft = isPeriodic(entry) && entry.reads === undefined;
    if (state.kind === 'applied' && (isFixed || !asks) && !isLeft && !moves) return;
    // An update that is under way stays the same one; what the load before was to bring in is for this one now.
    const counts = entry.origin === 'base' || isLoad(entry.transaction);
    if (entry.transaction !== transaction && counts) {
      events.emit({ kind: 'left', entry });
      entry.transaction = transaction;
      events.emit({ kind: 'joined', transaction, entry });
    }
    if (state.kind === 'blocked') this.table.settle(entry, state);
    // What waits for the engine, or is refused by it, is replaced when its source has something else by now.
    const isHere = state.kind === 'ready' || state.kind === 'blocked';
    if (!isHere || moves || (asks && !isFixed)) this.#fetcher.obtain(entry);
  }

  /** Asks the sources of all updates that are held whether they have something newer; those of base entries are asked when they are read. */
  revalidate(): void {
    for (const entry of [...this.table.all()]) {
      if (entry.origin === 'update' && isRead(entry.entry) && entry.entry.url !== '') this.#fetcher.revalidate(entry);
    }
  }

  /** Takes an entry out, and its document out of the engine; false: that failed, and the entry is back. */
  async remove(entry: KnownEntry): Promise<boolean> {
    const { applier } = this.#deps;
    this.table.forget(entry);
    if (applier.layers.get(entry.id) === undefined) {
      applier.unblock(entry.id);
      return true;
    }
    const isGone = await this.#writer.retire(entry);
    if (!isGone && this.table.get(entry.id) === undefined) this.table.set(entry);
    return isGone;
  }

  /**
   * Removes what a complete fold of this very log, up to `head`, no longer has (design D11). Nothing is ever removed on the
   * word of a server without an epoch, or of another log. What a later entry covers goes when that one comes in.
   */
  pruneMissing(origin: KnownEntry['origin'], head: number, seen: ReadonlySet<string>): void {
    const { name } = this.#deps.state;
    if (name === undefined) return;
    for (const entry of [...this.table.all()]) {
      const isCompared = entry.origin === origin && entry.epoch === name && entry.rank.seq <= head;
      if (!isCompared || seen.has(entry.id) || this.table.covered(entry.path, entry.rank)) continue;
      this.#tasks.add(this.remove(entry));
    }
  }

  /**
   * A base entry that is no longer listed is not read any more, also where nothing may be removed on the word of this
   * configuration (an external API, an OPAL server): what the engine holds of it stays.
   */
  restUnlisted(seen: ReadonlySet<string>): void {
    for (const entry of [...this.table.all()]) {
      const isListed = entry.origin !== 'base' || seen.has(entry.id);
      if (isListed || this.table.covered(entry.path, entry.rank)) continue;
      stopReads(entry);
      entry.entry = { ...entry.entry, periodic_update_interval: null };
      if (entry.state.kind !== 'fetching') continue;
      const isHeld = this.#deps.applier.layers.get(entry.id) !== undefined;
      if (isHeld) this.table.settle(entry, { kind: 'applied' });
      else this.table.forget(entry);
    }
  }

  /** Policy has changed: which entries are withheld may have, too. */
  policyChanged(): void {
    const { applier } = this.#deps;
    for (const entry of this.table.all()) {
      if (entry.state.kind === 'ready') continue; // The writer decides, with the newer content.
      const withheld = applier.blocked.get(entry.id);
      const content = applier.layers.get(entry.id)?.content;
      const isCurrent =
        content?.kind !== 'put' || entry.fetched === undefined || content.body.hash === entry.fetched.hash;
      if (withheld !== undefined) this.table.settle(entry, { kind: 'blocked', error: withheld.reason });
      else if (entry.state.kind === 'blocked' && content !== undefined && isCurrent) {
        this.table.settle(entry, { kind: 'applied' });
      }
    }
  }
}
