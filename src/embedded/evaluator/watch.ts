/** Parts of {@link Watch}. */
export interface WatchDeps {
  /** The number of the call being carried out; 0 if there is none. */
  underWay(): number;
  /** A call takes longer than the limit. */
  onLate(call: number): void;
}

/**
 * How often within a limit is looked: a call that is late is found at most this part of the limit
 * later.
 */
const LOOKS_PER_LIMIT = 8;
/** The timer of a short limit must not cost more than the calls. */
const LEAST_PERIOD_MS = 10;

/**
 * Finds the call that takes longer than the limit. There is one timer for all calls: a call is late
 * once it has been under way at each look for as long as the limit.
 */
export class Watch {
  readonly #limitMs: number;
  readonly #deps: WatchDeps;
  #timer: NodeJS.Timeout | undefined;
  #call = 0;
  #sinceMs = 0;
  #isWanted = false;

  constructor(limitMs: number, deps: WatchDeps) {
    this.#limitMs = limitMs;
    this.#deps = deps;
  }

  /** Looks from now on, until {@link stop}. */
  start(): void {
    this.#isWanted = true;
    if (this.#timer !== undefined) return;
    const period = Math.max(LEAST_PERIOD_MS, this.#limitMs / LOOKS_PER_LIMIT);
    this.#timer = setInterval(() => this.#look(), period);
    this.#timer.unref();
  }

  /** Costs nothing: the timer ends at its next look unless it is wanted again. */
  stop(): void {
    this.#isWanted = false;
  }

  #look(): void {
    if (!this.#isWanted) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      this.#call = 0;
      return;
    }
    const call = this.#deps.underWay();
    const now = performance.now();
    if (call === 0 || call !== this.#call) {
      this.#call = call;
      this.#sinceMs = now;
    } else if (now - this.#sinceMs >= this.#limitMs) {
      this.#deps.onLate(call);
    }
  }
}
