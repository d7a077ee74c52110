import { createHash } from 'node:crypto';
import { SyncError } from '../../lib/errors.js';
import type { BackoffOptions } from '../../lib/run/async.js';
import { hexId } from '../../lib/run/hex-id.js';
import { RetryLoop } from '../../lib/run/retry-loop.js';
import type { UpdatesPage, UpdatesQuery } from '../../wire/catch-up-page.js';
import type { PeerEntry, PeerUpdate } from '../../wire/data.js';
import { entryConcerns } from '../desired/entry-table.js';
import { type FoldPlace, pullPages } from '../position/pull.js';
import type { DataEvents } from '../status/data-events.js';
import type { ReaderDeps } from './load.js';

/**
 * The same update on several topics of a server without seqs arrives within this time
 * (opal-protocol P10.1).
 */
const SAME_UPDATE_MS = 5_000;
/** So many of them at most. */
const RECENT_KEPT = 1000;

type PlacedUpdate = PeerUpdate & { readonly seq: number };

/** An entry of an update that was read, and its place in that. */
interface LoadedEntry {
  readonly entry: PeerEntry;
  readonly at: number;
  readonly id: string;
}

/** A fold that was read in part, and the ids of its entries. */
interface PartialFold {
  readonly epoch: string;
  readonly rewinds: number;
  readonly place: FoldPlace;
  readonly ids: Set<string>;
}

/** What {@link UpdateReader} works with. */
export interface UpdateReaderDeps extends ReaderDeps {
  /** Undefined: there is no way to ask for updates apart. */
  readonly fetchUpdates: ((query: UpdatesQuery, signal: AbortSignal) => Promise<UpdatesPage>) | undefined;
  readonly events: DataEvents;
  /** The engine may hold what nobody knows of: it outlives the client. */
  readonly ended?: boolean | undefined;
}

/**
 * Takes data updates: each that arrives as a transaction of its own, and those that were missed by
 * asking for what comes after the position (see {@link pullPages}), as if they had arrived or as a
 * part of the load.
 */
export class UpdateReader {
  readonly loop: RetryLoop;
  readonly #deps: UpdateReaderDeps;
  /**
   * The last answer was a failure, which is shown until there is a whole answer or a whole load.
   */
  #hasFailed = false;
  /** A fold of which the rest is still to be read. */
  #partial: PartialFold | undefined;
  /**
   * Updates without a place that arrived within {@link SAME_UPDATE_MS}, by the hash of their text.
   */
  readonly #recent = new Map<string, { readonly topics: Set<string>; readonly atMs: number }>();

  constructor(options: { backoff: BackoffOptions }, deps: UpdateReaderDeps) {
    this.#deps = deps;
    this.loop = new RetryLoop('catching up with data updates', options.backoff, deps.log, async (signal) => {
      try {
        await this.#pull(signal);
      } catch (error) {
        if (!(error instanceof SyncError && error.code === 'not_enabled')) {
          this.#hasFailed = true;
          throw error;
        }
        this.#retainsNothing();
      }
    });
  }

  /**
   * Takes an update that has arrived; `seq` is undefined for a server whose updates have no places.
   */
  take(update: PeerUpdate, topic: string, seq: number | undefined): void {
    const { events, log, cursor, entries, topics } = this.#deps;
    const id = update.id ?? hexId();
    const reason = update.reason ?? '';
    log.debug({ update_id: id, topic, reason, entries: update.entries.length, seq }, 'data update received');
    const callbacks = update.callback?.callbacks ?? [];
    const { traceparent } = update;
    const transaction = events.begin({ id, reason, callbacks, isLoad: false, seq, traceparent });
    const place = cursor.place(seq);
    for (const [index, entry] of update.entries.entries()) {
      if (!entryConcerns(entry, topics)) continue;
      const entryId = seq === undefined ? `live/${cursor.era}/${place}/${index}` : cursor.placedId(entry, seq);
      const rank = { era: cursor.era, seq: place, index };
      entries.learn(entry, { id: entryId, rank, origin: 'update', transaction });
    }
    events.emit({ kind: 'sealed', transaction });
  }

