import { printJson } from '../lib/json-text.js';
import type { Subscriber } from '../pubsub/hub.js';
import type { LogRecord, NewRecord } from './log/update-log.js';

/**
 * Who publishes over a socket and is not to be notified of it, as OPAL has it, until the record is delivered. An id may be one that
 * others use as well, so the entries have to be the same too; each publish is looked for once.
 */
export class OwnEvents {
  readonly #byId = new Map<string, Set<{ readonly entries: string; readonly publisher: Subscriber }>>();

  /** Waits for the delivery of a record; answers how to end that. */
  expect({ id, entries }: Pick<NewRecord, 'id' | 'entries'>, publisher: Subscriber): () => void {
    const expected = { entries: printJson(entries), publisher };
    const waiting = this.#byId.get(id) ?? new Set();
    this.#byId.set(id, waiting.add(expected));
    return () => this.#forget(id, expected);
  }

  /** The subscriber that published a record that is delivered now, where one is waited for. */
  publisherOf({ id, entries }: LogRecord): Subscriber | undefined {
    const waiting = this.#byId.get(id);
    if (waiting === undefined) return undefined;
    const printed = printJson(entries);
    const found = [...waiting].find((expected) => expected.entries === printed);
    if (found !== undefined) this.#forget(id, found);
    return found?.publisher;
  }

  #forget(id: string, expected: { readonly entries: string; readonly publisher: Subscriber }): void {
    const waiting = this.#byId.get(id);
    if (waiting?.delete(expected) && waiting.size === 0) this.#byId.delete(id);
  }
}
