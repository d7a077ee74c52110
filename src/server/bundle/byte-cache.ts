/** A least-recently-used cache with a budget in bytes. A value larger than the budget is not kept. */
export class ByteCache<V> {
  readonly #limitBytes: number;
  readonly #sizeOf: (value: V) => number;
  /** Last used stands last. */
  readonly #values = new Map<string, V>();
  #bytes = 0;

  constructor(limitBytes: number, sizeOf: (value: V) => number) {
    this.#limitBytes = limitBytes;
    this.#sizeOf = sizeOf;
  }

  get(key: string): V | undefined {
    const value = this.#values.get(key);
    if (value !== undefined) {
      this.#values.delete(key);
      this.#values.set(key, value);
    }
    return value;
  }

  set(key: string, value: V): void {
    this.#drop(key);
    const size = this.#sizeOf(value);
    if (size > this.#limitBytes) return;
    this.#values.set(key, value);
    this.#bytes += size;
    for (const oldest of this.#values.keys()) {
      if (this.#bytes <= this.#limitBytes) break;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    const value = this.#values.get(key);
    if (value === undefined) return;
    this.#values.delete(key);
    this.#bytes -= this.#sizeOf(value);
  }
}