  /**
   * {@link take} for an update without a place, which arrives once for each of its topics; `text`
   * is its exact text.
   */
  takeUnplaced(update: PeerUpdate, topic: string, text: string): void {
    if (!this.#isRepeated(topic, text, Date.now())) this.take(update, topic, undefined);
  }

  /**
   * The same text on another topic is the same update; the same text on the same topic was
   * published again.
   */
  #isRepeated(topic: string, text: string, nowMs: number): boolean {
    // The oldest first.
    for (const [key, { atMs }] of this.#recent) {
      if (nowMs - atMs <= SAME_UPDATE_MS && this.#recent.size < RECENT_KEPT) break;
      this.#recent.delete(key);
    }
    const key = createHash('sha256').update(text).digest('base64url');
    const recent = this.#recent.get(key);
    const isRepeated = recent !== undefined && !recent.topics.has(topic);
    if (isRepeated) recent.topics.add(topic);
    else this.#recent.set(key, { topics: new Set([topic]), atMs: nowMs });
    return isRepeated;
  }

  async #pull(signal: AbortSignal): Promise<void> {
    const { fetchUpdates, session, cursor, events, log, ended } = this.#deps;
    if (fetchUpdates === undefined || !session.isApart) return;
    await session.turn(signal);
    const { pullAfter: after, epoch } = cursor.position;
    const { rewinds } = cursor;
    const known = this.#partialOf(epoch, rewinds);
    /** Of all that was read since the first page of a fold; undefined: none was. */
    let ids = known?.ids ?? (after === 0 ? new Set<string>() : undefined);
    let [updates, head, isFold] = [0, 0, known !== undefined];
    // Who comes back with a position hears of each deletion after it, or compares.
    const start = { epoch, after, topics: [...this.#deps.topics], fold: known?.place, ended: ended && after === 0 };
    for await (const { page, isAnew, beginsFold, fold, through, isLast } of pullPages(fetchUpdates, start, signal)) {
      if (isAnew && rewinds === cursor.rewinds) {
        ids = new Set();
        if (page.epoch !== cursor.epoch) cursor.enter(page.epoch);
      } else if (page.epoch !== cursor.epoch || rewinds !== cursor.rewinds) {
        // Meanwhile it became known that there is another log.
        this.loop.request();
        return;
      }
      if (beginsFold) [ids, isFold] = [new Set(), true];
      if (ids === undefined && cursor.position.isBehind(page.heads) && cursor.position.pullAfter < after) {
        // A later notice on another topic had been taken for all there was: more is missing than
        // was asked for.
        this.loop.request();
        return;
      }
      this.#takePage(page, ids);
      updates += page.updates.length;
      this.#partial = fold && ids && { epoch: page.epoch, rewinds, place: fold, ids };
      if (isFold) cursor.position.loaded(Math.max(through, page.head));
      if (through > 0 || isLast) cursor.position.pulled(through, isLast);
      ({ head } = page);
      events.emit({ kind: 'position' });
    }
    cursor.isRead = true;
    if (isFold && ids !== undefined) cursor.fold = { ids, head };
    if (updates > 0) log.info({ updates, after, from: isFold ? 'fold' : 'tail' }, 'caught up with data updates');
    this.#isRead(head);
    // Something arrived meanwhile before which an update is missing; where reading brings nothing,
    // a heartbeat asks again.
    if (cursor.position.hasGap && cursor.position.through > after) this.loop.request();
  }

  #partialOf(epoch: string | undefined, rewinds: number): PartialFold | undefined {
    const known = this.#partial;
    return known !== undefined && known.epoch === epoch && known.rewinds === rewinds ? known : undefined;
  }

  /**
   * Who begins with nothing loads what there is, whatever form it comes in; who returns hears of
   * what it missed. `ids` is given those of all entries: pages of one pull may have both forms.
   */
  #takePage(page: UpdatesPage, ids: Set<string> | undefined): void {
    const { cursor, topics } = this.#deps;
    const isLoad = !cursor.isRead || page.from === 'fold';
    for (const update of page.updates) {
      const own: LoadedEntry[] = [];
      for (const [at, entry] of update.entries.entries()) {
        if (entryConcerns(entry, topics)) own.push({ entry, at, id: cursor.placedId(entry, update.seq) });
      }
      for (const { id } of own) ids?.add(id);
      if (isLoad) this.#takeLoaded(update.seq, own);
      else this.#takeMissed(update);
    }
  }

  /**
   * What was missed is here, or there is nothing to have: an earlier failure is over. The end of a
   * load says the same.
   */
  #isRead(head: number): void {
    const { load, events } = this.#deps;
    if (this.#hasFailed && !load.isOpen) events.emit({ kind: 'config_read' });
    this.#hasFailed = false;
    load.updatesRead(head);
  }

  /** An update of the tail is taken as if it had just arrived, unless it is known. */
  #takeMissed(update: PlacedUpdate): void {
    const { cursor, topics } = this.#deps;
    const { seq, entries } = update;
    const isKnown = cursor.position.knows(seq);
    cursor.wasPaged(seq);
    if (isKnown) return;
    const topic = entries.flatMap((entry) => entry.topics).find((name) => topics.has(name));
    this.take(update, topic ?? '', seq);
  }

  #takeLoaded(seq: number, own: readonly LoadedEntry[]): void {
    const { cursor, load, entries } = this.#deps;
    cursor.place(seq);
    cursor.wasPaged(seq);
    const ids = new Set(own.map(({ id }) => id));
    for (const { entry, at, id } of own) {
      const index = entries.table.indexInFold(entry, cursor.era, { seq, at, ids });
      const rank = { era: cursor.era, seq, index };
      entries.learn(entry, { id, rank, origin: 'update', transaction: load.transaction });
    }
  }

  /**
   * SYNC_DATA_UPDATES_RETAINED is false at the server: updates are placed in its log, but what was
   * missed is gone.
   */
  #retainsNothing(): void {
    const { session, cursor } = this.#deps;
    const { epoch, head = 0 } = session.start ?? {};
    if (epoch !== undefined && epoch !== cursor.epoch) cursor.enter(epoch);
    cursor.position.skipped(head);
    this.#isRead(head);
  }
}
