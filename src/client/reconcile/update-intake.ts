import { hexId } from '../../lib/hex-id.js';
import type { Logger } from '../../lib/log.js';
import type { PeerEntry, PeerUpdate } from '../../wire/data.js';
import { concerns } from '../desired/entry.js';
import type { DataEvents } from '../status/data-events.js';
import type { DesiredEntries, EntryPlace } from './desired-entries.js';
import type { Load } from './load.js';
import type { LogCursor } from './log-cursor.js';
import { indexInFold } from './worked-in.js';

/** What {@link UpdateIntake} works with. */
export interface UpdateIntakeDeps {
  readonly topics: ReadonlySet<string>;
  readonly state: LogCursor;
  readonly entries: DesiredEntries;
  readonly load: Load;
  readonly events: DataEvents;
  readonly log: Logger;
}

/** Takes data updates in: each as a transaction of its own, or as a part of the load. */
export class UpdateIntake {
  readonly #deps: UpdateIntakeDeps;

  constructor(deps: UpdateIntakeDeps) {
    this.#deps = deps;
  }

  /** An update that has just come; `seq` is undefined for a server whose updates have no places. */
  take(update: PeerUpdate, topic: string, seq: number | undefined): void {
    const { events, log, state, topics } = this.#deps;
    const id = update.id ?? hexId();
    const reason = update.reason ?? '';
    log.info({ update_id: id, topic, reason, entries: update.entries.length, seq }, 'data update received');
    const callbacks = update.callback?.callbacks ?? [];
    const transaction = events.begin({ id, reason, callbacks, isLoad: false });
    const place = state.place(seq);
    for (const [index, entry] of update.entries.entries()) {
      if (!concerns(entry, topics)) continue;
      const entryId = seq === undefined ? `live/${state.era}/${place}/${index}` : state.placedId(entry, seq);
      this.#learn(entry, { id: entryId, rank: { era: state.era, seq: place, index }, origin: 'update', transaction });
    }
    events.emit({ kind: 'sealed', transaction });
  }

  /** An update that was read: of the tail it is as if it had just come, unless it is known. Answers the ids of its entries. */
  takePaged(update: PeerUpdate & { seq: number }): string[] {
    const { state, topics } = this.#deps;
    const { seq } = update;
    const isKnown = state.position.knows(seq);
    state.wasPaged(seq);
    if (!isKnown) {
      const topic = update.entries.flatMap((entry) => entry.topics).find((name) => topics.has(name));
      this.take(update, topic ?? '', seq);
    }
    return this.#idsOf(update);
  }

  /** An update that was read as a part of the load. Answers the ids of its entries. */
  takeLoaded(update: PeerUpdate & { seq: number }): string[] {
    const { state, topics, load, entries } = this.#deps;
    const seq = state.place(update.seq);
    state.wasPaged(seq);
    const ids = this.#idsOf(update);
    const known = new Set(ids);
    for (const [at, entry] of update.entries.entries()) {
      if (!concerns(entry, topics)) continue;
      const id = state.placedId(entry, seq);
      const index = indexInFold(entry, { seq, at, ids: known }, { state, table: entries.table });
      const rank = { era: state.era, seq, index };
      this.#learn(entry, { id, rank, origin: 'update', transaction: load.transaction });
    }
    return ids;
  }

  #idsOf({ entries, seq }: PeerUpdate & { seq: number }): string[] {
    const { state, topics } = this.#deps;
    return entries.filter((entry) => concerns(entry, topics)).map((entry) => state.placedId(entry, seq));
  }

  #learn(entry: PeerEntry, place: EntryPlace): void {
    const { entries, events } = this.#deps;
    entries.learn(entry, place);
    events.emit({ kind: 'named', transaction: place.transaction, entry, known: entries.table.get(place.id) });
  }
}
