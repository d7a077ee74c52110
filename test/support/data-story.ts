import type { KnownEntry } from '../../src/client/desired/entry-table.js';
import { DataEvents, LOAD_ID } from '../../src/client/status/data-events.js';
import { type PeerEntry, peerEntry } from '../../src/wire/data.js';

/** An entry whose state a test decides. */
export type StoryEntry = { -readonly [Key in keyof KnownEntry]: KnownEntry[Key] };

/** What happens to data updates, as a test tells it. */
export class DataStory {
  readonly events = new DataEvents();

  entry(id: string, more: Partial<PeerEntry> = {}): StoryEntry {
    return {
      id,
      path: ['p', id],
      rank: { era: 1, seq: 1, index: 0 },
      nextRank: undefined,
      origin: 'update',
      epoch: 'e',
      entry: peerEntry.parse({ url: 'http://source/', dst_path: `/${id}`, ...more }),
      transaction: '',
      state: { kind: 'fetching', error: undefined },
      fetched: undefined,
    };
  }

  begin(id: string): string {
    return this.events.begin({ id, reason: `reason of ${id}`, callbacks: [id], isLoad: id === LOAD_ID });
  }

  /** An update, or with the id `initial-load` a load, that names these entries. Those of another transaction move to it. */
  update(id: string, ...entries: StoryEntry[]): string {
    const transaction = this.begin(id);
    for (const entry of entries) {
      this.join(transaction, entry);
      this.named(transaction, entry);
    }
    this.seal(transaction);
    return transaction;
  }

  join(transaction: string, entry: StoryEntry): void {
    if (entry.transaction !== '') this.events.emit({ kind: 'left', entry });
    entry.transaction = transaction;
    this.events.emit({ kind: 'joined', transaction, entry });
  }

  named(transaction: string, known: StoryEntry, isKnown = true): void {
    this.events.emit({ kind: 'named', transaction, entry: known.entry, known: isKnown ? known : undefined });
  }

  seal(transaction: string): void {
    this.events.emit({ kind: 'sealed', transaction });
  }

  settle(entry: StoryEntry, state: KnownEntry['state']): void {
    entry.state = state;
    this.events.emit({ kind: 'settled', entry });
  }

  forget(entry: StoryEntry): void {
    this.events.emit({ kind: 'forgotten', entry });
  }

  configRead(): void {
    this.events.emit({ kind: 'config_read' });
  }
}
