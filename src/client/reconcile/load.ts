import { type DataEvents, LOAD_ID } from '../status/data-events.js';

/** The parts of a load: what the operator configured, and what was published. */
export type LoadPart = 'base' | 'updates';

/**
 * The transaction of what a client reads after it has connected: base entries and, where it cannot go on from its position,
 * the fold. It is complete when every part that it was to have has been read (specification health.ready).
 */
export class Load {
  readonly #events: DataEvents;
  readonly #missing = new Set<LoadPart>();
  #transaction: string | undefined;
  #entries = 0;

  constructor(events: DataEvents) {
    this.#events = events;
  }

  /** These parts are to be read now, and no others. */
  needs(...parts: readonly LoadPart[]): void {
    this.#missing.clear();
    for (const part of parts) this.#missing.add(part);
  }

  /** Its transaction; opened when it is first asked for. */
  get transaction(): string {
    this.#transaction ??= this.#events.begin({
      id: LOAD_ID,
      reason: 'base data and retained updates',
      callbacks: [],
      isLoad: true,
    });
    return this.#transaction;
  }

  /** True while a part is to be read, or what was read has not been told. */
  get isOpen(): boolean {
    return this.#missing.size > 0 || this.#transaction !== undefined;
  }

  /** A part was read, with this many entries. True: nothing is missing any more, {@link finish} it. */
  read(part: LoadPart, entries: number): boolean {
    this.#missing.delete(part);
    this.#entries += entries;
    return this.#missing.size === 0;
  }

  /** Ends the transaction: all its entries have joined. */
  finish(): void {
    const { transaction } = this;
    const entries = this.#entries;
    this.#transaction = undefined;
    this.#entries = 0;
    this.#events.emit({ kind: 'sealed', transaction });
    this.#events.emit({ kind: 'config_read', entries });
  }
}
