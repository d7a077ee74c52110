import type { PeerEntry } from '../../wire/data.js';
import type { KnownEntry } from '../desired/entry.js';
import type { LogCursor } from '../reconcile/log-cursor.js';
import type { ObservedUpdate, UpdateObserver } from '../report/collector.js';
import type { DataStatus } from './status.js';

/** Id of the transactions that load all that is desired. */
export const LOAD_ID = 'initial-load';

/** True for the key of a transaction that loads all that is desired, false for that of a data update. */
export function isLoad(transaction: string): boolean {
  return transaction.startsWith(`${LOAD_ID}#`);
}

/** What happens to data updates and their entries. A transaction is one update, or one load of all that is desired. */
export type DataEvent =
  /** An update names an entry; `known` is undefined where a later update covers it already. */
  | {
      readonly kind: 'named';
      readonly transaction: string;
      readonly entry: PeerEntry;
      readonly known: KnownEntry | undefined;
    }
  /** An entry counts for the transaction from now on; it has left the one before. */
  | { readonly kind: 'joined'; readonly transaction: string; readonly entry: KnownEntry }
  | { readonly kind: 'left'; readonly entry: KnownEntry }
  /** All entries of the transaction have been named. */
  | { readonly kind: 'sealed'; readonly transaction: string }
  /** An entry has another state. */
  | { readonly kind: 'settled'; readonly entry: KnownEntry }
  /** An entry is no longer desired, or was superseded. */
  | { readonly kind: 'forgotten'; readonly entry: KnownEntry }
  /** The data configuration was read; it has this many entries. */
  | { readonly kind: 'config_read'; readonly entries: number }
  /** The position, or what at-least asks about, may have changed. */
  | { readonly kind: 'position' };

/** Tells all that follows data updates; each of these returns at once. */
export interface DataEvents {
  /** Begins a transaction; returns its key. */
  begin(update: ObservedUpdate & { readonly reason: string }): string;
  emit(event: DataEvent): void;
}

/** The one place where events reach the position, the status and the reports. */
export function dataEvents(deps: {
  readonly state: LogCursor;
  readonly status: DataStatus;
  readonly observer: UpdateObserver | undefined;
  readonly onPosition: () => void;
}): DataEvents {
  const { state, status, observer, onPosition } = deps;
  return {
    begin: ({ reason, ...update }) => {
      const transaction = status.begin(update.id, reason);
      observer?.begin(transaction, update);
      return transaction;
    },
    emit: (event) => {
      switch (event.kind) {
        case 'named':
          observer?.concerns(event.transaction, event.entry, event.known);
          break;
        case 'joined':
          status.joined(event.transaction, event.entry);
          break;
        case 'left':
          status.left(event.entry);
          break;
        case 'sealed':
          status.sealed(event.transaction);
          observer?.sealed(event.transaction);
          break;
        case 'settled': {
          const { entry } = event;
          if (entry.state.kind === 'applied') state.position.closed(entry.id);
          else if (state.has(entry)) state.position.opened(entry.rank.seq, entry.id);
          status.settled(entry);
          observer?.settled(entry);
          onPosition();
          break;
        }
        case 'forgotten':
          state.position.closed(event.entry.id);
          status.forgotten(event.entry);
          observer?.forgotten(event.entry);
          onPosition();
          break;
        case 'config_read':
          status.configRead(event.entries);
          break;
        case 'position':
          onPosition();
      }
    },
  };
}
