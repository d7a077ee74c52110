/** Shortest time between two lines about the same thing. */
const EVERY_MS = 60_000;
/** Things that are remembered; about more of them nothing is said until some are forgotten. */
const MOST = 1000;

/** What happens often is said once a minute for each address, or whatever else names it: nobody fills a log without a token. */
export class RareLines {
  readonly #said = new Map<string, { readonly atMs: number; unsaid: number }>();

  /** How often it has happened unsaid since it was said last; undefined: it is not to be said now. */
  next(name: string, nowMs = performance.now()): number | undefined {
    const known = this.#said.get(name);
    if (known !== undefined && nowMs - known.atMs < EVERY_MS) {
      known.unsaid++;
      return undefined;
    }
    // The oldest is first: they are put in again when they are said.
    for (const [other, { atMs }] of this.#said) {
      if (nowMs - atMs < EVERY_MS) break;
      this.#said.delete(other);
    }
    if (this.#said.size >= MOST) return undefined;
    this.#said.delete(name);
    this.#said.set(name, { atMs: nowMs, unsaid: 0 });
    return known?.unsaid ?? 0;
  }
}
