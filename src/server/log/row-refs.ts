/**
 * Counts the references to each row of the store: by entries of the fold, and as the last row of a
 * topic.
 */
export class RowRefs {
  readonly #counts = new Map<number, number>();
  #unused: number[] = [];
  #onUnused: ((seq: number) => void) | undefined;

  add(seq: number): void {
    this.#counts.set(seq, (this.#counts.get(seq) ?? 0) + 1);
  }

  /** Removes one reference. */
  drop(seq: number): void {
    const left = (this.#counts.get(seq) ?? 0) - 1;
    if (left > 0) this.#counts.set(seq, left);
    else if (this.#counts.delete(seq)) {
      this.#unused.push(seq);
      this.#onUnused?.(seq);
    }
  }

  /** Calls back with each row that becomes unused. */
  watch(onUnused: (seq: number) => void): void {
    this.#onUnused = onUnused;
  }

  /** Returns the rows that became unused since the last call, and are not used again. */
  takeUnused(): number[] {
    const unused = this.#unused.filter((seq) => !this.has(seq));
    this.#unused = [];
    return unused;
  }

  has(seq: number): boolean {
    return this.#counts.has(seq);
  }
}
