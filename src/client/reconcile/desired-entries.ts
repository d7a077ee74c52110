import type { BackoffOptions } from '../../lib/async.js';
import type { Logger } from '../../lib/log.js';
import type { RetryLoop } from '../../lib/retry-loop.js';
import { TaskSet } from '../../lib/task-set.js';
import type { PeerEntry } from '../../wire/data.js';
import { docPathText } from '../../wire/doc-path.js';
import { entryPath, entryReplaces, isPeriodic, isRead, type KnownEntry } from '../desired/entry.js';
import type { EntryEvent } from '../desired/entry-state.js';
import { type Entries, EntryTable } from '../desired/entry-table.js';
import { compareRank, type Rank } from '../desired/layers.js';
import type { Fetcher } from '../fetch/providers.js';
import { type DataEvents, isLoad } from '../status/data-events.js';
import type { Applier } from './applier.js';
import { EntryFetcher, type SeenContent } from './entry-fetcher.js';
import { EntryWriter, type Exclusive } from './entry-writer.js';
import type { LogCursor } from './log-cursor.js';

/** What {@link DesiredEntries} works with. */
export interface DesiredEntriesDeps {
  readonly applier: Applier;
  readonly exclusive: Exclusive;
  readonly fetch: Fetcher['fetch'];
  readonly cursor: LogCursor;
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
 * The entries that are desired, each with its place in the order (design D6): what joins them, what leaves because a later one replaces
 * it. The fetcher gets their contents, the writer brings them in; both report events, and carry out what these ask for. One
 * entry that fails holds up nothing else.
 */
export class DesiredEntries {
  readonly #deps: DesiredEntriesDeps;
  readonly #tasks: TaskSet;
  readonly #table = new EntryTable();
  readonly #writer: EntryWriter;
  readonly #fetcher: EntryFetcher;

  constructor(options: { backoff: BackoffOptions; pollMinMs: number }, deps: DesiredEntriesDeps) {
    const { applier, log } = deps;
    this.#deps = deps;
    this.#tasks = new TaskSet(log);
    const apply = (entry: KnownEntry, event: EntryEvent): void => this.#apply(entry, event);
    const shared = { applier, table: this.#table, tasks: this.#tasks, apply, log };
    this.#writer = new EntryWriter(options, { ...shared, exclusive: deps.exclusive });
    this.#fetcher = new EntryFetcher(options, { ...shared, fetch: deps.fetch });
  }

  get table(): Entries {
    return this.#table;
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
    return [...this.#table.all()]
      .filter(({ state }) => state.kind === 'fetching' || state.kind === 'ready')
      .map(
        ({ path, entry, rank, state }) => `${docPathText(path)} (${entry.save_method}, seq ${rank.seq}): ${state.kind}`,
      );
  }

  /** The one way in which an entry changes: the next state, and what has to be done for it. */
  #apply(entry: KnownEntry, event: EntryEvent, transaction = entry.transaction): void {
    const { events } = this.#deps;
    const { effects, discard } = this.#table.apply(entry, event);
    if (discard !== undefined) this.#writer.discard(discard);
    for (const effect of effects) {
      switch (effect) {
        case 'join':
          this.#join(entry, transaction);
          break;
        case 'tell_settled':
          events.emit({ kind: 'settled', entry });
          break;
        case 'tell_forgotten':
          events.emit({ kind: 'forgotten', entry });
          break;
        case 'fetch':
          this.#fetcher.obtain(entry);
          break;
        case 'stop_reads':
          this.#fetcher.stop(entry);
          break;
        case 'write':
          // Only now it is known that a base entry that was replaced before has something new.
          if (entry.origin === 'base' && entryReplaces(entry.entry)) this.#dropUnwritten(entry);
          this.#writer.take(entry);
          break;
        case 'recheck':
          this.#writer.recheck();
      }
    }
  }

  /** Takes over what the engine was given from a backup. */
  adopt(entries: readonly KnownEntry[], seen: ReadonlyMap<string, SeenContent>): void {
    this.#fetcher.adopt(seen);
    for (const entry of entries) {
      this.#table.set(entry);
      this.#deps.events.emit({ kind: 'settled', entry });
    }
  }

  /** Writes what arrives until the signal aborts; goes on where it was when it was stopped. */
  run(signal: AbortSignal): Promise<void> {
    for (const entry of this.#table.all()) {
      const isFollowed = entry.state.kind === 'fetching' || isPeriodic(entry);
      // An entry from a backup has no source until the configuration lists it again.
      if (isFollowed && !this.#fetcher.reads(entry) && entry.entry.url !== '') this.#fetcher.obtain(entry);
    }
    this.#writer.recheck();
    return this.#writer.loop.run(signal);
  }

  /** Ends every fetch, and waits until they have ended. */
  async end(): Promise<void> {
    for (const entry of this.#table.all()) this.#fetcher.stop(entry);
    await this.#tasks.settled();
  }

  /** An entry is desired at this place. `asks`: the source of one that is known already is asked for something new. */
  learn(entry: PeerEntry, place: EntryPlace, asks = true): void {
    const known = this.#table.get(place.id);
    if (known === undefined) this.#add(entry, place);
    else this.#relist(known, entry, place, asks);
    const { transaction } = place;
    this.#deps.events.emit({ kind: 'named', transaction, entry, known: this.#table.get(place.id) });
  }

  #add(entry: PeerEntry, { id, rank, origin, transaction }: EntryPlace): void {
    const { cursor, events } = this.#deps;
    const path = entryPath(entry);
    const cover = this.#table.cover(path, rank);
    if (cover !== undefined) {
      if (origin === 'update') cursor.position.hidden(rank.seq, cover.id);
      return;
    }
    const fresh: KnownEntry = {
      id,
      path,
      rank,
      later: undefined,
      origin,
      epoch: cursor.name,
      entry,
      transaction,
      state: { kind: 'fetching', error: undefined },
      fetched: undefined,
    };
    // One that was replaced, and whose source has nothing new, stays away: that is known once it has arrived.
    const mayStayAway = origin === 'base' && this.seen.has(id);
    if (entryReplaces(entry) && !mayStayAway) this.#dropUnwritten(fresh);
    this.#table.set(fresh);
    if (cursor.has(fresh)) cursor.position.opened(rank.seq, id);
    events.emit({ kind: 'joined', transaction, entry: fresh });
    this.#fetcher.obtain(fresh);
  }

  #relist(known: KnownEntry, entry: PeerEntry, { rank, transaction }: EntryPlace, asks: boolean): void {
    const isPacedAnew = known.entry.periodic_update_interval !== entry.periodic_update_interval;
    const moves = this.#table.relist(known, entry, this.#deps.cursor.name, rank);
    // An update stays what it is; the source of a base entry may have something else by now.
    const mayDiffer = known.origin === 'base' && isRead(entry);
    const resumes = isPeriodic(known) && !this.#fetcher.reads(known);
    this.#apply(known, { kind: 'listed', asks: moves || ((asks || isPacedAnew) && mayDiffer), resumes }, transaction);
  }

  /** An update that is under way stays the same one; what the load before was to bring in is for this one now. */
  #join(entry: KnownEntry, transaction: string): void {
    const { events } = this.#deps;
    const counts = entry.origin === 'base' || isLoad(entry.transaction);
    if (entry.transaction === transaction || !counts) return;
    events.emit({ kind: 'left', entry });
    this.#table.join(entry, transaction);
    events.emit({ kind: 'joined', transaction, entry });
  }

