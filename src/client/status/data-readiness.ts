import type { KnownEntry } from '../desired/entry-table.js';
import { type DataEvent, isLoad } from './data-events.js';

/**
 * Whether the data of a client is ready (specification health.ready): the first load has settled,
 * or a later update succeeded.
 *
 * The first load has settled when all that is desired has been read, and each entry of it is
 * applied, or blocked, or no longer desired. What is blocked cannot be applied by waiting: it is
 * listed, and holds up nothing. No order of arrival decides: an entry that came with an update of
 * its own before the load named it counts all the same, and later is what the log has after what
 * was read of it first.
 */
export class DataReadiness {
  /** The ids of the entries that the load has named. */
  readonly #named = new Set<string>();
  /** Those of them that are under way. */
  readonly #open = new Set<string>();
  /** Those of these whose content is not here, by id. */
  readonly #missing = new Map<string, KnownEntry>();
  /** The highest place of an update that succeeded. */
  #succeeded = 0;
  #isRead = false;
  /** How far the log was read first; undefined before that, and where there is no log. */
  #head: number | undefined;
  #isReady = false;

  /** Once true it stays true. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /**
   * All that the first load names has arrived, as far as it is still desired; the engine may not
   * have it yet.
   */
  get isHere(): boolean {
    return this.#isReady || (this.#isRead && this.#missing.size === 0);
  }

  /** What the first load names, as far as it was read, and has not arrived. */
  get missing(): readonly KnownEntry[] {
    return [...this.#missing.values()];
  }

  /** The engine was given what a ready client had. */
  restored(): void {
    this.#ready();
  }

  /** An update that is no load ended well; without a place in a log it is of none that is read. */
  succeeded({ seq }: { readonly seq?: number | undefined }): void {
    if (this.#isReady) return;
    this.#succeeded = Math.max(this.#succeeded, seq ?? 0);
    if (seq === undefined || this.#isLater) this.#ready();
  }

  onData(event: DataEvent): void {
    if (this.#isReady) return;
    switch (event.kind) {
      case 'log_read':
        this.#head ??= event.head;
        break;
      case 'named':
        if (event.known === undefined || !isLoad(event.transaction)) return;
        this.#named.add(event.known.id);
        this.#follow(event.known);
        return;
      case 'sealed':
        if (!isLoad(event.transaction)) return;
        this.#isRead = true;
        break;
      case 'settled':
        if (this.#named.has(event.entry.id)) this.#follow(event.entry);
        break;
      case 'forgotten':
        this.#open.delete(event.entry.id);
        this.#missing.delete(event.entry.id);
    }
    if ((this.#isRead && this.#open.size === 0) || this.#isLater) this.#ready();
  }

  get #isLater(): boolean {
    return this.#head !== undefined && this.#succeeded > this.#head;
  }

  #follow(entry: KnownEntry): void {
    const { kind } = entry.state;
    if (kind === 'fetching' || kind === 'ready') this.#open.add(entry.id);
    else this.#open.delete(entry.id);
    if (kind === 'fetching') this.#missing.set(entry.id, entry);
    else this.#missing.delete(entry.id);
  }

  #ready(): void {
    this.#isReady = true;
    this.#named.clear();
    this.#open.clear();
    this.#missing.clear();
  }
}
