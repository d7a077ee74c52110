import { randomUUID } from 'node:crypto';
import { failureFields } from '../../lib/errors.js';
import { hexId } from '../../lib/hex-id.js';
import type { Logger } from '../../lib/log.js';
import type { PeerEntry } from '../../wire/data.js';
import type { UpdateReport } from '../../wire/report.js';
import type { KnownEntry } from '../desired/entry.js';
import { dataReport, type EntryOutcome } from './report.js';
import { type HashForm, reportHash } from './report-hash.js';

/** What the data updater tells of its updates, so that they can be reported. */
export interface UpdateObserver {
  /** An update begins; `transaction` is its key in the status. */
  begin(transaction: string, update: ObservedUpdate): void;
  /** An entry of it concerns this client. `known` is what it became; undefined where a later update covers it already. */
  concerns(transaction: string, entry: PeerEntry, known: KnownEntry | undefined): void;
  /** All its entries have been told. */
  sealed(transaction: string): void;
  /** An entry changed its state. */
  settled(known: KnownEntry): void;
  /** An entry is no longer desired, or was superseded. */
  forgotten(known: KnownEntry): void;
}

/** An update as far as its report needs it. */
export interface ObservedUpdate {
  readonly id: string;
  /** Its one-time callbacks, as the peer sent them. */
  readonly callbacks: readonly unknown[];
  /** True for a read of the whole configuration: only what it really changed is reported. */
  readonly isLoad: boolean;
}

/** What the collector is made with. */
export interface CollectorDeps {
  readonly onReport: (report: UpdateReport, callbacks: readonly unknown[]) => void;
  readonly log: Logger;
}

interface Item extends EntryOutcome {
  entry: PeerEntry;
  fetched: boolean;
  saved: boolean;
  hash: string | null;
  superseded: boolean;
  /** How far its first attempt is; it stays open until it is saved or superseded. */
  attempt: 'under way' | 'failed' | 'over';
  /** What the load has to tell of the entry should its source turn out to have nothing new. */
  readonly before: Item | undefined;
}

interface Draft {
  readonly update: ObservedUpdate;
  /** By what the client knows of the entry; the same entry twice is one item. */
  readonly items: Map<object, Item>;
  /** Items that are not saved yet. */
  readonly open: Map<KnownEntry, Item>;
  /** How many of the open items are how far; counted, since a load may have ten thousands. */
  readonly counts: Record<Item['attempt'], number>;
  sealed: boolean;
  failureTold: boolean;
}

/**
 * Puts together one report for each data update (specification data-sequence.callbacks): it goes out once every entry
 * is in the engine, or replaced by a later update. With `failures` a first one goes out when each entry has been tried
 * once and one of them failed. What it keeps is in proportion to the entries that are still on their way.
 */
export class ReportCollector implements UpdateObserver {
  readonly #options: { readonly hashForm: HashForm; readonly failures: boolean };
  readonly #deps: CollectorDeps;
  readonly #drafts = new Map<string, Draft>();
  readonly #waiting = new Map<KnownEntry, Set<Draft>>();
  /** Hash of what arrived last for each entry. */
  readonly #hashes = new WeakMap<KnownEntry, string | null>();
  /** The read of the configuration that is under way, reads since included: a dead source must not pile them up. */
  #load: Draft | undefined;

