import type { KnownEntry } from '../desired/entry-table.js';

/** Spans of what is done for entries of traced updates. There is none without tracing. */
export interface EntryTraces {
  /** Runs one read of the source of an entry. */
  fetch<T>(entry: KnownEntry, work: () => Promise<T>): Promise<T>;
  /** Runs one write of these entries into the engine. */
  apply<T>(entries: readonly KnownEntry[], work: () => Promise<T>): Promise<T>;
}
