import type { PeerEntry } from '../../wire/data.js';
import type { KnownEntry } from '../desired/entry-table.js';

/** Id of the transactions that load all that is desired. */
export const LOAD_ID = 'initial-load';

/**
 * True for the key of a transaction that loads all that is desired, false for that of a data
 * update.
 */
export function isLoad(transaction: string): boolean {
  return transaction.startsWith(`${LOAD_ID}#`);
}

/** What a transaction applies: a data update, or a load of all that is desired. */
export interface BegunUpdate {
  readonly id: string;
  readonly reason: string;
  /** Its one-time callbacks, as the peer sent them. */
  readonly callbacks: readonly unknown[];
  readonly isLoad: boolean;
  /** The span that announced it. */
  readonly traceparent?: string | undefined;
  /** Its place in the log of the server; missing: it has none. */
  readonly seq?: number | undefined;
}

/**
 * What happens to data updates and their entries. A transaction is one update, or one load of all
 * that is desired.
 */
export type DataEvent =
  | { readonly kind: 'begun'; readonly transaction: string; readonly update: BegunUpdate }
  /** An update names an entry; `known` is undefined where a later update covers it already. */
  | {
      readonly kind: 'named';
      readonly transaction: string;
      readonly entry: PeerEntry;
      readonly known: KnownEntry | undefined;
    }
  /** An entry counts for the transaction from now on, and no longer for the one it has left. */
  | { readonly kind: 'joined'; readonly transaction: string; readonly entry: KnownEntry }
  | { readonly kind: 'left'; readonly entry: KnownEntry }
  /** All entries of the transaction have been named. */
  | { readonly kind: 'sealed'; readonly transaction: string }
  /** The log of the server was read up to this place. */
  | { readonly kind: 'log_read'; readonly head: number }
  /** An entry has another state. */
  | { readonly kind: 'settled'; readonly entry: KnownEntry }
  /** An entry is no longer desired, or was superseded. */
  | { readonly kind: 'forgotten'; readonly entry: KnownEntry }
  /** The data configuration was read. */
  | { readonly kind: 'config_read' }
  /** The position may have changed, and with it what `GET /position?at-least=` waits for. */
  | { readonly kind: 'position' };

/** Receives each event; must return at once. */
export type DataSubscriber = (event: DataEvent) => void;

/** The one source of events of data updates; status, reports and position subscribe. */
export class DataEvents {
  readonly #subscribers: DataSubscriber[] = [];
  #transactions = 0;

  subscribe(subscriber: DataSubscriber): void {
    this.#subscribers.push(subscriber);
  }

  /** Begins a transaction; returns its key. */
  begin(update: BegunUpdate): string {
    const transaction = `${update.id}#${++this.#transactions}`;
    this.emit({ kind: 'begun', transaction, update });
    return transaction;
  }

  emit(event: DataEvent): void {
    for (const subscriber of this.#subscribers) subscriber(event);
  }
}