  /** Earlier entries at or below the path that the engine has not seen yet need not be fetched any more. */
  #dropUnwritten({ id, path, rank }: KnownEntry): void {
    for (const other of this.#table.atOrBelow(path)) {
      const isWritten = this.#deps.applier.layers.get(other.id) !== undefined || other.state.kind === 'blocked';
      if (compareRank(other.rank, rank) >= 0 || isWritten) continue;
      this.#deps.cursor.position.replaced(other.id, id);
      this.#apply(other, { kind: 'dropped' });
    }
  }

  /** Asks the sources of all updates that are held whether they have something newer; those of base entries are asked when they are read. */
  revalidate(): void {
    for (const entry of [...this.#table.all()]) {
      if (entry.origin === 'update' && isRead(entry.entry) && entry.entry.url !== '') this.#fetcher.revalidate(entry);
    }
  }

  /** Takes an entry out, and its document out of the engine; false: that failed, and the entry is back. */
  async remove(entry: KnownEntry): Promise<boolean> {
    const { applier } = this.#deps;
    this.#apply(entry, { kind: 'dropped' });
    if (applier.layers.get(entry.id) === undefined) {
      applier.unblock(entry.id);
      return true;
    }
    const isGone = await this.#writer.retire(entry);
    if (!isGone && this.#table.get(entry.id) === undefined) this.#apply(entry, { kind: 'kept' });
    return isGone;
  }

  /**
   * Removes what a complete fold of this very log, up to `head`, no longer has (design D11). Nothing is ever removed on the
   * word of a server without an epoch, or of another log. What a later entry covers goes when that one comes in.
   */
  pruneMissing(origin: KnownEntry['origin'], head: number, seen: ReadonlySet<string>): void {
    const { name } = this.#deps.cursor;
    if (name === undefined) return;
    for (const entry of [...this.#table.all()]) {
      const isCompared = entry.origin === origin && entry.epoch === name && entry.rank.seq <= head;
      if (!isCompared || seen.has(entry.id) || this.#table.covered(entry.path, entry.rank)) continue;
      this.#tasks.add(this.remove(entry));
    }
  }

  /**
   * A base entry that is no longer listed is not read any more, also where nothing may be removed on the word of this
   * configuration (an external API, an OPAL server): what the engine holds of it stays.
   */
  restUnlisted(seen: ReadonlySet<string>): void {
    for (const entry of [...this.#table.all()]) {
      const isListed = entry.origin !== 'base' || seen.has(entry.id);
      if (isListed || this.#table.covered(entry.path, entry.rank)) continue;
      this.#apply(entry, { kind: 'unlisted', isHeld: this.#deps.applier.layers.get(entry.id) !== undefined });
    }
  }

  /** Policy has changed: which entries are withheld may have, too. */
  policyChanged(): void {
    const { applier } = this.#deps;
    for (const entry of this.#table.all()) {
      const withheld = applier.blocked.get(entry.id);
      if (withheld !== undefined) this.#apply(entry, { kind: 'withheld', error: withheld.reason });
      else if (entry.state.kind === 'blocked' && this.#isHeld(entry)) this.#apply(entry, { kind: 'admitted' });
    }
  }

  /** True when the engine holds what was fetched last. */
  #isHeld({ id, fetched }: KnownEntry): boolean {
    const content = this.#deps.applier.layers.get(id)?.content;
    if (content?.kind !== 'put') return content !== undefined;
    return fetched === undefined || content.body.hash === fetched.hash;
  }
}
