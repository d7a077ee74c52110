/** Places where work waits while a story holds them. */
export class Gates {
  readonly #held = new Map<string, (() => void)[]>();

  hold(name: string): void {
    if (!this.#held.has(name)) this.#held.set(name, []);
  }

  release(name: string): void {
    const waiting = this.#held.get(name);
    if (waiting === undefined) throw new Error(`${name} is not held`);
    this.#held.delete(name);
    for (const go of waiting) go();
  }

  releaseAll(): void {
    for (const name of [...this.#held.keys()]) this.release(name);
  }

  async pass(name: string): Promise<void> {
    const waiting = this.#held.get(name);
    if (waiting !== undefined) await new Promise<void>((resolve) => waiting.push(resolve));
  }
}
