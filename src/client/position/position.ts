import { appliedUpTo, MAX_LISTED_SEQS, type Position } from '../../wire/session.js';

/** Last seq by topic, as notices (`prev`) and servers (`heads`) tell it; a missing topic: none. */
export type SeqByTopic = Readonly<Record<string, number>>;

/** A position with the topics that it is of: what a backup keeps (design D20). */
export interface PositionRecord extends Position {
  readonly topics: readonly string[];
}

/**
 * Where a client is in an update log (design D20): which updates it has learned of, and which of
 * them the engine does not hold yet. Pure rules, no I/O. `through`: every update up to here is
 * known. Updates beyond it have arrived while one before them may be missing; they count as soon as
 * that is ruled out.
 *
 * A gap shows by topic: a notice has the seq before it on each of its topics. A connection keeps
 * the order of seqs, so a gap on a topic of this client shows at the next notice on that topic, or
 * at a heartbeat.
 */
export class PositionTracker {
  readonly #topics: readonly string[];
  #epoch: string | undefined;
  #through = 0;
  /** Arrived beyond `through`, with the seq before on each topic. */
  readonly #beyond = new Map<number, SeqByTopic>();
  /** The update of each entry that the engine does not hold yet. */
  readonly #seqOf = new Map<string, number>();
  /**
   * Updates that an entry replaced before the engine had them, by that entry: their effect shows
   * with it.
   */
  readonly #replaced = new Map<string, Set<number>>();
  /** For how many entries each update waits: its own, and those that have replaced them. */
  readonly #lacking = new Map<number, number>();
  /** The last update on a topic before which none is missing; at least {@link #pulled}. */
  readonly #seen = new Map<string, number>();
  /**
   * All updates up to here are known for certain, on every topic of this client: they were read, or
   * the server's heads say so.
   */
  #pulled = 0;
  /** Updates after that which were notified. */
  readonly #notified = new Set<number>();
  /** Up to here the log was read as a load, which leaves out what later updates have replaced. */
  #loaded = 0;
  /** Where this client was before that load; undefined where it was nowhere, or lacks nothing. */
  #loadedAfter: number | undefined;
  /** Updates may have been missed: nothing moves `through` until the server was asked. */
  #isDoubtful = true;

  constructor(topics: readonly string[]) {
    this.#topics = topics;
  }

  get epoch(): string | undefined {
    return this.#epoch;
  }

  /**
   * Every update up to here is known, as far as notices tell: a lost one on another topic shows
   * with the next heartbeat.
   */
  get through(): number {
    return this.#through;
  }

  /**
   * Every update up to here is known for certain: nothing that is read from now on brings one of
   * before.
   */
  get certain(): number {
    return this.#isDoubtful || this.hasGap ? 0 : this.#pulled;
  }

  /** True while updates may be missing that the server was not asked for yet. */
  get isDoubtful(): boolean {
    return this.#isDoubtful;
  }

  /** True while an update has arrived before which one may be missing. */
  get hasGap(): boolean {
    return this.#beyond.size > 0;
  }

