import { SyncError } from '../../lib/errors.js';
import { type CallbackTarget, targetKey } from './targets.js';

/** A registered callback. */
export interface CallbackEntry extends CallbackTarget {
  readonly key: string;
}

/** Each of them receives every report. */
const MAX_CALLBACKS = 100;

/** The callbacks that receive every report: the configured ones, and those registered since. In memory only. */
export class CallbackRegistry {
  readonly #entries = new Map<string, CallbackEntry>();

  constructor(configured: readonly CallbackTarget[]) {
    for (const target of configured) this.put(target);
  }

  all(): readonly CallbackEntry[] {
    return [...this.#entries.values()];
  }

  get(key: string): CallbackEntry | undefined {
    return this.#entries.get(key);
  }

  /**
   * Registers a target and returns it with its key. The default key is {@link targetKey}, so that the same target is never
   * called twice; under another key it replaces that twin, and whatever had the key (opal-protocol
   * P2.6). Throws `callback_limit`.
   */
  put(target: CallbackTarget, key?: string): CallbackEntry {
    const automatic = targetKey(target);
    const entry: CallbackEntry = { key: key ?? automatic, url: target.url, config: target.config };
    const isNew = !this.#entries.has(entry.key) && !this.#entries.has(automatic);
    if (isNew && this.#entries.size >= MAX_CALLBACKS) {
      throw new SyncError('callback_limit', `there are ${MAX_CALLBACKS} callbacks already: delete one first`);
    }
    if (entry.key !== automatic) this.#entries.delete(automatic);
    this.#entries.set(entry.key, entry);
    return entry;
  }

  /** False when there was none. */
  delete(key: string): boolean {
    return this.#entries.delete(key);
  }
}
