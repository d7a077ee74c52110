import { startTimer } from '../lib/async.js';

/** A call whose time is measured. */
export interface TimedCall {
  /** The call has ended: the next one's time begins. */
  done(): void;
  /** True if its time was over. */
  readonly isLate: boolean;
}

interface Waiting {
  readonly limitMs: number;
  isLate: boolean;
}

/**
 * Time limits of calls that a worker answers one after the other: the time of a call begins when it is the first of those under way.
 * The time that it waits for others is not its own.
 */
export class Deadlines {
  readonly #onLate: () => void;
  readonly #calls: Waiting[] = [];
  #stopTimer: (() => void) | undefined;

  /** `onLate`: the first call has taken too long. */
  constructor(onLate: () => void) {
    this.#onLate = onLate;
  }

  /** Calls under way. */
  get size(): number {
    return this.#calls.length;
  }

  begin(limitMs: number): TimedCall {
    const call: Waiting = { limitMs, isLate: false };
    this.#calls.push(call);
    if (this.#calls.length === 1) this.#startFirst();
    return {
      done: () => this.#end(call),
      get isLate() {
        return call.isLate;
      },
    };
  }

  /** Stops measuring: the worker has ended. */
  close(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#calls.length = 0;
  }

  #end(call: Waiting): void {
    const at = this.#calls.indexOf(call);
    if (at === -1) return;
    this.#calls.splice(at, 1);
    if (at > 0) return;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
    this.#startFirst();
  }

  #startFirst(): void {
    const [first] = this.#calls;
    if (first === undefined) return;
    this.#stopTimer = startTimer(first.limitMs, () => {
      first.isLate = true;
      this.#onLate();
    });
  }
}
