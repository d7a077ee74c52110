import { SyncError } from '../../lib/errors.js';
import { type CallbackTarget, targetKey } from './targets.js';

/** A registered callback. */
export interface CallbackEntry extends CallbackTarget {
  readonly key: string;
}

/** Every report goes to each of them. */
const MAX_CALLBACKS = 100;

/** The callbacks that hear of every update: the configured ones, and what was registered since. In memory only. */
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
   * Registers a target and answers it with its key. Without a key it is found under {@link targetKey}, so the same target
   * is never called twice; under a key of its own it takes the place of that twin, and of what had the key (opal-protocol
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
