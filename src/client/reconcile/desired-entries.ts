import type { Logger } from '../../lib/observe/log.js';
import { type BackoffOptions, TaskSet } from '../../lib/run/async.js';
import type { RetryLoop } from '../../lib/run/retry-loop.js';
import type { PeerEntry } from '../../wire/data.js';
import { docPathText, pathsOverlap } from '../../wire/doc-path.js';
import type { EntryEvent } from '../desired/entry-state.js';
import {
  type Entries,
  EntryTable,
  entryPath,
  entryReplaces,
  isPeriodic,
  isRead,
  type KnownEntry,
} from '../desired/entry-table.js';
import { compareRank, type Layer, onlyRemoves, type Rank, STATIC_ERA } from '../desired/layers.js';
import type { Fetcher } from '../fetch/providers.js';
import type { UpdateProgress } from '../position/position-waits.js';
import { type DataEvents, isLoad } from '../status/data-events.js';
import type { Applier } from './applier.js';
import { EntryFetcher, type SeenContent } from './entry-fetcher.js';
import type { EntryTraces } from './entry-traces.js';
import { EntryWriter, type Exclusive, type WithDocuments } from './entry-writer.js';
import type { LogCursor } from './log-cursor.js';

/** What {@link DesiredEntries} works with. */
export interface DesiredEntriesDeps {
  readonly applier: Applier;
  readonly exclusive: Exclusive;
  readonly fetch: Fetcher['fetch'];
  readonly cursor: LogCursor;
  readonly events: DataEvents;
  readonly traces?: EntryTraces | undefined;
  readonly log: Logger;
}

/** The id and place that an entry is listed with. */
export interface EntryPlace {
  readonly id: string;
  readonly rank: Rank;
  readonly origin: KnownEntry['origin'];
  /** The transaction that it counts for. */
  readonly transaction: string;
}

/**
 * The entries that are desired, each with its place in the order (design D6): which join, and which
 * are dropped because a later one replaces them. Fetcher and writer report events and carry out the
 * effects of these. An entry that fails holds up no other.
 */
export class DesiredEntries {
  readonly #deps: DesiredEntriesDeps;
  readonly #tasks: TaskSet;
  readonly #table = new EntryTable();
  readonly table: Entries = this.#table;
  readonly #writer: EntryWriter;
  /** Deletions that only remove, and that the engine has: see {@link forgetRemovals}. */
  readonly #removals = new Set<KnownEntry>();
  readonly #fetcher: EntryFetcher;

  constructor(options: { backoff: BackoffOptions; pollMinMs: number }, deps: DesiredEntriesDeps) {
    const { applier, traces, log } = deps;
    this.#deps = deps;
    this.#tasks = new TaskSet(log);
    const apply = (entry: KnownEntry, event: EntryEvent): void => this.#apply(entry, event);
    const shared = { applier, table: this.#table, tasks: this.#tasks, traces, apply, log };
    this.#writer = new EntryWriter(options, {
      ...shared,
      exclusive: deps.exclusive,
      replaced: (id, by) => deps.cursor.position.replaced(id, by),
    });
    this.#fetcher = new EntryFetcher(options, { ...shared, fetch: deps.fetch });
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

