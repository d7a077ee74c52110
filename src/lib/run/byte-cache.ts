/**
 * A least-recently-used cache with a limit in bytes. Does not store values larger than the limit.
 */
export class ByteCache<V> {
  readonly #limitBytes: number;
  readonly #sizeOf: (value: V) => number;
  /** Least recently used first. */
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

  /**
   * Measures a value again whose size has changed; ignores a value that is no longer in the cache.
   */
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
