/** The last events, for readers that come back: bounded by their number and their size. */
export class EventRing<E> {
  readonly #limits: { readonly events: number; readonly size: number };
  readonly #events: { readonly event: E; readonly size: number }[] = [];
  /** Number of the last event; the first has 1. */
  #last: number;
  #size = 0;

  /** `last`: number of the event before the first. */
  constructor(limits: { readonly events: number; readonly size: number }, last = 0) {
    this.#limits = limits;
    this.#last = last;
  }

  get last(): number {
    return this.#last;
  }

  add(event: E, size: number): void {
    this.#last++;
    this.#events.push({ event, size });
    this.#size += size;
    while (this.#events.length > this.#limits.events || this.#size > this.#limits.size) {
      this.#size -= this.#events.shift()?.size ?? 0;
    }
  }

  /** The events after number `seen`; undefined: some of them are no longer here, or it is no number of this ring. */
  after(seen: number): E[] | undefined {
    const missing = this.#last - seen;
    if (missing < 0 || missing > this.#events.length) return undefined;
    return this.#events.slice(this.#events.length - missing).map(({ event }) => event);
  }
}