  /**
   * Entries whose content is here and waits for the first policy; see `EngineCopy.takesDocuments`.
   */
  get awaitingPolicy(): KnownEntry[] {
    if (this.#deps.applier.held.takesDocuments) return [];
    return [...this.#table.all()].filter(({ state }) => state.kind === 'ready');
  }

  /**
   * How the client stands to an update: `applied` when the engine has it, or what replaced it, and
   * everything before it that overlaps its paths (design D21). Of an update that does not concern
   * this client it is `applied`, too.
   */
  applyStatus(seq: number): UpdateProgress {
    const { cursor } = this.#deps;
    const { position } = cursor;
    if (!position.knows(seq) || (position.isDoubtful && seq > position.through)) return 'unknown';
    const own = [...this.#table.all()].filter((entry) => entry.rank.seq === seq && cursor.has(entry));
    const open = own
      .flatMap((entry) => this.#table.overlapping(entry.path))
      .filter(({ state: { kind }, rank }) => kind !== 'applied' && rank.era === cursor.era && rank.seq <= seq);
    if (open.some((entry) => entry.state.kind === 'blocked')) return 'blocked';
    if (open.length > 0 || position.isHidden(seq)) return 'pending';
    return own.length === 0 && position.mayBeReplaced(seq) ? 'pending' : 'applied';
  }

  /** Seqs of updates of the log that the engine refuses until policy or data change. */
  get blockedSeqs(): number[] {
    const { cursor } = this.#deps;
    const blocked = [...this.#table.all()].filter((entry) => entry.state.kind === 'blocked' && cursor.has(entry));
    return [...new Set(blocked.map(({ rank }) => rank.seq))].sort((a, b) => a - b);
  }

  /**
   * What the engine holds though no log and no configuration has it (any more): it is listed and
   * stays (design D11).
   */
  get orphans(): KnownEntry[] {
    return [...this.#table.all()].filter((entry) => this.#isOrphan(entry));
  }

  #isOrphan({ origin, path, rank, epoch, isUnlisted, state }: KnownEntry): boolean {
    const { cursor } = this.#deps;
    const isOld = cursor.isRead && rank.era < cursor.era && epoch !== cursor.name;
    const isLeft = origin === 'base' ? isUnlisted === true : isOld;
    return isLeft && state.kind !== 'gone' && !this.#table.covered(path, rank);
  }

  /** Removes all {@link orphans}; returns the removed entries. */
  async prune(): Promise<KnownEntry[]> {
    const pruned: KnownEntry[] = [];
    for (const entry of this.orphans) {
      // While the one before was removed it may have been listed again, or replaced.
      if (this.#isOrphan(entry) && (await this.#remove(entry))) pruned.push(entry);
    }
    return pruned;
  }

  /**
   * Hands an event to an entry and carries out its effects. `transaction`: the one that lists it.
   */
  #apply(entry: KnownEntry, event: EntryEvent, transaction = entry.transaction): void {
    const { events } = this.#deps;
    const { effects, discard } = this.#table.apply(entry, event);
    if (entry.entry.only_removes === true && entry.state.kind === 'applied') this.#removals.add(entry);
    else if (this.#removals.size > 0) this.#removals.delete(entry);
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
          this.#fetcher.fetch(entry);
          break;
        case 'stop_reads':
          this.#fetcher.stop(entry);
          break;
        case 'write':
          // Only now it is known that the source of a base entry has something new.
          if (entry.origin === 'base' && entryReplaces(entry.entry)) this.#dropUnwritten(entry);
          this.#writer.write(entry);
          break;
        case 'recheck':
          this.#writer.recheck();
      }
    }
  }

  /** Restores what the engine was given from a backup. */
  adopt(entries: readonly KnownEntry[], seen: ReadonlyMap<string, SeenContent>): void {
    this.#fetcher.adopt(seen);
    for (const entry of entries) {
      this.#table.set(entry);
      if (entry.entry.only_removes === true && entry.state.kind === 'applied') this.#removals.add(entry);
      this.#deps.events.emit({ kind: 'settled', entry });
    }
  }

  /**
   * Forgets deletions that only remove (design D48) and stand over nothing. Call it when everything
   * up to `certain` is known, and nothing is being read: then nothing older than one of them comes
   * any more. One that stands over a document stays until that is replaced.
   */
  forgetRemovals(certain: number): void {
    const { cursor } = this.#deps;
    const found: KnownEntry[] = [];
    for (const entry of this.#removals) {
      if (!cursor.has(entry) || entry.rank.seq > certain) continue;
      this.#removals.delete(entry);
      if (!this.#standsOver(entry)) found.push(entry);
    }
    if (found.length > 0) this.#tasks.add(this.#writer.forget(found));
  }

  #standsOver({ path, rank }: KnownEntry): boolean {
    const { layers, blocked } = this.#deps.applier.held;
    const isOlder = (other: Layer): boolean =>
      other.rank.era !== STATIC_ERA && !onlyRemoves(other) && compareRank(other.rank, rank) < 0;
    const isWithheld = [...blocked.values()].some(({ layer }) => isOlder(layer) && pathsOverlap(layer.path, path));
    return (
      isWithheld ||
      layers.overlapping(path).some(isOlder) ||
      this.#table
        .overlapping(path)
        .some((other) => other.entry.only_removes !== true && compareRank(other.rank, rank) < 0)
    );
  }

  /** Writes what arrives until the signal aborts; continues where it was stopped. */
  run(signal: AbortSignal): Promise<void> {
    for (const entry of this.#table.all()) {
      const isFollowed = entry.state.kind === 'fetching' || isPeriodic(entry);
      // An entry from a backup has no source until the configuration lists it again.
      if (isFollowed && !this.#fetcher.isReading(entry) && entry.entry.url !== '') this.#fetcher.fetch(entry);
    }
    this.#writer.recheck();
    return this.#writer.loop.run(signal);
  }

  /** Stops every fetch, and waits until they have ended. */
  async end(): Promise<void> {
    for (const entry of this.#table.all()) this.#fetcher.stop(entry);
    await this.#tasks.settled();
  }

  /**
   * An entry is desired at this place. `asks`: the source of a known base entry is asked for
   * something new.
   */
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
      if (origin === 'update' && this.#isLacking(cover)) cursor.position.hidden(rank.seq, cover.id);
      return;
    }
    const fresh: KnownEntry = {
      id,
      path,
      rank,
      nextRank: undefined,
      origin,
      epoch: cursor.name,
      entry,
      transaction,
      state: { kind: 'fetching', error: undefined },
      fetched: undefined,
    };
    // One that was replaced stays away while its source has nothing new: that is known once it has
    // arrived.
    const mayStayAway = origin === 'base' && this.seen.has(id);
    if (entryReplaces(entry) && !mayStayAway) this.#dropUnwritten(fresh);
    this.#table.set(fresh);
    if (cursor.has(fresh)) cursor.position.opened(rank.seq, id);
    events.emit({ kind: 'joined', transaction, entry: fresh });
    this.#fetcher.fetch(fresh);
  }

  /** True while the engine has neither this content of the entry nor an earlier one. */
  #isLacking({ id, origin, state }: KnownEntry): boolean {
    if (state.kind === 'applied') return false;
    return origin === 'update' || this.#deps.applier.held.layers.get(id) === undefined;
  }

  #relist(known: KnownEntry, entry: PeerEntry, { rank, transaction }: EntryPlace, asks: boolean): void {
    const isPacedAnew = known.entry.periodic_update_interval !== entry.periodic_update_interval;
    const moves = this.#table.relist(known, entry, this.#deps.cursor.name, rank);
    // The content of an update is fixed; the source of a base entry may have changed.
    const mayDiffer = known.origin === 'base' && isRead(entry);
    const resumes = isPeriodic(known) && !this.#fetcher.isReading(known);
    this.#apply(known, { kind: 'listed', asks: moves || ((asks || isPacedAnew) && mayDiffer), resumes }, transaction);
  }

  /**
   * A base entry, or one of an earlier load, counts for this transaction; one of an update stays
   * with its update.
   */
  #join(entry: KnownEntry, transaction: string): void {
    const { events } = this.#deps;
    const counts = entry.origin === 'base' || isLoad(entry.transaction);
    if (entry.transaction === transaction || !counts) return;
    events.emit({ kind: 'left', entry });
    this.#table.join(entry, transaction);
    events.emit({ kind: 'joined', transaction, entry });
  }

  /** Drops earlier entries at or below the path that the engine never had. */
  #dropUnwritten({ id, path, rank }: KnownEntry): void {
    for (const other of this.#table.atOrBelow(path)) {
      const isWritten = this.#deps.applier.held.layers.get(other.id) !== undefined || other.state.kind === 'blocked';
      if (compareRank(other.rank, rank) >= 0 || isWritten) continue;
      this.#deps.cursor.position.replaced(other.id, id);
      this.#apply(other, { kind: 'dropped' });
    }
  }

  /**
   * Asks the sources of all applied updates whether they have something newer; those of base
   * entries are asked with each load.
   */
  revalidate(): void {
    for (const entry of [...this.#table.all()]) {
      if (entry.origin === 'update' && isRead(entry.entry) && entry.entry.url !== '') this.#fetcher.revalidate(entry);
    }
  }

  /** Drops an entry and removes its document; false: that failed, and the entry is back. */
  async #remove(entry: KnownEntry): Promise<boolean> {
    const { applier } = this.#deps;
    this.#apply(entry, { kind: 'dropped' });
    if (applier.held.layers.get(entry.id) === undefined) {
      this.#unblock(entry.id);
      return true;
    }
    const isGone = await this.#writer.remove(entry);
    if (!isGone && this.#table.get(entry.id) === undefined) this.#apply(entry, { kind: 'kept' });
    return isGone;
  }

  /** Nobody wants a withheld document any more. */
  #unblock(id: string): void {
    const { applier } = this.#deps;
    const content = applier.held.blocked.get(id)?.layer.content;
    applier.held.unblock(id);
    if (content?.kind === 'put') this.#writer.discard(content.body);
  }

  /**
   * Removes what a complete fold of this log, up to `head`, no longer has (design D11). Without an
   * epoch, or of another log, nothing is removed. What a later entry covers is dropped when that
   * one is applied.
   */
  removeMissing(origin: KnownEntry['origin'], head: number, seen: ReadonlySet<string>): void {
    const { name } = this.#deps.cursor;
    if (name === undefined) return;
    for (const entry of [...this.#table.all()]) {
      const isCompared = entry.origin === origin && entry.epoch === name && entry.rank.seq <= head;
      if (!isCompared || seen.has(entry.id) || this.#table.covered(entry.path, entry.rank)) continue;
      this.#tasks.add(this.#remove(entry));
    }
  }

  /**
   * Stops reading base entries that are no longer listed, also where the configuration does not say
   * that they are gone (an external API, an OPAL server): what the engine holds of them stays.
   */
  stopUnlisted(seen: ReadonlySet<string>): void {
    const { applier } = this.#deps;
    for (const entry of [...this.#table.all()]) {
      if (entry.origin !== 'base' || seen.has(entry.id)) continue;
      this.#apply(entry, { kind: 'unlisted', isHeld: applier.held.layers.get(entry.id) !== undefined });
      if (this.#table.get(entry.id) === undefined) this.#unblock(entry.id);
    }
  }

  /** See {@link EntryWriter.withDocuments}. */
  readonly withDocuments: WithDocuments = (step) => this.#writer.withDocuments(step);

  /**
   * Policy has changed: which entries are withheld may have, too, and the first one is what others
   * wait for.
   */
  policyChanged(): void {
    const { applier } = this.#deps;
    for (const entry of this.#table.all()) {
      const withheld = applier.held.blocked.get(entry.id);
      if (withheld !== undefined) this.#apply(entry, { kind: 'withheld', error: withheld.reason });
      else if (entry.state.kind === 'blocked' && this.#isHeld(entry)) this.#apply(entry, { kind: 'admitted' });
    }
    this.#writer.recheck();
  }

  /** True when the engine holds what was fetched last. */
  #isHeld({ id, fetched }: KnownEntry): boolean {
    const content = this.#deps.applier.held.layers.get(id)?.content;
    if (content?.kind !== 'put') return content !== undefined;
    return fetched === undefined || content.body.hash === fetched.hash;
  }
}
