/** Tells the ticks of the event loop apart, for all connections of a server. */
export class EventLoopTick {
  #now = 0;
  #isAsked = false;

  /** Another number in each tick, up to the immediates that end it. */
  get now(): number {
    if (!this.#isAsked) {
      this.#isAsked = true;
      setImmediate(() => {
        this.#isAsked = false;
        this.#now++;
      });
    }
    return this.#now;
  }
}
