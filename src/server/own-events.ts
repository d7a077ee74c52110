import { printJson } from '../lib/json-text.js';
import type { Subscriber } from '../pubsub/hub.js';
import type { LogRecord, NewRecord } from './log/update-log.js';

/**
 * Publishers on a socket, which as in OPAL are not notified of their own updates. Another publisher may use the same id, so the
 * entries have to match, too; each publish matches once.
 */
export class OwnEvents {
  readonly #byId = new Map<string, Set<{ readonly entries: string; readonly publisher: Subscriber }>>();

  /** Expects the delivery of a record. Returns how to cancel that. */
  expect({ id, entries }: Pick<NewRecord, 'id' | 'entries'>, publisher: Subscriber): () => void {
    const expected = { entries: printJson(entries), publisher };
    const waiting = this.#byId.get(id) ?? new Set();
    this.#byId.set(id, waiting.add(expected));
    return () => this.#forget(id, expected);
  }

  /** Returns the publisher of a record that is being delivered, if one is expected. */
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
