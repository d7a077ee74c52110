import { failureFields } from './errors.js';
import type { Logger } from './log.js';

/** Keeps hold of promises until they settle, so that a stop can wait for them and no failure is lost. */
export class TaskSet {
  readonly #tasks = new Set<Promise<void>>();
  readonly #log: Logger;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Takes a promise that handles its own failures; one that it did not expect is logged. */
  add(promise: Promise<unknown>): void {
    const task: Promise<void> = promise.then(
      () => {
        this.#tasks.delete(task);
      },
      (error: unknown) => {
        this.#tasks.delete(task);
        this.#log.error(failureFields(error, 'stack'), 'unexpected failure');
      },
    );
    this.#tasks.add(task);
  }

  /** Waits until none is left, those added meanwhile included. */
  async settled(): Promise<void> {
    while (this.#tasks.size > 0) await Promise.all(this.#tasks);
  }
}
