import type { DocPath } from '../../wire/doc-path.js';
import type { Body } from '../../wire/json-node.js';
import { compareRank, type Rank } from '../desired/layers.js';
import { PathIndex } from '../desired/path-index.js';
import { type EntryState, entryReplaces, type KnownEntry, stopReads } from './entry.js';

/** The entries that a client knows of, and what becomes of them when their state changes. */
export class EntryTable extends PathIndex<KnownEntry> {
  readonly #onSettled: (entry: KnownEntry) => void;
  readonly #onForgotten: (entry: KnownEntry) => void;
  readonly #discard: (body: Body) => void;
  readonly #onStoppedFetching: () => void;
  readonly #arriving = new Set<KnownEntry>();

  /** `onStoppedFetching`: an entry that others may wait for is no longer being fetched. */
  constructor(deps: {
    onSettled: (entry: KnownEntry) => void;
    onForgotten: (entry: KnownEntry) => void;
    discard: (body: Body) => void;
    onStoppedFetching: () => void;
  }) {
    super();
    this.#onSettled = deps.onSettled;
    this.#onForgotten = deps.onForgotten;
    this.#discard = deps.discard;
    this.#onStoppedFetching = deps.onStoppedFetching;
  }

  /** How many entries have a content on its way, and no attempt to get it has failed. */
  get arriving(): number {
    return this.#arriving.size;
  }

  override set(entry: KnownEntry): void {
    super.set(entry);
    this.#count(entry);
  }

  override delete(id: string): void {
    const entry = this.get(id);
    if (entry !== undefined) this.#arriving.delete(entry);
    super.delete(id);
  }

  #count(entry: KnownEntry): void {
    const { state } = entry;
    if (state.kind === 'fetching' && state.error === undefined) this.#arriving.add(entry);
    else this.#arriving.delete(entry);
  }

  /** True while this very entry (and not one that took its place) is desired. */
  holds(entry: KnownEntry): boolean {
    return this.get(entry.id) === entry;
  }

  /** True when a later entry replaces everything at the path: what has this rank is no longer desired. */
  covered(path: DocPath, rank: Rank): boolean {
    return this.cover(path, rank) !== undefined;
  }

  /** A later entry that replaces everything at the path. */
  cover(path: DocPath, rank: Rank): KnownEntry | undefined {
    return this.atOrAbove(path).find((other) => entryReplaces(other.entry) && compareRank(other.rank, rank) > 0);
  }

  /**
   * Moves an entry to another state. Of one that was forgotten meanwhile nobody is told: a write that was under way then
   * may still fail, and would leave it among the failing entries for good.
   */
  settle(entry: KnownEntry, state: EntryState): void {
    const wasFetching = entry.state.kind === 'fetching';
    entry.state = state;
    if (!this.holds(entry)) return;
    this.#count(entry);
    this.#onSettled(entry);
    if (wasFetching && state.kind !== 'fetching') this.#onStoppedFetching();
  }

  /** Takes an entry out: it is no longer desired, or another one took its place. */
  forget(entry: KnownEntry): void {
    if (this.holds(entry)) this.delete(entry.id);
    stopReads(entry);
    if (entry.state.kind === 'ready' && entry.state.body !== undefined) this.#discard(entry.state.body);
    this.#onForgotten(entry);
    if (entry.state.kind === 'fetching') this.#onStoppedFetching();
  }
}
