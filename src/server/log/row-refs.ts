/** Counts what still needs each row of the store: entries of the fold, and being the last one of a topic. */
export class RowRefs {
  readonly #counts = new Map<number, number>();
  #unused: number[] = [];

  add(seq: number): void {
    this.#counts.set(seq, (this.#counts.get(seq) ?? 0) + 1);
  }

  /** Takes back one {@link add}. */
  drop(seq: number): void {
    const left = (this.#counts.get(seq) ?? 0) - 1;
    if (left > 0) this.#counts.set(seq, left);
    else if (this.#counts.delete(seq)) this.#unused.push(seq);
  }

  /** Rows that nothing needs any more, each once. */
  takeUnused(): number[] {
    const unused = this.#unused;
    this.#unused = [];
    return unused;
  }

  /** Whether something needs the row. */
  has(seq: number): boolean {
    return this.#counts.has(seq);
  }
}
