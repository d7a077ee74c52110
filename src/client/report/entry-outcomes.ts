import { failureFields } from '../../lib/errors.js';
import type { Logger } from '../../lib/observe/log.js';
import { hexId } from '../../lib/run/hex-id.js';
import type { PeerEntry } from '../../wire/data.js';
import type { UpdateReport } from '../../wire/report.js';
import type { KnownEntry } from '../desired/entry-table.js';
import type { BegunUpdate, DataEvent } from '../status/data-events.js';
import { dataReport, type EntryResult } from './report.js';
import { type HashForm, reportHash } from './report-hash.js';

/** What the collector is made with. */
export interface CollectorDeps {
  readonly onReport: (report: UpdateReport, callbacks: readonly unknown[]) => void;
  readonly log: Logger;
}

type Outcome = { -readonly [Key in keyof EntryResult]: EntryResult[Key] } & {
  /** What the load reports of the entry if its source has nothing new. */
  readonly before: Outcome | undefined;
};

/** Progress of an entry that is not applied yet. A patch `waits` for the document it changes. */
type Attempt = 'under way' | 'waits' | 'failed';

/** The report on an update while its entries are under way. */
interface Draft {
  readonly update: BegunUpdate;
  /** By known entry; the same entry twice is one outcome. */
  readonly outcomes: Map<object, Outcome>;
  /** Entries that are not applied yet. */
  readonly open: Map<KnownEntry, Attempt>;
  isSealed: boolean;
  /** A first failure is still to be reported. */
  reportsFailure: boolean;
}

/**
 * Makes one report for each data update (specification data-sequence.callbacks), as soon as every
 * entry is in the engine or replaced by a later update. With `failures` it makes a first one when
 * each entry was tried once and one of them failed. Its memory is in proportion to the entries that
 * are under way.
 */
export class ReportCollector {
  readonly #options: { readonly hashForm: HashForm; readonly failures: boolean };
  readonly #deps: CollectorDeps;
  /** Drafts that are not sealed, by transaction. */
  readonly #drafts = new Map<string, Draft>();
  readonly #waiting = new Map<KnownEntry, Set<Draft>>();
  /** Hash of what arrived last for each entry. */
  readonly #hashes = new WeakMap<KnownEntry, string | null>();
  /**
   * The load under way. Later loads join it, so that they do not pile up while a source is dead.
   */
  #load: Draft | undefined;

  constructor(options: { hashForm: HashForm; failures: boolean }, deps: CollectorDeps) {
    this.#options = options;
    this.#deps = deps;
  }

  /** Subscriber of `DataEvents`. */
  readonly onData = (event: DataEvent): void => {
    switch (event.kind) {
      case 'begun':
        this.#begin(event.transaction, event.update);
        break;
      case 'named':
        this.#named(event.transaction, event.entry, event.known);
        break;
      case 'sealed':
        this.#sealed(event.transaction);
        break;
      case 'settled':
        this.#settled(event.entry);
        break;
      case 'forgotten':
        this.#forgotten(event.entry);
    }
  };