  /** Begins anew with another log. */
  enter(epoch: string | undefined): void {
    this.#epoch = epoch;
    this.#through = 0;
    this.#pulled = 0;
    this.#loaded = 0;
    this.#loadedAfter = undefined;
    this.#isDoubtful = true;
    for (const known of [this.#beyond, this.#lacking, this.#seqOf, this.#replaced, this.#seen, this.#notified]) {
      known.clear();
    }
  }

  /**
   * Goes on from where another life of the client was. What was unresolved then has to be read
   * again, so it begins before the first of these; with other topics it begins anew.
   */
  adopt(record: PositionRecord): void {
    this.enter(record.epoch);
    if (this.#topics.some((topic) => !record.topics.includes(topic))) return;
    this.#through = appliedUpTo(record);
    this.#pulled = this.#through;
  }

  /**
   * The connection was lost, or something tells that updates were: nothing counts as complete until
   * the server is asked.
   */
  doubt(): void {
    this.#isDoubtful = true;
  }

  /** True for an update that the client has learned of, or that certainly does not concern it. */
  knows(seq: number): boolean {
    return seq <= this.#pulled || this.#notified.has(seq);
  }

  /**
   * A notice of an update arrived, with the seq before it on each of its topics. True: one before
   * it may be missing.
   */
  arrived(seq: number, prev: SeqByTopic | undefined): boolean {
    if (!this.knows(seq)) {
      this.#notified.add(seq);
      this.#beyond.set(seq, prev ?? unknownBefore(this.#topics));
    }
    this.#advance();
    return this.hasGap;
  }

  /**
   * Every update up to `seq` was read from the server, from {@link pullAfter} on; `isAll`: up to
   * the head of the log.
   */
  pulled(seq: number, isAll: boolean): void {
    this.#knowsUpTo(seq);
    this.#through = Math.max(this.#through, seq);
    if (isAll) this.#isDoubtful = false;
    this.#advance();
  }

  /** The log was read up to `seq` as a load: {@link mayBeReplaced}. */
  loaded(seq: number): void {
    this.#loaded = Math.max(this.#loaded, seq);
    if (this.#through > 0) this.#loadedAfter ??= this.#through; // else nothing older can be in the engine
  }

  /**
   * The server retains no updates: what was missed up to its head is gone, and what has arrived is
   * all there will be.
   */
  skipped(head: number): void {
    let last = Math.max(head, this.#through);
    for (const seq of this.#beyond.keys()) last = Math.max(last, seq);
    this.pulled(last, true);
  }

  /** From where the server has to be asked so that nothing is missing. */
  get pullAfter(): number {
    return this.#through;
  }

  /**
   * The last seq by topic, as the server sees it now. True: updates are missing here, and
   * {@link pullAfter} is from where on. What was taken for complete too early is taken back.
   */
  isBehind(heads: SeqByTopic): boolean {
    const missing = this.#topics.filter((topic) => (heads[topic] ?? 0) > this.#seenOn(topic));
    if (missing.length === 0 && this.#beyond.size === 0) {
      this.#knowsUpTo(Math.max(0, ...this.#topics.map((topic) => heads[topic] ?? 0)));
      return false;
    }
    this.#isDoubtful = true;
    this.#through = Math.min(this.#through, ...missing.map((topic) => this.#seenOn(topic)));
    return true;
  }

  /** An entry of an update is under way. */
  opened(seq: number, id: string): void {
    if (this.#seqOf.has(id)) return;
    this.#seqOf.set(id, seq);
    this.#lacks(seq);
  }

  /** The engine holds it, or it is no longer wanted. */
  closed(id: string): void {
    for (const seq of this.#replaced.get(id) ?? []) this.#has(seq);
    this.#replaced.delete(id);
    const seq = this.#seqOf.get(id);
    this.#seqOf.delete(id);
    if (seq !== undefined) this.#has(seq);
  }

  /**
   * An entry is no longer wanted, since a later one (`by`) replaces it that the engine does not
   * hold yet.
   */
  replaced(id: string, by: string): void {
    const seq = this.#seqOf.get(id);
    const own = this.#replaced.get(id);
    const waiting = this.#replaced.get(by);
    this.#replaced.delete(id);
    this.#seqOf.delete(id);
    // The longer list stays as it is: a document may be replaced very often while its source fails.
    const [into, from] = (own?.size ?? 0) > (waiting?.size ?? 0) ? [own, waiting] : [waiting, own];
    const seqs = into ?? new Set();
    for (const each of [...(from ?? []), ...(seq === undefined ? [] : [seq])]) {
      if (seqs.has(each)) this.#has(each);
      else seqs.add(each);
    }
    if (seqs.size > 0) this.#replaced.set(by, seqs);
  }

  /** An update arrived that a later entry (`by`) replaces, which the engine does not hold yet. */
  hidden(seq: number, by: string): void {
    const seqs = this.#replaced.get(by) ?? new Set();
    if (seqs.has(seq)) return;
    this.#replaced.set(by, seqs.add(seq));
    this.#lacks(seq);
  }

  #lacks(seq: number): void {
    this.#lacking.set(seq, (this.#lacking.get(seq) ?? 0) + 1);
  }

  #has(seq: number): void {
    const left = (this.#lacking.get(seq) ?? 0) - 1;
    if (left > 0) {
      this.#lacking.set(seq, left);
      return;
    }
    this.#lacking.delete(seq);
    if (this.#lacking.size === 0) this.#loadedAfter = undefined;
  }

  /** True while the engine holds neither the update nor what has replaced it. */
  isHidden(seq: number): boolean {
    return this.#lacking.has(seq);
  }

  /**
   * True for an update that a load did not name, while the engine lacks a later one that it did
   * name: that one may stand for both.
   */
  mayBeReplaced(seq: number): boolean {
    if (seq > this.#loaded) return false;
    for (const lacking of this.#lacking.keys()) if (lacking > seq && lacking <= this.#loaded) return true;
    return false;
  }

  /**
   * The position; undefined where there is no log. An update counts as applied once the engine
   * holds it, or what has replaced it (design D21). With very many updates under way it says less
   * than is true, never more.
   */
  get position(): Position | undefined {
    if (this.#epoch === undefined) return undefined;
    const lacking = [...this.#lacking.keys()].sort((a, b) => a - b);
    const last = (lacking[MAX_LISTED_SEQS] ?? Number.POSITIVE_INFINITY) - 1;
    const unresolved = lacking.slice(0, MAX_LISTED_SEQS);
    const doubtful = this.#doubtful(MAX_LISTED_SEQS - unresolved.length);
    const beyond = [...this.#beyond.keys()].filter((seq) => seq <= last && !this.#lacking.has(seq));
    return {
      epoch: this.#epoch,
      applied_through: Math.min(this.#through, last),
      applied_beyond: beyond.sort((a, b) => a - b).slice(0, MAX_LISTED_SEQS),
      unresolved: doubtful.length === 0 ? unresolved : [...unresolved, ...doubtful].sort((a, b) => a - b),
    };
  }

  /**
   * Updates that the last load left out, whole or in part, or may have: one that the engine lacks
   * may stand for them. At most so many, the newest: whoever waits for one has just published it.
   */
  #doubtful(most: number): number[] {
    if (this.#loadedAfter === undefined) return [];
    let newest = 0;
    for (const seq of this.#lacking.keys()) if (seq > newest && seq <= this.#loaded) newest = seq;
    const found: number[] = [];
    for (let seq = newest - 1; seq > this.#loadedAfter && found.length < most; seq--)
      if (!this.#lacking.has(seq)) found.push(seq);
    return found;
  }

  /** {@link position} with its topics: for another life of the client, too. */
  get record(): PositionRecord | undefined {
    const { position } = this;
    return position === undefined ? undefined : { ...position, topics: [...this.#topics] };
  }

  #knowsUpTo(seq: number): void {
    this.#pulled = Math.max(this.#pulled, seq);
    for (const known of this.#notified) if (known <= this.#pulled) this.#notified.delete(known);
  }

  #seenOn(topic: string): number {
    return Math.max(this.#seen.get(topic) ?? 0, this.#pulled);
  }

  /** Counts what has arrived, in order, up to the first one before which an update is missing. */
  #advance(): void {
    if (this.#isDoubtful) {
      for (const seq of [...this.#beyond.keys()]) if (seq <= this.#pulled) this.#beyond.delete(seq);
      return;
    }
    for (const [seq, prev] of [...this.#beyond].sort(([a], [b]) => a - b)) {
      const own = this.#topics.filter((topic) => prev[topic] !== undefined);
      if (seq > this.#through && own.some((topic) => (prev[topic] ?? 0) > this.#seenOn(topic))) return;
      this.#beyond.delete(seq);
      // A server that does not say what was before keeps the order, and is asked after each
      // reconnect.
      if (own.length === 0) this.#knowsUpTo(seq);
      for (const topic of own) this.#seen.set(topic, Math.max(this.#seenOn(topic), seq));
      this.#through = Math.max(this.#through, seq);
    }
  }
}

/** Of a notice that does not say what came before it: anything may have. */
function unknownBefore(topics: readonly string[]): SeqByTopic {
  return Object.fromEntries(topics.map((topic) => [topic, Number.MAX_SAFE_INTEGER]));
}
