/** A least-recently-used cache with a budget in bytes. A value larger than the budget is not kept. */
export class ByteCache<V> {
  readonly #limitBytes: number;
  readonly #sizeOf: (value: V) => number;
  /** Last used stands last. */
  readonly #values = new Map<string, { readonly value: V; readonly size: number }>();
  #bytes = 0;

  constructor(limitBytes: number, sizeOf: (value: V) => number) {
    this.#limitBytes = limitBytes;
    this.#sizeOf = sizeOf;
  }

  get(key: string): V | undefined {
    const found = this.#values.get(key);
    if (found !== undefined) {
      this.#values.delete(key);
      this.#values.set(key, found);
    }
    return found?.value;
  }

  set(key: string, value: V): void {
    this.#drop(key);
    const size = this.#sizeOf(value);
    if (size > this.#limitBytes) return;
    this.#values.set(key, { value, size });
    this.#bytes += size;
    for (const oldest of this.#values.keys()) {
      if (this.#bytes <= this.#limitBytes) break;
      this.#drop(oldest);
    }
  }

  /** The value has another size now. Nothing happens where the cache does not have it any more. */
  measure(key: string, value: V): void {
    if (this.#values.get(key)?.value === value) this.set(key, value);
  }

  #drop(key: string): void {
    const found = this.#values.get(key);
    if (found === undefined) return;
    this.#values.delete(key);
    this.#bytes -= found.size;
  }
}
