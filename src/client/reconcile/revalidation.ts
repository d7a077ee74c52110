import { isAbort, sleep, Wakeup } from '../../lib/async.js';

/** Most time between the moment when something newer may be there and the question whether it is. */
const SPREAD_MS = 2000;

/**
 * After an engine has started anew and was filled from memory: asks, a random moment later, whether there is something newer.
 * What ends one engine may have ended those of a whole fleet, and all of them have the same servers and sources.
 */
export class Revalidation {
  readonly #ask: () => void;
  readonly #spreadMs: number;
  readonly #wakeup = new Wakeup();

  /** `ask` must return at once. */
  constructor(ask: () => void, spreadMs = SPREAD_MS) {
    this.#ask = ask;
    this.#spreadMs = spreadMs;
  }

  /** Several requests before the question are one. */
  request(): void {
    this.#wakeup.set();
  }

  /** Runs until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        await this.#wakeup.wait(signal);
        await sleep(Math.random() * this.#spreadMs, signal);
        this.#ask();
      }
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
    }
  }
}
