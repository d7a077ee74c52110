import { sleep } from '../lib/async.js';
import { failureFields } from '../lib/errors.js';
import type { Logger } from '../lib/log.js';

/** Time without compiling after each round, as a multiple of what the round took, and at most: it takes a processor. */
const REST_FACTOR = 4;
const MAX_REST_MS = 30_000;

/** Compiles in the background what was asked for, all that came meanwhile together. */
export class CompileLoop {
  readonly #compile: () => Promise<void>;
  readonly #log: Logger;
  readonly #stop = new AbortController();
  #isWanted = false;
  #running: Promise<void> | undefined;

  constructor(compile: () => Promise<void>, log: Logger) {
    this.#compile = compile;
    this.#log = log;
  }

  request(): void {
    this.#isWanted = true;
    if (this.#stop.signal.aborted) return;
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
      if (this.#isWanted) this.request(); // it came between the last look and the end
    });
  }

  async close(): Promise<void> {
    this.#isWanted = false;
    this.#stop.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    while (this.#isWanted && !signal.aborted) {
      this.#isWanted = false;
      const startedMs = performance.now();
      try {
        await this.#compile();
      } catch (error) {
        if (!signal.aborted) this.#log.warn(failureFields(error), 'entrypoints could not be compiled: Go answers');
      }
      await sleep(Math.min(REST_FACTOR * (performance.now() - startedMs), MAX_REST_MS), signal).catch(() => undefined); // it stops
    }
  }
}
