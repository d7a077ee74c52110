import { startTimer } from '../lib/run/async.js';

/** A call whose time is measured. */
export interface TimedCall {
  /** The call has ended: the next one's time begins. */
  done(): void;
  /** True if its time was over. */
  readonly isLate: boolean;
}

interface Waiting {
  readonly limitMs: number;
  extensions: number;
  /** Something else kept the worker busy when the time of this call began. */
  beganBusy: boolean;
  isLate: boolean;
}

/** How often the time of a call is given again, while something else keeps the worker busy. */
const MAX_EXTENSIONS = 3;

/**
 * Time limits of calls that a worker answers one after the other: the time of a call begins when it
 * is the first of those under way. The time that it waits for others is not its own.
 */
export class Deadlines {
  readonly #onLate: () => void;
  readonly #isBusyElsewhere: () => boolean;
  readonly #calls: Waiting[] = [];
  #stopTimer: (() => void) | undefined;

  /**
   * `onLate`: the first call has taken too long. `isBusyElsewhere`: whether the worker has calls
   * with other limits. If it had some when the time of a call began, and still has, they may be
   * what takes the time: then the call gets its time again, a few times. What came later waits for
   * this call.
   */
  constructor(onLate: () => void, isBusyElsewhere: () => boolean = () => false) {
    this.#onLate = onLate;
    this.#isBusyElsewhere = isBusyElsewhere;
  }

  /** Calls under way. */
  get size(): number {
    return this.#calls.length;
  }

  begin(limitMs: number): TimedCall {
    const call: Waiting = { limitMs, extensions: 0, beganBusy: false, isLate: false };
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
    first.beganBusy = this.#isBusyElsewhere();
    this.#startTimer(first);
  }

  #startTimer(first: Waiting): void {
    this.#stopTimer = startTimer(first.limitMs, () => {
      if (first.beganBusy && this.#isBusyElsewhere() && first.extensions++ < MAX_EXTENSIONS) {
        this.#startTimer(first);
        return;
      }
      first.isLate = true;
      this.#onLate();
    });
  }
}
