/** Since when an instance is cut off from the backbone. */
export interface CutOff {
  /** When the last call was sent that the backbone has answered, in milliseconds since 1970. */
  readonly sinceMs: number;
  readonly forMs: number;
}

/**
 * Whether the backbone has answered this instance lately. One that it has not answered for longer
 * than the lease counts as cut off, and knows that without anybody telling it: by its own clock
 * that never goes back.
 */
export class Lease {
  readonly #leaseMs: number;
  readonly #onChange: () => void;
  /** When the last call was sent that was answered: of `performance.now()`, and since 1970. */
  #last = { ms: performance.now(), atMs: Date.now() };
  #isTold = false;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** Begins with a whole lease. `onChange` is called when it runs out, and when it holds again. */
  constructor(leaseMs: number, onChange: () => void) {
    this.#leaseMs = leaseMs;
    this.#onChange = onChange;
    this.#arm();
  }

  /** The backbone has answered a call that was sent at `sentMs` (of `performance.now()`). */
  answered(sentMs: number): void {
    if (sentMs <= this.#last.ms) return;
    this.#last = { ms: sentMs, atMs: Date.now() - Math.round(performance.now() - sentMs) };
    if (this.cutOff !== undefined) return;
    this.#arm();
    if (!this.#isTold) return;
    this.#isTold = false;
    this.#onChange();
  }

  /** Undefined: it is not. */
  get cutOff(): CutOff | undefined {
    const forMs = performance.now() - this.#last.ms;
    return forMs <= this.#leaseMs ? undefined : { sinceMs: this.#last.atMs, forMs: Math.round(forMs) };
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #arm(): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return; // an answer came after the end
    const leftMs = this.#last.ms + this.#leaseMs - performance.now();
    this.#timer = setTimeout(() => this.#look(), Math.max(0, Math.ceil(leftMs)) + 1).unref();
  }

  #look(): void {
    if (this.cutOff === undefined) {
      this.#arm();
      return;
    }
    this.#isTold = true;
    this.#onChange();
  }
}
