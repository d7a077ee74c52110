import { setImmediate as nextTurn } from 'node:timers/promises';

/** Longest time of one slice: an update that arrives meanwhile waits no longer. */
const SLICE_MS = 4;

/** Splits a long computation, so that everything else goes on in between. */
export class Slices {
  #begunMs = performance.now();
  #spentMs = 0;

  /** Time that the slices took, without what ran in between. */
  get spentMs(): number {
    return this.#spentMs + performance.now() - this.#begunMs;
  }

  /** Whether it is time to {@link pause}. To be asked after some hundred microseconds. */
  get isDue(): boolean {
    return performance.now() - this.#begunMs >= SLICE_MS;
  }

  /** Lets everything else go on. */
  async pause(): Promise<void> {
    await this.outside(nextTurn());
  }

  /** Awaits something else; its time is not counted. */
  async outside<T>(work: Promise<T>): Promise<T> {
    this.#spentMs += performance.now() - this.#begunMs;
    try {
      return await work;
    } finally {
      this.#begunMs = performance.now();
    }
  }
}
