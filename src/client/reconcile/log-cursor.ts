import type { Logger } from '../../lib/observe/log.js';
import type { PeerEntry } from '../../wire/data.js';
import { entryIdentity, entryPath, type KnownEntry } from '../desired/entry-table.js';
import { type PositionRecord, PositionTracker } from '../position/position.js';
import type { DataEvent } from '../status/data-events.js';
import type { SeenContent } from './entry-fetcher.js';

/**
 * The order of what a client holds, as it has to come back after a restart of the client (design
 * D20).
 */
export interface DataPosition {
  /**
   * The log that {@link lastSeq} and the seqs of the entries are of; undefined for an OPAL server.
   */
  readonly epoch: string | undefined;
  /** What that log is called here: see {@link LogCursor.name}. Default: its epoch. */
  readonly name?: string | undefined;
  readonly era: number;
  /** Place of the next update of a server without seqs. */
  readonly next: number;
  /** The greatest seq of an update so far. */
  readonly lastSeq: number;
  readonly seen: ReadonlyMap<string, SeenContent>;
  /** How far it is in the log; undefined where there is none. */
  readonly log?: PositionRecord | undefined;
}

/** A complete fold of a log: the ids of its entries, and the head that it is of. */
interface Fold {
  readonly ids: ReadonlySet<string>;
  readonly head: number;
}

/** Which log the client follows, how far it is in it, and what of it was read. */
export class LogCursor {
  readonly position: PositionTracker;
  readonly #log: Logger;
  #epoch: string | undefined;
  #name: string | undefined;
  #hadLog = false;
  #era = 1;
  #rewinds = 0;
  #next = 1;
  #reserved = 0;
  #lastSeq = 0;
  /** What is held came from a backup, and nothing is known of the server's log yet. */
  #isAdopted = false;
  /** Updates that were read since the connection began: a notice of one of them is not new. */
  readonly #paged = new Set<number>();
  #lastPaged = 0;
  /** The log's word on what it has was read: what is of an older one is orphaned. */
  isRead = false;
  /** What a pull has read of the current log, until it is compared; undefined: no complete fold. */
  fold: Fold | undefined;

  constructor(topics: readonly string[], log: Logger) {
    this.position = new PositionTracker(topics);
    this.#log = log;
  }

  /** The name that the server gives to the log; undefined for one without seqs. */
  get epoch(): string | undefined {
    return this.#epoch;
  }

  /**
   * Distinguishes the entries of this log: its epoch, and after the first log the era. The epoch
   * alone is not enough: a log that has gone back has other updates at the same seqs (design D25),
   * and one that the client comes back to wins over what came between.
   */
  get name(): string | undefined {
    return this.#name;
  }

  /** Counts logs: entries of a later era win over all of an earlier one. */
  get era(): number {
    return this.#era;
  }

  /** How often a log has gone back: what was asked of it before is worth nothing. */
  get rewinds(): number {
    return this.#rewinds;
  }

  /**
   * The place of a configuration without places: before the updates that came since it was asked
   * for.
   */
  get reserved(): number {
    return this.#reserved;
  }

  /** Takes over where another life of the client was, before anything else. */
  adopt(position: DataPosition): void {
    this.#isAdopted = true;
    this.#epoch = position.epoch;
    this.#name = position.name ?? position.epoch;
    this.#hadLog = true;
    this.#era = position.era;
    this.#lastSeq = position.lastSeq;
    this.#next = Math.max(position.next, position.lastSeq + 1);
    if (position.log !== undefined) this.position.adopt(position.log);
    else this.position.enter(position.epoch);
    this.isRead = this.position.pullAfter > 0;
  }

