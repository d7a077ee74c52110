import { createHash } from 'node:crypto';
import { PathIndex, type Placed } from '../../lib/json/path-tree.js';
import { type PeerEntry, sourceIdentity } from '../../wire/data.js';
import { type DocPath, parseDocPath } from '../../wire/doc-path.js';
import {
  type EntryEvent,
  type EntryOutcome,
  type EntryState,
  entryTransition,
  type FetchedContent,
} from './entry-state.js';
import { compareRank, type Rank } from './layers.js';

/** One entry that this client knows of. Only `EntryTable` changes it. */
export interface KnownEntry extends Placed {
  /** Its place in the order: what the engine's layer has, once it is applied. */
  readonly rank: Rank;
  /**
   * The place that a base entry takes when its source turns out to have something new; see
   * {@link rank}.
   */
  readonly nextRank: Rank | undefined;
  readonly origin: 'base' | 'update';
  /** The name of the log that has it (`LogCursor.name`); undefined for OPAL servers. */
  readonly epoch: string | undefined;
  readonly entry: PeerEntry;
  /** The transaction that it counts for now. */
  readonly transaction: string;
  readonly state: EntryState;
  /** True for a base entry that the configuration does not list (any more). */
  readonly isUnlisted?: boolean;
  /** Hash and validators of the content that was fetched last. */
  readonly fetched: FetchedContent | undefined;
}

/** Identifies an entry when it is listed again: everything but credentials and topics. */
export function entryIdentity(entry: PeerEntry, path: DocPath): string {
  const parts = [entry.url, path, entry.save_method, ...sourceIdentity(entry.config), entry.data?.text ?? null];
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
}

/** The place of an entry in the document tree. */
export function entryPath(entry: PeerEntry): DocPath {
  return parseDocPath(entry.dst_path);
}

/** True when the entry replaces everything at and below its path. */
export function entryReplaces(entry: PeerEntry): boolean {
  return entry.save_method !== 'PATCH';
}

/**
 * True when the log has moved a base entry (design D18), as after `POST /data/refresh`: it counts
 * from its new place, even where its source has nothing new. Places of different logs do not
 * compare.
 */
export function isMoved({ seq, origin }: PeerEntry, before: Rank, now: Rank): boolean {
  return seq !== undefined && origin !== 'update' && before.era === now.era && before.seq < now.seq;
}

/** True when the content of the entry comes from a source. */
export function isRead({ data, save_method: method }: PeerEntry): boolean {
  return (data ?? null) === null && method !== 'DELETE';
}

/** True when the source of the entry is read at an interval. */
export function isPeriodic({ entry }: KnownEntry): boolean {
  return isRead(entry) && (entry.periodic_update_interval ?? null) !== null;
}

/**
 * True when the entry is for a client with these topics. Entries of a scope carry `data:<topic>`
 * while the client subscribes to `<scope>:data:<topic>` (opal-protocol P9.3): both mean the same.
 */
export function entryConcerns(entry: Pick<PeerEntry, 'topics'>, topics: ReadonlySet<string>): boolean {
  return entry.topics.some(
    (topic) => topics.has(topic) || (topic.startsWith('data:') && [...topics].some((own) => own.endsWith(`:${topic}`))),
  );
}

type OwnedEntry = { -readonly [K in keyof KnownEntry]: KnownEntry[K] };

/** Where an entry of a fold stands. */
interface FoldPlace {
  readonly seq: number;
  readonly at: number;
  readonly ids: ReadonlySet<string>;
}

/** The entries that a client knows of, to read. */
export type Entries = Omit<EntryTable, 'set' | 'delete' | 'apply' | 'relist' | 'join'>;

/** Owns the entries that a client knows of: nothing else changes one. */
export class EntryTable extends PathIndex<KnownEntry> {
  readonly #arriving = new Set<KnownEntry>();

  /** How many entries have a content on its way, and no attempt to get it has failed. */
  get arriving(): number {
    return this.#arriving.size;
  }

  /**
   * True when a later entry replaces everything at the path: what has this rank is no longer
   * desired.
   */
  covered(path: DocPath, rank: Rank): boolean {
    return this.cover(path, rank) !== undefined;
  }

  /** A later entry that replaces everything at the path. */
  cover(path: DocPath, rank: Rank): KnownEntry | undefined {
    return this.atOrAbove(path).find((other) => entryReplaces(other.entry) && compareRank(other.rank, rank) > 0);
  }

  /**
   * The place of a document of the fold among the entries of its update: `at`, or after the patches
   * of the same update that are known already. A patch is worked into its document there, which
   * takes its place (design D16): on top of that it would be applied once more, and removed before
   * the document is in, it would be missing meanwhile. `ids` are those of the fold.
   */
  indexInFold(entry: PeerEntry, era: number, { seq, at, ids }: FoldPlace): number {
    if (!entryReplaces(entry)) return at;
    const isWorkedIn = ({ id, rank }: KnownEntry): boolean => rank.era === era && rank.seq === seq && !ids.has(id);
    const patches = this.atOrBelow(entryPath(entry)).filter(isWorkedIn);
    return Math.max(at, ...patches.map(({ rank }) => rank.index + 1));
  }

  override set(entry: KnownEntry): void {
    super.set(entry);
    this.#count(entry);
  }

  /** Moves an entry to its next state; what has to be done then is for the caller. */
  apply(entry: KnownEntry, event: EntryEvent): EntryOutcome {
    const owned: OwnedEntry = entry;
    const wasGone = entry.state.kind === 'gone';
    const outcome = entryTransition(entry.state, event);
    owned.state = outcome.state;
    if (!wasGone) this.#takeContent(owned, event);
    if (outcome.state.kind !== 'gone') {
      if (wasGone) this.set(entry);
      else this.#count(entry);
    } else if (!wasGone) {
      this.#arriving.delete(entry);
      this.delete(entry.id);
    }
    return outcome;
  }

  #takeContent(owned: OwnedEntry, event: EntryEvent): void {
    switch (event.kind) {
      case 'arrived':
        owned.rank = owned.nextRank ?? owned.rank;
        owned.nextRank = undefined;
        owned.fetched = event.fetched;
        break;
      case 'unchanged':
        owned.nextRank = undefined;
        owned.fetched = event.fetched ?? owned.fetched;
        break;
      case 'unlisted':
        owned.entry = { ...owned.entry, periodic_update_interval: null };
        owned.isUnlisted = true;
    }
  }

  /**
   * An entry is listed again, at this place. True: the log has moved it (see {@link isMoved}), so
   * what it has is written there, too: at once what is inline, all else once it has arrived.
   */
  relist(known: KnownEntry, entry: PeerEntry, epoch: string | undefined, rank: Rank): boolean {
    const owned: OwnedEntry = known;
    const moves = known.origin === 'base' && isMoved(entry, known.rank, rank);
    owned.entry = entry;
    owned.epoch = epoch;
    owned.isUnlisted = false;
    if (compareRank(known.rank, rank) !== 0) owned.nextRank = rank;
    if (!moves) return false;
    owned.fetched = undefined;
    if (isRead(entry)) return true;
    owned.rank = rank;
    owned.nextRank = undefined;
    return true;
  }

  /** An entry counts for another transaction from now on. */
  join(entry: KnownEntry, transaction: string): void {
    const owned: OwnedEntry = entry;
    owned.transaction = transaction;
  }

  #count(entry: KnownEntry): void {
    const { state } = entry;
    if (state.kind === 'fetching' && state.error === undefined) this.#arriving.add(entry);
    else this.#arriving.delete(entry);
  }
}