  constructor(options: { hashForm: HashForm; failures: boolean }, deps: CollectorDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  begin(transaction: string, update: ObservedUpdate): void {
    if (update.isLoad && this.#load !== undefined) {
      this.#load.sealed = false;
      this.#drafts.set(transaction, this.#load);
      return;
    }
    const counts = { 'under way': 0, failed: 0, over: 0 };
    const draft: Draft = { update, items: new Map(), open: new Map(), counts, sealed: false, failureTold: false };
    if (update.isLoad) this.#load = draft;
    this.#drafts.set(transaction, draft);
  }

  concerns(transaction: string, entry: PeerEntry, known: KnownEntry | undefined): void {
    const draft = this.#drafts.get(transaction);
    if (draft === undefined) return;
    // An entry that a load left in its transaction is one that it found in place.
    if (draft.update.isLoad && (known?.transaction !== transaction || draft.open.has(known))) return;
    const before = known === undefined ? undefined : draft.items.get(known);
    const outcome = { entry, fetched: false, saved: false, hash: null, superseded: false };
    const item: Item = { ...outcome, attempt: 'under way', before };
    draft.items.set(known ?? item, item);
    if (known === undefined) {
      item.superseded = true;
      return;
    }
    // The same entry twice in one update: the later item is the one that is followed.
    this.#close(draft, known);
    draft.open.set(known, item);
    draft.counts[item.attempt]++;
    const drafts = this.#waiting.get(known) ?? new Set();
    this.#waiting.set(known, drafts.add(draft));
    // That it is applied says nothing of an entry whose source a load asks again.
    if (known.state.kind !== 'applied' || !draft.update.isLoad) this.#advance(draft, known, item);
  }

  sealed(transaction: string): void {
    const draft = this.#drafts.get(transaction);
    this.#drafts.delete(transaction);
    if (draft === undefined) return;
    draft.sealed = true;
    this.#look(draft);
  }

  settled(known: KnownEntry): void {
    if (known.state.kind === 'ready') {
      this.#hashes.set(known, this.#hashOf(known));
      this.#observeRefresh(known);
    }
    for (const draft of [...(this.#waiting.get(known) ?? [])]) {
      const item = draft.open.get(known);
      if (item !== undefined) this.#advance(draft, known, item);
      this.#look(draft);
    }
  }

  forgotten(known: KnownEntry): void {
    for (const draft of [...(this.#waiting.get(known) ?? [])]) {
      const item = draft.open.get(known);
      if (item !== undefined) item.superseded = true;
      // A load tells what went in, and this did not.
      if (item !== undefined && draft.update.isLoad) draft.items.delete(known);
      this.#close(draft, known);
      this.#look(draft);
    }
  }

  /**
   * New content that no update brought, because a source is read at an interval, is an update of its own, as OPAL has it
   * (opal-protocol P4.6).
   */
  #observeRefresh(known: KnownEntry): void {
    // Its update is just being told: the entry will be named in a moment.
    if (this.#drafts.has(known.transaction) || this.#waiting.has(known)) return;
    const key = `refresh/${randomUUID()}`;
    this.begin(key, { id: hexId(), callbacks: [], isLoad: false });
    this.concerns(key, known.entry, known);
    this.sealed(key);
  }

  /** Takes over what the entry's state says. */
  #advance(draft: Draft, known: KnownEntry, item: Item): void {
    const { state } = known;
    const hasContent = state.kind === 'ready' || state.kind === 'blocked';
    if (hasContent || (state.kind === 'applied' && !draft.update.isLoad)) {
      item.fetched = isFetched(known);
      item.hash = this.#hashes.get(known) ?? this.#bytesHash(known);
    }
    if (state.kind === 'applied') {
      // The source of a load's entry has nothing new: there is nothing to report.
      const isUnchanged = draft.update.isLoad && !item.fetched && isFetched(known);
      if (!isUnchanged) item.saved = true;
      else if (item.before === undefined) draft.items.delete(known);
      else draft.items.set(known, item.before);
      this.#close(draft, known);
    } else if (state.error !== undefined) moveOn(draft, item, 'failed');
    // A patch may wait for what it changes for as long as that fails.
    else if (state.kind === 'ready' && known.entry.save_method === 'PATCH') moveOn(draft, item, 'over');
  }

  #close(draft: Draft, known: KnownEntry): void {
    const item = draft.open.get(known);
    if (item === undefined) return;
    draft.counts[item.attempt]--;
    draft.open.delete(known);
    const drafts = this.#waiting.get(known);
    drafts?.delete(draft);
    if (drafts?.size === 0) this.#waiting.delete(known);
  }

  /** Reports, when there is something to report now. */
  #look(draft: Draft): void {
    if (!draft.sealed) return;
    const isDone = draft.open.size === 0;
    const hasFailed = draft.counts.failed > 0 && draft.counts['under way'] === 0;
    if (isDone && this.#load === draft) this.#load = undefined;
    if (!isDone) {
      if (!this.#options.failures || !hasFailed || draft.failureTold) return;
      draft.failureTold = true;
    }
    const { id, callbacks } = draft.update;
    if (draft.items.size > 0) this.#deps.onReport(dataReport(id, [...draft.items.values()]), callbacks);
  }

  /** Of an entry whose content came before this collector was there: from a backup. */
  #bytesHash({ fetched }: KnownEntry): string | null {
    return this.#options.hashForm === 'bytes' ? (fetched?.hash ?? null) : null;
  }

  #hashOf({ state }: KnownEntry): string | null {
    if (state.kind !== 'ready' || state.body === undefined) return null;
    try {
      return reportHash(this.#options.hashForm, state.body);
    } catch (error) {
      // A report without a hash is worth more than an update that fails for its report.
      this.#deps.log.warn(failureFields(error), 'the data of a report could not be hashed');
      return null;
    }
  }
}

function moveOn(draft: Draft, item: Item, attempt: Item['attempt']): void {
  draft.counts[item.attempt]--;
  item.attempt = attempt;
  draft.counts[attempt]++;
}

/** A DELETE has no data; whatever else is ready or in the engine was fetched, or came with the update. */
function isFetched(known: KnownEntry): boolean {
  return known.entry.save_method !== 'DELETE';
}