  /** What {@link adopt} takes. */
  snapshot(seen: DataPosition['seen']): DataPosition {
    const [epoch, era, next, lastSeq] = [this.#epoch, this.#era, this.#next, this.#lastSeq];
    return { epoch, name: this.#name, era, next, lastSeq, seen, log: this.position.record };
  }

  /**
   * From now on it is about another log: its places do not compare with those before, they are a
   * new era.
   */
  enter(epoch: string | undefined): void {
    if (this.#hadLog) {
      this.#log.info({ epoch: epoch ?? null, before: this.#epoch ?? null }, 'the server has another update log');
    } else if (epoch !== undefined) this.#log.info({ epoch }, 'the update log of the server is followed');
    this.#era++;
    this.#call(epoch);
    this.isRead = false;
    this.fold = undefined;
    this.forgetPaged();
    this.position.enter(epoch);
  }

  /**
   * The log has gone back behind what is known of it: from now on it is another one, whatever it is
   * called.
   */
  rewind(): void {
    this.enter(this.#epoch);
    this.#rewinds++;
  }

  /**
   * Before the first configuration an update itself names its log; it must not wait for a
   * configuration that may be long in coming, or never lists it.
   */
  namedByUpdate(epoch: string | undefined): void {
    if (epoch === undefined || epoch === this.#epoch || (this.#epoch !== undefined && !this.#isAdopted)) return;
    this.position.enter(epoch);
    this.#reserved = 0; // below every place of a log
    if (this.#isAdopted) {
      // The places of what came from the backup are of another log, or of none: they do not compare
      // with those of this one.
      this.#isAdopted = false;
      this.isRead = false;
      this.#era++;
      this.#next = 1;
      this.#lastSeq = 0;
    }
    this.#call(epoch);
  }

  /**
   * The server retains nothing: the updates that came before its configuration keep their places,
   * after it.
   */
  leave(): void {
    this.#call(undefined);
    this.position.enter(undefined);
    this.#next = Math.max(this.#next, this.#lastSeq + 1);
  }

  #call(epoch: string | undefined): void {
    const isFirst = !this.#hadLog;
    this.#hadLog ||= epoch !== undefined;
    this.#epoch = epoch;
    this.#name = epoch === undefined || isFirst ? epoch : `${epoch}~${this.#era}`;
  }

  /** A configuration is asked for: see {@link reserved}. */
  reserve(): void {
    this.#reserved = this.#next++;
  }

  /** The place of an update: that of the log, or the next one where the server gives none. */
  place(seq: number | undefined): number {
    if (seq === undefined) return this.#next++;
    this.#lastSeq = Math.max(this.#lastSeq, seq);
    return seq;
  }

  /** Id of an entry that has a place in this log. */
  placedId(entry: PeerEntry, seq: number): string {
    return `${this.#name}/${seq}/${entryIdentity(entry, entryPath(entry))}`;
  }

  /** Subscribes to what happens to data updates: the position follows what the engine holds. */
  readonly onData = (event: DataEvent): void => {
    if (event.kind !== 'settled' && event.kind !== 'forgotten') return;
    const { entry } = event;
    if (event.kind === 'forgotten' || entry.state.kind === 'applied') this.position.closed(entry.id);
    else if (this.has(entry)) this.position.opened(entry.rank.seq, entry.id);
  };

  /** Whether the entry is of an update of this log. */
  has({ origin, epoch, rank }: KnownEntry): boolean {
    return origin === 'update' && epoch !== undefined && epoch === this.#name && rank.era === this.#era;
  }

  /** An update was read, and not notified. */
  wasPaged(seq: number): void {
    this.#paged.add(seq);
    this.#lastPaged = Math.max(this.#lastPaged, seq);
  }

  /** True for a notice of an update that was read since the connection began. */
  isPaged(seq: number): boolean {
    return this.#paged.has(seq);
  }

  /**
   * No notice of what was read is still to come: notices keep the order, and this one is of
   * something later.
   */
  noticed(seq: number): void {
    if (seq > this.#lastPaged) this.forgetPaged();
  }

  forgetPaged(): void {
    this.#paged.clear();
    this.#lastPaged = 0;
  }
}