  #begin(transaction: string, update: BegunUpdate): void {
    let draft = update.isLoad ? this.#load : undefined;
    const { failures: reportsFailure } = this.#options;
    draft ??= { update, outcomes: new Map(), open: new Map(), isSealed: false, reportsFailure };
    draft.isSealed = false;
    if (update.isLoad) this.#load = draft;
    this.#drafts.set(transaction, draft);
  }

  #named(transaction: string, entry: PeerEntry, known: KnownEntry | undefined): void {
    const draft = this.#drafts.get(transaction);
    if (draft === undefined) return;
    const { outcomes, open, update } = draft;
    // An entry that stays in its own transaction was in place when the load found it.
    if (update.isLoad && (known?.transaction !== transaction || open.has(known))) return;
    const before = known === undefined ? undefined : outcomes.get(known);
    const outcome = { entry, fetched: false, saved: false, hash: null, superseded: known === undefined, before };
    outcomes.set(known ?? outcome, outcome);
    if (known === undefined) return;
    open.set(known, 'under way');
    this.#waiting.set(known, (this.#waiting.get(known) ?? new Set()).add(draft));
    // In a load, `applied` is the state before the source is read again.
    if (known.state.kind !== 'applied' || !update.isLoad) this.#advance(draft, known, outcome);
  }

  #sealed(transaction: string): void {
    const draft = this.#drafts.get(transaction);
    this.#drafts.delete(transaction);
    if (draft === undefined) return;
    draft.isSealed = true;
    this.#reportIfDue(draft);
  }

  #settled(known: KnownEntry): void {
    // With an error it is the same content, not written yet.
    if (known.state.kind === 'ready' && known.state.error === undefined) {
      this.#hashes.set(known, this.#hashOf(known));
      this.#beginRefresh(known);
    }
    for (const draft of [...(this.#waiting.get(known) ?? [])]) {
      const outcome = draft.outcomes.get(known);
      if (outcome !== undefined) this.#advance(draft, known, outcome);
      this.#reportIfDue(draft);
    }
  }

  #forgotten(known: KnownEntry): void {
    for (const draft of [...(this.#waiting.get(known) ?? [])]) {
      const outcome = draft.outcomes.get(known);
      if (outcome !== undefined) outcome.superseded = true;
      // A load reports only what was applied.
      if (draft.update.isLoad) draft.outcomes.delete(known);
      this.#close(draft, known);
      this.#reportIfDue(draft);
    }
  }

  /**
   * New content from a source that is read at an interval is an update of its own, as with OPAL
   * (opal-protocol P4.6).
   */
  #beginRefresh(known: KnownEntry): void {
    // An update under way reports it; one that is still being named does so in a moment.
    if (this.#drafts.has(known.transaction) || this.#waiting.has(known)) return;
    const id = hexId();
    this.#begin(id, { id, reason: '', callbacks: [], isLoad: false });
    this.#named(id, known.entry, known);
    this.#sealed(id);
  }

  /** Follows the state of the entry. */
  #advance(draft: Draft, known: KnownEntry, outcome: Outcome): void {
    const { state } = known;
    const { isLoad } = draft.update;
    const isApplied = state.kind === 'applied';
    if (state.kind === 'ready' || state.kind === 'blocked' || (isApplied && !isLoad)) {
      outcome.fetched = isFetched(known);
      outcome.hash = this.#hashes.get(known) ?? this.#bytesHash(known);
    }
    if (isApplied) {
      // In a load, an entry whose source has nothing new is not reported.
      outcome.saved = !isLoad || outcome.fetched || !isFetched(known);
      if (!outcome.saved && outcome.before !== undefined) draft.outcomes.set(known, outcome.before);
      else if (!outcome.saved) draft.outcomes.delete(known);
      this.#close(draft, known);
    } else if (state.error !== undefined) draft.open.set(known, 'failed');
    // A patch may wait for what it changes for as long as that fails.
    else if (state.kind === 'ready' && known.entry.save_method === 'PATCH') draft.open.set(known, 'waits');
  }

  #close(draft: Draft, known: KnownEntry): void {
    draft.open.delete(known);
    const drafts = this.#waiting.get(known);
    drafts?.delete(draft);
    if (drafts?.size === 0) this.#waiting.delete(known);
  }

  #reportIfDue(draft: Draft): void {
    const { update, outcomes, open } = draft;
    if (!draft.isSealed) return;
    if (open.size > 0) {
      if (!draft.reportsFailure || !isFailureDue(open.values())) return;
      draft.reportsFailure = false;
    } else if (this.#load === draft) this.#load = undefined;
    if (outcomes.size > 0) this.#deps.onReport(dataReport(update.id, [...outcomes.values()]), update.callbacks);
  }

  /** Hash of content that came from a backup: it never arrived here. */
  #bytesHash({ fetched }: KnownEntry): string | null {
    return this.#options.hashForm === 'bytes' ? (fetched?.hash ?? null) : null;
  }

  #hashOf({ state }: KnownEntry): string | null {
    if (state.kind !== 'ready' || state.body === undefined) return null;
    try {
      return reportHash(this.#options.hashForm, state.body);
    } catch (error) {
      // A report without a hash is better than none.
      this.#deps.log.warn(failureFields(error), 'the data of a report could not be hashed');
      return null;
    }
  }
}

/** True when each entry was tried once and one of them failed. */
function isFailureDue(attempts: Iterable<Attempt>): boolean {
  let hasFailed = false;
  for (const attempt of attempts) {
    if (attempt === 'under way') return false;
    hasFailed ||= attempt === 'failed';
  }
  return hasFailed;
}

/** Everything but a DELETE has data, fetched or inline. */
function isFetched({ entry }: KnownEntry): boolean {
  return entry.save_method !== 'DELETE';
}
