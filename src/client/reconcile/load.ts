import type { Logger } from '../../lib/observe/log.js';
import { type DataEvents, LOAD_ID } from '../status/data-events.js';
import type { DesiredEntries } from './desired-entries.js';
import type { LogCursor } from './log-cursor.js';
import type { ServerSession } from './server-said.js';

/** The parts of a load: what the operator configured, and what was published. */
type LoadPart = 'base' | 'updates';

/** What the readers of both parts work with. */
export interface ReaderDeps {
  readonly topics: ReadonlySet<string>;
  readonly session: ServerSession;
  readonly cursor: LogCursor;
  readonly entries: DesiredEntries;
  readonly load: Load;
  readonly log: Logger;
}

type LoadDeps = Pick<ReaderDeps, 'cursor' | 'entries'> & { readonly events: DataEvents };

/**
 * The transaction of what a client reads after it has connected: base entries and, where it cannot
 * go on from its position, the fold. It is complete when every part that it was to have has been
 * read (specification health.ready).
 */
export class Load {
  readonly #deps: LoadDeps;
  readonly #missing = new Set<LoadPart>();
  /** The log of which the server says that its base entries and its updates are a complete fold. */
  #foldEpoch: string | undefined;
  #transaction: string | undefined;

  constructor(deps: LoadDeps) {
    this.#deps = deps;
  }

  /** Exactly these parts are to be read. */
  needs(...parts: readonly LoadPart[]): void {
    this.#missing.clear();
    for (const part of parts) this.#missing.add(part);
  }

  /** Its transaction; opened when it is first asked for. */
  get transaction(): string {
    this.#transaction ??= this.#deps.events.begin({
      id: LOAD_ID,
      reason: 'base data and retained updates',
      callbacks: [],
      isLoad: true,
    });
    return this.#transaction;
  }

  /** True while a part is to be read, or its transaction has not ended. */
  get isOpen(): boolean {
    return this.#missing.size > 0 || this.#transaction !== undefined;
  }

  /** The base entries of this log were read. */
  baseRead(epoch: string | undefined): void {
    this.#foldEpoch = epoch;
    this.#partRead('base');
  }

  /** What was missed of the updates was read, up to this head of the log. */
  updatesRead(head: number): void {
    this.#deps.events.emit({ kind: 'log_read', head });
    this.#partRead('updates');
  }

  /**
   * Base entries and updates were read together, up to this head of the log if there is one:
   * nothing is missing.
   */
  wholeRead(head: number | undefined): void {
    this.#missing.delete('base');
    if (head !== undefined) this.#deps.events.emit({ kind: 'log_read', head });
    this.#finish();
  }

  #partRead(part: LoadPart): void {
    const { events } = this.#deps;
    const isOpen = this.isOpen;
    this.#missing.delete(part);
    if (this.#missing.size === 0) this.#compare();
    if (isOpen && this.#missing.size === 0) this.#finish();
    else events.emit({ kind: 'position' });
  }

  /**
   * Both parts of one complete fold of this log were read: what it does not have is no longer
   * desired.
   */
  #compare(): void {
    const { cursor, entries } = this.#deps;
    const { fold } = cursor;
    cursor.fold = undefined;
    if (fold !== undefined && this.#foldEpoch === cursor.epoch) entries.removeMissing('update', fold.head, fold.ids);
  }

  /** Ends the transaction: all its entries have joined. */
  #finish(): void {
    const { transaction } = this;
    const { cursor, events } = this.#deps;
    this.#transaction = undefined;
    cursor.fold = undefined;
    events.emit({ kind: 'sealed', transaction });
    events.emit({ kind: 'config_read' });
    events.emit({ kind: 'position' });
  }
}
