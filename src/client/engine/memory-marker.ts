import { SyncError } from '../../lib/errors.js';
import type { EngineMarker } from './engine.js';

/** The marker of the engine inside the package: nobody else can write there, so a member stands for the document. */
export class MemoryMarker implements EngineMarker {
  #hasBegun = false;
  #isThere = false;

  async begin(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#hasBegun = true;
    this.#isThere = false;
  }

  async isThere(signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    return this.#isThere;
  }

  async complete(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.#hasBegun) {
      throw new SyncError('engine_unreachable', 'the embedded engine ended while it was filled', { retryable: true });
    }
    this.#isThere = true;
  }

  /** The engine has ended, and with it what it held. */
  clear(): void {
    this.#hasBegun = false;
    this.#isThere = false;
  }
}
