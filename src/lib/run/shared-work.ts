/** How work is done when it is the turn of a caller, and who that is. */
export interface CallerTurn {
  readonly who: string;
  run<T>(work: () => Promise<T>): Promise<T>;
}

/** The turn of a caller that does not wait. */
export const AT_ONCE: CallerTurn = { who: '', run: (work) => work() };

/**
 * Work that many ask for at once and that is done once. Whoever comes while it is done gets its
 * result, and so do callers that wait for the same turn; nobody waits in the line of another
 * caller.
 */
export class SharedWork<T> {
  readonly #running = new Map<string, Promise<T>>();
  readonly #queued = new Map<string, Promise<T>>();

  /** The result of the work of this key; `work` looks first whether there is one by now. */
  get(key: string, { who, run }: CallerTurn, work: () => Promise<T>): Promise<T> {
    const known = this.#running.get(key);
    if (known !== undefined) return known;
    const place = `${who}\0${key}`;
    const queued = this.#queued.get(place);
    if (queued !== undefined) return queued;
    const result = run(() => this.#running.get(key) ?? keep(this.#running, key, work()));
    return keep(this.#queued, place, result);
  }
}

/** Keeps a promise until it is settled. */
function keep<T>(promises: Map<string, Promise<T>>, key: string, promise: Promise<T>): Promise<T> {
  promises.set(key, promise);
  const over = (): void => {
    if (promises.get(key) === promise) promises.delete(key);
  };
  promise.then(over, over);
  return promise;
}
