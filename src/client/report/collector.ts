import { failureFields } from '../../lib/errors.js';
import { hexId } from '../../lib/hex-id.js';
import type { Logger } from '../../lib/log.js';
import type { PeerEntry } from '../../wire/data.js';
import type { UpdateReport } from '../../wire/report.js';
import type { KnownEntry } from '../desired/entry.js';
import type { BegunUpdate, DataEvent } from '../status/data-events.js';
import { dataReport, type EntryOutcome } from './report.js';
import { type HashForm, reportHash } from './report-hash.js';

/** What the collector is made with. */
export interface CollectorDeps {
  readonly onReport: (report: UpdateReport, callbacks: readonly unknown[]) => void;
  readonly log: Logger;
}

type Outcome = { -readonly [Key in keyof EntryOutcome]: EntryOutcome[Key] };

/** How far an entry is that is not in yet: a patch `waits` for what it changes; `told`: a report of the failure went out. */
type Attempt = 'under way' | 'waits' | 'failed' | 'told';

/** The report on an update while it is put together. */
interface Draft {
  readonly update: BegunUpdate;
  /** By what the client knows of the entry; the same entry twice is one outcome. */
  readonly outcomes: Map<object, Outcome>;
  /** Entries that are not in yet. */
  readonly open: Map<KnownEntry, Attempt>;
  isSealed: boolean;
}

/**
 * Puts together one report for each data update (specification data-sequence.callbacks): it goes out once every entry
 * is in the engine, or replaced by a later update. With `failures` a first one goes out when each entry has been tried
 * once and one of them failed. What it keeps is in proportion to the entries that are still on their way.
 */
export class ReportCollector {
  readonly #options: { readonly hashForm: HashForm; readonly failures: boolean };
  readonly #deps: CollectorDeps;
  /** Those that are not sealed, by transaction. */
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

  /** Subscribes to what happens to data updates. */
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
    draft ??= { update, outcomes: new Map(), open: new Map(), isSealed: false };
    draft.isSealed = false;
    if (update.isLoad) this.#load = draft;
    this.#drafts.set(transaction, draft);
  }

  #named(transaction: string, entry: PeerEntry, known: KnownEntry | undefined): void {
    const draft = this.#drafts.get(transaction);
    if (draft === undefined) return;
    const { outcomes, open, update } = draft;
    // An entry that a load left in its transaction is one that it found in place.
    if (update.isLoad && (known?.transaction !== transaction || open.has(known))) return;
    const before = known === undefined ? undefined : outcomes.get(known);
    const outcome = before ?? { entry, fetched: false, saved: false, hash: null, superseded: known === undefined };
    outcome.entry = entry;
    outcomes.set(known ?? outcome, outcome);
    if (known === undefined) return;
    open.set(known, 'under way');
    this.#waiting.set(known, (this.#waiting.get(known) ?? new Set()).add(draft));
    // That it is applied says nothing of an entry whose source a load asks again.
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
    if (known.state.kind === 'ready') {
      this.#hashes.set(known, this.#hashOf(known));
      this.#observeRefresh(known);
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
      // A load tells what went in, and this did not.
      if (draft.update.isLoad) draft.outcomes.delete(known);
      this.#close(draft, known);
      this.#reportIfDue(draft);
    }
  }

  /**
   * New content that no update brought, because a source is read at an interval, is an update of its own, as OPAL has it
   * (opal-protocol P4.6).
   */
  #observeRefresh(known: KnownEntry): void {
    // Its update is just being told: the entry will be named in a moment.
    if (this.#drafts.has(known.transaction) || this.#waiting.has(known)) return;
    const id = hexId();
    this.#begin(id, { id, reason: '', callbacks: [], isLoad: false });
    this.#named(id, known.entry, known);
    this.#sealed(id);
  }

  /** Takes over what the entry's state says. */
  #advance(draft: Draft, known: KnownEntry, outcome: Outcome): void {
    const { state } = known;
    const { isLoad } = draft.update;
    const isApplied = state.kind === 'applied';
    if (state.kind === 'ready' || state.kind === 'blocked' || (isApplied && !isLoad)) {
      outcome.fetched = isFetched(known);
      outcome.hash = this.#hashes.get(known) ?? this.#bytesHash(known);
      outcome.saved = false;
    }
    if (isApplied) {
      // The source of a load's entry has nothing new: there is nothing to report.
      outcome.saved = !isLoad || outcome.fetched || !isFetched(known);
      if (!outcome.saved) draft.outcomes.delete(known);
      this.#close(draft, known);
    } else if (draft.open.get(known) !== 'told') {
      if (state.error !== undefined) draft.open.set(known, 'failed');
      // A patch may wait for what it changes for as long as that fails.
      else if (state.kind === 'ready' && known.entry.save_method === 'PATCH') draft.open.set(known, 'waits');
    }
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
      if (!this.#options.failures || !isFailureDue(open.values())) return;
      for (const known of open.keys()) open.set(known, 'told');
    } else if (this.#load === draft) this.#load = undefined;
    if (outcomes.size > 0) this.#deps.onReport(dataReport(update.id, [...outcomes.values()]), update.callbacks);
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

/** True when each entry was tried once and one of them failed. */
function isFailureDue(attempts: Iterable<Attempt>): boolean {
  let hasFailed = false;
  for (const attempt of attempts) {
    if (attempt === 'under way') return false;
    hasFailed ||= attempt === 'failed';
  }
  return hasFailed;
}

/** A DELETE has no data; whatever else is ready or in the engine was fetched, or came with the update. */
function isFetched({ entry }: KnownEntry): boolean {
  return entry.save_method !== 'DELETE';
}
